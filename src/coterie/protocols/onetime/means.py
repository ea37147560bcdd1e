"""Division with the counts still secret, and exact truncation (docs/protocols/onetime.md#means, #truncation).

The reciprocal table itself is not dealt. What is dealt is an XOR-shared one-hot vector of 2^m *bits* for a
random place s; with t + s open, each party XORs the public reciprocals that its bits select, and so holds an
XOR share of the bits of 2^g / t. That is one bit for each possible count instead of a word, at any n, with no
factorised variant and no further round: the product with the sums takes bits as readily as words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from coterie.protocols.numerics import reciprocals
from coterie.protocols.onetime.bits import BitFactor, Terms, padded, products_of
from coterie.protocols.onetime.centers import mask_of
from coterie.protocols.onetime.fused import (
    deal_mean,
    deal_truncation,
    digits_below,
    finish_mean,
    finish_truncation,
    mark_places,
    xor_lookups,
)
from coterie.randomness.material import Bits, Material, Packed, declared
from coterie.ring import Bulk, Words
from coterie.sharing import Party, Shared, hollow_after, start_opening
from coterie.transport import metered

__all__ = ["lift", "mean_times_power", "open_places", "reciprocal_table", "table_bits", "truncate"]

RING = Words(64)
ONE = np.uint64(1)


@lru_cache(maxsize=4)
def reciprocal_table(rows: int, g: int) -> Bulk:
    """round(2^g / t) for t = 1..rows, and at 0 the flag bit 2^(g+1); as many entries as the next power of two."""
    size = 1 << table_bits(rows)
    table = np.zeros(size, np.uint64)
    table[1 : rows + 1] = reciprocals(np.arange(1, rows + 1), g).view(np.uint64)
    table[0] = 1 << (g + 1)
    table.flags.writeable = False
    return table


def table_bits(rows: int) -> int:
    """m: there are 2^m places in the table, at least the 64 that a word holds."""
    return max(6, rows.bit_length())


@declared
def places_material(k: int, rows: int) -> Material:
    """A place for each cluster, and a bit for each place."""
    m = table_bits(rows)
    return Material("places", {"s": Packed(k, width=m)}, {"e": Bits(k, (1 << m) // 64)})


def open_places(me: Party, counts: Shared, rows: int, table: Callable[[], Bulk]) -> Callable[[], Bulk]:
    """XOR shares (k,) of the bits of round(2^g / t_j), the flag of t_j = 0 among them. One round.

    1. Dealt: [s_j] uniform modulo 2^m, and <e_v>, v < 2^m, with a 1 at v = s_j only.
    2. Open c_j = t_j + s_j (uniform).
    3. XOR over v of e_v Q[c_j - v] = Q[t_j].

    Sends at once; call what is returned to receive and look up. `table` gives Q.
    """
    (k,), m = counts.shape, table_bits(rows)
    dealt = me.deal(places_material(k, rows))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            mark_places(dealt.mask("s"), dealt.target("e"))
            return {}

        return hollow_after(dealt.bind(deal), (k,))
    s = dealt.mask("s")
    mask = np.uint64((1 << m) - 1)
    receive = start_opening(me, dealt.masked("s", (counts.share + s) & mask))

    def finish() -> Bulk:
        c, looked_up = receive(), np.empty(k, np.uint64)
        xor_lookups(dealt.bound("e"), c, table(), looked_up)
        return looked_up

    return finish


@declared
def mean_material(k: int, d: int, g: int, u: int, w: int = 64) -> Material:
    """Masks of the g + 2 bits looked up, and of the sums; and, as words, their products."""
    cells, products = Packed(k, d, width=w), Packed(k, d, g + 1, width=w)
    bound = {"R words": cells, "R top": cells, "rho words": Packed(k, g + 2, width=w)}
    bound |= {"R rho": products, "R top rho": products, "rho B": cells}
    return Material("mean", {"rho": Bits(k), "R": Packed(k, d, width=u)}, bound)


@metered("Mean")
def mean_times_power(me: Party, sums: Shared, looked_up: Bulk, old: Shared, g: int, wide: Words = RING) -> Shared:
    """[y] (k, d) over Z_2^64 (`wide`), y = T q + 2^g [t = 0] C_old, from [T] over Z_2^u, <q>, <t = 0>. One round.

    1. Dealt: <rho> for the bits of q and the flag; R uniform modulo 2^u; as words over Z_2^64: [R], [R_top], [rho_b],
       [R rho_b], [R_top rho_b], and [rho_flag B] for the mask B that the old centres have.
    2. Open beta = q XOR rho, and c = T + 2^(u-2) + R modulo 2^u (both uniform).
    3. T = c - 2^(u-2) - [R] + 2^u (1 - c_top) [R_top] over the whole numbers, as |T| < 2^(u-2).
       q = sum of 2^b (beta_b + (1 - 2 beta_b) [rho_b]). Their product is linear in what was dealt.
    4. [t = 0] C_old with C_old = F + B, likewise.
    """
    (k, d), w = sums.shape, wide.width
    ring = sums.ring
    assert isinstance(ring, Words)
    u = ring.width
    dealt = me.deal(mean_material(k, d, g, u, w))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            r = dealt.mask("R")
            top, kept, bits = np.empty((k, d), np.uint64), np.empty((k, d), np.uint64), np.empty((k, g + 2), np.uint64)
            r_rho, top_rho = np.empty((k, d, g + 1), np.uint64), np.empty((k, d, g + 1), np.uint64)
            deal_mean(dealt.mask("rho"), r, mask_of(old).b, u, top, bits, r_rho, top_rho, kept)
            words = {"R words": r, "R top": top, "rho words": bits}
            return {**words, "R rho": r_rho, "R top rho": top_rho, "rho B": kept}

        dealt.bind(deal)()
        return me.hollow(wide, (k, d))
    receive_bits = start_opening(me, dealt.masked("rho", looked_up ^ dealt.mask("rho")))
    blinded = _blind(me, sums.share, 1 << (u - 2), dealt.mask("R"), u)
    receive_words = start_opening(me, dealt.masked("R", blinded))
    own, out = mask_of(old), np.empty((k, d), np.uint64)
    finish_mean(
        receive_bits(),
        receive_words(),
        dealt.bound("rho words"),
        dealt.bound("R words"),
        dealt.bound("R top"),
        dealt.bound("R rho"),
        dealt.bound("R top rho"),
        dealt.bound("rho B"),
        own.f,
        own.b,
        u,
        wide.mask,
        np.uint64(me.lead),
        out,
    )
    return me.shared(wide, out)


def _blind(me: Party, share: Bulk, offset: int, r: Bulk, width: int) -> Bulk:
    """This party's share of x + offset + r modulo 2^width."""
    blinded: Bulk = np.add(share, r, order="C")
    if me.lead:
        blinded += np.uint64(offset)
    blinded &= np.uint64((1 << width) - 1)
    return blinded


