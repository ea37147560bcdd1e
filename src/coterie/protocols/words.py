"""Additive shares of 64-bit words, with products by dealt triples (Beaver, 1991): for every family that is dealt to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.interface import Ints, Part
from coterie.protocols.steps import Family
from coterie.randomness.material import Elements, Material, declared
from coterie.ring import Ring, Words
from coterie.sharing import Party, Secret, Shared, bring_together, open_masked, shared, zero_shares
from coterie.transport import metered

__all__ = ["AdditiveWords", "elementwise_product", "looked_up", "matrix_product", "select_share", "square"]

Shape = tuple[int, ...]


class AdditiveWords(Family):
    """What such families have in common."""

    def enter(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        """What a party holds is its share; a fresh sharing of zero on top makes every share uniform."""
        me, ring = self.me, self.ring
        if me.deals:
            return me.hollow(ring, shape)
        share = ring.zeros(shape) if own is None else ring.encode(own)
        return me.shared(ring, ring.add(share, zero_shares(me, ring, shape, "input")))

    def enter_dealt(self, values: Ints | None, shape: tuple[int, ...]) -> Shared:
        """Dealt as shares of it. Sees: nobody anything but a uniform share."""
        dealt = self.me.deal(dealt_material(self.ring, shape))
        if not self.me.deals:
            return self.me.shared(self.ring, dealt.bound("value"))
        known = np.zeros(shape, np.int64) if values is None else values  # a rehearsal has none
        dealt.bind(lambda: {"value": self.ring.encode(known)})()
        return self.me.hollow(self.ring, shape)

    def public(self, values: Ints, ring: Ring | None = None) -> Shared:
        """P1's share is the value."""
        me, over, shape = self.me, self.ring if ring is None else ring, np.shape(values)
        if me.deals:
            return me.hollow(over, shape)
        return me.shared(over, over.encode(values) if me.lead else over.zeros(shape))

    def product(self, x: Shared, y: Shared) -> Shared:
        return elementwise_product(self.me, x, y)

    def square(self, x: Shared) -> Shared:
        return square(self.me, x)

    def matrix_product(self, x: Shared, y: Shared) -> Shared:
        return matrix_product(self.me, x, y)

    def look_up(self, index: Shared, table: NDArray[np.uint64]) -> Shared:
        return looked_up(self.me, index, table)

    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:
        held = shared(value)
        if not isinstance(held.ring, Words):
            raise ProtocolError("only words are opened as whole numbers")
        opened = bring_together(self.me, [(held[part.index], part.to) for part in parts], what)
        return [None if one is None else whole(held.ring, one) for one in opened]

    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        return {"words": shared(value).share}

    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Shared:
        return self.me.hollow(self.ring, shape) if kept is None else self.me.shared(self.ring, kept["words"])


def whole(ring: Words, elements: NDArray[np.uint64]) -> Ints:
    """Elements as whole numbers; bits are 0 and 1."""
    return elements.astype(np.int64) if ring.width == 1 else ring.signed(elements)


def _words(x: Shared) -> Words:
    assert isinstance(x.ring, Words)
    return x.ring


@declared
def dealt_material(ring: Ring, shape: Shape) -> Material:
    return Material("dealer's value", {}, {"value": Elements(ring, *shape)})


@declared
def product_material(purpose: str, ring: Ring, z: Shape, **masks: Shape) -> Material:
    """For a product: what masks the factors, of their shapes, and [c] of the product's shape."""
    return Material(purpose, {name: Elements(ring, *shape) for name, shape in masks.items()}, {"c": Elements(ring, *z)})


