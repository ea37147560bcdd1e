"""Compiled loops of `onetime`, over bits of many numbers at once: 64 rows a word.

A bit of N numbers is an array of N / 64 words (bit i of word v belongs to number 64 v + i), so that one machine
instruction works on 64 numbers.
"""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import njit, read_only, types

__all__ = [
    "add_chosen",
    "bits_to_words",
    "deal_chosen",
    "differences",
    "fold_products",
    "lookup",
    "masked_difference",
    "select_by_bits",
    "spread",
    "thermometer",
    "two_products",
    "two_sums",
    "words_to_bits",
    "xor_lookup",
    "xor_products",
]

_w1, _w2 = read_only(types.uint64, 1), read_only(types.uint64, 2)
_s2, _i1, _i2 = read_only(types.uint16, 2), read_only(types.int64, 1), read_only(types.int64, 2)
_W1, _W2, _S2 = types.uint64[::1], types.uint64[:, ::1], types.uint16[:, ::1]
_u8, _i8 = types.uint64, types.int64


@njit(types.void(_w2, _i1, _i1, _w1, _u8, _W1), cache=True, nogil=True)
def masked_difference(z, left, right, r, mask, out):
    """out = z[right] - z[left] + r for each pair, over Z_(mask + 1); z (nodes, N), r and out (pairs * N)."""
    count = z.shape[1]
    for t in range(left.shape[0]):
        low, high = z[left[t]], z[right[t]]
        blind, result = r[t * count : (t + 1) * count], out[t * count : (t + 1) * count]
        for i in range(count):
            result[i] = (high[i] - low[i] + blind[i]) & mask


@njit(types.void(_w2, _i1, _i1, _u8, _W1), cache=True, nogil=True)
def differences(z, left, right, mask, out):
    """out = z[right] - z[left] for each pair, over Z_(mask + 1); z (nodes, N), out (pairs * N)."""
    count = z.shape[1]
    for t in range(left.shape[0]):
        low, high, result = z[left[t]], z[right[t]], out[t * count : (t + 1) * count]
        for i in range(count):
            result[i] = (high[i] - low[i]) & mask


@njit(types.void(_w1, _i8, _i8, _S2), cache=True, nogil=True)
def thermometer(r, digits, top, tables):
    """XOR into tables[l, i] the table of the l-th 4-bit digit of r[i]: bit v is [v < digit], v = 0..15.

    The highest of the digits counts with `top` bits only.
    """
    count = r.shape[0]
    for l in range(digits):
        keep = np.uint64(15) if l < digits - 1 else np.uint64((1 << top) - 1)
        shift = np.uint64(4 * l)
        for i in range(count):
            digit = (r[i] >> shift) & keep
            tables[l, i] ^= np.uint16((np.uint64(1) << digit) - np.uint64(1))


@njit(types.void(_w1, _s2, _i8, _i8, _u8, _W2, _W2), cache=True, nogil=True)
def lookup(c, tables, digits, top, lead, less, equal):
    """At the public digits v of c: less[l] = G_v and equal[l] = G_(v-1) XOR G_v, with G_(-1) = 1 at P1."""
    words = less.shape[1]
    bits_less = np.empty(64, np.uint64)
    bits_equal = np.empty(64, np.uint64)
    for l in range(digits):
        keep = np.uint64(15) if l < digits - 1 else np.uint64((1 << top) - 1)
        shift = np.uint64(4 * l)
        for v in range(words):
            base = 64 * v
            for i in range(64):
                table = (np.uint64(tables[l, base + i]) << np.uint64(1)) | lead
                found = table >> ((c[base + i] >> shift) & keep)
                bits_equal[i] = (found ^ (found >> np.uint64(1))) & np.uint64(1)
                bits_less[i] = (found >> np.uint64(1)) & np.uint64(1)
            low, same = np.uint64(0), np.uint64(0)
            for i in range(64):
                low |= bits_less[i] << np.uint64(i)
                same |= bits_equal[i] << np.uint64(i)
            less[l, v] = low
            equal[l, v] = same


