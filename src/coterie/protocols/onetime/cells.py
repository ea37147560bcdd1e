"""What `onetime` does where a block of rows lives: in, labels, counts and sums (`protocols/blocks.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.blocks import block_step
from coterie.protocols.interface import Ints, RowSets
from coterie.protocols.onetime.bits import unpack_rows
from coterie.protocols.onetime.blinded import blind
from coterie.protocols.onetime.centers import CenterMask
from coterie.protocols.onetime.label_words import block_words
from coterie.protocols.onetime.labelling import index_bits, one_hot
from coterie.protocols.onetime.table import Block, Hot, blinded_scores, block_sums
from coterie.ring import Bulk

if TYPE_CHECKING:
    from coterie.protocols.onetime.family import OneTime

__all__ = [
    "count_cells",
    "hand_over_cells",
    "index_cells",
    "label_cells",
    "least_cells",
    "pick_cells",
    "sum_cells",
    "tally_cells",
]

BitRows = NDArray[np.uint8]


@block_step
def pick_cells(family: OneTime, block: Block, numbers: Sequence[int]) -> Bulk:
    """This party's share of the numbered rows (m, d): nothing of those that lie elsewhere, or with others."""
    here, places = block.places(numbers)
    out = np.zeros((len(numbers), family.problem.columns), np.uint64)
    if not family.me.deals and block.held["x"].size:
        out[here] = block.held["x"][:, places].T
    return out


@block_step
def label_cells(family: OneTime, block: Block, name: str, mask: CenterMask, counted: bool) -> Bulk | None:
    z = blinded_scores(family.me, block, mask, family.score_width)
    bits = one_hot(family.me, z, family.problem.clusters, block.numbers, family.score_width, family.schedule)
    block.held[name] = Hot(bits)
    return count_cells(family, block, name) if counted and family.told else None


@block_step
def least_cells(family: OneTime, block: Block) -> BitRows:
    values, z, k = block.held.pop("values"), None, family.problem.clusters
    if not family.me.deals:
        z = np.zeros((k, block.numbers), np.uint64)
        z[:, : len(block.rows)] = values.share.T
    blinded = blind(family.me, z, k, block.numbers, family.score_width)
    block.held["least"] = Hot(one_hot(family.me, blinded, k, block.numbers, family.score_width, family.schedule))
    return index_cells(family, block, "least", np.arange(k), index_bits(k, False))


@block_step
def index_cells(family: OneTime, block: Block, name: str, names: Ints, width: int) -> BitRows:
    """The bits (rows, width) of what each row's cluster is called, lowest first."""
    if family.me.deals:
        return np.empty((0, width), np.uint8)
    hot, out = block.held[name].bits, np.zeros((len(block.rows), width), np.uint8)
    for bit in range(width):
        total = np.bitwise_xor.reduce(hot[np.flatnonzero(names >> bit & 1)], axis=0)
        out[:, bit] = unpack_rows(total[None], len(block.rows))[0]
    return out


@block_step
def hand_over_cells(family: OneTime, block: Block, name: str) -> BitRows:
    """One-hot labels (rows, k), to be kept by this party."""
    if family.me.deals:
        return np.empty((0, family.problem.clusters), np.uint8)
    return unpack_rows(block.held[name].bits, len(block.rows)).T


@block_step
def count_cells(family: OneTime, block: Block, name: str) -> Bulk:
    """[t] (k - 1,): how many rows of this block each cluster but the last has; what they weigh in each (k,)."""
    return hot_words(family, block, name).sum(axis=1, dtype=np.uint64)


@block_step
def tally_cells(family: OneTime, block: Block, name: str, sets: RowSets) -> Bulk:
    """[t] (kinds, k - 1): by the kinds of the block's rows."""
    h, kinds = hot_words(family, block, name), sets.kind_of[block.rows]
    out = np.zeros((sets.members.shape[1], family.told), np.uint64)
    for kind in () if family.me.deals else np.unique(kinds):
        out[kind] = h[:, np.flatnonzero(kinds == kind)].sum(axis=1, dtype=np.uint64)
    return out


@block_step
def sum_cells(family: OneTime, block: Block, name: str, columns: int) -> Bulk:
    h = hot_words(family, block, name)
    return block_sums(family.me, block, h, columns, family.sum_width)


def hot_words(family: OneTime, block: Block, name: str) -> Bulk:
    """<H> as [H] (k - 1, numbers), made once for these labels."""
    hot: Hot = block.held[name]
    if hot.words is None:
        hot.words = block_words(family.me, hot.bits, block, family.problem.clusters, family.sum_width)
    return hot.words