@metered("ElementWiseMatMul")
def elementwise_product(me: Party, x: Shared, y: Shared) -> Shared:
    """[z] = [x * y], entry by entry, equal shapes. Paper, Algorithm 2; two rounds, the first one dealt.

    1. P0 deals [a], [b] uniform and [c] = [a * b].
    2. P1..Pp open e = x - a and f = y - b (uniform to everyone).
    3. Pj: [z] = [x] f + [y] e + [c], and P1 subtracts e f.

    Deviates: the paper also deals shares of zero (line 1); [c], dealt through seeds, re-randomises as well.
    Sees: P0 nothing; Pj its shares of a uniform triple, and e, f, which the masks make uniform.
    """
    ring = _words(x)
    dealt = me.deal(product_material("product", ring, x.shape, a=x.shape, b=y.shape))
    if me.deals:
        dealt.bind(lambda: {"c": ring.mul(dealt.mask("a"), dealt.mask("b"))})()
        return me.hollow(ring, x.shape)
    e, f = open_masked(me, dealt, a=x, b=y)
    return x * f + y * e + me.shared(ring, dealt.bound("c")) - ring.mul(e, f)


@metered("Square")
def square(me: Party, x: Shared) -> Shared:
    """[x * x], entry by entry: ElementWiseMatMul of x with itself, for half the traffic.

    1. P0 deals [a] uniform and [c] = [a * a].
    2. P1..Pp open e = x - a.
    3. Pj: [z] = 2 e [x] + [c], and P1 subtracts e e.   (x^2 = (e + a)^2 = 2 e x - e^2 + a^2)
    """
    ring = _words(x)
    dealt = me.deal(product_material("square", ring, x.shape, a=x.shape))
    if me.deals:
        a = dealt.mask("a")
        dealt.bind(lambda: {"c": ring.mul(a, a)})()
        return me.hollow(ring, x.shape)
    (e,) = open_masked(me, dealt, a=x)
    return x * ring.add(e, e) + me.shared(ring, dealt.bound("c")) - ring.mul(e, e)


@metered("MatMul")
def matrix_product(me: Party, x: Shared, y: Shared) -> Shared:
    """[x y] for matrices. SecureNN, Algorithm 1 (MatMul), for p parties; two rounds, the first one dealt.

    As ElementWiseMatMul, with matrix products: [z] = [x] f + e [y] + [c], and P1 subtracts e f.
    """
    ring, shape = _words(x), (x.shape[0], y.shape[1])
    dealt = me.deal(product_material("matrix product", ring, shape, a=x.shape, b=y.shape))
    if me.deals:
        dealt.bind(lambda: {"c": ring.matmul(dealt.mask("a"), dealt.mask("b"))})()
        return me.hollow(ring, shape)
    e, f = open_masked(me, dealt, a=x, b=y)
    own = ring.add(ring.matmul(x.share, f), ring.matmul(e, y.share))
    z = me.shared(ring, ring.add(own, dealt.bound("c")))
    return z - ring.matmul(e, f) if me.lead else z


@metered("SelectShare")
def select_share(me: Party, bit: Shared, x: Shared, y: Shared) -> Shared:
    """[x] where the shared bit is 0, [y] where it is 1. SecureNN, Algorithm 2; one product."""
    return x + elementwise_product(me, bit, y - x)


@metered("LookUp")
def looked_up(me: Party, index: Shared, table: NDArray[np.uint64]) -> Shared:
    """[Q[i]] (m,) for [i] (m,) and a public table Q of 2^b words, 0 <= i < 2^b. Two rounds, the first one dealt.

    1. P0 deals [s] uniform modulo 2^b, and [e_v] over Z_L, v < 2^b, with a 1 at v = s only.
    2. P1..Pp open c = i - s modulo 2^b (uniform): shares modulo L, cut to b bits, are shares modulo 2^b.
    3. [Q[i]] = sum over v of Q[c + v] [e_v].

    Sees: P0 nothing; Pj its shares of what was dealt, and c, which s makes uniform.
    """
    ring, (m,), size = _words(index), index.shape, len(table)
    small = Words(max(size - 1, 1).bit_length())
    dealt = me.deal(Material("look-up", {"s": Elements(small, m)}, {"e": Elements(ring, m, size)}))
    if me.deals:
        dealt.bind(lambda: {"e": np.eye(size, dtype=np.uint64)[dealt.mask("s").astype(np.int64)]})()
        return me.hollow(ring, (m,))
    (c,) = open_masked(me, dealt, s=me.shared(small, small.encode(index.share)))
    places = (c.astype(np.int64)[:, None] + np.arange(size)) % size
    return (me.shared(ring, dealt.bound("e")) * table[places]).sum(1)
