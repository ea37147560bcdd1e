"""The sign of a shared number: ShareConvert to an odd modulus, then the top bit as a lowest bit."""

from __future__ import annotations

import numpy as np

from coterie.protocols.securenn.compare import (
    FIELD,
    Blinding,
    answer_material,
    common_bits,
    compare_at_helper,
    private_compare,
    unblinded,
)
from coterie.randomness import Masked
from coterie.randomness.material import BitsOver, Elements, Material
from coterie.ring import Array, OddWords, Words
from coterie.sharing import Party, Shared, open_masked, send_to_dealer, take_as_dealer
from coterie.transport import metered

__all__ = ["compute_msb", "drelu", "negative", "share_convert"]


@metered("ShareConvert")
def share_convert(me: Party, x: Shared) -> Shared:
    """[x] over Z_L becomes [x] over Z_(L-1), for x != L - 1. SecureNN, Algorithm 4, for p parties; four rounds.

    1. P1..Pp: common uniform r_j for every j; r = sum r_j - alpha L, known to all of them.
    2. Pj: x~_j = x_j + r_j - beta_j L, to P0.                                               (round 1)
    3. P0: sum x~_j = x~ + delta L; deals the bits of x~ over Z_67, and [delta] over Z_(L-1).      (round 2)
    4. PrivateCompare of x~ with r - 1 tells P0 eta'' = beta XOR [x~ > r - 1]  (r = 0: always);  (round 3)
       P0 deals [eta''] over Z_(L-1).                                                          (round 4)
    5. [eta'] = [x~ < r] = 1 - [eta'' XOR beta]; this is also the wrap in x~ = x + r - eta' L.
    6. Pj: theta_j = beta_j + delta_j - eta'_j, and P1 subtracts alpha; y_j = x_j - theta_j.

    sum x_j = x + theta L and L = 1 modulo L - 1, so the y_j add up to x. alpha, delta, theta lie in 0..p-1.
    Sees: P0 the x~_j, each masked by its own uniform r_j, and PrivateCompare's view; Pj shares of what P0 deals.
    """
    words = x.ring
    assert isinstance(words, Words)
    odd, (count,), message = OddWords(words.width), x.shape, Elements(words, x.size)
    bound = {"delta": Elements(odd, count), "x~": BitsOver(FIELD, count, odd.width)}
    wrapped = Material("ShareConvert", bound=bound, answer=True)
    if me.deals:
        received = take_as_dealer(me, message)
        me.deal(wrapped).bind(lambda: dict(zip(("x~", "delta"), _sum_and_wraps(words, received), strict=True)))()
        answer = compare_at_helper(me, count, words.width)
        me.deal(answer_material("ShareConvert", odd, count)).bind(lambda: {"answer": answer()})()
        return me.hollow(odd, x.shape)
    r_shares = words.sample(me.streams.common("ShareConvert r"), (me.world.p, count))
    r, alpha = _sum_and_wraps(words, list(r_shares))
    r_own = r_shares[me.rank - 1]
    masked = words.add(x.share, r_own)
    wraps = (masked < r_own).astype(np.uint64)  # beta_j
    send_to_dealer(me, Masked(masked, message))
    beta, blinding = common_bits(me, count, "ShareConvert"), Blinding(me, count, words.width)
    dealt = me.deal(wrapped)
    private_compare(me, dealt, "x~", words.sub(r, words.encode(1)), beta, r == 0, blinding)
    blinded = me.deal(answer_material("ShareConvert", odd, count)).bound("answer")  # eta''
    # eta' = 1 - (eta'' XOR beta): eta'' where beta = 1, else 1 - eta''
    complement = odd.sub(np.full(count, np.uint64(me.lead)), blinded)
    eta = np.where(beta == 1, blinded, complement)
    theta = odd.sub(odd.add(wraps, dealt.bound("delta")), eta)
    if me.lead:
        theta = odd.sub(theta, alpha)
    own = np.where(x.share == np.uint64(odd.modulus), np.uint64(0), x.share)
    return me.shared(odd, odd.sub(own, theta))


