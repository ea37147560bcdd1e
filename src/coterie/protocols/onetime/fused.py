"""Compiled arithmetic of small steps of `onetime`: all that a role does between two messages, in one pass.

At few rows a step on k d numbers takes as long as the calls that it makes, so that one call does for many. Bits of many
numbers are 64 a word, as in `kernels.py`. Words are over Z_2^w; w, or 2^w - 1, is an argument.
"""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import njit, read_only, types

__all__ = [
    "add_row_products",
    "deal_mean",
    "deal_truncation",
    "digits_below",
    "finish_mean",
    "finish_truncation",
    "fold_products",
    "mark_places",
    "put_rows",
    "row_products",
    "take_masked",
    "xor_bits",
    "xor_lookups",
]

_w1, _w2, _w3 = (read_only(types.uint64, dimensions) for dimensions in (1, 2, 3))
_i1, _i2 = read_only(types.int64, 1), read_only(types.int64, 2)
_W1, _W2, _W3 = types.uint64[::1], types.uint64[:, ::1], types.uint64[:, :, ::1]
_u8, _i8 = types.uint64, types.int64
_ONE = np.uint64(1)


# -- rows of bits ------------------------------------------------------------------------------------------------------


@njit(types.void(_w2, _i1, _w2, _W2), cache=True, nogil=True)
def take_masked(x, rows, masks, out):
    """out[v] = x[rows[v]] XOR masks[v]."""
    for v in range(rows.shape[0]):
        source, mask, result = x[rows[v]], masks[v], out[v]
        for i in range(result.shape[0]):
            result[i] = source[i] ^ mask[i]


@njit(types.void(_w2, _w2, _i1, _w1, _i1, _u8, _W2), cache=True, nogil=True)
def put_rows(first, second, rows, flips, places, lead, out):
    """out[places[i]] = row rows[i] of `first` and `second`, one behind the other, XOR flips[i] at P1, where `lead` is
    all ones."""
    for i in range(rows.shape[0]):
        row, flip, result = rows[i], flips[i] & lead, out[places[i]]
        source = first[row] if row < first.shape[0] else second[row - first.shape[0]]
        for v in range(result.shape[0]):
            result[v] = source[v] ^ flip


@njit(types.void(_w2, _w2, _w2, _i2, _w2, _i2, _i1, _u8, _w2, _i1, _i1, _W2), cache=True, nogil=True)
def fold_products(opened, masks, products, variables, negated, index, sizes, lead, x, tops, target, out):
    """out[g] = x[tops[g]], or zero where there is none, XOR the shares of all products t with target[t] = g.

    Product t is of the bits x_v (or their complements, where `negated` is all ones), v in variables[t], from
    opened[v] = x_v XOR a_v. index[t, S] is the row of the share of the product of the masks in subset S of the
    variables: among the masks or, counted on from there, among the products. `lead` is all ones at P1.
    Folding away one variable at a time: f[S without i] = opened_i f[S] XOR f[S with i].
    """
    words = opened.shape[1]
    largest = 1
    for t in range(sizes.shape[0]):
        largest = max(largest, 1 << sizes[t])
    f = np.empty((largest, 256), np.uint64)
    for start in range(0, words, 256):
        count = min(256, words - start)
        for g in range(out.shape[0]):
            result = out[g, start : start + count]
            if g < tops.shape[0]:
                top = x[tops[g], start : start + count]
                for v in range(count):
                    result[v] = top[v]
            else:
                for v in range(count):
                    result[v] = np.uint64(0)
        for t in range(sizes.shape[0]):
            for v in range(count):
                f[0, v] = lead
            for s in range(1, 1 << sizes[t]):
                row, share = index[t, s], f[s]
                if row < masks.shape[0]:
                    source = masks[row, start : start + count]
                else:
                    source = products[row - masks.shape[0], start : start + count]
                for v in range(count):
                    share[v] = source[v]
            for i in range(sizes[t] - 1, -1, -1):
                half = 1 << i
                bit, flip = opened[variables[t, i], start : start + count], negated[t, i]
                for s in range(half):
                    low, high = f[s], f[s + half]
                    for v in range(count):
                        low[v] = ((bit[v] ^ flip) & low[v]) ^ high[v]
            result = out[target[t], start : start + count]
            for v in range(count):
                result[v] ^= f[0, v]


@njit(types.void(_w1, _i8, _W1), cache=True, nogil=True)
def xor_bits(words, bit, out):
    """out ^= the given bit of every word, 64 a word."""
    for v in range(out.shape[0]):
        total = np.uint64(0)
        for i in range(64):
            total |= ((words[64 * v + i] >> np.uint64(bit)) & _ONE) << np.uint64(i)
        out[v] ^= total


# -- centres -----------------------------------------------------------------------------------------------------------


@njit(types.void(_w2, _w2, _W1), cache=True, nogil=True)
def row_products(x, y, out):
    """out[j] = sum over l of x[j, l] y[j, l]."""
    for j in range(out.shape[0]):
        total = np.uint64(0)
        for l in range(x.shape[1]):
            total += x[j, l] * y[j, l]
        out[j] = total


