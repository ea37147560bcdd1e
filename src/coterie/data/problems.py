"""What is wrong with a table's cells, all of it in one message that holds no value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.columns import Column
from coterie.errors import DataError

__all__ = [
    "FINE",
    "INFINITE",
    "MISSING",
    "OUTSIDE",
    "UNREADABLE",
    "NameRows",
    "Problem",
    "list_problems",
    "refuse_problems",
]

#: What a cell can be.
FINE, MISSING, UNREADABLE, INFINITE, OUTSIDE = range(5)
#: As many rows as are named for a column and a kind of problem.
ROWS_NAMED = 5
#: Puts rows, counted from 0, in words.
NameRows = Callable[[Sequence[int]], Mapping[int, str]]

_NOT_READ = {
    "number": "not a number; correct it (decimal point, no thousands separator, no unit), or leave the row out",
    "date": "not a date; write it as 2024-12-31 or 2024-12-31 23:59, or leave the row out",
    "boolean": "neither yes nor no; write true or false, yes or no, 1 or 0, or leave the row out",
    "category": "none of the agreed categories; correct it (case and spelling count), leave the row out, or agree on "
    "further categories",
}


class Problem(NamedTuple):
    """A kind of problem of a column, and the rows that have it, from 0."""

    column: Column
    fault: int
    rows: NDArray[np.intp]

    def describe(self) -> tuple[str, str]:
        """What is wrong, and what to do."""
        what, _, advice = self._words().partition("; ")
        return what, advice

    def _words(self) -> str:
        if self.fault == UNREADABLE:
            return _NOT_READ[self.column.kind]
        if self.fault == INFINITE:
            return "the value is infinite or too large; correct it, or leave the row out"
        if self.fault == MISSING:
            return "the value is missing; fill it in, or leave the row out; a study can also say what to do (--missing)"
        low, high = (end if isinstance(end, str) else f"{end:g}" for end in (self.column.low, self.column.high))
        return (
            f"the value is outside the study's bounds, {low} to {high}; correct it, leave the row out, or agree on "
            "wider bounds, or to clip values to them"
        )


def list_problems(column: Column, faults: NDArray[np.uint8]) -> list[Problem]:
    """The problems of a column, from what each cell is."""
    return [
        Problem(column, fault, np.flatnonzero(faults == fault))
        for fault in (MISSING, UNREADABLE, INFINITE, OUTSIDE)
        if (faults == fault).any()
    ]


def refuse_problems(problems: Sequence[Problem], source: str, name_rows: NameRows) -> None:
    """Raise one error that names all problems, if there are any."""
    if not problems:
        return
    named = name_rows(sorted({int(row) for one in problems for row in one.rows[:ROWS_NAMED]}))
    if len(problems) == 1 and len(problems[0].rows) == 1:
        (one,) = problems
        what, advice = one.describe()
        raise DataError(f"{source}, {named[int(one.rows[0])]}, column {one.column.name!r}: {what}; {advice}")
    cells = sum(len(one.rows) for one in problems)
    lines = [_describe(one, named) for one in problems]
    raise DataError(f"{source}: {cells:,} cells cannot be used\n" + "\n".join(f"  - {line}" for line in lines))


def _describe(one: Problem, named: Mapping[int, str]) -> str:
    what, advice = one.describe()
    count = len(one.rows)
    rows = ", ".join(named[int(row)] for row in one.rows[:ROWS_NAMED])
    more = f" and {count - ROWS_NAMED:,} more" if count > ROWS_NAMED else ""
    return f"column {one.column.name!r}, {count:,} {'cell' if count == 1 else 'cells'} ({rows}{more}): {what}; {advice}"
