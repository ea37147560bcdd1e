"""The mask that centres have for life, from their first product on (docs/protocols/onetime.md#centres, #stopping)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.errors import ProtocolError
from coterie.randomness.material import Material, Packed, declared
from coterie.ring import Bulk
from coterie.sharing import Party, Shared, start_opening
from coterie.transport import metered

__all__ = ["CenterMask", "centers_material", "mask_centers", "mask_of", "movement", "movement_material"]


@dataclass(frozen=True, repr=False)
class CenterMask:
    """f = C - B, public among the data parties; b: this party's share of B, or B itself at the helper;
    squares: this party's share of |c_j|^2."""

    f: Bulk
    b: Bulk
    squares: Bulk


def mask_of(centers: Shared) -> CenterMask:
    """The mask that centres [C] (k, d) were given."""
    if not isinstance(centers.memo, CenterMask):
        raise ProtocolError("centres enter a product before they are masked")
    return centers.memo


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
        centers.memo = CenterMask(b[:0], b, b[:0, 0])
        return
    f = start_opening(me, dealt.masked("B", centers.share - b))()
    squares = (f * b * np.uint64(2)).sum(axis=1, dtype=np.uint64) + dealt.bound("BB")
    if me.lead:
        squares += (f * f).sum(axis=1, dtype=np.uint64)
    centers.memo = CenterMask(f, b, squares)


def movement(me: Party, old: Shared, new: Shared) -> Shared:
    """[sum |new - old|^2] (1,), from the masks of both: no communication but a dealt word.

    With the masks' difference b and what is open f: sum f f + 2 f [b] + [sum b b].
    """
    dealt, ring = me.deal(movement_material()), old.ring
    before, after = mask_of(old), mask_of(new)
    if me.deals:
        dealt.bind(lambda: {"bb": np.square(after.b - before.b).sum(dtype=np.uint64).reshape(1)})()
        return me.hollow(ring, (1,))
    f, b = after.f - before.f, after.b - before.b
    share = dealt.bound("bb") + (f * b * np.uint64(2)).sum(dtype=np.uint64)
    if me.lead:
        share = share + (f * f).sum(dtype=np.uint64)
    return me.shared(ring, share)
