"""Compiled loops of `securenn`: PrivateCompare, at a party and at the helper.

A small number v < 2^22 / q is reduced by a product: v // q is v ceil(2^22 / q) / 2^22, rounded down. Numbers are cut to
the few bits that they have at every step, so that the compiler puts many of them into a register.
"""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import njit, read_only, types
from coterie.ring.kernels import Bulk, Bytes

__all__ = ["any_zero", "blinded_comparison"]

_words1 = read_only(types.uint64, 1)
_bytes1, _bytes2, _bytes3 = (read_only(types.uint8, dimensions) for dimensions in (1, 2, 3))
#: A 1 in each of four numbers of 16 bits.
_FOUR = 0x0001000100010001


@njit(types.uint8(types.uint32, types.uint32), cache=True, inline="always")
def _below(v: np.uint32, q: np.uint32) -> np.uint8:
    """v modulo q, for v < 2^22 / q."""
    quotient = np.uint32(np.uint32(v * np.uint32(((1 << 22) + q - 1) // q)) >> np.uint32(22))
    return np.uint8(v - np.uint32(q * quotient))


@njit(
    types.void(_bytes2, _words1, _bytes1, _bytes2, _bytes2, _bytes2, types.uint16, types.uint32, types.uint8[:, ::1]),
    cache=True,
    nogil=True,
)
def blinded_comparison(
    x: Bytes, r: Bulk, mode: Bytes, scalars: Bytes, order: Bytes, zero: Bytes, lead: int, q: int, out: Bytes
) -> None:
    """One party's message to the helper in PrivateCompare (SecureNN, Algorithm 3, lines 2-13).

    x: shares over Z_q of the bits of x, lowest first, at most 64, which is less than q < 128; r: the public comparand;
    lead: 1 at P1, else 0.
    mode: 0 for beta = 0, 1 for beta = 1, 2 to submit (0, 1, ..., 1), 3 to submit (1, ..., 1).
    Bit i goes to place order[i], times its scalar, plus its share of zero.
    """
    count, length = x.shape
    own = np.empty(length, np.uint16)
    done = np.empty(length, np.uint8)
    differ, upto = np.zeros(16, np.uint64), np.zeros(16, np.uint64)  # of 64 bits, four at a time
    w, sums = differ.view(np.uint16), upto.view(np.uint16)
    groups = (length + 3) // 4
    flipped, modulus = np.uint16(lead + q), np.uint32(q)
    for i in range(count):
        kind, shares = mode[i], x[i]
        against = r[i] + np.uint64(kind)  # r, or t = r + 1
        for b in range(length):
            bit, share = np.uint16((against >> np.uint64(b)) & np.uint64(1)), np.uint16(shares[b])
            w[b] = np.uint16(share + np.uint16(bit * np.uint16(flipped - share - share)))  # x_b XOR bit
            own[b] = np.uint16(flipped + np.uint16(lead * bit) - share)  # beta = 0: r_b - x_b + 1
        if kind == 1:
            for b in range(length):
                own[b] = np.uint16(flipped + lead - own[b])  # beta = 1: x_b - t_b + 1
        elif kind >= 2:
            for b in range(length):
                w[b], own[b] = 0, lead
            if kind == 2:
                own[0] = 0
        # sums of w_j over j <= b: a product with 1, 1, 1, 1 adds up four numbers, and the last sum goes on
        carried = np.uint64(0)
        for group in range(groups):
            upto[group] = np.uint64(differ[group] * np.uint64(_FOUR) + carried)
            carried = np.uint64((upto[group] >> np.uint64(48)) * np.uint64(_FOUR))
        everything = sums[length - 1]
        for b in range(length):
            c = _below(np.uint32(np.uint16(own[b] + everything - sums[b])), modulus)  # the sum over j > b
            done[b] = _below(np.uint32(np.uint32(c) * np.uint32(scalars[i, b]) + np.uint32(zero[i, b])), modulus)
        for b in range(length):
            out[i, order[i, b]] = done[b]


@njit(types.void(_bytes3, types.uint32, types.uint8[::1]), cache=True, nogil=True)
def any_zero(messages: Bytes, q: int, out: Bytes) -> None:
    """out[i] = 1 where the sum over Z_q of the parties' messages[:, i, b] is 0 for some b."""
    parties, count, length = messages.shape
    total, modulus = np.empty(length, np.uint16), np.uint32(q)
    for i in range(count):
        for b in range(length):
            total[b] = messages[0, i, b]
        for j in range(1, parties):
            for b in range(length):
                total[b] += messages[j, i, b]
        found = np.uint8(0)
        for b in range(length):
            found |= np.uint8(_below(np.uint32(total[b]), modulus) == 0)
        out[i] = found
