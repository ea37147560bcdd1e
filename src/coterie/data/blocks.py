"""Blocks of a table, one per party, and where each belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Layout, Partition
from coterie.columns import Feature
from coterie.data.frames import Prepared, Recipe, prepare_block
from coterie.data.matched import Matched, ids_of, match
from coterie.errors import InputError

__all__ = ["Blocks", "gather", "split"]

Floats = NDArray[np.float64]
#: The rank of a cell's owner is kept in one byte.
MOST_PARTIES = 255


@dataclass(frozen=True, repr=False)
class Blocks:
    """Checked blocks by party (P1 first), where they belong, and the names of the columns. Where columns were declared:
    what features they became, and which rows of each block were kept. Where rows were matched: by `matched`; in
    private, blocks have each party's own rows, which stand in slots of the table."""

    blocks: list[Floats]
    layout: Layout
    names: tuple[str, ...]
    features: tuple[Feature, ...] = ()
    kept: tuple[NDArray[np.bool_], ...] = ()
    matched: Matched | None = None

    @property
    def private(self) -> bool:
        """Does nobody know which rows count?"""
        return self.matched is not None and self.matched.members is not None

    def whole(self, fill: Any) -> Any:
        """One n x d array from what `fill` makes of the blocks (each in the shape of its party)."""
        total = self.layout.place(1, fill(0))
        for j in range(1, len(self.blocks)):
            total = total + self.layout.place(j + 1, fill(j))
        return total


