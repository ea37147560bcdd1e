"""The sign of shared numbers by one-time tables (docs/protocols/onetime.md#sign)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.onetime.bits import Terms, bit_factors, bit_products, products_of
from coterie.protocols.onetime.kernels import lookup, masked_difference, thermometer, words_to_bits
from coterie.randomness import Dealt
from coterie.randomness.material import Bits, Material, Piece, Tables, Unpacked, declared
from coterie.ring import Bulk
from coterie.sharing import Party, hollow, start_opening
from coterie.transport import metered

__all__ = ["deal_signs", "find_signs", "sign_material", "sign_pieces", "signs_of_differences", "tree_of"]

FAN_IN = 4


class Level(NamedTuple):
    """One level of the tree that combines digits: which rows of "less" and "equal" enter the products, and
    for each group its highest digit, the products to add to that digit's "less", and the one that is "equal"."""

    less: list[int]
    equal: list[int]
    terms: Terms | None
    groups: list[tuple[int, list[int], int | None]]


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
        less: list[int] = []
        equal: list[int] = []
        wanted: list[tuple[tuple[str, int], ...]] = []
        outcome: list[tuple[int, list[int], int | None]] = []
        for low, high in pairwise(edges):
            top, added = high - 1, []
            for l in reversed(range(low, top)):
                added.append(len(wanted))
                wanted.append((*(("equal", m) for m in range(top, l, -1)), ("less", l)))
            same = None
            if low > 0:
                same = len(wanted)
                wanted.append(tuple(("equal", m) for m in range(top, low - 1, -1)))
            outcome.append((top, added, same))
        for term in wanted:
            for kind, l in term:
                rows = less if kind == "less" else equal
                if l not in rows:
                    rows.append(l)
        variables = [*(("less", l) for l in less), *(("equal", l) for l in equal)]
        place = {variable: row for row, variable in enumerate(variables)}
        terms = products_of(len(variables), tuple(bit_factors([place[v] for v in term]) for term in wanted))
        levels.append(Level(less, equal, terms, outcome))
        digits = groups
    return levels


def combine_digits(me: Party, less: Bulk | None, equal: Bulk | None, count: int, digits: int, purpose: str) -> Bulk:
    """<is the whole less> from <less> and <equal> of each digit, (digits, count) words; a round a level."""
    for level in tree_of(digits):
        assert level.terms is not None
        if me.deals:
            bit_products(me, None, count, level.terms, purpose)()
            continue
        assert less is not None
        assert equal is not None
        rows = np.concatenate([less[level.less], equal[level.equal]])
        products = bit_products(me, rows, count, level.terms, purpose)()
        new_less, new_equal = np.empty((2, len(level.groups), count), np.uint64)
        for g, (top, added, same) in enumerate(level.groups):
            new_less[g] = less[top]
            for t in added:
                new_less[g] ^= products[t]
            if same is not None:
                new_equal[g] = products[same]
        less, equal = new_less, new_equal
    return np.empty(0, np.uint64) if less is None else less[0]


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
        r, msb = masks(), np.empty(count, np.uint64)
        thermometer(r, digits, 3, dealt.target("tables"))
        words_to_bits(r, width - 1, msb)
        return {"msb": msb}

    dealt.bind(deal)()
    combine_digits(me, None, None, count, digits, "sign tree")
    return hollow((pairs, numbers // 64))


def find_signs(me: Party, dealt: Dealt, c: Bulk, pairs: int, numbers: int, width: int) -> Bulk:
    """Steps 3 to 5 at a data party, where c (pairs * numbers,) is open."""
    digits, count = width // 4, pairs * numbers // 64
    less, equal = np.empty((2, digits, count), np.uint64)
    lookup(c, dealt.bound("tables"), digits, 3, np.uint64(me.lead), less, equal)
    sign = combine_digits(me, less, equal, count, digits, "sign tree") ^ dealt.bound("msb")
    if me.lead:
        c_msb = np.empty(count, np.uint64)
        words_to_bits(c, width - 1, c_msb)
        sign ^= c_msb
    return sign.reshape(pairs, numbers // 64)
