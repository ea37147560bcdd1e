"""Public tables at secret places: one-hot bits by halves (docs/protocols/falcon.md#falcon-iteration)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.protocols.falcon.bits import BITS, SLICED, bits_piece, filled, multiply_rows, packed, unpacked
from coterie.protocols.falcon.comparing import low_bits
from coterie.protocols.falcon.kernels import outer_bits, xor_chosen
from coterie.protocols.falcon.servers import Round, Step, Trio, around, side_by_side
from coterie.protocols.onetime.bits import pack_rows
from coterie.ring import Array, Bulk
from coterie.sharing import Shared, concatenate, stack

__all__ = ["entries", "first_entry", "one_hot"]


def one_hot(trio: Trio, index: Shared, bits: int) -> Step[Shared]:
    """<e> (m, words), 64 places a word: a 1 at the place [index] (m,) of 2^bits for each number. 2 + ceil(log2(bits -
    1)) and ceil(log2 bits) rounds; about 2^bits ANDs a number.

    A one-hot of two halves is every entry of the higher's AND every one of the lower's.
    """
    whole = filled(trio, index)
    found = yield from low_bits(trio, whole, bits)
    ones = unpacked(trio, found, (bits, whole.size))[:, : index.size]
    halves = [stack([1 - ones[l], ones[l]], 1) for l in range(bits)]  # (m, 2)
    while len(halves) > 1:
        pairs = list(zip(halves[::2], halves[1::2], strict=False))
        if halves[0].ring == BITS and halves[0].shape[1] < 64:
            products = yield from _outer_products(trio, pairs)
        else:
            each = [_outer_product(trio, _by_words(trio, low), _by_bits(trio, high)) for low, high in pairs]
            products = yield from side_by_side(trio.me, *each)
        halves = [*products, *halves[2 * len(pairs) :]]
    return _by_words(trio, halves[0])


def _by_words(trio: Trio, bits: Shared) -> Shared:
    """Bits (m, places), 64 places a word."""
    if bits.ring == SLICED:
        return bits
    m, words = bits.shape[0], -(-bits.shape[1] // 64)
    if trio.role is None:
        return trio.me.hollow(SLICED, (m, words))
    return trio.held(SLICED, *(pack_rows(share, words) for share in bits.shares))


def _by_bits(trio: Trio, bits: Shared) -> Shared:
    """The same, one place a byte."""
    return bits if bits.ring == BITS else unpacked(trio, bits, (bits.shape[0], 64 * bits.shape[1]))


def _outer_product(trio: Trio, low: Shared, high: Shared) -> Step[Shared]:
    """Of bits <low> (m, words), 64 a word, and <high> (m, h), all products (m, h times words). One round, as
    `multiply_rows`."""
    shape = low.shape[0], high.shape[1] * low.shape[1]
    moves = [trio.move(role, role - 1, bits_piece(*shape)) for role in range(3)]
    if trio.role is None:
        yield Round(moves)
        return trio.me.hollow(SLICED, shape)
    own, following = around(trio, SLICED, *shape)
    z = np.empty(shape, np.uint64)
    flat = [np.ascontiguousarray(share) for share in (*high.shares, *low.shares)]
    outer_bits(flat[0], flat[1], flat[2], flat[3], own, following, z)
    (theirs,) = yield Round(moves, [z])
    return trio.held(SLICED, z, theirs)


def _outer_products(trio: Trio, pairs: Sequence[tuple[Shared, Shared]]) -> Step[list[Shared]]:
    """Of bits (m, l) and (m, h), all products (m, h l), for several pairs in one message."""
    left, right, shapes = [], [], []
    for low, high in pairs:
        (m, l), h = low.shape, high.shape[1]
        shapes.append((m, h * l))
        left.append(high[:, np.repeat(np.arange(h), l)].reshape(m * h * l))
        right.append(low[:, np.tile(np.arange(l), h)].reshape(m * h * l))
    rows = concatenate([packed(trio, concatenate(side)) for side in (left, right)])
    product = yield from multiply_rows(trio, rows, np.array([0]), np.array([1]))
    flat = unpacked(trio, product, (sum(m * size for m, size in shapes),))
    edges = np.cumsum([0, *(m * size for m, size in shapes)])
    return [flat[edges[i] : edges[i + 1]].reshape(*shape) for i, shape in enumerate(shapes)]


def entries(trio: Trio, hot: Shared, table: Bulk, width: int) -> Shared:
    """Bits (m, width), lowest first, of the entries of a public table of words that one-hot bits (m, words) choose: the
    XOR of e_v Q[v], local."""
    (m, words), count = hot.shape, len(table)
    if trio.role is None:
        return trio.me.hollow(BITS, (m, width))
    values = table if count == 64 * words else np.concatenate([table, np.zeros(64 * words - count, np.uint64)])

    def chosen(share: Array) -> Array:
        out = np.empty(m, np.uint64)
        xor_chosen(np.ascontiguousarray(share), values, out)
        return (out[:, None] >> np.arange(width, dtype=np.uint64) & np.uint64(1)).astype(np.uint8)

    return trio.held(BITS, *(chosen(share) for share in hot.shares))


def first_entry(trio: Trio, hot: Shared) -> Shared:
    """Bits (m, 1): does one-hot <e> (m, words) say place 0?"""
    if trio.role is None:
        return trio.me.hollow(BITS, (hot.shape[0], 1))
    return trio.held(BITS, *((share[:, :1] & np.uint64(1)).astype(np.uint8) for share in hot.shares))
