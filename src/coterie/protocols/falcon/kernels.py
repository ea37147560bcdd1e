"""Compiled loops of `falcon`: bits of many numbers, 64 a word, and words over Z_2^w.

A bit of N numbers is an array of N / 64 words (bit i of word v belongs to number 64 v + i). What a server sends is
blinded here, in the pass that computes it. w, or 2^w - 1, is an argument.
"""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import njit, read_only, types

__all__ = [
    "add_kept",
    "add_up",
    "and_rows",
    "bits_less",
    "carries",
    "kept_less",
    "leaves",
    "merge_rows",
    "outer_bits",
    "scores",
    "signed_bits",
    "signed_kept",
    "slice_words",
    "sum_rows",
    "xor_chosen",
]

_w1, _w2 = read_only(types.uint64, 1), read_only(types.uint64, 2)
_b2, _i1 = read_only(types.uint8, 2), read_only(types.int64, 1)
_W1, _W2 = types.uint64[::1], types.uint64[:, ::1]
_u8 = types.uint64
_ONE = np.uint64(1)


@njit(types.void(_w1, _W2), cache=True, nogil=True)
def slice_words(x, out):
    """out[l] = bit l of every word of x, 64 a word, as many bits as `out` has rows.

    A matrix of 64 x 64 bits is transposed by swapping halves, quarters and so on; eight of them side by side.
    """
    bits, words = out.shape
    part = np.empty((64, 8), np.uint64)
    for start in range(0, words, 8):
        count = min(8, words - start)
        for u in range(8):
            for i in range(64):
                part[i, u] = x[64 * (start + u) + i] if u < count else np.uint64(0)
        half, keep = 32, np.uint64(0xFFFFFFFF)
        while half:
            by = np.uint64(half)
            for base in range(0, 64, 2 * half):
                for i in range(base, base + half):
                    for u in range(8):
                        swapped = ((part[i, u] >> by) ^ part[i + half, u]) & keep
                        part[i, u] ^= swapped << by
                        part[i + half, u] ^= swapped
            half >>= 1
            keep ^= keep << np.uint64(half)
        for l in range(bits):
            for u in range(count):
                out[l, start + u] = part[l, u]


@njit(types.void(_w2, _w2, _W2), cache=True, nogil=True)
def carries(x, y, out):
    """out[l] = the carry out of the l + 1 lowest bits of x + y."""
    words = out.shape[1]
    for l in range(out.shape[0]):
        for v in range(words):
            a, b = x[l, v], y[l, v]
            before = out[l - 1, v] if l else np.uint64(0)
            out[l, v] = (a & b) | (before & (a | b))


@njit(types.void(_w2, _w2, _w2, _i1, _i1, _i1, _w2, _W2), cache=True, nogil=True)
def leaves(a, eta, b, lows, sizes, reach, blind, out):
    """What S_j or S_k says of every leaf, from its share of a's bits and of eta, and b's bits: G, and P in row reach[d]
    where that is not below 0; blinded."""
    words, pair = out.shape[1], 0
    for d in range(lows.shape[0]):
        low, g, g_blind = lows[d], out[d], blind[d]
        a0, b0 = a[low], b[low]
        if sizes[d] == 1:
            for v in range(words):
                g[v] = (a0[v] & b0[v]) ^ g_blind[v]
            continue
        a1, b1, both = a[low + 1], b[low + 1], eta[pair]
        pair += 1
        for v in range(words):
            g[v] = (a1[v] & b1[v]) ^ (both[v] & b0[v]) ^ (a0[v] & b1[v] & b0[v]) ^ g_blind[v]
        if reach[d] >= 0:
            p, p_blind = out[reach[d]], blind[reach[d]]
            for v in range(words):
                p[v] = both[v] ^ (a1[v] & b0[v]) ^ (a0[v] & b1[v]) ^ p_blind[v]


@njit(types.void(_w2, _w2, _i1, _i1, _w2, _w2, _W2), cache=True, nogil=True)
def and_rows(first, second, left, right, own, following, out):
    """out[t] = a server's part of rows left[t] AND right[t], from both its shares; blinded with F_i XOR F_(i+1)."""
    words = out.shape[1]
    for t in range(left.shape[0]):
        x0, x1, y0, y1 = first[left[t]], second[left[t]], first[right[t]], second[right[t]]
        f0, f1, result = own[t], following[t], out[t]
        for v in range(words):
            result[v] = (x0[v] & (y0[v] ^ y1[v])) ^ (x1[v] & y0[v]) ^ f0[v] ^ f1[v]


@njit(types.void(_w2, _w2, _i1, _i1, _W2), cache=True, nogil=True)
def merge_rows(rows, products, tops, kept, out):
    """out = rows[tops] XOR the first products, the other products, and rows[kept], one behind the other."""
    words, whole = rows.shape[1], products.shape[0]
    for t in range(whole):
        source, result = products[t], out[t]
        if t < tops.shape[0]:
            top = rows[tops[t]]
            for v in range(words):
                result[v] = source[v] ^ top[v]
        else:
            for v in range(words):
                result[v] = source[v]
    for t in range(kept.shape[0]):
        source, result = rows[kept[t]], out[whole + t]
        for v in range(words):
            result[v] = source[v]


