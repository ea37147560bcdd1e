"""Compiled loops of `securenn`: PrivateCompare, at a party and at the helper."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from coterie.ring.kernels import Bulk, Bytes, read_only

__all__ = ["any_zero", "blinded_comparison"]

_words1 = read_only(types.uint64, 1)
_bytes1, _bytes2, _bytes3 = (read_only(types.uint8, dimensions) for dimensions in (1, 2, 3))


@njit(
    types.void(_bytes2, _words1, _bytes1, _bytes2, _bytes2, _bytes2, types.int64, types.int64, types.uint8[:, ::1]),
    cache=True,
    nogil=True,
)
def blinded_comparison(
    x: Bytes, r: Bulk, mode: Bytes, scalars: Bytes, order: Bytes, zero: Bytes, lead: int, q: int, out: Bytes
) -> None:
    """One party's message to the helper in PrivateCompare (SecureNN, Algorithm 3, lines 2-13).

    x: shares over Z_q of the bits of x, lowest first; r: the public comparand; lead: 1 at P1, else 0.
    mode: 0 for beta = 0, 1 for beta = 1, 2 to submit (0, 1, ..., 1), 3 to submit (1, ..., 1).
    Bit i goes to place order[i], times its scalar, plus its share of zero.
    """
    count, length = x.shape
    for i in range(count):
        kind = mode[i]
        if kind >= 2:
            for b in range(length):
                c = lead if (b > 0 or kind == 3) else 0
                out[i, order[i, b]] = (scalars[i, b] * c + zero[i, b]) % q
            continue
        against = r[i] + np.uint64(kind)  # r, or t = r + 1
        above = np.int64(0)  # sum of w_j over j > b
        for b in range(length - 1, -1, -1):
            bit = np.int64((against >> np.uint64(b)) & np.uint64(1))
            share = np.int64(x[i, b])
            # beta = 0: r_b - x_b + 1;  beta = 1: x_b - t_b + 1
            own = lead * (bit + 1) + q - share if kind == 0 else lead * (1 - bit) + share
            out[i, order[i, b]] = (scalars[i, b] * ((own + above) % q) + zero[i, b]) % q
            above = above + (lead + q - share if bit else share)  # w_b = x_b XOR bit


@njit(types.void(_bytes3, types.int64, types.uint8[::1]), cache=True, nogil=True)
def any_zero(messages: Bytes, q: int, out: Bytes) -> None:
    """out[i] = 1 where the sum over Z_q of the parties' messages[:, i, b] is 0 for some b."""
    parties, count, length = messages.shape
    for i in range(count):
        found = 0
        for b in range(length):
            total = 0
            for j in range(parties):
                total += messages[j, i, b]
            found |= int(total % q == 0)
        out[i] = found