def split(x: Floats, partition: Partition, parties: int) -> list[Floats]:
    """Cut a table into one block per party: rows, columns, or a checkerboard of cells with NaN elsewhere."""
    n, d = x.shape
    if partition == "horizontal":
        if n < parties:
            raise InputError(f"n_samples={n} rows cannot be split over n_parties={parties}; each needs at least one")
        return np.array_split(x, parties)
    if partition == "vertical":
        if d < parties:
            raise InputError(
                f"n_features={d} columns cannot be split over n_parties={parties}; use fewer parties or "
                'partition="horizontal"'
            )
        return np.array_split(x, parties, axis=1)
    row_block = np.minimum(np.arange(n) * parties // max(n, 1), parties - 1)
    column_block = np.minimum(np.arange(d) * parties // max(d, 1), parties - 1)
    owner = (row_block[:, None] + column_block[None, :]) % parties
    return [np.where(owner == j, x, np.nan) for j in range(parties)]


def gather(
    given: Sequence[Any],
    partition: Partition,
    party_names: Sequence[str],
    *,
    empty_blocks: bool = False,
    align: bool = False,
    recipe: Recipe | None = None,
    matching: str = "equal",
) -> Blocks:
    """Check one block per party and find out where each belongs. `empty_blocks`: a party may have no rows. `align`:
    rows of data frames are put into the first one's order, by index. `recipe`: what is declared of their columns.
    `matching`: whether all hold the same rows, or those that all hold are found, "shared" or "private"."""
    if len(given) < 2:
        raise InputError(f"at least two parties are needed, one block each; there is {len(given)}")
    if len(given) > MOST_PARTIES:
        raise InputError(f"at most {MOST_PARTIES} parties can take part; there are {len(given)} blocks")
    if partition != "horizontal" and matching == "equal":
        given = _check_indexes(given, party_names, align)
    read = _read(given, partition, party_names, recipe, same_rows=matching == "equal")
    if matching == "equal":
        gathered = {"horizontal": _gather_rows, "vertical": _gather_columns, "mixed": _gather_cells}[partition]
        table = replace(gathered(read.blocks, read.names, party_names), kept=read.kept)
    else:
        if partition != "vertical":
            raise InputError(f'matching="{matching}" is for columns of the same rows: partition="vertical"')
        ids = [ids_of(one, party) for one, party in zip(given, party_names, strict=True)]
        if read.kept:
            ids = [[own[i] for i in np.flatnonzero(there)] for own, there in zip(ids, read.kept, strict=True)]
        table = _gather_matched(read.blocks, read.names, party_names, match(ids, matching == "private"))
    table = replace(table, features=read.features)
    if table.layout.d == 0:
        raise InputError("the blocks have no columns; there is nothing to cluster by")
    for j, block in enumerate(table.blocks):
        if not empty_blocks and (len(block) == 0 or not table.layout.own_rows(j + 1).any()):
            raise InputError(f"party {party_names[j]} has no rows; leave it out, or give it some")
    return table


class _Read(NamedTuple):
    """Blocks of numbers and the names of their columns, if they have any; where columns were declared, what features
    they became and which rows were kept."""

    blocks: list[Floats]
    names: list[list[str] | None]
    features: tuple[Feature, ...] = ()
    kept: tuple[NDArray[np.bool_], ...] = ()


def _read(
    given: Sequence[Any], partition: Partition, party_names: Sequence[str], recipe: Recipe | None, same_rows: bool
) -> _Read:
    if recipe is None:
        checked = [_check_block(one, name) for one, name in zip(given, party_names, strict=True)]
        return _Read([block for block, _ in checked], [names for _, names in checked])
    made = _prepare_blocks(given, partition, party_names, recipe, same_rows)
    vertical = partition == "vertical"
    features = tuple(feature for one in (made if vertical else made[:1]) for feature in one.features)
    kept = () if vertical and same_rows else tuple(one.kept for one in made)  # by columns, all rows are
    return _Read([one.values for one in made], [[one.name for one in own.features] for own in made], features, kept)


def _prepare_blocks(
    given: Sequence[Any], partition: Partition, party_names: Sequence[str], recipe: Recipe, same_rows: bool
) -> list[Prepared]:
    """Features of every block, as its columns are declared."""
    if partition == "mixed":
        raise InputError("in a patchwork NaN says that a cell is another's; declare nothing of missing and categories")
    if recipe.drops and partition == "vertical" and same_rows:
        raise InputError(
            'missing="drop" would leave rows out that other parties keep; drop them everywhere first, fill in values, '
            'or match rows: matching="shared"'
        )
    names: list[list[str]] = []
    for one in given:
        own = [str(c) for c in one.columns] if hasattr(one, "columns") else None
        start = sum(map(len, names)) if partition == "vertical" else 0
        names.append(own or _number_columns(np.shape(one)[1] if np.ndim(one) == 2 else 0, start))
    recipe.check_names([name for own in names for name in own])
    return [prepare_block(one, own, recipe, party) for one, own, party in zip(given, names, party_names, strict=True)]


def _check_indexes(given: Sequence[Any], party_names: Sequence[str], align: bool) -> list[Any]:
    """Data frames that describe the same rows have the same index, in the same order, or are put into it."""
    frames = [j for j, one in enumerate(given) if hasattr(one, "index") and hasattr(one, "columns")]
    found = list(given)
    for j in frames[1:]:
        first, own = given[frames[0]].index, given[j].index
        if own.equals(first):
            continue
        who, other = f"party {party_names[j]}", party_names[frames[0]]
        if not align:
            raise InputError(
                f"{who}: the index of its rows is not that of {other}; bring both into one order, or pass align=True "
                "to fit_parties, which does that by index"
            )
        for index, name in ((first, other), (own, party_names[j])):
            if not index.is_unique:
                raise InputError(f"party {name}: the index of its rows has {index.duplicated().sum()} labels twice")
        missing, more = len(first.difference(own)), len(own.difference(first))
        if missing or more:
            raise InputError(
                f"{who}: of the index of {other}, {missing} labels are missing, and {more} are others; keep the rows "
                "that all parties have"
            )
        found[j] = given[j].loc[first]
    return found


def _check_block(given: Any, party: str) -> tuple[Floats, list[str] | None]:
    names = [str(c) for c in given.columns] if hasattr(given, "columns") else None
    if hasattr(given, "toarray"):
        raise TypeError(f"party {party}: sparse input is not supported; pass a dense array")
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"party {party}: the rows of the block have different lengths") from None
    if array.dtype.kind not in "fiubOSU":
        raise InputError(f"party {party}: the block holds {array.dtype} values; convert them to numbers first")
    if array.dtype.kind not in "fiub":
        try:
            if any(isinstance(value, str) for value in array.flat):
                raise ValueError
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"party {party}: the block holds something that is not a number; encode it first"
            ) from None
    if array.ndim != 2:
        raise InputError(f"party {party}: expected a 2D block (rows, columns), got {array.ndim}D; use reshape(-1, 1)")
    return array.astype(np.float64), names


