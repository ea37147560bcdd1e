"""The mask that centres have for life, from their first product on (docs/protocols/onetime.md#centres, #stopping)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coterie.errors import ProtocolError
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
        dealt.bind(lambda: {"BB": (b * b).sum(axis=1, dtype=np.uint64)})()
        centers.memo = Masks(CenterMask(b[:0], b, b[:0, 0]))
        return
    f = start_opening(me, dealt.masked("B", centers.share - b))()
    squares = (f * b * np.uint64(2)).sum(axis=1, dtype=np.uint64) + dealt.bound("BB")
    if me.lead:
        squares += (f * f).sum(axis=1, dtype=np.uint64)
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
        dealt.bind(lambda: {"WB": scale.b * own.b, "BB": (own.b * b).sum(axis=1, dtype=np.uint64)})()
        centers.memo = Masks(own, CenterMask(b[:0], b, b[:0, 0]), weights)
        return
    weighed = scale.f * own.b + own.f * scale.b + dealt.bound("WB")
    if me.lead:
        weighed += scale.f * own.f
    f = start_opening(me, dealt.masked("B", weighed - b))()
    squares = (own.f * b + f * own.b).sum(axis=1, dtype=np.uint64) + dealt.bound("BB")
    if me.lead:
        squares += (own.f * f).sum(axis=1, dtype=np.uint64)
    centers.memo = Masks(own, CenterMask(f, b, squares), weights)


def movement(me: Party, old: Shared, new: Shared, weighed: bool = False) -> Shared:
    """[sum |new - old|^2] (1,), from the masks of both: no communication but a dealt word.

    With what is open of the centres' difference f and its mask b, and f', b' of the centres times the weights (the
    same, where there are none): sum f f' + f [b'] + f' [b] + [sum b b'].
    """
    dealt, ring = me.deal(movement_material()), old.ring
    (old_own, new_own), (old_weighed, new_weighed) = (
        (mask_of(old, one), mask_of(new, one)) for one in (False, weighed)
    )
    if me.deals:

        def deal() -> dict[str, Bulk]:
            product = (new_own.b - old_own.b) * (new_weighed.b - old_weighed.b)
            return {"bb": product.sum(dtype=np.uint64).reshape(1)}

        dealt.bind(deal)()
        return me.hollow(ring, (1,))
    f, b = new_own.f - old_own.f, new_own.b - old_own.b
    f2, b2 = new_weighed.f - old_weighed.f, new_weighed.b - old_weighed.b
    share = dealt.bound("bb") + (f * b2 + f2 * b).sum(dtype=np.uint64)
    if me.lead:
        share = share + (f * f2).sum(dtype=np.uint64)
    return me.shared(ring, share)
