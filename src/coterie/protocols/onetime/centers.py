"""The mask that centres have for life, from their first product on (docs/protocols/onetime.md#centres, #stopping)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coterie.errors import ProtocolError
from coterie.protocols.onetime.fused import add_row_products, row_products
from coterie.randomness.material import Material, Packed, declared
from coterie.ring import Bulk
from coterie.sharing import Party, Shared, start_opening
from coterie.transport import metered

__all__ = [
    "CenterMask",
    "centers_material",
    "mask_centers",
    "mask_of",
    "movement",
    "movement_material",
    "weigh_centers",
]


@dataclass(frozen=True, repr=False)
class CenterMask:
    """f = C - B, public among the data parties; b: this party's share of B, or B itself at the helper;
    squares: this party's share of |c_j|^2."""

    f: Bulk
    b: Bulk
    squares: Bulk


class Masks(NamedTuple):
    """Of centres: their own mask and, where columns are weighted, that of the centres times weights, and by which."""

    own: CenterMask
    weighed: CenterMask | None = None
    by: Shared | None = None


def mask_of(centers: Shared, weighed: bool = False) -> CenterMask:
    """The mask that centres [C] (k, d) were given, or the centres times the weights of their columns."""
    mask = centers.memo[int(weighed)] if isinstance(centers.memo, Masks) else None
    if not isinstance(mask, CenterMask):
        raise ProtocolError("centres enter a product before they are masked")
    return mask


@declared
def centers_material(k: int, d: int) -> Material:
    return Material("centers", {"B": Packed(k, d, width=64)}, {"BB": Packed(k, width=64)})


@declared
def movement_material() -> Material:
    return Material("movement", bound={"bb": Packed(1, width=64)})


@metered("MaskCenters")
def mask_centers(me: Party, centers: Shared) -> None:
    """Open F = C - B for a dealt uniform B, once for these centres; [|c_j|^2] follows. One round, k d words.

    [|c_j|^2] = sum over l of 2 F [B] + [B B], and F F at P1.
    """
    if centers.memo is not None:
        return
    k, d = centers.shape
    dealt = me.deal(centers_material(k, d))
    b = dealt.mask("B")
    if me.deals:
        dealt.bind(lambda: {"BB": _row_products(b, b)})()
        centers.memo = Masks(CenterMask(b[:0], b, b[:0, 0]))
        return
    f, squares = start_opening(me, dealt.masked("B", np.subtract(centers.share, b, order="C")))(), dealt.bound("BB")
    add_row_products(f, b, f, b, np.uint64(me.lead), squares)
    centers.memo = Masks(CenterMask(f, b, squares))


@declared
def weighed_material(k: int, d: int) -> Material:
    """A mask of the centres times weights; products of masks: of weights and centres, and of this one and theirs."""
    bound = {"WB": Packed(k, d, width=64), "BB": Packed(k, width=64)}
    return Material("weighed centers", {"B": Packed(k, d, width=64)}, bound)


@metered("MaskCenters")
def weigh_centers(me: Party, centers: Shared, weights: Shared) -> None:
    """Mask G = w C, once for masked centres [C] (k, d) and masked weights [w] (1, d). One round, k d words.

    1. Dealt: [B'] uniform; the products of masks [B_w B], [sum over l of B B'].
    2. [w C] = F_w [B] + F [B_w] + [B_w B], and F_w F at P1: from the masks of both.
    3. Open F' = G - B'. [|c_j|^2] = sum over l of C G = F [B'] + F' [B] + [B B'], and F F' at P1.
    """
    own, scale = mask_of(centers), mask_of(weights)
    if centers.memo.by is weights:
        return
    dealt = me.deal(weighed_material(*centers.shape))
    b = dealt.mask("B")
    if me.deals:
        dealt.bind(lambda: {"WB": scale.b * own.b, "BB": _row_products(own.b, b)})()
        centers.memo = Masks(own, CenterMask(b[:0], b, b[:0, 0]), weights)
        return
    weighed = scale.f * own.b + own.f * scale.b + dealt.bound("WB")
    if me.lead:
        weighed += scale.f * own.f
    f, squares = start_opening(me, dealt.masked("B", weighed - b))(), dealt.bound("BB")
    add_row_products(own.f, own.b, f, b, np.uint64(me.lead), squares)
    centers.memo = Masks(own, CenterMask(f, b, squares), weights)


def _row_products(x: Bulk, y: Bulk) -> Bulk:
    """The sums over the rows (k,) of the products of two arrays (k, d)."""
    out = np.empty(len(x), np.uint64)
    row_products(x, y, out)
    return out


def movement(me: Party, old: Shared, new: Shared, weighed: bool = False) -> Shared:
    """[sum |new - old|^2] (1,), from the masks of both: no communication but a dealt word.

    With what is open of the centres' difference f and its mask b, and f', b' of the centres times the weights (the
    same, where there are none): sum f f' + f [b'] + f' [b] + [sum b b'].
    """
    dealt, ring = me.deal(movement_material()), old.ring
    kinds = (False, True) if weighed else (False,)
    masks = [(mask_of(old, one), mask_of(new, one)) for one in kinds]
    if me.deals:

        def deal() -> dict[str, Bulk]:
            b = [(after.b - before.b).reshape(1, -1) for before, after in masks]
            return {"bb": _row_products(b[0], b[-1])}

        dealt.bind(deal)()
        return me.hollow(ring, (1,))
    moved = [((after.f - before.f).reshape(1, -1), (after.b - before.b).reshape(1, -1)) for before, after in masks]
    share = dealt.bound("bb")
    add_row_products(*moved[0], *moved[-1], np.uint64(me.lead), share)
    return me.shared(ring, share)