def _sum_and_wraps(words: Words, parts: list[Array]) -> tuple[Array, Array]:
    """The sum over Z_L, and how many times L was subtracted from the sum over the whole numbers."""
    total, wraps = words.zeros(parts[0].shape), np.zeros(parts[0].shape, np.uint64)
    for part in parts:
        total = words.add(total, part)
        wraps += total < part
    return total, wraps


@metered("ComputeMSB")
def compute_msb(me: Party, a: Shared, over: Words | None = None) -> Shared:
    """[MSB(a)] over Z_L, or over the given words, from [a] over Z_(L-1). SecureNN, Algorithm 5, for p parties; three
    rounds.

    1. P0 deals [x], uniform over Z_(L-1), one for every entry, and the bits of x over Z_67.      (one-way)
    2. P1..Pp open r = 2a + x.                                                               (round 1)
    3. PrivateCompare tells P0 beta' = beta XOR [x > r].                                       (round 2)
    4. P0 deals [beta' XOR x_0], a bit, over whichever ring is wanted.                         (round 3)
    5. MSB(a) = LSB(2a) = r_0 XOR x_0 XOR [x > r] = (beta' XOR x_0) XOR (beta XOR r_0), as L - 1 is odd.

    Deviates: SecureNN deals [x_0] and multiplies it with the shared comparison (a product, one more
    round). P0 knows both beta' and x_0, so it deals their XOR at once.
    Sees: P0 PrivateCompare's view; Pj r, which x makes uniform.
    """
    odd, (count,) = a.ring, a.shape
    assert isinstance(odd, OddWords)
    words = Words(odd.width) if over is None else over
    bound = {"x": BitsOver(FIELD, count, odd.width)}
    material = Material("ComputeMSB", {"mask": Elements(odd, count)}, bound)  # x = -mask
    if me.deals:
        dealt = me.deal(material)
        mask = dealt.mask("mask")
        dealt.bind(lambda: {"x": odd.neg(mask)})()
        answer = compare_at_helper(me, count, odd.width)
        dealt = me.deal(answer_material("ComputeMSB", words, count))
        dealt.bind(lambda: {"answer": answer() ^ (odd.neg(mask) & np.uint64(1))})()
        return me.hollow(words, a.shape)
    beta, blinding = common_bits(me, count, "ComputeMSB"), Blinding(me, count, odd.width)
    dealt = me.deal(material)
    (r,) = open_masked(me, dealt, mask=a + a)  # 2a + x = 2a - mask
    private_compare(me, dealt, "x", r, beta, blinding=blinding)
    blinded = me.shared(words, me.deal(answer_material("ComputeMSB", words, count)).bound("answer"))
    return unblinded(blinded, beta ^ (r & np.uint64(1)))


@metered("DReLU")
def negative(me: Party, a: Shared, bits: int | None = None) -> Shared:
    """[a < 0] for -L/4 <= a < L/4, any shape: 1 - DReLU(a). SecureNN, Algorithm 6, for p parties; seven rounds.

    The top bit of 2a, which is the sign of such an a. 2a is converted and never a: it is even, so it
    is not L - 1, the one value that ShareConvert cannot take.

    `bits`: a public bound, -2^bits <= a < 2^bits. Shares modulo L, cut to w = bits + 2 bits, are shares modulo
    2^w of a number in -2^w/4 .. 2^w/4: all of the above with 2^w for L, and the answer over Z_L.
    Deviates: SecureNN compares 64 bits, whatever is known of a. What anybody sees is of fewer bits, and as uniform.
    """
    words = a.ring
    assert isinstance(words, Words)
    narrow = words if bits is None else Words(min(words.width, bits + 2))
    if me.deals:
        twice = me.hollow(narrow, (a.size,))
    else:
        twice = me.shared(narrow, narrow.add(a.share, a.share).reshape(a.size))
    return compute_msb(me, share_convert(me, twice), words).reshape(*a.shape)


def drelu(me: Party, a: Shared, bits: int | None = None) -> Shared:
    """[a >= 0]."""
    return 1 - negative(me, a, bits)
