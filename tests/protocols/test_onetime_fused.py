"""Kernels that do the arithmetic of a step in one pass, beside the same in numpy."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from coterie.protocols.onetime.bits import ONES, BitFactor, pack_rows, padded, products_of, unpack_rows
from coterie.protocols.onetime.fused import (
    add_row_products,
    deal_mean,
    deal_truncation,
    digits_below,
    finish_mean,
    finish_truncation,
    fold_products,
    mark_places,
    put_rows,
    row_products,
    take_masked,
    xor_bits,
    xor_lookups,
)
from coterie.protocols.onetime.means import borrow_terms, reciprocal_table, table_bits
from coterie.protocols.onetime.sign import tree_of

ONE = np.uint64(1)
LENGTHS = (1, 7, 255, 257, 600)
LEADS = [False, True]


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.fixture
def words(random):
    return lambda *shape: random.integers(0, 1 << 64, shape, dtype=np.uint64)


def low(width: int) -> np.uint64:
    return np.uint64((1 << width) - 1)


def same(found, expected):
    np.testing.assert_array_equal(found, np.asarray(expected, np.uint64))


# -- rows of bits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_are_taken_under_masks(words, n):
    x, masks, rows = words(5, n), words(4, n), np.array([3, 0, 3, 4])
    out = np.empty((4, n), np.uint64)
    take_masked(x, rows, masks, out)
    same(out, x[rows] ^ masks)


@pytest.mark.parametrize("lead", LEADS)
def test_rows_of_two_arrays_are_put_in_places(words, lead):
    first, second, out = words(3, 9), words(2, 9), words(5, 9)
    rows, flips, places = np.array([4, 0, 2]), np.array([0, ONES, ONES], np.uint64), np.array([1, 4, 0])
    expected = out.copy()
    expected[places] = np.concatenate([first, second])[rows] ^ (flips[:, None] if lead else np.uint64(0))
    put_rows(first, second, rows, flips, places, ONES if lead else np.uint64(0), out)
    same(out, expected)


def test_of_an_array_without_rows_nothing_is_put(words):
    first, out = words(2, 3), np.zeros((2, 3), np.uint64)
    put_rows(first, first[:0], np.array([1, 0]), np.zeros(2, np.uint64), np.arange(2), ONES, out)
    same(out, first[::-1])


@pytest.mark.parametrize("bit", [0, 39, 63])
def test_a_bit_of_every_word_is_added(words, bit):
    x, out = words(3 * 64), words(3)
    expected = out ^ pack_rows(((x >> np.uint64(bit)) & ONE).reshape(1, -1), 3)[0]
    xor_bits(x, bit, out)
    same(out, expected)


def and_of(rows):
    return np.bitwise_and.reduce(rows, axis=0)


def products_of_masks(masks, terms):
    return [and_of(masks[members[:degree]]) for members, degree in zip(terms.members, terms.degrees, strict=True)]


@pytest.mark.parametrize("n", LENGTHS)
def test_products_are_folded_and_added_where_they_belong(words, n):
    """At one who holds everything, and at two whose shares add up to it."""
    literals = ((0,), (1, 2), (0, 2, 3), (3, 2, 1, 0), (2, 0))
    negated = {(1, 0), (3, 2)}  # term, place
    terms = products_of(
        4, tuple(tuple(BitFactor(r, (t, i) in negated) for i, r in enumerate(term)) for t, term in enumerate(literals))
    )
    x, masks, base, tops, target = words(4, n), words(4, n), words(3, n), np.array([2, 0]), np.array([0, 2, 2, 1, 3])
    products = np.array(products_of_masks(masks, terms))
    expected = np.concatenate([base[tops], np.zeros((2, n), np.uint64)])
    for t, term in enumerate(literals):
        expected[target[t]] ^= and_of(np.array([x[r] ^ (ONES * ((t, i) in negated)) for i, r in enumerate(term)]))
    given = terms.rows, terms.negated, terms.index, terms.sizes
    out = words(4, n)
    fold_products(x ^ masks, masks, products, *given, ONES, base, tops, target, out)
    same(out, expected)
    of_masks, of_products, of_base, rest = words(*masks.shape), words(*products.shape), words(*base.shape), words(4, n)
    fold_products(x ^ masks, of_masks, of_products, *given, ONES, of_base, tops, target, out)
    others = masks ^ of_masks, products ^ of_products
    fold_products(x ^ masks, *others, *given, np.uint64(0), base ^ of_base, tops, target, rest)
    same(out ^ rest, expected)


@pytest.mark.parametrize("digits", range(1, 17))
def test_the_tree_of_digits_combines_them(random, digits):
    """In the clear: every level's products, added to the rows that it names, tell whether the whole is less."""
    a, b = random.integers(0, 3, (2, digits, 500))
    expected = [x < y for x, y in zip(a[::-1].T.tolist(), b[::-1].T.tolist(), strict=True)]  # the highest digit first
    rows = np.concatenate([a < b, a == b])
    for level in tree_of(digits):
        chosen, terms = rows[level.rows], level.terms
        assert len(chosen) == terms.variables
        rows = np.concatenate([rows[level.tops], np.zeros((len(level.tops), 500), np.bool_)])
        for t in range(terms.count):
            rows[level.target[t]] ^= and_of(chosen[terms.rows[t, : terms.sizes[t]]])
    assert rows[0].tolist() == expected