@njit(types.void(_w1, _i8, _W1), cache=True, nogil=True)
def words_to_bits(words, bit, out):
    """out = the given bit of every word, 64 a word."""
    for v in range(out.shape[0]):
        total = np.uint64(0)
        for i in range(64):
            total |= ((words[64 * v + i] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(i)
        out[v] = total


@njit(types.void(_w2, _i2, _i1, _W2), cache=True, nogil=True)
def xor_products(masks, members, degrees, out):
    """out[m] ^= the AND of masks[members[m, :degrees[m]]]."""
    words = masks.shape[1]
    product = np.empty(512, np.uint64)
    for start in range(0, words, 512):
        count = min(512, words - start)
        for m in range(members.shape[0]):
            first = masks[members[m, 0], start : start + count]
            for v in range(count):
                product[v] = first[v]
            for t in range(1, degrees[m]):
                factor = masks[members[m, t], start : start + count]
                for v in range(count):
                    product[v] &= factor[v]
            result = out[m, start : start + count]
            for v in range(count):
                result[v] ^= product[v]


@njit(types.void(_w2, _w2, _w2, _i2, _w2, _i2, _i1, _u8, _W2), cache=True, nogil=True)
def fold_products(opened, masks, products, variables, negated, index, sizes, lead, out):
    """out[t] = share of the product of the bits x_v (or their complements, where `negated` is all ones), v in
    variables[t], from opened[v] = x_v XOR a_v.

    index[t, S] is the row of the share of the product of the masks in subset S of the term's variables: among
    the masks or, counted on from there, among the products.
    Folding away one variable at a time: f[S without i] = opened_i f[S] XOR f[S with i].
    """
    words = opened.shape[1]
    largest = 1
    for t in range(sizes.shape[0]):
        largest = max(largest, 1 << sizes[t])
    f = np.empty((largest, 256), np.uint64)
    for start in range(0, words, 256):
        count = min(256, words - start)
        for t in range(sizes.shape[0]):
            for v in range(count):
                f[0, v] = lead
            for s in range(1, 1 << sizes[t]):
                row, target = index[t, s], f[s]
                if row < masks.shape[0]:
                    source = masks[row, start : start + count]
                else:
                    source = products[row - masks.shape[0], start : start + count]
                for v in range(count):
                    target[v] = source[v]
            for i in range(sizes[t] - 1, -1, -1):
                half = 1 << i
                bit = opened[variables[t, i], start : start + count]
                flip = negated[t, i]
                for s in range(half):
                    low, high = f[s], f[s + half]
                    for v in range(count):
                        low[v] = ((bit[v] ^ flip) & low[v]) ^ high[v]
            result = out[t, start : start + count]
            for v in range(count):
                result[v] = f[0, v]


@njit(types.void(_w1, _w1, _w1, _w1, _w1, _u8, _u8, _W1), cache=True, nogil=True)
def select_by_bits(beta, opened, m, rho, rho_m, mask, lead, out):
    """out = share of b z from beta = b XOR rho (64 a word) and opened = z + m, shares of m, rho, rho m.

    b z = beta (opened - m) + (1 - 2 beta) (opened rho - rho m).
    """
    for v in range(beta.shape[0]):
        word = beta[v]
        part = slice(64 * v, 64 * v + 64)
        z, mask_of_z, r, rm, result = opened[part], m[part], rho[part], rho_m[part], out[part]
        for i in range(64):
            bit = (word >> np.uint64(i)) & np.uint64(1)
            flipped = z[i] * r[i] - rm[i]
            result[i] = (bit * (lead * z[i] - mask_of_z[i] - flipped - flipped) + flipped) & mask


@njit(types.void(_w2, _w2, _w2, _w2, _w2, _i1, _u8, _W2), cache=True, nogil=True)
def add_chosen(beta, c, rho, first, second, target, lead, out):
    """out[target[t]] += share of b z less nu, from beta = b XOR rho (64 a word), c = z + r open, and shares of rho, of
    first = rho r + nu and of second = (1 - rho) r + nu: c rho - first where beta is 0, else c (1 - rho) - second."""
    for t in range(beta.shape[0]):
        result = out[target[t]]
        for v in range(beta.shape[1]):
            word, start = beta[t, v], 64 * v
            opened, shares = c[t, start : start + 64], rho[t, start : start + 64]
            low, high = first[t, start : start + 64], second[t, start : start + 64]
            total = result[start : start + 64]
            for i in range(64):
                bit = (word >> np.uint64(i)) & np.uint64(1)
                zero = opened[i] * shares[i] - low[i]
                one = opened[i] * (lead - shares[i]) - high[i]
                total[i] += zero + bit * (one - zero)


@njit(types.void(_w2, _i1, _i1, _w2, _w2, _i1, _W2, _W2, _W2), cache=True, nogil=True)
def deal_chosen(noise, left, right, rho, first, target, words, second, out):
    """What the dealer makes for `add_chosen`: for r = noise[right] - noise[left] and nu = first - rho r, words = rho,
    second = (1 - rho) r + nu, and out[target[t]] -= nu."""
    for t in range(left.shape[0]):
        low, high, result = noise[left[t]], noise[right[t]], out[target[t]]
        for v in range(rho.shape[1]):
            word, start = rho[t, v], 64 * v
            for i in range(64):
                bit, at = (word >> np.uint64(i)) & np.uint64(1), start + i
                r = high[at] - low[at]
                nu = first[t, at] - bit * r
                words[t, at] = bit
                second[t, at] = r - bit * r + nu
                result[at] -= nu


@njit(types.void(_w1, _w1, _u8, _u8, _W1), cache=True, nogil=True)
def bits_to_words(beta, rho, mask, lead, out):
    """out = share of b over Z_(mask + 1) from beta = b XOR rho (64 a word) and shares of rho."""
    for v in range(beta.shape[0]):
        word = beta[v]
        r, result = rho[64 * v : 64 * v + 64], out[64 * v : 64 * v + 64]
        for i in range(64):
            bit = (word >> np.uint64(i)) & np.uint64(1)
            result[i] = (bit * (lead - r[i] - r[i]) + r[i]) & mask


@njit(types.void(_w2, _w2, _w2, _w2, _W2), cache=True, nogil=True)
def two_products(x, f, e, b, out):
    """out[j, i] += sum over l of x[l, i] f[j, l] + e[l, i] b[j, l]: x, e (d, n), f, b (k, d), out (k, n).

    x may have no rows: then only the second product is added.
    """
    d, n = e.shape
    for start in range(0, n, 512):
        stop = min(start + 512, n)
        for j in range(out.shape[0]):
            result = out[j, start:stop]
            for l in range(d):
                first, second = f[j, l], b[j, l]
                right = e[l, start:stop]
                if x.shape[0]:
                    left = x[l, start:stop]
                    for i in range(stop - start):
                        result[i] += left[i] * first + right[i] * second
                else:
                    for i in range(stop - start):
                        result[i] += right[i] * second


@njit(types.void(_w2, _w2, _w2, _w2, _i8, _W2), cache=True, nogil=True)
def two_sums(x, h, e, u, first, out):
    """out[j, l] += sum over i of h[j, i] x[l, first + i] + u[j, i] e[l, first + i]: x, e (d, n), h, u (k, m), out
    (k, d).

    x may have no rows: then only the second sum is added.
    """
    d, m = e.shape[0], u.shape[1]
    for start in range(0, m, 1024):
        stop = min(start + 1024, m)
        for j in range(out.shape[0]):
            mask_share = u[j, start:stop]
            for l in range(d):
                right = e[l, first + start : first + stop]
                total = np.uint64(0)
                if x.shape[0]:
                    left, opened = x[l, first + start : first + stop], h[j, start:stop]
                    for i in range(stop - start):
                        total += opened[i] * left[i] + mask_share[i] * right[i]
                else:
                    for i in range(stop - start):
                        total += mask_share[i] * right[i]
                out[j, l] += total


@njit(_u8(_w1, _i8, _w1), cache=True, nogil=True)
def xor_lookup(bits, c, values):
    """The XOR of values[(c - v) mod size] over the v whose bit is 1; `bits` holds 64 a word, `values` a power
    of two of them, at least 64."""
    size = values.shape[0]
    total = np.uint64(0)
    for word in range(bits.shape[0]):
        left = bits[word]
        top = (c - 64 * word) & (size - 1)
        if top >= 63:  # the 64 values lie in one piece, backwards
            piece = values[top - 63 : top + 1]
            for i in range(64):
                keep = np.uint64(0) - ((left >> np.uint64(63 - i)) & np.uint64(1))
                total ^= piece[i] & keep
        else:
            for i in range(64):
                keep = np.uint64(0) - ((left >> np.uint64(i)) & np.uint64(1))
                total ^= values[(top - i) & (size - 1)] & keep
    return total


@njit(types.void(_w2, _w2, _i1, _i1, types.uint64[:, :, ::1]), cache=True, nogil=True)
def spread(factors, values, groups, places, out):
    """out[l, c, places[i]] += factors[l, groups[i]] values[c, i]: for each row i, to its place in its group."""
    for l in range(factors.shape[0]):
        for c in range(values.shape[0]):
            row, result = values[c], out[l, c]
            for i in range(groups.shape[0]):
                result[places[i]] += factors[l, groups[i]] * row[i]
