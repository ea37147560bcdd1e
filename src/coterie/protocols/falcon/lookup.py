"""Public tables at secret places: one-hot bits by halves (docs/protocols/falcon.md#falcon-iteration)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.protocols.falcon.bits import BITS, filled, multiply_rows, packed, unpacked
from coterie.protocols.falcon.comparing import low_bits
from coterie.protocols.falcon.kernels import xor_chosen
from coterie.protocols.falcon.servers import Step, Trio
from coterie.ring import Bulk
from coterie.sharing import Shared, concatenate, stack

__all__ = ["entries", "one_hot"]


def one_hot(trio: Trio, index: Shared, bits: int) -> Step[Shared]:
    """Bits (m, 2^bits): a 1 at the place [index] (m,) of each number. 2 + ceil(log2(bits - 1))
    and ceil(log2 bits) rounds; about 2^bits ANDs a number.

    A one-hot of two halves is every entry of the higher's AND every one of the lower's.
    """
    whole = filled(trio, index)
    found = yield from low_bits(trio, whole, bits)
    each = unpacked(trio, found, (bits, whole.size))[:, : index.size]
    halves = [stack([1 - each[l], each[l]], 1) for l in range(bits)]  # (m, 2)
    while len(halves) > 1:
        pairs = list(zip(halves[::2], halves[1::2], strict=False))
        products = yield from _outer_products(trio, pairs)
        halves = products + halves[2 * len(pairs) :]
    return halves[0]


def _outer_products(trio: Trio, pairs: Sequence[tuple[Shared, Shared]]) -> Step[list[Shared]]:
    """Of bits (m, l) and (m, h), all products (m, h l)."""
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
    """Bits (m, width), lowest first, of the entries of a public table of words that one-hot bits (m, size) choose: the
    XOR of e_v Q[v], local."""
    m = hot.shape[0]
    if trio.role is None:
        return trio.me.hollow(BITS, (m, width))

    def chosen(share: Bulk) -> Bulk:
        out = np.empty(m, np.uint64)
        xor_chosen(np.ascontiguousarray(share[:, : len(table)]), table, out)
        return (out[:, None] >> np.arange(width, dtype=np.uint64) & np.uint64(1)).astype(np.uint8)

    return trio.held(BITS, *(chosen(share) for share in hot.shares))