@njit(types.void(_w2, _w2, _w2, _w2, _u8, _W1), cache=True, nogil=True)
def add_row_products(f, b, f2, b2, lead, out):
    """out[j] += share of sum over l of (f + b) (f2 + b2) less b b2, where f and f2 are open and b and b2 shares; `lead`
    is 1 at P1."""
    for j in range(out.shape[0]):
        total = np.uint64(0)
        for l in range(f.shape[1]):
            total += f[j, l] * (b2[j, l] + lead * f2[j, l]) + f2[j, l] * b[j, l]
        out[j] += total


# -- means -------------------------------------------------------------------------------------------------------------


@njit(types.void(_w1, _W2), cache=True, nogil=True)
def mark_places(places, out):
    """XOR a 1 into each row of bits, at its place."""
    for j in range(places.shape[0]):
        place = places[j]
        out[j, np.int64(place >> np.uint64(6))] ^= _ONE << (place & np.uint64(63))


@njit(types.void(_w2, _w1, _w1, _W1), cache=True, nogil=True)
def xor_lookups(bits, places, values, out):
    """out[j] = the XOR of values[(places[j] - v) mod size] over the v whose bit in bits[j] is 1; a row of `bits` holds
    64 a word, `values` a power of two of them, at least 64."""
    size = values.shape[0]
    for j in range(out.shape[0]):
        total, place = np.uint64(0), np.int64(places[j])
        for word in range(bits.shape[1]):
            left = bits[j, word]
            top = (place - 64 * word) & (size - 1)
            if top >= 63:  # the 64 values lie in one piece, backwards
                piece = values[top - 63 : top + 1]
                for i in range(64):
                    keep = np.uint64(0) - ((left >> np.uint64(63 - i)) & _ONE)
                    total ^= piece[i] & keep
            else:
                for i in range(64):
                    keep = np.uint64(0) - ((left >> np.uint64(i)) & _ONE)
                    total ^= values[(top - i) & (size - 1)] & keep
        out[j] = total


@njit(types.void(_w1, _w2, _w2, _i8, _W2, _W2, _W3, _W3, _W2), cache=True, nogil=True)
def deal_mean(rho, r, b, u, top, words, r_rho, top_rho, rho_b):
    """What the dealer makes for `finish_mean`, of the masks rho (k,), r (k, d) of u bits, and b (k, d) of the old
    centres: the top bit of r, the bits of rho (k, g + 2), the products of r and of its top with all bits of rho but the
    last, which is the flag, and that of b with the flag."""
    (k, d), count = r.shape, words.shape[1]
    for j in range(k):
        for i in range(count):
            words[j, i] = (rho[j] >> np.uint64(i)) & _ONE
        flag = words[j, count - 1]
        for l in range(d):
            value, high = r[j, l], r[j, l] >> np.uint64(u - 1)
            top[j, l] = high
            rho_b[j, l] = flag * b[j, l]
            for i in range(count - 1):
                r_rho[j, l, i] = value * words[j, i]
                top_rho[j, l, i] = high * words[j, i]


@njit(types.void(_w1, _w2, _w2, _w2, _w2, _w3, _w3, _w2, _w2, _w2, _i8, _u8, _u8, _W2), cache=True, nogil=True)
def finish_mean(beta, c, rho, r, top, r_rho, top_rho, rho_b, f, b, u, mask, lead, out):
    """out = share of T q + 2^g [t = 0] C_old over Z_(mask + 1), steps 3 and 4 of `mean_times_power`.

    Open: beta = q XOR rho, with the flag above q's g + 1 bits; c = T + 2^(u-2) + r modulo 2^u; f = C_old - B. Shares:
    of rho's bits (k, g + 2), of r, of its top bit, of the products of both with the bits (k, d, g + 1), of rho_flag B,
    and of B.
    """
    (k, d), g = c.shape, rho.shape[1] - 2
    offset = _ONE << np.uint64(u - 2)
    kappa = np.empty(g + 1, np.uint64)  # 2^i (1 - 2 beta_i)
    for j in range(k):
        known, q = np.uint64(0), np.uint64(0)  # the sum of 2^i beta_i, and q's share
        for i in range(g + 1):
            bit, shift = (beta[j] >> np.uint64(i)) & _ONE, np.uint64(i)
            kappa[i] = (_ONE - bit - bit) << shift
            known += bit << shift
            q += kappa[i] * rho[j, i]
        q += lead * known
        flag = (beta[j] >> np.uint64(g + 1)) & _ONE
        flip, flag_share = _ONE - flag - flag, rho[j, g + 1]
        for l in range(d):
            r_q, top_q = known * r[j, l], known * top[j, l]
            for i in range(g + 1):
                r_q += kappa[i] * r_rho[j, l, i]
                top_q += kappa[i] * top_rho[j, l, i]
            opened, old = c[j, l], f[j, l]
            unwrapped = ((_ONE - (opened >> np.uint64(u - 1))) << np.uint64(u - 1)) << _ONE  # u may be 64
            product = (opened - offset) * q - r_q + unwrapped * top_q
            kept = flag * (lead * old + b[j, l]) + flip * (old * flag_share + rho_b[j, l])
            out[j, l] = (product + (kept << np.uint64(g))) & mask