@declared
def lift_material(shape: tuple[int, ...], u: int, w: int = 64) -> Material:
    """A mask of u bits; it and its top bit as words."""
    word = Packed(*shape, width=w)
    return Material("lift", {"R": Packed(*shape, width=u)}, {"R words": word, "R top": word})


def lift(me: Party, x: Shared, wide: Words = RING) -> Shared:
    """[x] over Z_2^64 (`wide`) from [x] over Z_2^u, for |x| < 2^(u-2). One round; as T in `mean_times_power`."""
    ring, shape = x.ring, x.shape
    assert isinstance(ring, Words)
    u = ring.width
    dealt = me.deal(lift_material(shape, u, wide.width))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            r = dealt.mask("R")
            return {"R words": r, "R top": r >> np.uint64(u - 1)}

        dealt.bind(deal)()
        return me.hollow(wide, shape)
    offset = np.uint64(1 << (u - 2))
    c = start_opening(me, dealt.masked("R", _blind(me, x.share, 1 << (u - 2), dealt.mask("R"), u)))()
    unwrapped = (ONE - (c >> np.uint64(u - 1))) << np.uint64(u) if u < 64 else np.uint64(0)
    share = unwrapped * dealt.bound("R top") - dealt.bound("R words")
    return me.shared(wide, wide.reduce(share + (c - offset if me.lead else np.uint64(0))))


