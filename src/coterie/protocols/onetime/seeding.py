"""k-means++ where a block of rows lives: distances, candidates and draws (docs/protocols/onetime.md#start).

Distances D live modulo 2^v, wide enough for their sums over a group. They are compared at the width of scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.protocols.blocks import block_step
from coterie.protocols.interface import Problem
from coterie.protocols.onetime.centers import CenterMask
from coterie.protocols.onetime.kernels import spread
from coterie.protocols.onetime.labelling import select_words
from coterie.protocols.onetime.sign import signs_of_differences
from coterie.protocols.onetime.table import NOTHING, Block, block_scores, data_masks
from coterie.protocols.sampling import Sampling
from coterie.randomness.material import Elements, Material, Packed, Unpacked, declared
from coterie.ring import Bulk, Words
from coterie.sharing import Party, Shared, start_opening
from coterie.transport import metered

if TYPE_CHECKING:
    from coterie.protocols.onetime.family import OneTime

__all__ = ["consider_cells", "distance_width", "keep_cells", "measure_cells", "spread_cells"]


def distance_width(problem: Problem, sampling: Sampling) -> int:
    """v: bits that hold the distances of a group, added up, and two more; whole bytes."""
    return min(64, -(-(problem.distance_bits + sampling.size.bit_length() + 1) // 8) * 8)


@block_step
def measure_cells(family: OneTime, block: Block, mask: CenterMask, sampling: Sampling) -> Shared:
    """D, the distances to the first centre; their sums by group (1, groups of this block)."""
    block.held["nearest"] = _distances(family, block, mask, sampling)
    return _by_group(family, block, block.held["nearest"], sampling)


@block_step
def consider_cells(family: OneTime, block: Block, mask: CenterMask, sampling: Sampling) -> Shared:
    """What each candidate takes away from D; the sums of what is left by group (L, groups of this block).

    <dist < D> at the width of scores, then that bit times dist - D, modulo 2^v.
    """
    me, v, count = family.me, distance_width(family.problem, sampling), len(mask.b)
    distances, nodes = _distances(family, block, mask, sampling), None
    first, others = np.zeros(count, np.int64), np.arange(1, count + 1)
    if not me.deals:
        nodes = np.concatenate([block.held["nearest"], distances])
    closer = signs_of_differences(me, nodes, first, others, block.numbers, family.score_width)
    block.held["gained"] = gained = select_words(me, closer, nodes, first, others, block.numbers, v)()
    left = distances if me.deals else block.held["nearest"] + gained
    return _by_group(family, block, left, sampling)


def _distances(family: OneTime, block: Block, mask: CenterMask, sampling: Sampling) -> Bulk:
    """[|x_i - c_j|^2] (L, numbers) modulo 2^v: scores, and the squares of own cells, which are a share of theirs."""
    scores = block_scores(family.me, block, mask, distance_width(family.problem, sampling))
    if scores is None:
        return np.empty((len(mask.b), 0), np.uint64)
    own = block.held["x"]
    if own.size:
        scores += (own * own).sum(axis=0, dtype=np.uint64)
    return scores


def _by_group(family: OneTime, block: Block, values: Bulk, sampling: Sampling) -> Shared:
    me, ring = family.me, Words(distance_width(family.problem, sampling))
    groups, at = np.unique(block.rows // sampling.size, return_inverse=True)
    if me.deals:
        return me.hollow(ring, (len(values), len(groups)))
    return me.shared(ring, values[:, : len(block.rows)]).placed(at, len(groups))


@declared
def keep_material(count: int, numbers: int, width: int) -> Material:
    """Masks of the one-hot words and of what candidates take away; the products of both, added up."""
    masks = {"V": Packed(count, width=width), "M": Unpacked(count, numbers, width=width)}
    return Material("keep", masks, {"VM": Packed(numbers, width=width)})


@block_step
def keep_cells(family: OneTime, block: Block, best: Shared, sampling: Sampling) -> None:
    """D less what the chosen candidate takes away, by one-hot words [h] (1, L). One round.

    1. Dealt: [V], [M] uniform, and [sum of V_l M_l].
    2. Open F = h - V and G = gained - M (both uniform).
    3. sum of h_l gained_l = F [gained] + [V] G + [V M].
    """
    me, v, count = family.me, distance_width(family.problem, sampling), best.shape[1]
    dealt = me.deal(keep_material(count, block.numbers, v))
    if me.deals:
        dealt.bind(lambda: {"VM": dealt.mask("V") @ dealt.mask("M")})()
        return
    masks, gained = (dealt.mask("V"), dealt.mask("M")), block.held["gained"]
    modulo = np.uint64(2**v - 1)
    receive_hot = start_opening(me, dealt.masked("V", (best.share[0] - masks[0]) & modulo))
    receive_gained = start_opening(me, dealt.masked("M", (gained - masks[1]) & modulo))
    hot, opened = receive_hot(), receive_gained()
    block.held["nearest"] = block.held["nearest"] + (hot @ gained + masks[0] @ opened + dealt.bound("VM"))


@declared
def spread_material(
    count: int, groups: int, columns: int, numbers: int, size: int, width: int, wide: int = 64
) -> Material:
    """Masks of the one-hot words and of D; their products, and those with the data's masks, by place in a group."""
    masks = {"V": Elements(Words(wide), count, groups), "M": Unpacked(numbers, width=width)}
    return Material("spread", masks, {"VA": Packed(count, columns + 1, size, width=wide)})


