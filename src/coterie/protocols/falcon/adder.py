"""Adding up x_i + x_j and x_k bit by bit: leaves of one or two bits, and trees of carries
(docs/protocols/falcon.md#falcon-adder).

S_i alone knows x_i + x_j; S_j and S_k both know x_k. X, Y, b are the bits of x_i, x_j, x_k, and a those of x_i + x_j, c
its carries: a_l = X_l XOR Y_l XOR c_l. What is sent and held is a bit of each of many numbers, 64 a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.falcon.bits import NOTHING, SLICED, Blinds, bits_piece, multiply_rows
from coterie.protocols.falcon.kernels import carries, leaves, merge_rows, slice_words
from coterie.protocols.falcon.servers import Round, Step, Trio
from coterie.ring import Bulk
from coterie.sharing import Shared, concatenate

__all__ = ["Leaves", "Sum", "add_shares", "carry_into_each", "carry_out", "digits", "singles"]

Rows = NDArray[np.int64]


class Node(NamedTuple):
    """The rows of <G> and <P> of leaves that follow each other; no P where the lowest leaf of all is among them."""

    g: int
    p: int | None


class Leaves(NamedTuple):
    """Where the leaves of the trees lie. Leaf d covers `sizes[d]` bits from `lows[d]` on; `groups`: the numbers of the
    leaves of each tree, lowest first. `reach[d]`: the row of P among what is sent, below 0 where P is not, and `alone`
    the leaves of one bit whose P each server has by itself: these come after what is sent."""

    lows: Rows
    sizes: Rows
    reach: Rows
    alone: Rows
    groups: tuple[tuple[Node, ...], ...]

    @property
    def pairs(self) -> Rows:
        return np.asarray(self.lows[self.sizes == 2])

    @property
    def sent(self) -> int:
        return len(self.lows) + int((self.reach >= 0).sum())


def _leaves(groups: Sequence[Sequence[tuple[int, int]]]) -> Leaves:
    """Of trees by the places and sizes of their leaves. The lowest leaf of the first tree needs no P."""
    every = [leaf for group in groups for leaf in group]
    lows, sizes = (np.array(column, np.int64) for column in zip(*every, strict=True))
    reach, alone, count = np.full(len(every), -1), [], 0
    for d in range(1, len(every)):
        if sizes[d] == 2:
            reach[d], count = len(every) + count, count + 1
        else:
            alone.append(d)
    sent = [d for d in range(len(every)) if reach[d] >= 0]
    row_of_p = {d: len(every) + row for row, d in enumerate([*sent, *alone])}
    nodes = iter([Node(d, row_of_p.get(d)) for d in range(len(every))])
    return Leaves(
        lows,
        sizes,
        reach.astype(np.int64),
        np.array(alone, np.int64),
        tuple(tuple(next(nodes) for _ in group) for group in groups),
    )


@lru_cache(maxsize=256)
def digits(*edges: int) -> Leaves:
    """A tree for the bits between each two edges: of two bits a leaf; of an odd number, the lowest stands alone."""
    groups = []
    for low, high in pairwise(edges):
        odd = (high - low) % 2
        groups.append([(low, 1)] * odd + [(at, 2) for at in range(low + odd, high, 2)])
    return _leaves(groups)


@lru_cache(maxsize=64)
def singles(count: int) -> Leaves:
    """A leaf for each of so many bits."""
    return _leaves([[(at, 1) for at in range(count)]])


class Sum(NamedTuple):
    """Bits <a> and <b> (places, words) of what is added up, and of each leaf <G> (leaves, words), that it generates a
    carry, and of all but the first <P>, that it passes one on. `carried`: <c_l> at place l - 1."""

    a: Shared
    b: Shared
    g: Shared
    p: Shared
    carried: Shared


def add_shares(trio: Trio, x: Shared, places: int, last: int, wanted: Leaves) -> Step[Sum]:
    """The leaves of x_i + x_j and x_k, from [x] (numbers,), for the lowest `places` bits; carries up to c_last. Two
    rounds.

    1. S_i: c_(l+1) = maj(X_l, Y_l, c_l), c_0 = 0. It shares each: gamma_l = F_i, delta_l = c_l XOR gamma_l, to S_j.
       Then a = (X_l XOR gamma_l, Y_l XOR delta_l, 0) and b = (0, 0, b_l). For each leaf of two bits eta = a_1 a_0 as
       well: eta_i = F_i, eta_j to S_j.
    2. G = a_1 b_1 + eta b_0 + a_0 b_1 b_0 and P = eta + a_1 b_0 + a_0 b_1 + b_1 b_0; of one bit, G = a b, P = a + b.
       S_j evaluates them on a's share j and S_k on share i, P without its last term: m_j = . + F_j, to S_k, and
       m_k = . + F_i, to S_j, in the first round already. Shares: F_i, F_j, m_j + m_k, and b_1 b_0 for P.

    Sees: S_j delta, eta_j and m_k, each masked by its own stretch of K_i, which it lacks; S_k m_j, masked by F_j of
    K_j, which it lacks; S_i nothing.
    """
    words, pairs = x.shape[0] // 64, wanted.pairs
    carry, leaf = bits_piece(last + len(pairs), words), bits_piece(wanted.sent, words)
    first, second = [trio.move(0, 1, carry), trio.move(2, 1, leaf)], [trio.move(1, 2, leaf)]
    size = Size(places, last, words)
    if trio.role is None:
        yield Round(first)
        yield Round(second)
        return _summed(trio, wanted, size, Parts())
    own, following = (_bits_of(share, places, words) for share in x.shares)
    gamma = trio.fresh(0, SLICED, last + len(pairs), words)
    f_i, f_j = trio.fresh(0, SLICED, wanted.sent, words), trio.fresh(1, SLICED, wanted.sent, words)
    if trio.role == 0:
        delta = np.empty((last + len(pairs), words), np.uint64)
        carries(own[:last], following[:last], delta[:last])
        delta[:last] ^= gamma[:last]
        a_i, a_j = _with_carries(own, gamma, last), _with_carries(following, delta, last)
        a = a_i ^ a_j
        delta[last:] = (a[pairs + 1] & a[pairs]) ^ gamma[last:]
        yield Round(first, [delta])
        yield Round(second)
        return _summed(trio, wanted, size, Parts(a_i=a_i, a_j=a_j, f_i=f_i, f_j=f_j, gamma=gamma, delta=delta))
    out = np.empty((wanted.sent, words), np.uint64)
    spread = wanted.lows, wanted.sizes, wanted.reach
    if trio.role == 1:
        delta, theirs = yield Round(first)
        a_j, b = _with_carries(own, delta, last), following
        leaves(a_j, delta[last:], b, *spread, f_j, out)
        yield Round(second, [out])
        return _summed(trio, wanted, size, Parts(a_j=a_j, b=b, f_j=f_j, m=out ^ theirs, delta=delta))
    a_i, b = _with_carries(following, gamma, last), own
    leaves(a_i, gamma[last:], b, *spread, f_i, out)
    yield Round(first, [out])
    (theirs,) = yield Round(second)
    return _summed(trio, wanted, size, Parts(a_i=a_i, b=b, f_i=f_i, m=out ^ theirs, gamma=gamma))


def _bits_of(share: Bulk, places: int, words: int) -> Bulk:
    out = np.empty((places, words), np.uint64)
    slice_words(np.ascontiguousarray(share), out)
    return out


def _with_carries(bits: Bulk, shares: Bulk, last: int) -> Bulk:
    """Bits of x_i, or of x_j, with a share of the carry into each."""
    out = bits.copy()
    upto = min(len(bits) - 1, last)
    out[1 : upto + 1] ^= shares[:upto]
    return out


class Size(NamedTuple):
    """How many bits are added up, the last carry that is shared, and words for a bit of all numbers."""

    places: int
    last: int
    words: int


class Parts(NamedTuple):
    """What one server knows of a sum when all messages are there, under the names of `add_shares`; m = m_j + m_k."""

    a_i: Bulk = NOTHING
    a_j: Bulk = NOTHING
    b: Bulk = NOTHING
    f_i: Bulk = NOTHING
    f_j: Bulk = NOTHING
    m: Bulk = NOTHING
    gamma: Bulk = NOTHING
    delta: Bulk = NOTHING


def _summed(trio: Trio, wanted: Leaves, size: Size, known: Parts) -> Sum:
    a_i, a_j, b, f_i, f_j, m, gamma, delta = known

    def shared(count: int, *shares: Bulk | None) -> Shared:
        return trio.of_roles(SLICED, (count, size.words), *shares)

    count, sent = len(wanted.lows), wanted.lows[wanted.reach >= 0]
    m_p = m[count:] ^ b[sent] & b[sent + 1] if len(b) else NOTHING  # P's last term
    p = shared(len(sent), f_i[count:], f_j[count:], m_p)
    alone = wanted.lows[wanted.alone]
    if len(alone):
        p = concatenate([p, shared(len(alone), *(one[alone] if len(one) else NOTHING for one in (a_i, a_j, b)))])
    return Sum(
        shared(size.places, a_i, a_j, None),
        shared(size.places, None, None, b),
        shared(count, f_i[:count], f_j[:count], m[:count]),
        p,
        shared(size.last, gamma[: size.last], delta[: size.last], None),
    )


# -- trees -------------------------------------------------------------------------------------------------------------


class Level(NamedTuple):
    """One round of all trees: rows left AND right; the first of these products are added to rows `tops`, the others
    stand by themselves; `kept` rows go on."""

    left: Rows
    right: Rows
    tops: Rows
    kept: Rows


@lru_cache(maxsize=256)
def _levels(groups: tuple[tuple[Node, ...], ...]) -> tuple[list[Level], list[Node]]:
    """(G, P)_hi o (G, P)_lo = (G_hi + P_hi G_lo, P_hi P_lo), neighbours at a time, in every group; and what each group
    ends with."""
    levels = []
    while any(len(group) > 1 for group in groups):
        merged = [pair for group in groups for pair in zip(group[::2], group[1::2], strict=False)]
        odd = [group[-1] for group in groups if len(group) % 2]
        left, right = [hi.p for _, hi in merged], [lo.g for lo, _ in merged]
        tops, kept = [hi.g for _, hi in merged], [node.g for node in odd]
        products = [(hi.p, lo.p) for lo, hi in merged if lo.p is not None]
        left, right = left + [hi for hi, _ in products], right + [lo for _, lo in products]
        kept += [node.p for node in odd if node.p is not None]
        levels.append(Level(*(np.array(one, np.int64) for one in (left, right, tops, kept))))
        # rows of the next level: all G of merged nodes, all P of these, then what is kept
        edges = np.cumsum([0, len(merged), len(products), len(odd), len(kept) - len(odd)]).tolist()
        g, p, kept_g, kept_p = (iter(range(low, high)) for low, high in pairwise(edges))
        after = []
        for group in groups:
            nodes = [Node(next(g), None if lo.p is None else next(p)) for lo in group[: len(group) // 2 * 2 : 2]]
            if len(group) % 2:
                nodes.append(Node(next(kept_g), None if group[-1].p is None else next(kept_p)))
            after.append(tuple(nodes))
        groups = tuple(after)
    return levels, [group[0] for group in groups]


def carry_out(trio: Trio, sum_: Sum, wanted: Leaves) -> Step[tuple[Shared, list[Node]]]:
    """<G> and <P> of each tree as a whole, and their rows. A round a level, ceil(log2 of the leaves), for all trees."""
    levels, ends = _levels(wanted.groups)
    rows, words = concatenate([sum_.g, sum_.p]), sum_.g.shape[1]
    blinds = Blinds(trio, sum(len(level.left) for level in levels), words)
    for level in levels:
        products = yield from multiply_rows(trio, rows, level.left, level.right, blinds)
        rows = _merged(trio, rows, products, level)
    return rows, ends


def _merged(trio: Trio, rows: Shared, products: Shared, level: Level) -> Shared:
    shape = len(level.left) + len(level.kept), rows.shape[1]
    if trio.role is None:
        return trio.me.hollow(SLICED, shape)
    merged = []
    for share, found in zip(rows.shares, products.shares, strict=True):
        merged.append(np.empty(shape, np.uint64))
        merge_rows(share, found, level.tops, level.kept, merged[-1])
    return trio.held(SLICED, merged[0], merged[1])


def carry_into_each(trio: Trio, sum_: Sum, count: int) -> Step[Shared]:
    """<the carry out of the l + 1 lowest leaves> for each of so many leaves (Sklansky, 1960). A round a level."""
    rows, step = concatenate([sum_.g, sum_.p]), 1
    while step < count:
        above = np.array([l for l in range(count) if l & step], np.int64)
        below = above // step * step - 1
        passing = above[above >= 2 * step]
        lower = passing // step * step - 1
        left = np.concatenate([above, passing]) + count - 1
        products = yield from multiply_rows(trio, rows, left, np.concatenate([below, lower + count - 1]))
        g, p = np.arange(count), np.arange(count, 2 * count - 1)
        found = concatenate([rows[above] + products[: len(above)], products[len(above) :]])
        places = np.arange(rows.shape[0])
        places[above] = rows.shape[0] + np.arange(len(above))
        places[passing + count - 1] = rows.shape[0] + len(above) + np.arange(len(passing))
        rows = concatenate([rows, found])[places[np.concatenate([g, p])]]
        step *= 2
    return rows[:count]