# -- centres -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (2, 40)])
def test_products_of_rows(words, shape):
    x, y, out = words(*shape), words(*shape), words(shape[0])
    row_products(x, y, out)
    same(out, (x * y).sum(axis=1, dtype=np.uint64))


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (2, 40)])
def test_products_of_masked_rows_are_added(words, shape, lead):
    f, b, f2, b2, out = words(*shape), words(*shape), words(*shape), words(*shape), words(shape[0])
    expected = out + (f * b2 + f2 * b + np.uint64(lead) * f * f2).sum(axis=1, dtype=np.uint64)
    add_row_products(f, b, f2, b2, np.uint64(lead), out)
    same(out, expected)


# -- means -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [5, 63, 64, 400])
def test_places_are_marked_and_looked_up(words, rows):
    """t = 0, all t, and every place of the mask; what is dealt falls out, whatever it is."""
    size, table = 1 << table_bits(rows), reciprocal_table(rows, 20)
    t, s = np.meshgrid(np.array([0, 1, rows // 2, rows]), np.arange(size, dtype=np.uint64))
    t, s = t.reshape(-1).astype(np.uint64), s.reshape(-1)
    share = words(len(s), size // 64)
    other = share.copy()
    mark_places(s, other)
    clear = unpack_rows(share ^ other, size)
    assert (clear.sum(axis=1) == 1).all()
    assert (clear.argmax(axis=1) == s).all()
    places, found = (t + s) & low(size.bit_length() - 1), np.empty((2, len(s)), np.uint64)
    xor_lookups(share, places, table, found[0])
    xor_lookups(other, places, table, found[1])
    same(found[0] ^ found[1], table[t])
    v = np.arange(size)
    for j in range(0, len(s), 37):
        chosen = table[(int(places[j]) - v[unpack_rows(share[j : j + 1], size)[0] == 1]) % size]
        assert found[0, j] == np.bitwise_xor.reduce(chosen)


def mean_in_numpy(beta, c, rho, r, top, r_rho, top_rho, rho_b, f, b, u, mask, lead):
    places = np.arange(rho.shape[1], dtype=np.uint64)
    bits = (beta[:, None] >> places) & ONE
    sign = ONE - bits - bits
    kappa, known = (sign << places)[:, :-1], (bits << places)[:, :-1].sum(axis=1, dtype=np.uint64)[:, None]
    q = lead * known + (kappa * rho[:, :-1]).sum(axis=1, dtype=np.uint64)[:, None]
    r_q = known * r + (kappa[:, None] * r_rho).sum(axis=2, dtype=np.uint64)
    top_q = known * top + (kappa[:, None] * top_rho).sum(axis=2, dtype=np.uint64)
    unwrapped = np.where(c >> np.uint64(u - 1), np.uint64(0), np.uint64((1 << u) % (1 << 64)))
    kept = bits[:, -1:] * (lead * f + b) + sign[:, -1:] * (f * rho[:, -1:] + rho_b)
    return ((c - np.uint64(1 << (u - 2))) * q - r_q + unwrapped * top_q + (kept << places[-2])) & mask


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize(("k", "d", "g", "u", "w"), [(4, 3, 36, 40, 64), (1, 1, 1, 4, 6), (3, 20, 62, 64, 64)])
def test_the_end_of_a_mean(words, k, d, g, u, w, lead):
    cells = [words(k, d) for _ in range(4)]
    c = words(k, d) & low(u)
    c[0, 0] = 0
    shares = (words(k, g + 2), *cells[:2], words(k, d, g + 1), words(k, d, g + 1), words(k, d), *cells[2:])
    given, out = (words(k), c, *shares, u, low(w), np.uint64(lead)), np.empty((k, d), np.uint64)
    finish_mean(*given, out)
    same(out, mean_in_numpy(*given))


@pytest.mark.parametrize(("k", "d", "g", "u"), [(4, 3, 36, 40), (1, 1, 1, 4), (3, 20, 62, 64)])
def test_what_is_dealt_for_a_mean(words, k, d, g, u):
    rho, r, b = words(k), words(k, d) & low(u), words(k, d)
    top, bits, rho_b = words(k, d), words(k, g + 2), words(k, d)
    r_rho, top_rho = words(k, d, g + 1), words(k, d, g + 1)
    deal_mean(rho, r, b, u, top, bits, r_rho, top_rho, rho_b)
    same(bits, (rho[:, None] >> np.arange(g + 2, dtype=np.uint64)) & ONE)
    same(top, r >> np.uint64(u - 1))
    same(rho_b, bits[:, -1:] * b)
    same(r_rho, r[:, :, None] * bits[:, None, :-1])
    same(top_rho, top[:, :, None] * bits[:, None, :-1])


@pytest.mark.parametrize(("u", "w", "g"), [(6, 12, 2), (64, 64, 20)])
def test_a_mean_at_one_who_holds_everything(random, words, u, w, g):
    """T q + 2^g [t = 0] C: zero counts, the least and the largest sums among them."""
    limit = 1 << (u - 2)
    sums = np.array([[-limit + 1, limit - 1, 0, -1, 1], *random.integers(-limit + 1, limit, (5, 5))])
    q, flag = random.integers(0, 2 << g, 6).astype(np.uint64), np.array([0, 1, 0, 1, 1, 0], np.uint64)
    rho, r, b, f = words(6), words(6, 5) & low(u), words(6, 5), words(6, 5)
    top, bits, rho_b = np.empty((6, 5), np.uint64), np.empty((6, g + 2), np.uint64), np.empty((6, 5), np.uint64)
    r_rho, top_rho, out = *np.empty((2, 6, 5, g + 1), np.uint64), np.empty((6, 5), np.uint64)
    deal_mean(rho, r, b, u, top, bits, r_rho, top_rho, rho_b)
    beta, c = (q | flag << np.uint64(g + 1)) ^ rho, (sums.astype(np.uint64) + np.uint64(limit) + r) & low(u)
    finish_mean(beta, c, bits, r, top, r_rho, top_rho, rho_b, f, b, u, low(w), ONE, out)
    expected = sums.astype(np.uint64) * q[:, None] + ((flag[:, None] * (f + b)) << np.uint64(g))
    same(out, expected & low(w))


# -- truncation --------------------------------------------------------------------------------------------------------

SHAPES = [(w, g, count) for w in (5, 6, 16, 33, 64) for g in {1, 2, w // 2, w - 3} for count in (1, 63, 64, 130)]


def thermometers(r, g):
    """Bits (count, digits, 256): [v < digit]."""
    shifts = 8 * np.arange(-(-g // 8), dtype=np.uint64)
    digits = (((r & low(g))[:, None] >> shifts) & np.uint64(255)).astype(np.int64)
    return np.arange(256) < digits[..., None], digits


def packed(bits):
    return np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)


@pytest.mark.parametrize(("w", "g", "count"), SHAPES)
def test_what_is_dealt_for_a_truncation(words, w, g, count):
    terms, r, tables = borrow_terms(-(-g // 8)), words(count) & low(w), words(count, -(-g // 8), 4)
    r[0] = 0
    masks, high, top = words(terms.variables, padded(count) // 64), words(count), words(count)
    products, before = words(terms.variables + terms.monomials, count), tables.copy()
    deal_truncation(r, masks, terms.members, terms.degrees, g, w, high, top, tables, products)
    same(high, r >> np.uint64(g))
    same(top, r >> np.uint64(w - 1))
    same(tables ^ before, packed(thermometers(r, g)[0]))
    singles = unpack_rows(masks, count)
    same(products, [*singles, *products_of_masks(singles, terms)])


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize(("w", "g", "count"), SHAPES)
def test_digits_are_looked_up(words, w, g, count, lead):
    digits = -(-g // 8)
    c, tables, masks = words(count) & low(w), words(count, digits, 4), words(2 * digits - 1, padded(count) // 64)
    c[0] = 0
    out = np.empty_like(masks)
    digits_below(c, tables, g, np.uint64(lead), masks, out)
    clear, v = np.unpackbits(tables.view(np.uint8), axis=-1, bitorder="little"), thermometers(c, g)[1]
    with_first = np.concatenate([np.full((count, digits, 1), lead, np.uint8), clear], axis=-1)  # G_(-1), G_0, ...
    before, less = (np.take_along_axis(with_first, (v + i)[..., None], axis=-1)[..., 0].T for i in (0, 1))
    same(out, pack_rows(np.concatenate([less, (less ^ before)[1:]]), masks.shape[1]) ^ masks)


def truncation_in_numpy(c, opened, products, high, top, terms, g, w, lead):
    """Each product multiplied out: the sum over the subsets S of its bits of [the product of the masks in S], times
    (1 - 2 D) for the bits in S and D for the others."""
    bits = unpack_rows(opened, len(c)).astype(np.uint64)
    borrow = np.zeros(len(c), np.uint64)
    for t in range(terms.count):
        for chosen in product((0, 1), repeat=int(terms.sizes[t])):
            subset = sum(bit << i for i, bit in enumerate(chosen))
            share = products[terms.index[t, subset]] if subset else np.full(len(c), lead)
            factors = [bits[terms.rows[t, i]] for i in range(len(chosen))]
            borrow += share * prod(ONE - d - d if bit else d for d, bit in zip(factors, chosen, strict=True))
    wrap = (ONE - (c >> np.uint64(w - 1))) * top
    share = (wrap << np.uint64(w - g)) - high - borrow
    return (share + lead * ((c >> np.uint64(g)) - np.uint64(1 << (w - 2 - g)))) & low(w)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize(("w", "g", "count"), SHAPES)
def test_the_end_of_a_truncation(words, w, g, count, lead):
    terms, c, high, top = borrow_terms(-(-g // 8)), words(count) & low(w), words(count), words(count)
    c[0] = 0
    opened, products = words(terms.variables, padded(count) // 64), words(terms.variables + terms.monomials, count)
    out = np.empty(count, np.uint64)
    given = terms.rows, terms.index, terms.sizes, g, w, np.uint64(lead), out
    finish_truncation(c, opened, products, high, top, *given)
    same(out, truncation_in_numpy(c, opened, products, high, top, terms, g, w, np.uint64(lead)))


@pytest.mark.parametrize(("w", "g"), sorted({(w, g) for w, g, _ in SHAPES}))
def test_a_truncation_at_one_who_holds_everything(random, words, w, g):
    """The least number, the largest, and those beside which the rounding turns."""
    quarter, half, terms = 1 << (w - 2), 1 << (g - 1), borrow_terms(-(-g // 8))
    edges = [-quarter, quarter - half - 1, 0, -1, half - 1, half, -half, -half - 1]
    x = np.array([v for v in edges if -quarter <= v < quarter - half] * 20)
    r, masks = words(len(x)) & low(w), words(terms.variables, padded(len(x)) // 64)
    high, top = np.empty((2, len(x)), np.uint64)
    tables = np.zeros((len(x), -(-g // 8), 4), np.uint64)
    products, out = np.empty((terms.variables + terms.monomials, len(x)), np.uint64), np.empty(len(x), np.uint64)
    deal_truncation(r, masks, terms.members, terms.degrees, g, w, high, top, tables, products)
    c, opened = (x.astype(np.uint64) + np.uint64(quarter + half) + r) & low(w), np.empty_like(masks)
    digits_below(c, tables, g, ONE, masks, opened)
    finish_truncation(c, opened, products, high, top, terms.rows, terms.index, terms.sizes, g, w, ONE, out)
    same(out, ((x + half) >> g).astype(np.uint64) & low(w))
