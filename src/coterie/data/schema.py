"""What a study asks of an organisation's data: the columns, in bounds and complete, and an id of its own for every row.

Messages name the source, the row and the column. They never hold a value; a file without a header has values where
names should be, so the names of a source are repeated only if some of them are names that the study asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import DataError, InputError

__all__ = [
    "Field",
    "Rows",
    "Wanted",
    "check_ids",
    "check_names",
    "check_values",
    "check_wanted",
    "find_columns",
    "list_names",
    "sort_by_id",
]

Floats = NDArray[np.float64]
#: As many names as an error message lists.
NAMES_LISTED = 20


class Wanted(msgspec.Struct, frozen=True):
    """A column of the study, with its public range."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Rows:
    """An organisation's rows, checked. `source` is what messages call the place they come from."""

    values: Floats
    ids: list[str] | None
    source: str

    def __repr__(self) -> str:
        n, d = self.values.shape
        return f"Rows({n} rows of {d} columns from {self.source})"


class Field(NamedTuple):
    """A column as the source has it: its name, its type in the source's words, and what it can serve as."""

    name: str
    type: str
    is_number: bool
    is_id: bool


def check_wanted(columns: Sequence[Wanted], id_column: str | None) -> None:
    """Refuse a list of columns that no source could satisfy."""
    if not columns:
        raise InputError("no columns are asked for; name at least one")
    names = [column.name for column in columns]
    if (twice := _find_repeated(names)) is not None:
        raise InputError(f"column {twice!r} is asked for twice; name each column once")
    if id_column in names:
        raise InputError(f"column {id_column!r} cannot be both the id and a column to cluster by")


def check_names(names: Sequence[str], source: str, wanted: Sequence[str] = ()) -> None:
    """Refuse columns of the same name."""
    if (twice := _find_repeated(names)) is not None:
        first, second = _find_places(names, twice)
        called = "have the same name" if _may_be_values(names, wanted) else f"are both called {twice!r}"
        raise DataError(f"{source}: columns {first} and {second} {called}; rename one of them")


def find_columns(
    fields: Sequence[Field],
    columns: Sequence[Wanted],
    id_column: str | None,
    source: str,
    *,
    from_file: bool = True,
) -> tuple[list[int], int | None]:
    """The positions, in the source, of the wanted columns and of the id column. `from_file`: a first line of data may
    have been taken for the names."""
    names = [field.name for field in fields]
    wanted = [column.name for column in columns] + ([] if id_column is None else [id_column])
    check_names(names, source, wanted if from_file else names)
    if absent := [name for name in wanted if name not in names]:
        raise DataError(f"{source} has no column {list_names(absent)}; {_describe_names(names, wanted, from_file)}")
    positions = [names.index(name) for name in wanted]
    for position in positions[: len(columns)]:
        field = fields[position]
        if not field.is_number:
            raise DataError(
                f"{source}: column {field.name!r} is of type {field.type}, which is not a number; convert it first"
            )
    if id_column is None:
        return positions, None
    identity = fields[positions.pop()]
    if not identity.is_id:
        raise DataError(
            f"{source}: the id column {identity.name!r} is of type {identity.type}; ids are text or integers, so that "
            "they read the same at every party: cast it to text"
        )
    return positions, names.index(id_column)


def check_values(
    values: Floats,
    columns: Sequence[Wanted],
    source: str,
    where: Callable[[int], str],
    is_text: Callable[[int, int], bool],
) -> None:
    """Refuse the first row with a value that is missing, no number, infinite or out of bounds.

    `where` puts a row in words; `is_text` says of a row and a wanted column without a number that there is something
    else instead. Both are asked about one cell, and only if it is wrong.
    """
    if len(values) == 0:
        raise DataError(f"{source} has no rows; there is nothing to cluster")
    low = np.array([column.low for column in columns])
    high = np.array([column.high for column in columns])
    wrong = ~((values >= low) & (values <= high) & np.isfinite(values))
    if not wrong.any():
        return
    row = int(np.argmax(wrong.any(axis=1)))
    at = int(np.argmax(wrong[row]))
    value, column = values[row, at], columns[at]
    if np.isinf(value):
        fault = "the value is infinite or too large; correct it, or leave the row out"
    elif not np.isnan(value):
        fault = (
            f"the value is outside the study's bounds, {column.low:g} to {column.high:g}; correct it, leave the row "
            "out, or agree on wider bounds"
        )
    elif is_text(row, at):
        fault = "not a number; correct it (decimal point, no thousands separator, no unit), or leave the row out"
    else:
        fault = "the value is missing; fill it in, or leave the row out"
    raise DataError(f"{source}, {where(row)}, column {column.name!r}: {fault}")


def check_ids(found: Sequence[str | None], id_column: str, source: str, where: Callable[[int], str]) -> list[str]:
    """The ids without the blanks around them, all there and no two alike."""
    ids: list[str] = []
    for row, text in enumerate(found):
        if text is None or not (bare := text.strip()):
            raise DataError(f"{source}, {where(row)}, column {id_column!r}: the id is missing; every row needs one")
        ids.append(bare)
    if (twice := _find_repeated(ids)) is not None:
        first, second = _find_places(ids, twice)
        raise DataError(
            f"{source}, {where(first - 1)} and {where(second - 1)}, column {id_column!r}: the same id twice; keep one "
            "row for each id"
        )
    return ids


def sort_by_id(rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
    """The rows in the order that is common to all parties - by the UTF-8 bytes of their ids - and, for each, the
    position it had in the source."""
    if rows.ids is None:
        raise InputError(f"{rows.source} was read without an id column; name one to bring the rows into order")
    keys = [text.encode() for text in rows.ids]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.intp)
    return Rows(rows.values[order], [rows.ids[i] for i in order], rows.source), order


def _find_repeated(names: Sequence[str]) -> str | None:
    """The first name that comes again, but for columns without a name."""
    if len(set(names)) == len(names):
        return None
    return next((name for name, count in Counter(names).items() if count > 1 and name), None)


def _find_places(names: Sequence[str], name: str) -> tuple[int, int]:
    """The first two positions of a name, from 1."""
    first = names.index(name)
    return first + 1, names.index(name, first + 1) + 1


def _may_be_values(names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a row of data may stand where names should: no name is one of the wanted, or something begins as numbers
    and dates do."""
    if not set(names) & set(wanted):
        return True
    return any(name[:1].isdigit() or name.startswith(("+", "-", ".")) for name in names)


def _describe_names(names: Sequence[str], wanted: Sequence[str], from_file: bool) -> str:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        return "it has one column only: separate columns by commas, or by tabs in a .tsv file"
    if from_file and _may_be_values(names, wanted):
        return (
            "it seems to have no header line: the first line must name the columns, as the study does (what stands "
            "there is not shown, since it may be data)"
        )
    return f"it has {list_names(names)}"


def list_names(names: Sequence[str]) -> str:
    """Names, quoted, as many as a message can bear."""
    shown = ", ".join(repr(name) for name in names[:NAMES_LISTED])
    return shown if len(names) <= NAMES_LISTED else f"{shown} and {len(names) - NAMES_LISTED} more"
