"""Compiled loops for what NumPy is slow at.

Every kernel takes the word size or the mask as an argument, so that the tests run these very loops
over all inputs of a tiny ring. All of them release the GIL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.ring.compiling import njit, read_only, types

__all__ = [
    "Bulk",
    "bits_minus",
    "matmul_words",
    "permutations",
    "sample_below",
    "sum_below",
]

Bulk = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Halves = NDArray[np.uint16]
Singles = NDArray[np.uint32]

_words1, _words2 = read_only(types.uint64, 1), read_only(types.uint64, 2)
_bytes1, _bytes2, _bytes3 = (read_only(types.uint8, dimensions) for dimensions in (1, 2, 3))


@njit(types.void(_words2, _words2, types.uint64, types.uint64[:, ::1]), cache=True, nogil=True)
def matmul_words(a: Bulk, b: Bulk, mask: np.uint64, out: Bulk) -> None:
    """out = a b over Z_(mask + 1), mask = 2^w - 1. NumPy has no fast product of 64-bit integers."""
    rows, inner = a.shape
    columns = b.shape[1]
    for i in range(rows):
        for j in range(columns):
            out[i, j] = 0
        for l in range(inner):
            factor = a[i, l]
            for j in range(columns):
                out[i, j] += factor * b[l, j]
        for j in range(columns):
            out[i, j] &= mask


@njit(
    types.int64(types.uint32[::1], read_only(types.uint32, 1), types.int64, types.uint32, types.uint32),
    cache=True,
    nogil=True,
)
def sample_below(words: Singles, spare: Singles, start: int, base: int, offset: int) -> int:
    """Turn uniform words of 32 bits, from `start` on, into four bytes each: offset + a uniform number below the base,
    at most 128.

    A word times base^4 is a whole number, which has the four digits, and a rest (Lemire, 2019). If the rest lies in the
    incomplete last multiple of base^4 the word is rejected, and the next spare one is taken for it. Returns how far it
    came, which is less than all words if there were not enough spare ones.
    """
    product = np.uint32(base * base * base * base)
    incomplete = np.uint32((1 << 32) % np.int64(product))
    last = np.uint32(0xFFFFFFFF) - incomplete  # the largest rest that is accepted
    by, low, up = np.uint64(base), np.uint64(0xFFFFFFFF), np.uint64(32)
    lifted = np.uint32(offset * 0x01010101)
    taken = 0
    for at in range(start, words.shape[0], 512):
        part = words[at : at + 512]
        rejected = np.uint8(0)
        for i in range(part.shape[0]):
            rejected |= np.uint8(np.uint32(part[i] * product) > last)
        if rejected:
            for i in range(part.shape[0]):
                while np.uint32(part[i] * product) > last:
                    if taken == spare.shape[0]:
                        return at
                    part[i] = spare[taken]
                    taken += 1
        for i in range(part.shape[0]):
            first = np.uint64(part[i]) * by
            second = (first & low) * by
            third = (second & low) * by
            fourth = (third & low) * by
            digits = (first >> up) | (second >> up) << np.uint64(8)
            digits |= (third >> up) << np.uint64(16) | (fourth >> up) << np.uint64(24)
            part[i] = np.uint32(digits) + lifted
    return words.shape[0]


@njit(types.int64(read_only(types.uint16, 1), types.uint8[:, ::1], types.int64), cache=True, nogil=True)
def permutations(raw: Halves, out: Bytes, start: int) -> int:
    """Fill the rows of `out` from `start` with uniform permutations (Fisher-Yates, inside out).

    As in `sample_below`, a raw number times the choices is a choice and a rest, by which it is rejected. A row that the
    numbers do not suffice for is left to the next call. Returns the rows done.
    """
    rows, length = out.shape
    at, end = 0, raw.shape[0]
    for i in range(start, rows):
        if end - at < length - 1:
            return i
        row = out[i]
        row[0] = 0
        for j in range(1, length):
            choices = np.uint32(j + 1)
            drawn = np.uint32(raw[at] * choices)
            at += 1
            if np.uint16(drawn) > np.uint16(0xFFFF - choices):  # near the end: is it in the incomplete multiple?
                while np.uint16(drawn) > np.uint16(0xFFFF - 0x10000 % choices):
                    if end - at < length - j:
                        return i
                    drawn = np.uint32(raw[at] * choices)
                    at += 1
            other = drawn >> np.uint32(16)
            row[j] = row[other]
            row[other] = j
    return rows


@njit(types.void(_words1, _bytes3, types.uint8, types.uint8[:, ::1]), cache=True, nogil=True)
def bits_minus(x: Bulk, shares: Bytes, q: int, out: Bytes) -> None:
    """out[i, b] = bit b of x[i], less the shares[j, i, b] of all j, over Z_q, q < 128; shares are below q."""
    holders, count, length = shares.shape
    for i in range(count):
        row = out[i]
        for b in range(length):
            row[b] = np.uint8((x[i] >> np.uint64(b)) & np.uint64(1))
        for j in range(holders):
            share = shares[j, i]
            for b in range(length):
                rest = np.uint8(row[b] - share[b])
                row[b] = min(rest, np.uint8(rest + q))


@njit(types.void(_bytes2, types.int64, types.uint8[::1]), cache=True, nogil=True)
def sum_below(arrays: Bytes, q: int, out: Bytes) -> None:
    """out = the sum of the rows of `arrays` over Z_q, q < 128."""
    rows, count = arrays.shape
    for i in range(count):
        total = 0
        for j in range(rows):
            total += arrays[j, i]
        out[i] = total % q
