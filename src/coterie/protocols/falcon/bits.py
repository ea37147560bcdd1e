"""Bits of many numbers, 64 a word, and how they become words (docs/protocols/falcon.md#falcon-bits)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from coterie.errors import MaterialReused
from coterie.protocols.falcon.kernels import add_kept, add_up, and_rows, bits_less, kept_less, signed_bits, signed_kept
from coterie.protocols.falcon.servers import Round, Step, Trio, around, words_piece
from coterie.protocols.onetime.bits import pack_rows, padded, unpack_rows
from coterie.randomness.material import Elements
from coterie.ring import Array, Bulk, ByteSource, Ring, Words
from coterie.sharing import Shared, concatenate

__all__ = [
    "ALL_ONES",
    "BITS",
    "NOTHING",
    "SLICED",
    "Blinds",
    "Sliced",
    "bits_piece",
    "filled",
    "multiply_rows",
    "packed",
    "select",
    "to_words",
    "unpacked",
]


@dataclass(frozen=True)
class Sliced(Ring):
    """64 bits a word, under XOR and AND."""

    @property
    def modulus(self) -> int:
        return 1 << 64

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    def add(self, a: Array, b: Array) -> Array:
        return np.asarray(a ^ b)

    def sub(self, a: Array, b: Array) -> Array:
        return np.asarray(a ^ b)

    def mul(self, a: Array, b: Array) -> Array:
        return np.asarray(a & b)

    def sum(self, a: Array, axis: int) -> Array:
        return np.asarray(np.bitwise_xor.reduce(a, axis))

    def sample(self, source: ByteSource, shape: tuple[int, ...]) -> Array:
        return Words(64).sample(source, shape)

    def encode(self, values: Any) -> Array:
        return np.asarray(values, np.uint64)


#: Bits by themselves, one a byte, as the general steps have them; and 64 a word.
BITS, SLICED = Words(1), Sliced()
#: Every bit of a word; and no bits, in the place of what a server does not hold.
ALL_ONES, NOTHING = (1 << 64) - 1, np.empty(0, np.uint64)


@lru_cache(maxsize=1024)
def bits_piece(*shape: int) -> Elements:
    return Elements(SLICED, *shape)


def filled(trio: Trio, x: Shared) -> Shared:
    """[x] (m,), and zeros that fill the last word of bits of it (64 times words,)."""
    more = padded(x.size) - x.size
    if not more:
        return x
    return concatenate([x, trio.public(np.zeros(more, np.int64), x.ring)])


def packed(trio: Trio, bits: Shared) -> Shared:
    """A row of bits, 64 a word (1, words)."""
    words = padded(bits.size) // 64
    if trio.role is None:
        return trio.me.hollow(SLICED, (1, words))
    return trio.held(SLICED, *(pack_rows(share.reshape(1, -1), words) for share in bits.shares))


def unpacked(trio: Trio, rows: Shared, shape: tuple[int, ...]) -> Shared:
    """Bits of a row (1, words), or of several (rows, words), as bits of this shape, the last axis along a row."""
    if trio.role is None:
        return trio.me.hollow(BITS, shape)
    count = int(np.prod(shape)) // max(rows.shape[0], 1)
    return trio.held(BITS, *(unpack_rows(share, count).reshape(shape) for share in rows.shares))


class Blinds:
    """F_i and F_(i+1) for the products of several rounds, drawn at once; each row is given once."""

    __slots__ = ("_at", "_following", "_own")

    def __init__(self, trio: Trio, rows: int, words: int) -> None:
        self._at = 0
        self._own, self._following = around(trio, SLICED, rows, words)

    def take(self, rows: int) -> tuple[Bulk, Bulk]:
        here, self._at = slice(self._at, self._at + rows), self._at + rows
        if self._at > len(self._own):
            raise MaterialReused("there are no blinds left for this product")
        return self._own[here], self._following[here]


def multiply_rows(trio: Trio, x: Shared, left: Array, right: Array, blinds: Blinds | None = None) -> Step[Shared]:
    """<row left[t] AND row right[t]> for each t, of rows <x> (any, words). One round, a bit from each server.

    S_i: z_i = x_i y_i + x_i y_(i+1) + x_(i+1) y_i + F_i - F_(i+1), to S_(i-1); + and - are XOR. `blinds`: F_i and
    F_(i+1) where several rounds have drawn theirs at once.
    Sees: S_(i-1) z_i, which F_(i+1) makes uniform.
    """
    shape = len(left), x.shape[1]
    piece = bits_piece(*shape)
    moves = [trio.move(role, role - 1, piece) for role in range(3)]
    if trio.role is None:
        yield Round(moves)
        return trio.me.hollow(SLICED, shape)
    own, following = around(trio, SLICED, *shape) if blinds is None else blinds.take(len(left))
    z = np.empty(shape, np.uint64)
    and_rows(x.shares[0], x.shares[1], left, right, own, following, z)
    (theirs,) = yield Round(moves, [z])
    return trio.held(SLICED, z, theirs)


def to_words(trio: Trio, bits: Shared, ring: Words) -> Step[Shared]:
    """[h] over Z_2^w from bits <h> (rows, words): words (rows, 64 times words). Two rounds, three words a bit.

    beta = h_i XOR h_j is known to S_i, sigma = 1 - 2 h_k to S_j and S_k, and h = sigma beta + h_k.
    1. S_i: b1 = F_i, b2 = beta - b1, to S_j. S_k: m_k = sigma b1 + F_i', to S_j.
    2. S_j: m_j = sigma b2 + F_j, to S_k.
    3. Shares: -F_i', -F_j, m_j + m_k + h_k.

    Sees: S_j b2, which F_i masks, and m_k, which F_i' masks: both of K_i, which it lacks. S_k m_j, which F_j of K_j
    masks. S_i nothing.
    """
    rows, words = bits.shape
    shape = rows, 64 * words
    word, mask = words_piece(ring, rows * 64 * words), np.uint64(ring.mask)
    first, second = [trio.move(0, 1, word), trio.move(2, 1, word)], [trio.move(1, 2, word)]
    if trio.role is None:
        yield Round(first)
        yield Round(second)
        return trio.me.hollow(ring, shape)
    own, following = (share.reshape(-1) for share in bits.shares)
    b, f_i = trio.fresh(0, ring, 2, rows * 64 * words) if trio.role != 1 else (NOTHING, NOTHING)
    f_j = trio.fresh(1, ring, rows * 64 * words)
    out = np.empty(rows * 64 * words, np.uint64)
    if trio.role == 0:
        bits_less(own ^ following, b, mask, out)
        yield Round(first, [out])
        yield Round(second)
        return trio.of_roles(ring, shape, ring.neg(f_i), ring.neg(f_j), NOTHING)
    if trio.role == 1:
        b, theirs = yield Round(first)
        signed_bits(following, b, f_j, mask, out)
        yield Round(second, [out])
        h_k, f_j = following, ring.neg(f_j)
    else:
        signed_bits(own, b, f_i, mask, out)
        yield Round(first, [out])
        (theirs,) = yield Round(second)
        h_k, f_i = own, ring.neg(f_i)
    both = np.empty(rows * 64 * words, np.uint64)
    add_up(h_k, out, theirs, mask, both)
    return trio.of_roles(ring, shape, f_i, f_j, both)


def select(trio: Trio, bits: Shared, x: Shared) -> Step[Shared]:
    """[h x] over Z_2^w, entry by entry, from bits <h> (1, words) and [x] (64 times words,). Two rounds, four words
    each.

    As `to_words`, and S_i shares q = beta (x_i + x_j) as well.
    1. S_i: b1, q1 = F_i; b2 = beta - b1 and q2 = beta (x_i + x_j) - q1, to S_j.
       S_k: m_k = h_k x_i + sigma (q1 + b1 x_k) + F_i', to S_j.
    2. S_j: m_j = h_k x_j + sigma (q2 + b2 x_k) + F_j, to S_k.
    3. Shares: -F_i', -F_j, m_j + m_k + h_k x_k.

    Sees: S_j b2, q2 and m_k, masked by three stretches of K_i; S_k m_j, masked by F_j.
    """
    ring, (count,) = x.ring, x.shape
    assert isinstance(ring, Words)
    pair, word, mask = words_piece(ring, 2 * count), words_piece(ring, count), np.uint64(ring.mask)
    first, second = [trio.move(0, 1, pair), trio.move(2, 1, word)], [trio.move(1, 2, word)]
    if trio.role is None:
        yield Round(first)
        yield Round(second)
        return trio.me.hollow(ring, (count,))
    own, following = (share.reshape(-1) for share in bits.shares)
    x_own, x_following = (np.ascontiguousarray(share) for share in x.shares)
    b, q, f_i = trio.fresh(0, ring, 3, count) if trio.role != 1 else (NOTHING,) * 3
    f_j = trio.fresh(1, ring, count)
    if trio.role == 0:
        beta, out = SLICED.add(own, following), np.empty(2 * count, np.uint64)
        bits_less(beta, b, mask, out[:count])
        kept_less(beta, x_own, x_following, q, mask, out[count:])
        yield Round(first, [out])
        yield Round(second)
        return trio.of_roles(ring, (count,), ring.neg(f_i), ring.neg(f_j), NOTHING)
    out = np.empty(count, np.uint64)
    if trio.role == 1:
        opened, theirs = yield Round(first)
        signed_kept(following, x_own, opened[count:], opened[:count], x_following, f_j, mask, out)
        yield Round(second, [out])
        h_k, x_k, f_j = following, x_following, ring.neg(f_j)
    else:
        signed_kept(own, x_following, q, b, x_own, f_i, mask, out)
        yield Round(first, [out])
        (theirs,) = yield Round(second)
        h_k, x_k, f_i = own, x_own, ring.neg(f_i)
    both = np.empty(count, np.uint64)
    add_kept(h_k, out, theirs, x_k, mask, both)
    return trio.of_roles(ring, (count,), f_i, f_j, both)


def complement(bits: Shared) -> Shared:
    """Of rows of bits, 64 a word."""
    return bits + ALL_ONES
