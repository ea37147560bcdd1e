"""Who holds which cell, where parties hold different columns of different rows: what the helper works out from tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from coterie.matching.pairing import Slots, Words, shuffle
from coterie.matching.tags import Tags

__all__ = ["Patchwork", "lay_out"]


@dataclass(frozen=True)
class Patchwork:
    """`owners` (n, d): which party (from 1) holds each cell of the rows that are complete, which stand in random order;
    `slots`: for each tag of each list where its row stands, or -1 if the row is not complete. `twice` and `absent`: by
    column, how many cells several parties hold, and how many nobody does."""

    owners: NDArray[np.uint8]
    slots: list[Slots]
    twice: list[int]
    absent: list[int]


def lay_out(
    lists: Sequence[Tags], holders: Sequence[Sequence[int]], precedence: Sequence[int], words: Words
) -> Patchwork:
    """From sorted lists of tags. `holders`: by column, which parties (from 0) bring it; `precedence`: of several that
    hold a cell, the one that comes first there has it.

    Sees: every party who else holds cells of its rows, which it is told anyway; of other rows who holds them, and not
    which these are, since all stand in random order.
    """
    everything, whose = np.unique(np.concatenate(lists), return_inverse=True)
    edges = np.cumsum([0, *(len(tags) for tags in lists)])
    at = [whose[start:end] for start, end in pairwise(edges)]
    present = np.zeros((len(lists), len(everything)), bool)
    for j, places in enumerate(at):
        present[j, places] = True
    owners = np.zeros((len(everything), len(holders)), np.uint8)
    twice = []
    for l, able in enumerate(holders):
        for j in sorted(able, key=list(precedence).index, reverse=True):
            owners[present[j], l] = j + 1
        twice.append(int((present[list(able)].sum(axis=0) > 1).sum()))
    absent = [int(count) for count in (owners == 0).sum(axis=0)]
    complete = (owners > 0).all(axis=1)
    order = shuffle(int(complete.sum()), words)
    slot_of = np.full(len(everything), -1, np.int64)
    slot_of[complete] = order
    placed = np.empty((len(order), len(holders)), np.uint8)
    placed[order] = owners[complete]
    return Patchwork(placed, [slot_of[places] for places in at], twice, absent)
