"""The sign of shared numbers by one-time tables (docs/protocols/onetime.md#sign)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.onetime.bits import Terms, bit_factors, deal_products, products_material, products_of
from coterie.protocols.onetime.fused import take_masked, xor_bits
from coterie.protocols.onetime.kernels import lookup, masked_difference, thermometer
from coterie.randomness import Dealt
from coterie.randomness.material import Bits, Material, Piece, Tables, Unpacked, declared
from coterie.ring import Bulk
from coterie.sharing import Party, hollow, start_opening
from coterie.transport import metered

__all__ = ["deal_signs", "find_signs", "sign_material", "sign_pieces", "signs_of_differences", "tree_of"]

FAN_IN = 4


class Level(NamedTuple):
    """One level of the tree that combines digits. Bits lie in rows: "less" of each digit, then "equal" of each digit.

    `rows`: which of them enter the products. `tops`: of each group, the highest digit, to whose "less" products are
    added. `target`: of each product, the row of the next level that it is added to.
    """

    rows: NDArray[np.int64]
    terms: Terms
    tops: NDArray[np.int64]
    target: NDArray[np.int64]


@lru_cache(maxsize=64)
def tree_of(digits: int, fan_in: int = FAN_IN) -> list[Level]:
    """The levels that reduce so many digits to one, lowest first; the lowest group needs no "equal".

    Group g_(r-1), p_(r-1), ..., g_0, p_0:  g = g_(r-1) XOR p_(r-1) g_(r-2) XOR p_(r-1) p_(r-2) g_(r-3) ...,
    p = p_(r-1) ... p_0.
    """
    levels = []
    while digits > 1:
        groups = -(-digits // fan_in)
        edges = [digits * i // groups for i in range(groups + 1)]
        wanted: list[list[int]] = []  # rows: "less" of digit l is l, "equal" is digits + l
        target: list[int] = []
        for g, (low, high) in enumerate(pairwise(edges)):
            for l in reversed(range(low, high - 1)):
                wanted.append([*range(digits + high - 1, digits + l, -1), l])
                target.append(g)
            if low > 0:
                wanted.append([*range(digits + high - 1, digits + low - 1, -1)])
                target.append(groups + g)
        met = dict.fromkeys(row for term in wanted for row in term)
        rows = sorted(met, key=lambda row: row >= digits)  # "less" first, each in the order in which they are met
        place = {row: v for v, row in enumerate(rows)}
        terms = products_of(len(rows), tuple(bit_factors([place[row] for row in term]) for term in wanted))
        tops = np.array(edges[1:], np.int64) - 1
        levels.append(Level(np.array(rows, np.int64), terms, tops, np.array(target, np.int64)))
        digits = groups
    return levels


def combine_digits(me: Party, x: Bulk | None, count: int, digits: int, purpose: str) -> Bulk:
    """<is the whole less> from <x>, "less" and then "equal" of each digit, (2 digits, count) words; a round a level.

    A level is `bit_products` of the rows that it names. What they give is added to the groups' "less" and "equal".
    """
    for level in tree_of(digits):
        terms = level.terms
        dealt = me.deal(products_material(terms, count, purpose))
        if me.deals:
            deal_products(dealt, terms)()
            continue
        assert x is not None
        masks, blinded = dealt.mask("masks"), np.empty((terms.variables, count), np.uint64)
        take_masked(x, level.rows, masks, blinded)
        opened = start_opening(me, dealt.masked("masks", blinded))()
        out = np.empty((2 * len(level.tops), count), np.uint64)
        terms.fold(opened, masks, dealt.bound("products"), me.lead, x, level.tops, level.target, out)
        x = out
    return np.empty(0, np.uint64) if x is None else x[0]


@declared
def sign_material(pairs: int, numbers: int, width: int) -> Material:
    """A mask for each difference; what its sign is found by."""
    return Material("sign", {"R": Unpacked(pairs * numbers, width=width)}, sign_pieces(pairs * numbers, width))


def sign_pieces(count: int, width: int) -> dict[str, Piece]:
    """Of so many masks, a table of 16 bits for each digit, and the top bit."""
    return {"tables": Tables(width // 4, count), "msb": Bits(count // 64)}


@metered("Sign")
def signs_of_differences(
    me: Party, z: Bulk | None, left: NDArray[np.int64], right: NDArray[np.int64], numbers: int, width: int
) -> Bulk:
    """<z_right < z_left> for each pair of rows of [z] (rows, numbers) over Z_2^width, bits (pairs, numbers / 64).

    Differences must lie in -2^(width-1) .. 2^(width-1) - 1; width and numbers are multiples of 4 and of 64.
    One round, and one for each level of the tree: two for more than four digits.

    1. Dealt: [R] uniform; for every 4-bit digit of R a shared table G_v = [v < digit]; for the top digit its
       low three bits only, and <R_msb>.
    2. Open c = z_right - z_left + R (uniform).
    3. At the public digits v of c: <less> = G_v, <equal> = G_(v-1) XOR G_v. No communication.
    4. Combine the digits: <g> = <c mod 2^(width-1) < R mod 2^(width-1)>.
    5. <sign> = c_msb XOR <R_msb> XOR <g>.

    Sees: the helper nothing; a data party c and the masked bits of step 4, all uniform.
    """
    pairs = len(left)
    dealt = me.deal(sign_material(pairs, numbers, width))
    if me.deals:
        return deal_signs(me, dealt, lambda: dealt.mask("R"), pairs, numbers, width)
    assert z is not None
    r = dealt.mask("R")
    blinded = np.empty(pairs * numbers, np.uint64)
    masked_difference(z, left, right, r, np.uint64((1 << width) - 1), blinded)
    c = start_opening(me, dealt.masked("R", blinded))()
    return find_signs(me, dealt, c, pairs, numbers, width)


def deal_signs(me: Party, dealt: Dealt, masks: Callable[[], Bulk], pairs: int, numbers: int, width: int) -> Bulk:
    """Steps 1 and 4 at the helper, for the masks R (pairs * numbers,) of the differences."""
    digits, count = width // 4, pairs * numbers // 64

    def deal() -> dict[str, Bulk]:
        r = masks()
        thermometer(r, digits, 3, dealt.target("tables"))
        xor_bits(r, width - 1, dealt.target("msb"))
        return {}

    dealt.bind(deal)()
    combine_digits(me, None, count, digits, "sign tree")
    return hollow((pairs, numbers // 64))


def find_signs(me: Party, dealt: Dealt, c: Bulk, pairs: int, numbers: int, width: int) -> Bulk:
    """Steps 3 to 5 at a data party, where c (pairs * numbers,) is open."""
    digits, count = width // 4, pairs * numbers // 64
    found = np.empty((2 * digits, count), np.uint64)
    lookup(c, dealt.bound("tables"), digits, 3, np.uint64(me.lead), found[:digits], found[digits:])
    sign = combine_digits(me, found, count, digits, "sign tree") ^ dealt.bound("msb")
    if me.lead:
        xor_bits(c, width - 1, sign)
    return sign.reshape(pairs, numbers // 64)