@njit(types.void(_w1, _w1, _u8, _W1), cache=True, nogil=True)
def bits_less(bits, less, mask, out):
    """out = bit - less, over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            out[64 * v + i] = (((word >> np.uint64(i)) & _ONE) - less[64 * v + i]) & mask


@njit(types.void(_w1, _w1, _w1, _u8, _W1), cache=True, nogil=True)
def signed_bits(bits, x, more, mask, out):
    """out = (1 - 2 bit) x + more, over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            at = 64 * v + i
            flip = np.uint64(0) - ((word >> np.uint64(i)) & _ONE)  # all ones where the bit is 1: -x is (x XOR it) - it
            out[at] = ((x[at] ^ flip) - flip + more[at]) & mask


@njit(types.void(_w1, _w1, _w1, _u8, _W1), cache=True, nogil=True)
def add_up(bits, x, y, mask, out):
    """out = x + y + bit, over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            at = 64 * v + i
            out[at] = (x[at] + y[at] + ((word >> np.uint64(i)) & _ONE)) & mask


@njit(types.void(_w1, _w1, _w1, _w1, _u8, _W1), cache=True, nogil=True)
def kept_less(bits, x, y, less, mask, out):
    """out = (x + y where the bit is 1, else 0) - less, over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            at = 64 * v + i
            keep = np.uint64(0) - ((word >> np.uint64(i)) & _ONE)
            out[at] = (((x[at] + y[at]) & keep) - less[at]) & mask


@njit(types.void(_w1, _w1, _w1, _w1, _w1, _w1, _u8, _W1), cache=True, nogil=True)
def signed_kept(bits, x, q, b, y, more, mask, out):
    """out = bit x + (1 - 2 bit) (q + b y) + more, over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            at = 64 * v + i
            flip = np.uint64(0) - ((word >> np.uint64(i)) & _ONE)
            out[at] = ((x[at] & flip) + ((q[at] + b[at] * y[at]) ^ flip) - flip + more[at]) & mask


@njit(types.void(_w1, _w1, _w1, _w1, _u8, _W1), cache=True, nogil=True)
def add_kept(bits, x, y, z, mask, out):
    """out = x + y + (z where the bit is 1, else 0), over Z_(mask + 1)."""
    for v in range(bits.shape[0]):
        word = bits[v]
        for i in range(64):
            at = 64 * v + i
            out[at] = (x[at] + y[at] + (z[at] & (np.uint64(0) - ((word >> np.uint64(i)) & _ONE)))) & mask


@njit(types.void(_w2, _w2, _w2, _w2, _w1, _w2, _w2, _u8, _W2), cache=True, nogil=True)
def scores(x0, x1, both, first, squares, own, following, mask, out):
    """out[j, i] = a server's part of squares[j] - 2 x_i . c_j, blinded, over Z_(mask + 1), from both its shares of the
    rows (n, d), and -2 (c_i + c_(i+1)) and -2 c_i (k, d). Columns of `out` beyond the rows are those of a row of 0."""
    n, d = x0.shape
    for j in range(out.shape[0]):
        whole, part, square = both[j], first[j], squares[j]
        f0, f1, result = own[j], following[j], out[j]
        for i in range(out.shape[1]):
            total = square + f0[i] - f1[i]
            if i < n:
                for l in range(d):
                    total += x0[i, l] * whole[l] + x1[i, l] * part[l]
            result[i] = total & mask


@njit(types.void(_w2, _w2, _w2, _w2, _W2), cache=True, nogil=True)
def sum_rows(h0, h1, x0, x1, out):
    """out[j, l] = a server's part of the sum over rows i of h[j, i] x[i, l]; h may have more columns than rows."""
    n, d = x0.shape
    for j in range(out.shape[0]):
        a, b, total = h0[j], h1[j], out[j]
        for l in range(d):
            total[l] = 0
        for i in range(n):
            whole, part = a[i] + b[i], a[i]
            for l in range(d):
                total[l] += whole * x0[i, l] + part * x1[i, l]


@njit(types.void(_b2, _b2, _w2, _w2, _w2, _w2, _W2), cache=True, nogil=True)
def outer_bits(high0, high1, low0, low1, own, following, out):
    """out[j, a words + v] = a server's part of bit high[j, a] AND every bit of word low[j, v]; blinded."""
    words = low0.shape[1]
    for j in range(out.shape[0]):
        for a in range(high0.shape[1]):
            x0, x1 = np.uint64(0) - np.uint64(high0[j, a]), np.uint64(0) - np.uint64(high1[j, a])
            here = slice(a * words, (a + 1) * words)
            f0, f1, result = own[j, here], following[j, here], out[j, here]
            for v in range(words):
                result[v] = (x0 & (low0[j, v] ^ low1[j, v])) ^ (x1 & low0[j, v]) ^ f0[v] ^ f1[v]


@njit(types.void(_w2, _w1, _W1), cache=True, nogil=True)
def xor_chosen(chosen, values, out):
    """out[j] = the XOR of values[64 v + i] over the bits i of word chosen[j, v] that are 1."""
    for j in range(out.shape[0]):
        total = np.uint64(0)
        for v in range(chosen.shape[1]):
            word, part = chosen[j, v], values[64 * v : 64 * v + 64]
            for i in range(64):
                total ^= part[i] & (np.uint64(0) - ((word >> np.uint64(i)) & _ONE))
        out[j] = total
