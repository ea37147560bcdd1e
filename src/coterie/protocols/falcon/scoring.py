"""Scores of rows, sums and means: what is computed from products (docs/protocols/falcon.md#falcon-iteration)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coterie.protocols.falcon.bits import filled, packed, to_words
from coterie.protocols.falcon.comparing import floor
from coterie.protocols.falcon.kernels import scores
from coterie.protocols.falcon.lookup import entries, first_entry, one_hot
from coterie.protocols.falcon.servers import Round, Step, Trio, cross, reshare, words_piece
from coterie.protocols.numerics import reciprocals
from coterie.protocols.onetime.bits import padded
from coterie.ring import Bulk, Words
from coterie.sharing import Shared, concatenate

__all__ = ["Reciprocal", "mean", "reciprocal", "row_scores"]


def row_scores(trio: Trio, x: Shared, c: Shared, width: int) -> Step[Shared]:
    """[M] (k, numbers) modulo 2^width, of rows [x] (n, d) and centres [c] (k, d): M_ji = |c_j|^2 - 2 x_i . c_j, which
    orders as the distances do. One round, a word for a row and a centre from each server, whatever d is.

    Each server's parts of the products add up at home: M is reshared as one word. Of numbers beyond the rows it is that
    of a row of zeros.
    Sees: as `reshare`.
    """
    ring, shape = Words(width), (c.shape[0], padded(x.shape[0]))
    piece = words_piece(ring, *shape)
    moves = [trio.move(role, role - 1, piece) for role in range(3)]
    if trio.role is None:
        yield Round(moves)
        return trio.me.hollow(ring, shape)
    c_first, c_second = c.shares
    squares = (c_first * (c_first + c_second) + c_second * c_first).sum(axis=1)
    minus_two = np.uint64(2**64 - 2)
    own, following = trio.fresh(trio.role, Words(64), *shape), trio.fresh(trio.role + 1, Words(64), *shape)
    z = np.empty(shape, np.uint64)
    both, alone = (np.ascontiguousarray(one * minus_two) for one in (c_first + c_second, c_first))
    first, second = (np.ascontiguousarray(share) for share in x.shares)
    scores(first, second, both, alone, squares, own, following, np.uint64(ring.mask), z)
    (theirs,) = yield Round(moves, [z])
    return trio.held(ring, z, theirs)


@lru_cache(maxsize=8)
def _reciprocals(places: int, g: int) -> Bulk:
    return reciprocals(np.arange(places), g).view(np.uint64)


class Reciprocal(NamedTuple):
    """[q] (k,), about 2^g / t, and [flag 2^g] (k,), which is 2^g where t is 0."""

    q: Shared
    kept: Shared


def reciprocal(trio: Trio, counts: Shared, mass: int, g: int) -> Step[Reciprocal]:
    """Of counts [t] (k,), of which all together are at most `mass`.

    <e>: one-hot bits of t. <q> = the XOR of e_v Q[v], Q[v] = round(2^g / v); <flag> = e_0. All of them to words.
    """
    ring, bits = counts.ring, mass.bit_length()
    assert isinstance(ring, Words)
    hot = yield from one_hot(trio, counts, bits)
    found = concatenate([entries(trio, hot, _reciprocals(1 << bits, g), g + 1), first_entry(trio, hot)], 1)
    k, width = found.shape
    words = yield from to_words(trio, packed(trio, found), ring)
    each = words.reshape(words.size)[: k * width].reshape(k, width)
    q = (each[:, : g + 1] * (np.uint64(1) << np.arange(g + 1, dtype=np.uint64))).sum(1)
    return Reciprocal(q, each[:, g + 1] * (1 << g))


def mean(trio: Trio, sums: Shared, by: Reciprocal, old: Shared, g: int) -> Step[Shared]:
    """[T / t] (k, d), rounded, from sums [T]; where t is 0, the old centre. `reciprocal_means` of numerics.

    y = T q + 2^g flag C, one product; rounded by g.
    """
    ring, part = sums.ring, None
    if trio.role is not None:
        part = ring.add(cross(by.q[:, None], sums, ring.mul), cross(by.kept[:, None], old, ring.mul))
    y = yield from reshare(trio, ring, sums.shape, part)
    rounded = yield from floor(trio, filled(trio, y.reshape(y.size)), g)
    return rounded[: y.size].reshape(*sums.shape)
