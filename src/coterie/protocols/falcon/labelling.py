"""One-hot labels from scores: brackets of comparisons, with products of two bits
(docs/protocols/falcon.md#falcon-iteration).

Scores play in groups of neighbours. In a group every pair is compared, and the winner's score goes on to the next
level. All schedules give the same labels: of equal scores the lower index wins.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.falcon.bits import ALL_ONES, SLICED, complement, multiply_rows, select
from coterie.protocols.falcon.comparing import signs
from coterie.protocols.falcon.servers import Step, Trio, side_by_side
from coterie.sharing import Shared, concatenate

__all__ = ["Bracket", "brackets", "comparisons", "one_hot_least"]

Rows = NDArray[np.int64]


class Bracket(NamedTuple):
    """One level of a schedule. Nodes are contiguous ranges of clusters, in groups; `pairs` (2, pairs): which nodes are
    compared, by number. Bits are rows: first the signs of the pairs, then their complements, then each round's
    products. `products`: the rows that each round multiplies. `wins`: for each node the row that says that it wins its
    group, or -1 where it has no opponent. `first`, `other`, `target`: of each node that is not its group's first, the
    first one, itself and the group's number. `clusters`: to which node each cluster belongs; `single`: whether it is
    all of it."""

    pairs: Rows
    products: list[tuple[Rows, Rows]]
    wins: Rows
    starts: Rows
    first: Rows
    other: Rows
    target: Rows
    clusters: Rows
    single: NDArray[np.bool_]


@lru_cache(maxsize=64)
def brackets(clusters: int, schedule: tuple[int, ...]) -> tuple[Bracket, ...]:
    """The levels of a schedule, which gives the size of the groups at each of them."""
    nodes, levels = [[c] for c in range(clusters)], []
    for size in schedule:
        groups = [list(range(a, min(a + size, len(nodes)))) for a in range(0, len(nodes), size)]
        pairs = [(i, j) for group in groups for i in group for j in group if i < j]
        number = {pair: t for t, pair in enumerate(pairs)}
        # the later one of a pair wins if the sign is 1, which it is if its score is strictly less
        literals = [
            [number[i, a] for i in group if i < a] + [len(pairs) + number[a, j] for j in group if j > a]
            for group in groups
            for a in group
        ]
        products, rows = [], 2 * len(pairs)
        while any(len(own) > 1 for own in literals):
            left: list[int] = []
            right: list[int] = []
            for a, own in enumerate(literals):
                half = len(own) // 2
                literals[a] = list(range(rows + len(left), rows + len(left) + half)) + own[2 * half :]
                left, right = left + own[: 2 * half : 2], right + own[1 : 2 * half : 2]
            products.append((np.array(left, np.int64), np.array(right, np.int64)))
            rows += len(left)
        owner = {c: a for a, own in enumerate(nodes) for c in own}
        others = [(group[0], a, g) for g, group in enumerate(groups) for a in group[1:]]
        first, other, target = (np.array([one[i] for one in others], np.int64) for i in range(3))
        levels.append(
            Bracket(
                np.array(pairs, np.int64).reshape(-1, 2).T,
                products,
                np.array([own[0] if own else -1 for own in literals], np.int64),
                np.array([group[0] for group in groups], np.int64),
                first,
                other,
                target,
                np.array([owner[c] for c in range(clusters)], np.int64),
                np.array([len(nodes[owner[c]]) == 1 for c in range(clusters)]),
            )
        )
        nodes = [[c for a in group for c in nodes[a]] for group in groups]
    return tuple(levels)


def comparisons(clusters: int, schedule: tuple[int, ...]) -> int:
    return sum(level.pairs.shape[1] for level in brackets(clusters, schedule))


def one_hot_least(trio: Trio, z: Shared, schedule: tuple[int, ...]) -> Step[Shared]:
    """<H> (k, words): which of the k scores [z] (k, 64 times words) is least, the first of them if several are. A level
    takes the rounds of a sign, ceil(log2(s - 1)) for groups of s, and two for the winners' scores, unless it is the
    last.

    1. b_jl = sign(z_l - z_j), j < l, in every group: l wins only if strictly less.
    2. A node wins if it wins against all others of its group: a tree of ANDs.
    3. Scores go on: z_first + the sum of h (z_other - z_first), by `select`. Beside that, every cluster's bit so far
       is multiplied with the bit of its node.
    """
    k, numbers = z.shape
    words = numbers // 64
    hot: Shared | None = None
    levels = brackets(k, schedule)
    for level in levels:
        low, high = level.pairs
        compared = z[high] - z[low]
        b = (yield from signs(trio, compared.reshape(compared.size))).reshape(len(low), words)
        rows = concatenate([b, complement(b)])
        for left, right in level.products:
            products = yield from multiply_rows(trio, rows, left, right)
            rows = concatenate([rows, products])
        hot, z = yield from side_by_side(
            trio.me, _joined(trio, hot, rows, level), _go_on(trio, z, rows, level, level is levels[-1])
        )
    if hot is None:
        return trio.public(np.full((k, words), ALL_ONES, np.uint64), SLICED)
    return hot


def _go_on(trio: Trio, z: Shared, rows: Shared, level: Bracket, last: bool) -> Step[Shared]:
    """The winners' scores (groups, numbers); after the last level nobody needs them."""
    if last:
        return z
    won = level.wins[level.other]
    ahead = z[level.other] - z[level.first]
    chosen = yield from select(trio, rows[won].reshape(1, won.size * rows.shape[1]), ahead.reshape(ahead.size))
    chosen = chosen.reshape(*ahead.shape)
    return concatenate(
        [
            z[start : start + 1] + chosen[np.flatnonzero(level.target == g)].sum(0)[None]
            for g, start in enumerate(level.starts)
        ]
    )


def _joined(trio: Trio, hot: Shared | None, rows: Shared, level: Bracket) -> Step[Shared]:
    """The clusters' bits after a level."""
    won = level.wins[level.clusters]
    if hot is None:
        return rows[won] if (won >= 0).all() else _with_ones(trio, rows, won)
    playing = np.flatnonzero(won >= 0)
    new, places = np.flatnonzero((won >= 0) & level.single), np.arange(len(won))
    both = np.array([c for c in playing if not level.single[c]], np.int64)
    joined = concatenate([hot, rows])
    if len(both):
        products = yield from multiply_rows(trio, joined, both, len(won) + won[both])
        joined = concatenate([joined, products])
        places[both] = hot.shape[0] + rows.shape[0] + np.arange(len(both))
    places[new] = len(won) + won[new]
    return joined[places]


def _with_ones(trio: Trio, rows: Shared, won: Rows) -> Shared:
    ones = trio.public(np.full((1, rows.shape[1]), ALL_ONES, np.uint64), SLICED)
    return concatenate([rows, ones])[np.where(won < 0, rows.shape[0], won)]
