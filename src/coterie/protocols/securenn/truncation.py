"""Dealt truncation: exact for any number of parties."""

from __future__ import annotations

import numpy as np

from coterie.protocols.securenn.compare import (
    FIELD,
    answer_material,
    common_bits,
    compare_at_helper,
    private_compare,
    unblinded,
)
from coterie.randomness.material import BitsOver, Elements, Material
from coterie.ring import Array, Words
from coterie.sharing import Party, Shared, open_masked
from coterie.transport import metered

__all__ = ["truncate"]


@metered("Truncate")
def truncate(me: Party, x: Shared, g: int) -> Shared:
    """[round(x / 2^g)], halves upwards, for -L/4 <= x < L/4 - 2^(g-1), any shape; L = 2^w.

    1. P0 deals [R] uniform, [R >> g], [R >> w-1] and the bits of R mod 2^g over Z_67.             (one-way)
    2. P1..Pp open c = y + R for y = x + 2^(w-2) + 2^(g-1), which lies in 0..L/2-1.                (round 1)
    3. Wrap: y + R >= L just if R's top bit is 1 and c's is 0, so [wrap] = (1 - c_top) [R_top].
    4. Borrow: PrivateCompare tells P0 beta XOR [R mod 2^g > c mod 2^g], which it deals.        (rounds 2, 3)
    5. [y >> g] = (c >> g) - [R >> g] - [borrow] + 2^(w-g) [wrap]; subtract 2^(w-2-g).

    The published tables forget truncation; cutting shares locally is wrong for every fourth value at
    p = 3, and without the borrow the result is off by a random unit. With it, it is exact.
    Sees: P0 PrivateCompare's view; Pj c, which R makes uniform.
    """
    if g == 0:
        return x
    words, shape, count = x.ring, x.shape, x.size
    assert isinstance(words, Words)
    w, low = words.width, np.uint64((1 << g) - 1)
    bound = {"high": Elements(words, count), "top": Elements(words, count), "low": BitsOver(FIELD, count, g)}
    dealt = me.deal(Material("truncation", {"mask": Elements(words, count)}, bound))  # R = -mask
    if me.deals:

        def deal() -> dict[str, Array]:
            r = words.neg(dealt.mask("mask"))
            return {"high": r >> np.uint64(g), "top": r >> np.uint64(w - 1), "low": r & low}

        dealt.bind(deal)()
        answer = compare_at_helper(me, count, g)
        me.deal(answer_material("truncation", words, count)).bind(lambda: {"answer": answer()})()
        return me.hollow(words, shape)
    y = x.reshape(count) + ((1 << (w - 2)) + (1 << (g - 1)))
    (c,) = open_masked(me, dealt, mask=y)  # y + R = y - mask
    beta = common_bits(me, count, "truncation")
    private_compare(me, dealt, "low", c & low, beta)
    blinded = me.deal(answer_material("truncation", words, count)).bound("answer")
    borrow = unblinded(me.shared(words, blinded), beta)
    wrap = me.shared(words, dealt.bound("top")) * (1 - (c >> np.uint64(w - 1)).astype(np.int64))
    high = (c >> np.uint64(g)).astype(np.int64) - (1 << (w - 2 - g)) - me.shared(words, dealt.bound("high"))
    return (high - borrow + wrap * (1 << (w - g))).reshape(*shape)
