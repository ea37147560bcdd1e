"""Products of shared words with dealt triples (Beaver, 1991): for every family whose helper deals."""

from __future__ import annotations

from collections.abc import Callable

from coterie.ring import Words
from coterie.sharing import Party, Shared, concatenate, open_masked
from coterie.transport import metered

__all__ = ["elementwise_product", "matrix_product", "select_share", "shifted_objective", "square"]


def _words(x: Shared) -> Words:
    assert isinstance(x.ring, Words)
    return x.ring


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
    a = me.dealt.uniform(ring, x.shape, "product a")
    b = me.dealt.uniform(ring, y.shape, "product b")
    c = me.dealt.shares_of(ring, x.shape, "product c", lambda: ring.mul(a.value, b.value))
    if me.deals:
        return me.hollow(ring, x.shape)
    e, f = open_masked(me, (x, a), (y, b))
    return x * f + y * e + me.taken(c) - ring.mul(e, f)


@metered("Square")
def square(me: Party, x: Shared) -> Shared:
    """[x * x], entry by entry: ElementWiseMatMul of x with itself, for half the traffic.

    1. P0 deals [a] uniform and [c] = [a * a].
    2. P1..Pp open e = x - a.
    3. Pj: [z] = 2 e [x] + [c], and P1 subtracts e e.   (x^2 = (e + a)^2 = 2 e x - e^2 + a^2)
    """
    ring = _words(x)
    a = me.dealt.uniform(ring, x.shape, "square a")
    c = me.dealt.shares_of(ring, x.shape, "square c", lambda: ring.mul(a.value, a.value))
    if me.deals:
        return me.hollow(ring, x.shape)
    (e,) = open_masked(me, (x, a))
    return x * ring.add(e, e) + me.taken(c) - ring.mul(e, e)


@metered("MatMul")
def matrix_product(me: Party, x: Shared, y: Shared) -> Shared:
    """[x y] for matrices. SecureNN, Algorithm 1 (MatMul), for p parties; two rounds, the first one dealt.

    As ElementWiseMatMul, with matrix products: [z] = [x] f + e [y] + [c], and P1 subtracts e f.
    """
    ring, shape = _words(x), (x.shape[0], y.shape[1])
    a = me.dealt.uniform(ring, x.shape, "matrix a")
    b = me.dealt.uniform(ring, y.shape, "matrix b")
    c = me.dealt.shares_of(ring, shape, "matrix c", lambda: ring.matmul(a.value, b.value))
    if me.deals:
        return me.hollow(ring, shape)
    e, f = open_masked(me, (x, a), (y, b))
    own = ring.add(ring.matmul(x.share, f), ring.matmul(e, y.share))
    z = me.shared(ring, ring.add(own, c.take()))
    return z - ring.matmul(e, f) if me.lead else z


@metered("SelectShare")
def select_share(me: Party, bit: Shared, x: Shared, y: Shared) -> Shared:
    """[x] where the shared bit is 0, [y] where it is 1. SecureNN, Algorithm 2; one product."""
    return x + elementwise_product(me, bit, y - x)


def shifted_objective(
    me: Party,
    truncate: Callable[[Party, Shared, int], Shared],
    sums: Shared,
    counts: Shared,
    centers: Shared,
    shift: int,
) -> Shared:
    """`Family.objective` by products: |c_j|^2 and the sums are cut to fit before they are multiplied."""
    squares = square(me, centers).sum(1)
    cut = truncate(me, concatenate([sums.reshape(sums.size), squares]), shift)
    left = concatenate([cut[: sums.size] * -2, cut[sums.size :]])
    product = elementwise_product(me, left, concatenate([centers.reshape(centers.size), counts]))
    return product.reshape(1, product.size).sum(1)