def _refuse_nan(blocks: list[Floats], names: Sequence[Sequence[str]], party_names: Sequence[str]) -> None:
    for block, columns, party in zip(blocks, names, party_names, strict=True):
        missing = np.isnan(block).any(axis=0)
        if missing.any():
            name = columns[int(np.argmax(missing))]
            raise InputError(f"party {party}: column {name!r} holds NaN; remove or impute missing values first")


def _number_columns(count: int, start: int = 0) -> list[str]:
    return [f"x{l}" for l in range(start, start + count)]


def _check_same_columns(
    blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str]
) -> tuple[int, tuple[str, ...]]:
    d = blocks[0].shape[1]
    columns = names[0] or _number_columns(d)
    for block, own, party in zip(blocks, names, party_names, strict=True):
        if block.shape[1] != d:
            raise InputError(
                f"party {party} has {block.shape[1]} columns where {party_names[0]} has {d}; "
                "all blocks must have the same columns"
            )
        if own is not None and names[0] is not None and own != names[0]:
            other = next(a for a, b in zip(own, columns, strict=True) if a != b)
            raise InputError(
                f"party {party} has a column {other!r} where {party_names[0]} has another; put columns in one order"
            )
    return d, tuple(columns)


def _gather_rows(blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str]) -> Blocks:
    d, columns = _check_same_columns(blocks, names, party_names)
    _refuse_nan(blocks, [columns] * len(blocks), party_names)
    counts = tuple(len(block) for block in blocks)
    return Blocks(blocks, Layout("horizontal", sum(counts), d, rows=counts), columns)


def _gather_columns(blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str]) -> Blocks:
    n = len(blocks[0])
    for block, party in zip(blocks, party_names, strict=True):
        if len(block) != n:
            raise InputError(
                f"party {party} has {len(block)} rows where {party_names[0]} has {n}; vertical blocks must "
                "describe the same rows in the same order"
            )
    return _put_columns_together(blocks, names, party_names, n)


def _gather_matched(
    blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str], matched: Matched
) -> Blocks:
    """Columns of the rows that all parties hold; in private, each party's own rows."""
    taken = [block[rows] for block, rows in zip(blocks, matched.rows, strict=True)]
    n = len(taken[0]) if matched.members is None else len(matched.members)
    if matched.members is None and not n:
        raise InputError("no label is in the index of all parties' rows; are they written in the same way everywhere?")
    return replace(_put_columns_together(taken, names, party_names, n), matched=matched)


def _put_columns_together(
    blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str], n: int
) -> Blocks:
    for block, party in zip(blocks, party_names, strict=True):
        if block.shape[1] == 0:
            raise InputError(f"party {party} has no columns; leave it out, or give it some")
    held: list[tuple[int, ...]] = []
    all_names: list[list[str]] = []
    at = 0
    for block, own in zip(blocks, names, strict=True):
        held.append(tuple(range(at, at + block.shape[1])))
        all_names.append(own or _number_columns(block.shape[1], at))
        at += block.shape[1]
    _refuse_nan(blocks, all_names, party_names)
    columns = tuple(name for own in all_names for name in own)
    return Blocks(blocks, Layout("vertical", n, at, columns=tuple(held)), columns)


def _gather_cells(blocks: list[Floats], names: list[list[str] | None], party_names: Sequence[str]) -> Blocks:
    d, columns = _check_same_columns(blocks, names, party_names)
    n = len(blocks[0])
    owners = np.zeros((n, d), np.uint8)
    for j, (block, party) in enumerate(zip(blocks, party_names, strict=True)):
        if len(block) != n:
            raise InputError(
                f"party {party} has {len(block)} rows where {party_names[0]} has {n}; mixed blocks all have the "
                "shape of the whole table, with NaN for cells that a party does not hold"
            )
        held = ~np.isnan(block)
        if (twice := (owners > 0) & held).any():
            i, l = (int(v) for v in np.argwhere(twice)[0])
            first = party_names[int(owners[i, l]) - 1]
            raise InputError(
                f"the cell in row {i}, column {columns[l]!r} is held by both {first} and {party}; "
                "set it to NaN at one of them"
            )
        owners[held] = j + 1
    if (nobody := owners == 0).any():
        i, l = (int(v) for v in np.argwhere(nobody)[0])
        raise InputError(f"the cell in row {i}, column {columns[l]!r} is held by nobody; remove the row or impute it")
    return Blocks(blocks, Layout("mixed", n, d, owners=owners.tobytes()), columns)
