"""Compiled loops for what NumPy is slow at. Cached on disk, compiled when this module is imported.

Every kernel takes the word size or the mask as an argument, so that the tests run these very loops
over all inputs of a tiny ring. All of them release the GIL. numba keeps the compiled code in
`__pycache__` beside this file, or under `NUMBA_CACHE_DIR` where that is set.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types, vectorize
from numpy.typing import NDArray

__all__ = [
    "Bulk",
    "bits_minus",
    "matmul_words",
    "odd_add",
    "odd_sub",
    "permutations",
    "read_only",
    "sample_below",
    "sum_below",
]

Bulk = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def read_only(element: types.Type, dimensions: int) -> types.Array:
    """A contiguous array that a kernel only reads; it may have come off the wire and be read-only."""
    return types.Array(element, dimensions, "C", readonly=True)


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


@vectorize(["u8(u8, u8, u8)"], cache=True)
def odd_add(a: np.uint64, b: np.uint64, m: np.uint64) -> np.uint64:
    """a + b over Z_m, m = 2^w - 1 odd, for a, b < m: subtract m, unless that would be negative."""
    rest = m - b  # > 0
    return a - rest if a >= rest else a + b


@vectorize(["u8(u8, u8, u8)"], cache=True)
def odd_sub(a: np.uint64, b: np.uint64, m: np.uint64) -> np.uint64:
    """a - b over Z_m for a, b < m."""
    return a - b if a >= b else a + (m - b)


@njit(
    types.int64(_bytes1, types.uint8[::1], types.int64, types.int64, types.uint8, types.uint8),
    cache=True,
    nogil=True,
)
def sample_below(raw: Bytes, out: Bytes, start: int, limit: int, modulus: int, offset: int) -> int:
    """Fill `out` from `start` with offset + (byte mod modulus) of the raw bytes below `limit`.

    `limit` is a multiple of the modulus, so that what is accepted is uniform. Returns how far it came.
    """
    at = start
    end = out.shape[0]
    for i in range(raw.shape[0]):
        if at == end:
            break
        byte = raw[i]
        out[at] = offset + byte % modulus
        at += byte < limit
    return at


@njit(types.int64(_bytes1, types.uint8[:, ::1], types.int64), cache=True, nogil=True)
def permutations(raw: Bytes, out: Bytes, start: int) -> int:
    """Fill the rows of `out` from `start` with uniform permutations (Fisher-Yates, by rejection).

    A row that the raw bytes may not suffice for is left to the next call. Returns the rows done.
    """
    rows, length = out.shape
    at = 0
    for i in range(start, rows):
        if at + 8 * length > raw.shape[0]:
            return i
        for j in range(length):
            out[i, j] = j
        for j in range(length - 1, 0, -1):
            choices = j + 1
            limit = 256 - 256 % choices
            while at < raw.shape[0] and raw[at] >= limit:
                at += 1
            if at == raw.shape[0]:
                return i
            other = raw[at] % choices
            at += 1
            out[i, j], out[i, other] = out[i, other], out[i, j]
    return rows


@njit(types.void(_words1, _bytes3, types.int64, types.uint8[:, ::1]), cache=True, nogil=True)
def bits_minus(x: Bulk, shares: Bytes, q: int, out: Bytes) -> None:
    """out[i, b] = bit b of x[i], less the shares[j, i, b] of all j, over Z_q."""
    holders, count, length = shares.shape
    for i in range(count):
        for b in range(length):
            taken = 0
            for j in range(holders):
                taken += shares[j, i, b]
            bit = (x[i] >> np.uint64(b)) & np.uint64(1)
            out[i, b] = (np.int64(bit) + holders * q - taken) % q


@njit(types.void(_bytes2, types.int64, types.uint8[::1]), cache=True, nogil=True)
def sum_below(arrays: Bytes, q: int, out: Bytes) -> None:
    """out = the sum of the rows of `arrays` over Z_q, q < 128."""
    rows, count = arrays.shape
    for i in range(count):
        total = 0
        for j in range(rows):
            total += arrays[j, i]
        out[i] = total % q