# -- truncation --------------------------------------------------------------------------------------------------------


@njit(types.void(_w1, _w2, _i2, _i1, _i8, _i8, _W1, _W1, _W3, _W2), cache=True, nogil=True)
def deal_truncation(r, masks, members, degrees, g, w, high, top, tables, products):
    """What the dealer makes for `digits_below` and `finish_truncation`.

    Of r: what is above g, the top bit, and XORed into `tables`, for each 8-bit digit below g, 256 bits [v < digit]. Of
    the masks, which are 64 a word, `products` as words: each mask, and then the product of the masks in each
    members[m, :degrees[m]].
    """
    count, variables = r.shape[0], masks.shape[0]
    low = (_ONE << np.uint64(g)) - _ONE
    for i in range(count):
        high[i] = r[i] >> np.uint64(g)
        top[i] = r[i] >> np.uint64(w - 1)
        for l in range(tables.shape[1]):
            digit = ((r[i] & low) >> np.uint64(8 * l)) & np.uint64(255)
            whole = np.int64(digit >> np.uint64(6))
            for word in range(whole):
                tables[i, l, word] ^= ~np.uint64(0)
            tables[i, l, whole] ^= (_ONE << (digit & np.uint64(63))) - _ONE
    for v in range(variables):
        for i in range(count):
            products[v, i] = (masks[v, i >> 6] >> np.uint64(i & 63)) & _ONE
    for m in range(members.shape[0]):
        result = products[variables + m]
        result[:] = products[members[m, 0]]
        for t in range(1, degrees[m]):
            factor = products[members[m, t]]
            for i in range(count):
                result[i] &= factor[i]


@njit(types.void(_w1, _w3, _i8, _u8, _w2, _W2), cache=True, nogil=True)
def digits_below(c, tables, g, lead, masks, out):
    """At the 8-bit digits v of c mod 2^g: rows of less = G_v, then from the second digit on of equal = G_(v-1) XOR G_v,
    with G_(-1) = 1 at P1; 64 a word, XOR the masks."""
    digits, low = tables.shape[1], (_ONE << np.uint64(g)) - _ONE
    out[:] = masks
    for i in range(c.shape[0]):
        word, place = i >> 6, np.uint64(i & 63)
        for l in range(digits):
            v = ((c[i] & low) >> np.uint64(8 * l)) & np.uint64(255)
            less = (tables[i, l, np.int64(v >> np.uint64(6))] >> (v & np.uint64(63))) & _ONE
            out[l, word] ^= less << place
            if l > 0:
                before = lead
                if v > 0:
                    v -= _ONE
                    before = (tables[i, l, np.int64(v >> np.uint64(6))] >> (v & np.uint64(63))) & _ONE
                out[digits + l - 1, word] ^= (less ^ before) << place


@njit(types.void(_w1, _w2, _w2, _w1, _w1, _i2, _i2, _i1, _i8, _i8, _u8, _W1), cache=True, nogil=True)
def finish_truncation(c, opened, products, high, top, variables, index, sizes, g, w, lead, out):
    """out = share of (y >> g) - 2^(w-2-g) over Z_2^w: (c >> g) - [high] - [borrow] + 2^(w-g) (1 - c_top) [top], less
    2^(w-2-g). The borrow is the sum of the products t of the bits variables[t], from opened = the bits XOR masks, 64 a
    word, and shares of the products of masks as words, index[t, S] for the subset S.

    Folding away one variable at a time: f[S without i] = D_i f[S] + (1 - 2 D_i) f[S with i].
    """
    mask = ~np.uint64(0) >> np.uint64(64 - w)
    f = np.empty((1 << sizes.max(), 64), np.uint64)
    for word in range(opened.shape[1]):
        start = 64 * word
        count = min(64, c.shape[0] - start)
        for n in range(count):
            value = c[start + n]
            wrap = (_ONE - (value >> np.uint64(w - 1))) * top[start + n]
            total = (wrap << np.uint64(w - g)) - high[start + n]
            out[start + n] = total + lead * ((value >> np.uint64(g)) - (_ONE << np.uint64(w - 2 - g)))
        for t in range(sizes.shape[0]):
            f[0, :count] = lead
            for s in range(1, 1 << sizes[t]):
                source, target = products[index[t, s]], f[s]
                for n in range(count):
                    target[n] = source[start + n]
            for i in range(sizes[t] - 1, -1, -1):
                bits, half = opened[variables[t, i], word], 1 << i
                for s in range(half):
                    without, with_i = f[s], f[s + half]
                    for n in range(count):
                        bit = (bits >> np.uint64(n)) & _ONE
                        without[n] = bit * without[n] + (_ONE - bit - bit) * with_i[n]
            for n in range(count):
                out[start + n] -= f[0, n]
        for n in range(count):
            out[start + n] &= mask
