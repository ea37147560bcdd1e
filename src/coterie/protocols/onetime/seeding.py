"""k-means++ where a block of rows lives: distances, candidates and draws (docs/protocols/onetime.md#start).

Distances D live modulo 2^v, wide enough for their sums over a group. They are compared at the width of scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.protocols.blocks import block_step
from coterie.protocols.interface import Ints
from coterie.protocols.onetime.bits import unpack_rows
from coterie.protocols.onetime.centers import CenterMask
from coterie.protocols.onetime.kernels import spread
from coterie.protocols.onetime.label_words import WEIGHTS, RowWeights
from coterie.protocols.onetime.labelling import compared_width, select_words
from coterie.protocols.onetime.sign import signs_of_differences
from coterie.protocols.onetime.table import (
    NOTHING,
    Block,
    block_scores,
    data_masks,
    enter_masked,
)
from coterie.protocols.sampling import Sampling
from coterie.randomness.material import Elements, Material, Packed, Unpacked, declared
from coterie.ring import Bulk, Words
from coterie.sharing import Party, Shared, start_opening
from coterie.transport import metered

if TYPE_CHECKING:
    from coterie.protocols.onetime.family import OneTime

__all__ = [
    "add_cell_weights",
    "consider_cells",
    "distance_width",
    "keep_cells",
    "level_cells",
    "measure_cells",
    "reach_cells",
    "spread_cells",
    "weigh_cells",
]


def distance_width(sampling: Sampling) -> int:
    """v: bits that hold the distances of a group, added up, and two more; whole bytes."""
    return min(64, -(-(sampling.pull_bits + sampling.size.bit_length() + 1) // 8) * 8)


@block_step
def measure_cells(family: OneTime, block: Block, sampling: Sampling, mask: CenterMask) -> Shared:
    """D, the distances to the first centre; their sums by group (1, groups of this block)."""
    block.held["nearest"] = _distances(family, block, mask, distance_width(sampling))
    return _by_group(family, block, _pull(family, block, sampling), sampling)


def _pull(family: OneTime, block: Block, sampling: Sampling) -> Bulk:
    """D, times the weights of rows: what these are drawn by (1, numbers); kept."""
    block.held["pull"] = pull = _times_weights(family, block, block.held.get("nearest", NOTHING), 1, sampling)
    return pull


def _times_weights(family: OneTime, block: Block, values: Bulk, count: int, sampling: Sampling) -> Bulk:
    """[values] (count, numbers) modulo 2^v, times the weights of rows. One round; nothing, where rows have none."""
    if WEIGHTS not in block.held:
        return values
    me, ring, shape = family.me, Words(distance_width(sampling)), (count, block.numbers)
    if me.deals:
        family.product(me.hollow(ring, shape), me.hollow(ring, shape))
        return np.empty((count, 0), np.uint64)
    weights = np.broadcast_to(ring.reduce(block.held[WEIGHTS].share), shape)
    return family.product(me.shared(ring, weights), me.shared(ring, ring.reduce(values))).share


@block_step
def add_cell_weights(family: OneTime, block: Block, sampling: Sampling) -> Shared:
    """[sum of weights] by group (1, groups of this block)."""
    weights = np.empty((1, 0), np.uint64) if family.me.deals else block.held[WEIGHTS].share[None]
    return _by_group(family, block, weights, sampling)


@block_step
def level_cells(family: OneTime, block: Block, sampling: Sampling) -> Shared:
    """All distances alike, for a first draw by weights alone."""
    pull = np.empty((1, 0), np.uint64)
    if not family.me.deals:
        pull = block.held[WEIGHTS].share[None] * np.uint64(1 << sampling.bits - 1)
    block.held["pull"] = pull
    return _by_group(family, block, pull, sampling)


@block_step
def consider_cells(family: OneTime, block: Block, sampling: Sampling, mask: CenterMask) -> Shared:
    """What each candidate takes away from D; the sums of what is left by group (L, groups of this block).

    <dist < D> at the width of scores, then that bit times dist - D, modulo 2^v.
    """
    me, v, count = family.me, distance_width(sampling), len(mask.b)
    distances, nodes = _distances(family, block, mask, v), None
    first, others = np.zeros(count, np.int64), np.arange(1, count + 1)
    if not me.deals:
        nodes = np.concatenate([block.held["nearest"], distances])
    closer = signs_of_differences(me, nodes, first, others, block.numbers, compared_width(sampling.bits))
    block.held["gained"] = gained = select_words(me, closer, nodes, first, others, block.numbers, v)()
    left = distances if me.deals else block.held["nearest"] + gained
    return _by_group(family, block, _times_weights(family, block, left, count, sampling), sampling)


def _distances(family: OneTime, block: Block, mask: CenterMask, width: int) -> Bulk:
    """[|x_i - c_j|^2] (L, numbers) modulo 2^width: scores and squares."""
    scores = block_scores(family.me, block, mask, width)
    if scores is None:
        return np.empty((len(mask.b), 0), np.uint64)
    own = block.held["x"]
    if "squares" in block.held:
        scores += block.held["squares"]
    elif own.size:
        scores += (own * own).sum(axis=0, dtype=np.uint64)  # of own cells: this party's share
    return scores


@block_step
def weigh_cells(family: OneTime, block: Block, number: int, mask: CenterMask) -> None:
    """[|x_i|^2], weighted: the squares of cells enter as the cells did, under masks of their own, and are multiplied
    with the weights."""
    me, holding = family.me, block.held["table"][1]
    own = block.held.get("x", NOTHING)
    squares = Block(block.number, block.rows, block.runs, block.cells)
    e = enter_masked(me, squares, own * own, number, holding)
    squares.held |= {"table": (number, holding), "e": e, "x": own * own}
    alone = replace(mask, squares=np.zeros(1, np.uint64))
    found = block_scores(me, squares, alone, 64, np.uint64(1))
    if found is not None:
        block.held["squares"] = found[0]


def _by_group(family: OneTime, block: Block, values: Bulk, sampling: Sampling) -> Shared:
    me, ring = family.me, Words(distance_width(sampling))
    groups, at = np.unique(block.rows // sampling.size, return_inverse=True)
    if me.deals:
        return me.hollow(ring, (len(values), len(groups)))
    return me.shared(ring, values[:, : len(block.rows)]).placed(at, len(groups))


@block_step
def reach_cells(
    family: OneTime, block: Block, name: str, sampling: Sampling, copies: Ints | None, mask: CenterMask
) -> Shared:
    """How many levels of the silhouette the rows of this block reach (1,)."""
    me, (k, count) = family.me, (len(mask.b), len(block.rows))
    found = _distances(family, block, mask, 64)
    distances, hot = me.hollow(family.ring, (k, count)), me.hollow(family.bits, (k, count))
    if not me.deals:
        distances = me.shared(family.ring, found[:, :count])
        hot = me.shared(family.bits, unpack_rows(block.held[name].bits, count))
    return family.levels_of(family.to_words(hot), distances, sampling, copies)


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
    me, v, count = family.me, distance_width(sampling), best.shape[1]
    dealt = me.deal(keep_material(count, block.numbers, v))
    if me.deals:
        dealt.bind(lambda: {"VM": dealt.mask("V") @ dealt.mask("M")})()
        _pull(family, block, sampling)
        return
    masks, gained = (dealt.mask("V"), dealt.mask("M")), block.held["gained"]
    modulo = np.uint64(2**v - 1)
    receive_hot = start_opening(me, dealt.masked("V", (best.share[0] - masks[0]) & modulo))
    receive_gained = start_opening(me, dealt.masked("M", (gained - masks[1]) & modulo))
    hot, opened = receive_hot(), receive_gained()
    block.held["nearest"] = block.held["nearest"] + (hot @ gained + masks[0] @ opened + dealt.bound("VM"))
    _pull(family, block, sampling)


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

    D is a share modulo 2^v, and what comes of it is reduced so, too; one-hot words and cells are modulo 2^w. Where rows
    have weights, D is times these, and they come along as one more column, under their own lasting mask.
    """
    count, numbers, size, ring = hot.shape[0], block.numbers, sampling.size, Words(wide)
    weights: RowWeights | None = block.held.get(WEIGHTS)
    columns += weights is not None
    _, at = np.unique(block.rows // size, return_inverse=True)
    places = (block.rows % size).astype(np.int64)
    dealt = me.deal(spread_material(count, hot.shape[1], columns, numbers, size, width, wide))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            product = np.zeros((count, columns + 1, size), np.uint64)
            lasting = [] if weights is None else [weights.mask[None]]
            masks = np.concatenate([dealt.mask("M")[None], data_masks(me, block), *lasting])
            spread(dealt.mask("V"), masks, at, places, product)
            return {"VA": product}

        dealt.bind(deal)()
        return NOTHING
    v, m = dealt.mask("V"), dealt.mask("M")
    nearest, modulo = block.held["pull"][0], np.uint64(2**width - 1)
    receive_hot = start_opening(me, dealt.masked("V", ring.sub(hot.share, v)))
    receive_near = start_opening(me, dealt.masked("M", (nearest - m) & modulo))
    f, g = receive_hot(), receive_near()
    out = dealt.bound("VA")
    own, opened = block.held["x"], [g[None], block.held["e"]]
    held = [nearest[None], own] if own.size else [nearest[None]]
    if weights is not None:
        held = [nearest[None], own if own.size else np.zeros_like(block.held["e"]), weights.share[None]]
        opened.append(weights.less_mask[None])
    spread(f, np.concatenate(held), at, places, out)
    spread(v, np.concatenate(opened), at, places, out)
    out[:, 0] &= modulo
    return ring.reduce(out)


@block_step
def spread_cells(family: OneTime, block: Block, hot: Shared, sampling: Sampling) -> Bulk:
    here = np.unique(block.rows // sampling.size)
    width = distance_width(sampling)
    return block_spread(family.me, block, hot[:, here], family.problem.columns, sampling, width)
