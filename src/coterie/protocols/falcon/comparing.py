"""Signs, rounding and bits of shared words, by the adder (docs/protocols/falcon.md#falcon-adder)."""

from __future__ import annotations

import numpy as np

from coterie.protocols.falcon.adder import add_shares, carry_into_each, carry_out, digits, singles
from coterie.protocols.falcon.bits import multiply_rows, to_words
from coterie.protocols.falcon.servers import Step, Trio
from coterie.ring import Words
from coterie.sharing import Shared, concatenate

__all__ = ["floor", "low_bits", "narrowed", "signs"]


def narrowed(trio: Trio, x: Shared, width: int) -> Shared:
    """Shares modulo 2^w, cut to fewer bits, are shares modulo that."""
    ring = Words(width)
    if trio.role is None:
        return trio.me.hollow(ring, x.shape)
    return trio.held(ring, *(ring.reduce(share) for share in x.shares))


def signs(trio: Trio, x: Shared) -> Step[Shared]:
    """<x < 0> (1, words) from [x] (64 times words,) over Z_2^w: its top bit. 2 + ceil(log2 D) rounds for the D leaves
    of t = w - 1 bits. All together send 3 t + delta + 3 (2 delta - ceil(log2 D)) bits if t is odd and makes
    delta = (t - 1) / 2 digits of two bits, 8 fewer if it is even and makes t / 2 of them.

    x_(w-1) = a_(w-1) + b_(w-1) + the carry out of the t low bits.
    """
    t = _width(x) - 1
    wanted = digits(0, t)
    sum_ = yield from add_shares(trio, x, t + 1, t, wanted)
    rows, ((g, _),) = yield from carry_out(trio, sum_, wanted)
    return sum_.a[t : t + 1] + sum_.b[t : t + 1] + rows[g : g + 1]


def low_bits(trio: Trio, x: Shared, count: int) -> Step[Shared]:
    """<the lowest bits> (count, words), lowest first, of [x] (64 times words,). 2 + ceil(log2(count - 1)) rounds.

    Shares modulo 2^count are enough. Bit l is a_l + b_l + the carry out of the bits below it.
    """
    places = max(count, 2)
    sum_ = yield from add_shares(trio, x, places, places - 1, singles(places - 1))
    into = yield from carry_into_each(trio, sum_, places - 1)
    whole = sum_.a + sum_.b
    return concatenate([whole[:1], whole[1:] + into])[:count]


def floor(trio: Trio, x: Shared, g: int) -> Step[Shared]:
    """[x / 2^g] (64 times words,), rounded to the nearest, halves upwards, for -L/4 <= x < L/4 - 2^(g-1), L = 2^w.
    The rounds of the deeper tree, and five.

    1. y = x + 2^(w-2) + 2^(g-1), of which all w bits count: 0 <= y < L. y_i + y_j + y_k = y + (c_w + omega) L.
    2. floor(y / 2^g) = sum(y_i >> g) - 2^(w-g) (c_w + omega) + c_g + kappa: c_g and c_w are carries of y_i + y_j;
       kappa = G_low and omega = G_high + P_high G_low those of adding y_k, from trees over the low g bits and the rest.
    3. Four bits to words; less 2^(w-2-g).
    """
    ring, width, count = x.ring, _width(x), x.shape[0]
    assert isinstance(ring, Words)
    y = x + ((1 << (width - 2)) + (1 << (g - 1)))
    wanted = digits(0, g, width)
    sum_ = yield from add_shares(trio, y, width, width, wanted)
    rows, ((low, _), (high, passed)) = yield from carry_out(trio, sum_, wanted)
    assert passed is not None
    through = yield from multiply_rows(trio, rows, np.array([passed]), np.array([low]))
    kappa, omega = rows[low : low + 1], rows[high : high + 1] + through
    carried = [sum_.carried[place - 1 : place] for place in (width, g)]
    words = yield from to_words(trio, concatenate([carried[0], omega, carried[1], kappa]), ring)
    shifted = trio.me.hollow(ring, (count,))
    if trio.role is not None:
        shifted = trio.held(ring, *(share >> np.uint64(g) for share in y.shares))
    return shifted - (words[0] + words[1]) * (1 << (width - g)) + words[2] + words[3] - (1 << (width - 2 - g))


def _width(x: Shared) -> int:
    assert isinstance(x.ring, Words)
    return x.ring.width