@lru_cache(maxsize=64)
def borrow_terms(digits: int) -> Terms:
    """Is c less than R: less_top, or equal_top and the next less, ...; exactly one of these at most is true.

    Rows: less of digits 0..r-1, then equal of digits 1..r-1.
    """
    terms = []
    for l in range(digits):
        equal = [BitFactor(digits + m - 1) for m in range(l + 1, digits)]
        terms.append((BitFactor(l), *equal))
    return products_of(2 * digits - 1, tuple(terms))


@declared
def truncation_material(count: int, g: int, w: int = 64) -> Material:
    """A mask of each number; what is above g of it, its top bit, and a table of 256 bits for each digit below g.
    Masks of the bits that tell the borrow, and their products as words."""
    digits = -(-g // 8)
    terms, word = borrow_terms(digits), Packed(count, width=w)
    products = Packed(terms.variables + terms.monomials, count, width=w)
    masks = {"R": word, "masks": Bits(terms.variables, padded(count) // 64)}
    bound = {"high": word, "top": word, "tables": Bits(count, digits, 4), "products": products}
    return Material("truncation", masks, bound, rounds=2)


@metered("Truncate")
def truncate(me: Party, x: Shared, g: int, nearest: bool = True) -> Shared:
    """[round(x / 2^g)], halves upwards, for -L/4 <= x < L/4 - 2^(g-1), L = 2^w, any shape. Two rounds. Not to the
    `nearest`: rounded down, for -L/4 <= x < L/4.

    1. Dealt: [R] uniform, [R >> g], [R >> w-1], and for each 8-bit digit of R mod 2^g a table G_v = [v < digit].
    2. Open c = y + R for y = x + 2^(w-2), and 2^(g-1) to round, which lies in 0..L/2-1 (uniform).
    3. [wrap] = (1 - c_top) [R_top]. <less> and <equal> of each digit at c's digits.
    4. [borrow] = [c mod 2^g < R mod 2^g] as a word: the products of `sign.py` in one round, with the
       products of masks dealt as words: x_v = D_v + (1 - 2 D_v) [a_v].
    5. [y >> g] = (c >> g) - [R >> g] - [borrow] + 2^(w-g) [wrap]; subtract 2^(w-2-g).
    """
    if g == 0:
        return x
    count, shape, ring = x.size, x.shape, x.ring
    assert isinstance(ring, Words)
    w = ring.width
    terms = borrow_terms(-(-g // 8))
    dealt = me.deal(truncation_material(count, g, w))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            high, top = np.empty(count, np.uint64), np.empty(count, np.uint64)
            products, masks = np.empty((terms.variables + terms.monomials, count), np.uint64), dealt.mask("masks")
            tables = dealt.target("tables")
            deal_truncation(dealt.mask("R"), masks, terms.members, terms.degrees, g, w, high, top, tables, products)
            return {"high": high, "top": top, "products": products}

        dealt.bind(deal)()
        return me.hollow(ring, shape)
    lead = np.uint64(me.lead)
    offset = (1 << (w - 2)) + nearest * (1 << (g - 1))
    c = start_opening(me, dealt.masked("R", _blind(me, x.share.reshape(count), offset, dealt.mask("R"), w)))()
    masks = dealt.mask("masks")
    rows = np.empty_like(masks)
    digits_below(c, dealt.bound("tables"), g, lead, masks, rows)
    opened = start_opening(me, dealt.masked("masks", rows))()
    products, high, top = dealt.bound("products"), dealt.bound("high"), dealt.bound("top")
    out = np.empty(count, np.uint64)
    finish_truncation(c, opened, products, high, top, terms.rows, terms.index, terms.sizes, g, w, lead, out)
    return me.shared(ring, out.reshape(shape))
