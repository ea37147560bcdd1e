"""k-means++ (Arthur and Vassilvitskii, 2007) in whole numbers: what is public about it, and the rows that it draws.

Rows lie in *groups* of equal size, by their numbers. A row is drawn in two steps, a group by the sum of its rows'
distances and a row of it by its own, each with a public random number of its own: so no sum of all distances has to be
exact, and all products fit into words (docs/arithmetic.md#start).
"""

from __future__ import annotations

import hashlib
import math

import msgspec
import numpy as np

from coterie.protocols.interface import Ints, Problem
from coterie.protocols.numerics import truncated

__all__ = ["DRAW_BITS", "Sampling", "first_pair", "plus_plus", "public_draws", "trials"]

#: Bits of a public random number that a draw takes.
DRAW_BITS = 20
#: Bits that a weight keeps at least: for drawing rows, a rough one will do.
LEFT_OF_WEIGHT = 3
#: Products of these numbers with sums of distances stay below 2 to this power.
PRODUCT_BITS = 61


class Sampling(msgspec.Struct, frozen=True):
    """`size`: rows of a group, a power of two. `bits`: of the largest distance. `weight_shift`: how many low bits the
    weights of columns drop first, where columns are weighted. `group_shift`, `row_shift`: how many the distances of a
    group, and of a row, drop before they are multiplied with a random number. `heavy`: bits of the largest weight of a
    row, if rows have weights."""

    rows: int
    size: int
    bits: int
    weight_shift: int
    group_shift: int
    row_shift: int
    heavy: int = 0

    @property
    def pull_bits(self) -> int:
        """Of the largest distance times the weight of a row, by which it is drawn."""
        return self.bits + self.heavy

    @classmethod
    def of(cls, problem: Problem) -> Sampling:
        """Groups of about the root of n rows, but of no more than such that the sum of their distances fits."""
        n, bits, heavy = problem.rows, problem.distance_bits, problem.most_weight.bit_length()
        size, weight_shift = max(16, 1 << n.bit_length() // 2), 0
        if problem.metric is not None:
            weight_shift = min(
                max(0, bits + heavy + size.bit_length() - PRODUCT_BITS), problem.metric.mantissa - LEFT_OF_WEIGHT
            )
            bits -= weight_shift
        pull = bits + heavy
        while size > 1 and pull + size.bit_length() > PRODUCT_BITS:
            size //= 2
        groups = -(-n // size)
        row_shift = max(0, pull + size.bit_length() + DRAW_BITS - PRODUCT_BITS)
        group_shift = max(0, pull + size.bit_length() + groups.bit_length() + DRAW_BITS - PRODUCT_BITS)
        return cls(n, size, bits, weight_shift, group_shift, row_shift, heavy)

    @property
    def groups(self) -> int:
        return -(-self.rows // self.size)

    def count_groups(self, rows: Ints) -> int:
        """In how many groups rows lie, which stand in order."""
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == len(rows):
            return last // self.size - first // self.size + 1
        return len(np.unique(rows // self.size))

    @property
    def in_last(self) -> int:
        """How many rows the last group has."""
        return self.rows - (self.groups - 1) * self.size


def trials(clusters: int) -> int:
    """How many candidates there are for each centre: as many as scikit-learn has."""
    return 2 + int(math.log(clusters))


def public_draws(seed: bytes, rows: int, clusters: int, weighted: bool = False) -> tuple[int, Ints]:
    """From a public seed, the first row, and for each further centre and candidate two numbers (k - 1, L, 2). Where
    rows are `weighted` the first is drawn, too, and its number is one to draw it by (`first_pair`)."""
    shape = (clusters - 1, trials(clusters), 2)
    stream = hashlib.shake_256(b"coterie start" + seed).digest(16 + 4 * math.prod(shape))
    first = int.from_bytes(stream[:16], "little") % (1 << 2 * DRAW_BITS if weighted else rows)
    numbers = np.frombuffer(stream, "<u4", offset=16) & ((1 << DRAW_BITS) - 1)
    return first, numbers.astype(np.int64).reshape(shape)


def plus_plus(
    sampling: Sampling,
    table: Ints,
    first: int,
    numbers: Ints,
    weights: Ints | None = None,
    row_weights: Ints | None = None,
) -> list[int]:
    """The rows that are drawn, in the clear: what `seeding.py` does in secret, bit for bit. `weights` of columns (d,),
    `row_weights` (n,).

    Of the candidates for a centre the one stays that leaves the least distances to the closest centre, times weights of
    rows, in groups rounded; the first of several.
    """
    rough = np.ones(table.shape[1], np.int64) if weights is None else weights >> sampling.weight_shift
    each = np.ones(len(table), np.int64) if row_weights is None else row_weights
    draws = _Draws(sampling, each, row_weights is not None)
    if row_weights is not None:
        alike = np.full(len(table), 1 << sampling.bits - 1)
        first = draws.draw(draws.of_groups(alike), alike, *first_pair(first))
    chosen, nearest = [first], _distances(table, table[first], rough)
    mass = draws.of_groups(nearest)
    for pairs in numbers:
        rows = [draws.draw(mass, nearest, int(u), int(v)) for u, v in pairs]
        candidates = [np.minimum(nearest, _distances(table, table[row], rough)) for row in rows]
        left = [draws.of_groups(one) for one in candidates]
        best = int(np.argmin([one.sum() for one in left]))
        nearest, mass = candidates[best], left[best]
        chosen.append(rows[best])
    return chosen


def first_pair(first: int) -> tuple[int, int]:
    """The two numbers that draw the first row, where rows have weights: from the number that names it otherwise."""
    return first & ((1 << DRAW_BITS) - 1), first >> DRAW_BITS & ((1 << DRAW_BITS) - 1)


def _distances(table: Ints, center: Ints, weights: Ints) -> Ints:
    difference = table - center
    return np.asarray(np.einsum("il,il,l->i", difference, difference, weights))


class _Draws:
    """Of rows by their distances, times `each` one's weight (n,). A group, or a row, has mass 0 only if it has no
    weight."""

    def __init__(self, sampling: Sampling, each: Ints, weighted: bool) -> None:
        self.sampling, self.each = sampling, each
        self.starts = np.arange(0, sampling.rows, sampling.size)
        self.least = np.add.reduceat(each, self.starts) if weighted else np.ones(len(self.starts), np.int64)

    def of_groups(self, nearest: Ints) -> Ints:
        """The mass of each group."""
        return truncated(np.add.reduceat(nearest * self.each, self.starts), self.sampling.group_shift) + self.least

    def draw(self, mass: Ints, nearest: Ints, u: int, v: int) -> int:
        group = _place(mass, u)
        rows = slice(group * self.sampling.size, (group + 1) * self.sampling.size)
        pulls = truncated(nearest[rows] * self.each[rows], self.sampling.row_shift) + self.each[rows]
        return group * self.sampling.size + _place(pulls, v)


def _place(weights: Ints, number: int) -> int:
    """The first place up to which more than number / 2^20 of the total weight lies; the last, if there is none."""
    upto = np.cumsum(weights)
    before = number * upto[-1] < upto[:-1] << DRAW_BITS
    return int(np.argmax(before)) if before.any() else len(weights) - 1
