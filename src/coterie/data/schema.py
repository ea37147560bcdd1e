"""What a study asks of an organisation's data: the columns, of a kind that fits, and an id of its own for every row.

Messages name the source, the row and the column. They never hold a value; a file without a header has values where
names should be, so the names of a source are repeated only if some of them are names that the study asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.columns import Column, Kind
from coterie.data.features import Handled
from coterie.errors import DataError, InputError

__all__ = [
    "Field",
    "Rows",
    "Wanted",
    "check_ids",
    "check_names",
    "check_wanted",
    "find_columns",
    "list_names",
    "sort_by_id",
]

Floats = NDArray[np.float64]
#: As many names as an error message lists.
NAMES_LISTED = 20


#: A column that is asked for.
Wanted = Column


@dataclass(frozen=True, repr=False)
class Rows:
    """An organisation's rows, checked: the features of each. `source` is what messages call the place they come from;
    `keys` are the ids as all parties write them. `places`: where each stands in the source, from 0, if not all do, or
    in another order. `handled`: what was done about missing values and such, for the owner alone. `weights`: what each
    counts for, in steps, where this owner says so."""

    values: Floats
    ids: list[str] | None
    source: str
    keys: list[str] | None = None
    places: NDArray[np.intp] | None = None
    handled: Handled = field(default_factory=Handled)
    weights: NDArray[np.int64] | None = None

    def take(self, order: NDArray[np.intp]) -> Rows:
        """Some of the rows, in this order."""
        ids, keys = (None if one is None else [one[i] for i in order.tolist()] for one in (self.ids, self.keys))
        places = order if self.places is None else self.places[order]
        weights = None if self.weights is None else self.weights[order]
        return replace(self, values=self.values[order], ids=ids, keys=keys, places=places, weights=weights)

    def __repr__(self) -> str:
        n, d = self.values.shape
        return f"Rows({n} rows of {d} columns from {self.source})"


class Field(NamedTuple):
    """A column as the source has it: its name, its type in the source's words, and what it can serve as."""

    name: str
    type: str
    kinds: frozenset[Kind]
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
    for position, column in zip(positions, columns, strict=False):
        field = fields[position]
        if column.kind not in field.kinds:
            raise DataError(
                f"{source}: column {field.name!r} is of type {field.type}, which is not a {column.kind}; convert it "
                "first"
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


def check_ids(found: Sequence[str | None], id_column: str, source: str, where: Callable[[int], str]) -> list[str]:
    """The ids without the blanks around them, all there and no two alike."""
    ids = ["" if text is None else text.strip() for text in found]
    if missing := ids.count(""):
        many = "" if missing == 1 else f", and in {missing - 1} more rows"
        raise DataError(
            f"{source}, {where(ids.index(''))}, column {id_column!r}: the id is missing{many}; every row needs one"
        )
    if (twice := _find_repeated(ids)) is not None:
        first, second = _find_places(ids, twice)
        again = len(ids) - len(set(ids))
        many = "" if again == 1 else f"; {again} rows have an id that came before"
        raise DataError(
            f"{source}, {where(first - 1)} and {where(second - 1)}, column {id_column!r}: the same id twice{many}; "
            "keep one row for each id"
        )
    return ids


def sort_by_id(rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
    """The rows in the order that is common to all parties - by the UTF-8 bytes of their ids, as all write them - and,
    for each, the position it had in the source."""
    if rows.ids is None:
        raise InputError(f"{rows.source} was read without an id column; name one to bring the rows into order")
    keys = [text.encode() for text in rows.keys or rows.ids]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.intp)
    return rows.take(order), order


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
        return "it has one column only; if something else than commas separates its columns, say so with --delimiter"
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
