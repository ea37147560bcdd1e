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

__all__ = ["DRAW_BITS", "Sampling", "plus_plus", "public_draws", "trials"]

#: Bits of a public random number that a draw takes.
DRAW_BITS = 20
#: Products of these numbers with sums of distances stay below 2 to this power.
PRODUCT_BITS = 61


class Sampling(msgspec.Struct, frozen=True):
    """`size`: rows of a group, a power of two. `group_shift`, `row_shift`: how many low bits the distances of a group,
    and of a row, drop before they are multiplied with a random number."""

    rows: int
    size: int
    group_shift: int
    row_shift: int

    @classmethod
    def of(cls, problem: Problem) -> Sampling:
        """Groups of about the root of n rows, but of no more than such that the sum of their distances fits."""
        n, bits = problem.rows, problem.distance_bits
        size = max(16, 1 << n.bit_length() // 2)
        while size > 1 and bits + size.bit_length() > PRODUCT_BITS:
            size //= 2
        groups = -(-n // size)
        row_shift = max(0, bits + size.bit_length() + DRAW_BITS - PRODUCT_BITS)
        group_shift = max(0, bits + size.bit_length() + groups.bit_length() + DRAW_BITS - PRODUCT_BITS)
        return cls(n, size, group_shift, row_shift)

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


def public_draws(seed: bytes, rows: int, clusters: int) -> tuple[int, Ints]:
    """From a public seed, the first row, and for each further centre and candidate two numbers (k - 1, L, 2)."""
    shape = (clusters - 1, trials(clusters), 2)
    stream = hashlib.shake_256(b"coterie start" + seed).digest(16 + 4 * math.prod(shape))
    first = int.from_bytes(stream[:16], "little") % rows
    numbers = np.frombuffer(stream, "<u4", offset=16) & ((1 << DRAW_BITS) - 1)
    return first, numbers.astype(np.int64).reshape(shape)


def plus_plus(sampling: Sampling, table: Ints, first: int, numbers: Ints) -> list[int]:
    """The rows that are drawn, in the clear: what `seeding.py` does in secret, bit for bit.

    Of the candidates for a centre the one stays that leaves the least distances to the closest centre, in groups
    rounded; the first of several.
    """
    chosen, nearest = [first], _distances(table, table[first])
    weights = _of_groups(sampling, nearest)
    for pairs in numbers:
        rows = [_draw(sampling, weights, nearest, int(u), int(v)) for u, v in pairs]
        candidates = [np.minimum(nearest, _distances(table, table[row])) for row in rows]
        left = [_of_groups(sampling, one) for one in candidates]
        best = int(np.argmin([one.sum() for one in left]))
        nearest, weights = candidates[best], left[best]
        chosen.append(rows[best])
    return chosen


def _distances(table: Ints, center: Ints) -> Ints:
    difference = table - center
    return np.asarray(np.einsum("il,il->i", difference, difference))


def _of_groups(sampling: Sampling, nearest: Ints) -> Ints:
    """The weight of each group; never 0."""
    sums = np.add.reduceat(nearest, np.arange(0, sampling.rows, sampling.size))
    return truncated(sums, sampling.group_shift) + 1


def _draw(sampling: Sampling, weights: Ints, nearest: Ints, u: int, v: int) -> int:
    group = _place(weights, u)
    rows = slice(group * sampling.size, (group + 1) * sampling.size)
    return group * sampling.size + _place(truncated(nearest[rows], sampling.row_shift) + 1, v)


def _place(weights: Ints, number: int) -> int:
    """The first place up to which more than number / 2^20 of the total weight lies."""
    upto = np.cumsum(weights)
    return int(np.argmax(number * upto[-1] < upto << DRAW_BITS))