@metered("Spread")
def block_spread(
    me: Party, block: Block, hot: Shared, columns: int, sampling: Sampling, width: int, wide: int = 64
) -> Bulk:
    """[what a group holds] (L, 1 + d, s): D and the columns of its rows, by one-hot words [e] (L, groups). One round.

    1. Dealt: [V] and [M] uniform; [V A] for the lasting masks A of the data, and for M in the place of D's, each row's
       product added to its place in the group.
    2. Open F = e - V and G = D - M (both uniform).
    3. Row by row, e x = F x + [V] E + [V A]; and e D = F [D] + [V] G + [V M].

    D is a share modulo 2^v, and what comes of it is reduced so, too; one-hot words and cells are modulo 2^w.
    """
    count, numbers, size, ring = hot.shape[0], block.numbers, sampling.size, Words(wide)
    _, at = np.unique(block.rows // size, return_inverse=True)
    places = (block.rows % size).astype(np.int64)
    dealt = me.deal(spread_material(count, hot.shape[1], columns, numbers, size, width, wide))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            product = np.zeros((count, columns + 1, size), np.uint64)
            masks = np.concatenate([dealt.mask("M")[None], data_masks(me, block)])
            spread(dealt.mask("V"), masks, at, places, product)
            return {"VA": product}

        dealt.bind(deal)()
        return NOTHING
    v, m = dealt.mask("V"), dealt.mask("M")
    nearest, modulo = block.held["nearest"][0], np.uint64(2**width - 1)
    receive_hot = start_opening(me, dealt.masked("V", ring.sub(hot.share, v)))
    receive_near = start_opening(me, dealt.masked("M", (nearest - m) & modulo))
    f, g = receive_hot(), receive_near()
    out = dealt.bound("VA")
    own = block.held["x"]
    spread(f, np.concatenate([nearest[None], own]) if own.size else nearest[None], at, places, out)
    spread(v, np.concatenate([g[None], block.held["e"]]), at, places, out)
    out[:, 0] &= modulo
    return ring.reduce(out)


@block_step
def spread_cells(family: OneTime, block: Block, hot: Shared, sampling: Sampling) -> Bulk:
    here = np.unique(block.rows // sampling.size)
    width = distance_width(family.problem, sampling)
    return block_spread(family.me, block, hot[:, here], family.problem.columns, sampling, width)
