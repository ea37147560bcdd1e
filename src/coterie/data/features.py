"""From a table's cells to the numbers that are clustered, as the columns are declared.

1. Each cell is read as its column's kind says: a number, days since 1970-01-01, 1 or 0, or the place of a category.
2. What is missing is an error, drops the row, or is filled in.
3. What is outside the bounds is an error, or set to the bound.
4. Logarithms are taken, and categories become one column for each of their values.

All of it happens at home. How many rows were dropped and cells filled or clipped is for their owner alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.columns import DROP, Column, bounds_of, features_of, fill_of, parse_boolean, parse_date
from coterie.data.decimals import parse_number
from coterie.data.problems import (
    FINE,
    INFINITE,
    MISSING,
    OUTSIDE,
    UNREADABLE,
    NameRows,
    Problem,
    list_problems,
    refuse_problems,
)
from coterie.errors import DataError

__all__ = ["Cells", "Handled", "Made", "make_features", "read_cells"]

Floats = NDArray[np.float64]
Faults = NDArray[np.uint8]
_TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {"none": np.asarray, "log": np.log, "log1p": np.log1p}


class Cells(NamedTuple):
    """A column as a source has it: `numbers`, NaN where there is none (days, where it is one of dates), with `present`
    saying where something stands that is none; or `texts`, None where there is none."""

    numbers: Floats | None = None
    texts: NDArray[np.object_] | None = None
    present: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        found = self.numbers if self.texts is None else self.texts
        return 0 if found is None else len(found)

    def __repr__(self) -> str:
        return f"<Cells: {len(self)}>"  # never what is in them


@dataclass(frozen=True)
class Handled:
    """What was done about values that are missing or outside the bounds: rows that were read, rows that were dropped,
    and by column how many cells are missing in rows that were dropped, were filled in, or clipped."""

    read: int = 0
    dropped: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    clipped: Mapping[str, int] = field(default_factory=dict)

    def describe(self) -> list[str]:
        """In words, for the owner; nothing, if there was nothing to do."""
        said = []
        if self.dropped:
            said.append(
                f"{self.dropped:,} of {self.read:,} rows are left out, for missing values in {_count(self.missing)}"
            )
        for what, cells in (("filled in as agreed", self.filled), ("clipped to the bounds", self.clipped)):
            if cells:
                said.append(f"values {what}: {_count(cells)}")
        return said


class Made(NamedTuple):
    """Features (rows that are kept, features), which rows those are, and what was done to get there."""

    values: Floats
    kept: NDArray[np.intp]
    handled: Handled


def make_features(columns: Sequence[Column], cells: Sequence[Cells], source: str, name_rows: NameRows) -> Made:
    """The features of all rows that are kept. All cells that cannot be used are refused in one error."""
    n = len(cells[0])
    if n == 0:
        raise DataError(f"{source} has no rows; there is nothing to cluster")
    read = [read_cells(column, own) for column, own in zip(columns, cells, strict=True)]
    dropped = np.zeros(n, np.bool_)
    for column, (_, faults) in zip(columns, read, strict=True):
        if column.missing == DROP:
            dropped |= faults == MISSING
    kept, counted = ~dropped, Counted()
    problems: list[Problem] = []
    values = []
    for column, (found, faults) in zip(columns, read, strict=True):
        found, faults = counted.handle(column, found, faults, kept)
        problems += list_problems(column, np.where(kept, faults, FINE).astype(np.uint8))
        values.append(found)
    refuse_problems(problems, source, name_rows)
    if dropped.all():
        raise DataError(
            f"{source}: each of its {n:,} rows lacks a value in {_count(counted.missing)}, and the study leaves such "
            "rows out; nothing is left"
        )
    handled = Handled(n, int(dropped.sum()), counted.missing, counted.filled, counted.clipped)
    parts = [_expand(column, own[kept]) for column, own in zip(columns, values, strict=True)]
    return Made(np.concatenate(parts, axis=1), np.flatnonzero(kept), handled)


class Counted:
    """Settles what is missing or outside, column by column, and counts it."""

    def __init__(self) -> None:
        self.missing: dict[str, int] = {}
        self.filled: dict[str, int] = {}
        self.clipped: dict[str, int] = {}

    def handle(self, column: Column, values: Floats, faults: Faults, kept: NDArray[np.bool_]) -> tuple[Floats, Faults]:
        """The values and what is still wrong with them. `kept`: the rows that count."""
        absent, fill = faults == MISSING, fill_of(column)
        if column.missing == DROP:
            self._count(self.missing, column, absent)
        elif fill is not None:
            self._count(self.filled, column, absent & kept)
            values, faults = np.where(absent, fill, values), np.where(absent, FINE, faults).astype(np.uint8)
        if column.kind in ("category", "boolean"):
            return values, faults
        low, high = bounds_of(column)
        outside = (faults == FINE) & ~((values >= low) & (values <= high))
        if column.clip:
            self._count(self.clipped, column, outside & kept)
            return np.clip(values, low, high), faults
        return values, np.where(outside, OUTSIDE, faults).astype(np.uint8)

    @staticmethod
    def _count(told: dict[str, int], column: Column, cells: NDArray[np.bool_]) -> None:
        if cells.any():
            told[column.name] = int(cells.sum())


def read_cells(column: Column, cells: Cells) -> tuple[Floats, Faults]:
    """A column's cells as numbers, NaN where there is none, and what is wrong with each. Of a category the number is
    the place among its values."""
    if cells.texts is not None:
        return _read_texts(cells.texts, _parser(column))
    assert cells.numbers is not None
    values = cells.numbers
    absent = np.isnan(values)
    faults = np.where(np.isinf(values), INFINITE, np.where(absent, MISSING, FINE)).astype(np.uint8)
    if cells.present is not None:
        faults[absent & cells.present] = UNREADABLE
    if column.kind == "boolean":
        faults[~absent & (values != 0) & (values != 1)] = UNREADABLE
    return values, faults


def _parser(column: Column) -> Callable[[str], float]:
    """What makes a number of a text that is not empty; raises ValueError or OverflowError if it is none."""
    if column.kind == "category":
        places = {value: float(place) for place, value in enumerate(column.categories)}

        def find(text: str) -> float:
            if text not in places:
                raise ValueError("no category")
            return places[text]

        return find
    return {"date": parse_date, "boolean": parse_boolean, "number": parse_number}[column.kind]


def _read_texts(texts: NDArray[np.object_], parse: Callable[[str], float]) -> tuple[Floats, Faults]:
    """Each text once: columns of words have few of them."""
    known: dict[Any, tuple[float, int]] = {None: (np.nan, MISSING)}
    for text in texts:
        if text not in known:
            known[text] = _read_text(text.strip(), parse)
    found = [known[text] for text in texts]
    values = np.fromiter((value for value, _ in found), np.float64, len(found))
    return values, np.fromiter((fault for _, fault in found), np.uint8, len(found))


def _read_text(bare: str, parse: Callable[[str], float]) -> tuple[float, int]:
    if not bare:
        return np.nan, MISSING
    try:
        return parse(bare), FINE
    except (ValueError, OverflowError):
        return np.nan, UNREADABLE


def _expand(column: Column, values: Floats) -> Floats:
    """A column's features (rows, features)."""
    features = features_of(column)
    if column.kind == "category":
        return (values[:, None] == np.arange(len(features))).astype(np.float64)
    (one,) = features
    return np.clip(_TRANSFORMS[column.transform](values), one.low, one.high)[:, None]


def _count(cells: Mapping[str, int]) -> str:
    return ", ".join(f"column {name!r} ({count:,})" for name, count in cells.items())
