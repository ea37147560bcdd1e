"""Who holds which cells of the n x d table. Public: everybody knows it, nobody learns a cell from it."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError

__all__ = ["Layout", "Partition", "kinds_of_rows"]

Partition = Literal["horizontal", "vertical", "mixed"]


class Layout(msgspec.Struct, frozen=True, dict=True):
    """`rows`: per party, how many rows (horizontal). `columns`: per party, which columns (vertical).
    `owners`: the row-major n x d bytes of the rank that holds each cell (mixed)."""

    partition: Partition
    n: int
    d: int
    rows: tuple[int, ...] = ()
    columns: tuple[tuple[int, ...], ...] = ()
    owners: bytes = b""

    @property
    def parties(self) -> int:
        """How many data parties there are, as far as cells show it."""
        if self.partition == "mixed":
            return int(self._owners().max(initial=0))
        return len(self.rows if self.partition == "horizontal" else self.columns)

    def own_rows(self, rank: int) -> NDArray[np.bool_]:
        """The rows of which a party holds cells, and whose labels it therefore learns."""
        held = np.zeros(self.n, np.bool_)
        if self.partition == "horizontal":
            start = sum(self.rows[: rank - 1])
            held[start : start + self.rows[rank - 1]] = True
        elif self.partition == "vertical":
            held[:] = True
        else:
            held = (self._owners() == rank).any(axis=1)
        return held

    def own_columns(self, rank: int) -> list[int]:
        """The columns of which a party may hold cells."""
        return list(self.columns[rank - 1]) if self.partition == "vertical" else list(range(self.d))

    def own_cells(self, rank: int) -> NDArray[np.bool_]:
        """The cells that a party holds, as an n x d mask."""
        if self.partition == "mixed":
            return self._owners() == rank
        held = np.zeros((self.n, self.d), np.bool_)
        held[np.ix_(np.flatnonzero(self.own_rows(rank)), np.array(self.own_columns(rank), np.intp))] = True
        return held

    def owners_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The rank that holds each cell of the given rows."""
        if self.partition == "mixed":
            return self._owners()[rows]
        if self.partition == "horizontal":
            owner = 1 + np.searchsorted(np.cumsum(self.rows), rows, side="right")
            return np.broadcast_to(owner.astype(np.uint8)[:, None], (len(rows), self.d))
        by_column = np.zeros(self.d, np.uint8)
        for j, columns in enumerate(self.columns):
            by_column[list(columns)] = j + 1
        return np.broadcast_to(by_column, (len(rows), self.d))

    def count_cells(self, rows: NDArray[np.int64], owner: int) -> int:
        """How many cells of the given rows, in order, a party holds."""
        if self.partition == "vertical":
            return len(rows) * len(self.columns[owner - 1])
        if self.partition == "horizontal":
            start = sum(self.rows[: owner - 1])
            return self.d * int(np.diff(np.searchsorted(rows, [start, start + self.rows[owner - 1]])).item())
        return int((self.owners_of(rows) == owner).sum())

    def label_groups(self, parties: int) -> list[tuple[NDArray[np.int64], list[int]]]:
        """Row numbers, grouped by the set of parties that hold cells of them, with those parties. Found once."""
        found: dict[int, list[tuple[NDArray[np.int64], list[int]]]] = self.__dict__.setdefault("label groups", {})
        if parties not in found:
            found[parties] = self._grouped(parties)
        return found[parties]

    def _grouped(self, parties: int) -> list[tuple[NDArray[np.int64], list[int]]]:
        if self.partition == "vertical":
            return [(np.arange(self.n), list(range(1, parties + 1)))] if self.n else []
        if self.partition == "horizontal":
            edges = np.cumsum((0, *self.rows))
            return [(np.arange(edges[j], edges[j + 1]), [j + 1]) for j in range(parties) if self.rows[j]]
        held = np.stack([self.own_rows(rank) for rank in range(1, parties + 1)], axis=1)
        kinds, kind_of = kinds_of_rows(np.packbits(held, axis=1))
        holders = np.unpackbits(kinds, axis=1)
        return [
            (np.flatnonzero(kind_of == i), [int(j) + 1 for j in np.flatnonzero(who)])
            for i, who in enumerate(holders)
            if who.any()
        ]

    def center_groups(self, parties: int) -> list[tuple[list[int], list[int]]]:
        """Columns of the centres, with the parties that learn them."""
        if self.partition == "vertical":
            return [(list(self.columns[j - 1]), [j]) for j in range(1, parties + 1) if self.columns[j - 1]]
        return [(list(range(self.d)), list(range(1, parties + 1)))]

    def place(self, rank: int, block: NDArray[np.int64]) -> NDArray[np.int64]:
        """A party's encoded block in its place in the table, zero elsewhere."""
        if self.partition == "mixed":
            return np.where(self.own_cells(rank), block, 0)
        agreed = (int(self.own_rows(rank).sum()), len(self.own_columns(rank)))
        if block.shape != agreed:
            raise InputError(f"the block has shape {block.shape}; agreed was {agreed}")
        table = np.zeros((self.n, self.d), np.int64)
        table[np.ix_(np.flatnonzero(self.own_rows(rank)), np.array(self.own_columns(rank), np.intp))] = block
        return table

    def _owners(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.owners, np.uint8).reshape(self.n, self.d)


def kinds_of_rows(cells: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The different rows of (n, d), in order, and which of them each row is. As `np.unique(axis=0)`, which sorts
    rows as bytes without letting other threads run: of ten million, so long that peers take a party for dead."""
    kind_of = np.zeros(len(cells), np.int64)
    for column in cells.T:
        kind_of = np.unique(kind_of << 8 | column, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(kind_of, return_index=True)
    return cells[first], kind_of
