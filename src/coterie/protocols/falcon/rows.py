"""What `falcon` does where a block of rows lives: in, and sums (`protocols/blocks.py`)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coterie.protocols.blocks import Resident, block_step
from coterie.protocols.falcon.entering import enter
from coterie.protocols.falcon.kernels import sum_rows
from coterie.protocols.falcon.servers import run_steps
from coterie.protocols.interface import Holding
from coterie.protocols.steps import counted_words
from coterie.sharing import Shared

if TYPE_CHECKING:
    from coterie.protocols.falcon.family import Falcon

__all__ = ["Block", "Hot", "blocks_of", "enter_cells", "sum_cells"]


class Block(Resident):
    """Rows of which all is known that their costs depend on: who holds their cells, and which server is S_i."""

    __slots__ = ()

    @property
    def turn(self) -> int:
        return self.number % 3

    @property
    def kind(self) -> Hashable:
        return super().kind, self.turn


@dataclass(repr=False)
class Hot:
    """What is known of one-hot labels besides: <H> (k, numbers / 64), 64 rows a word, and once they were counted, [H]
    as words (k, numbers)."""

    bits: Shared
    words: Shared | None = None


def blocks_of(holding: Holding, owners: range, size: int) -> list[Block]:
    """Blocks of rows that follow each other."""
    blocks = []
    for number, at in enumerate(range(0, max(holding.n, 1), size)):
        rows = np.arange(at, min(at + size, holding.n))
        cells = {j: holding.count_cells(rows, j) for j in owners}
        holders = tuple(j for j in owners if cells[j])
        blocks.append(Block(number, rows, holders, tuple(cells[j] for j in holders)))
    return blocks


@block_step
def enter_cells(family: Falcon, block: Block, holding: Holding) -> None:
    """Every owner enters its own cells, and nothing for those of others."""
    me, ring, shape = family.me, family.ring, (len(block.rows), holding.d)
    own, held_by = block.held.pop("own"), holding.owners_of(block.rows)
    steps = []
    for owner, count in zip(block.holders, block.cells, strict=True):
        values = own[held_by == owner] if own is not None and owner == me.rank else None
        steps.append(enter(family.trio, ring, owner, count, values))
    entered = run_steps(me, *steps)
    if not me.serves:
        block.held["rows"] = me.hollow(ring, shape)
    else:
        shares = ring.zeros(shape), ring.zeros(shape)
        for owner, value in zip(block.holders, entered, strict=True):
            for share, part in zip(shares, value.shares, strict=True):
                share[held_by == owner] = part
        block.held["rows"] = family.trio.held(ring, *shares)
    if family.problem.most_weight:
        block.held["weights"] = family.enter(block.held.pop("own weights"), (len(block.rows),))


@block_step
def sum_cells(family: Falcon, block: Block, name: str) -> tuple[Shared, Shared]:
    """This server's part of the sums (k, d) of the block's rows by cluster, and how many they are [t] (k,). Nothing is
    sent of the former: parts of all blocks add up first."""
    counted, rows = counted_words(family, block, name), block.held["rows"]
    counts, (k, d) = counted.sum(0), (counted.shape[1], rows.shape[1])
    if not family.me.serves:
        return family.me.hollow(family.ring, (k, d)), counts
    part = np.empty((k, d), np.uint64)
    hot, held = ([np.ascontiguousarray(share) for share in one.shares] for one in (counted.transpose(), rows))
    sum_rows(hot[0], hot[1], held[0], held[1], part)
    return Shared(family.ring, (family.ring.reduce(part),), (False,)), counts
