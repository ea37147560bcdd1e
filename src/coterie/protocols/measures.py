"""How good clusters are, in secret: their inertia, and the simplified silhouette, quantised
(docs/arithmetic.md#silhouette)."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.protocols.blocks import Labels, Resident, Table, block_step
from coterie.protocols.interface import Ints
from coterie.protocols.sampling import Sampling
from coterie.protocols.seeding import Seeding, row_distances
from coterie.sharing import Shared, concatenate, stack, total
from coterie.transport import metered

__all__ = ["LEVELS", "Measures", "silhouette_thresholds"]

#: Q: how many levels a row's silhouette is told apart by.
LEVELS = 8
#: Ratios are compared in parts of 2 to this power, of distances of at most so many bits.
RATIO_BITS, COMPARED_BITS = 8, 53


def silhouette_thresholds() -> Ints:
    """N_q (Q,): a row reaches level q if 256 a < N_q b. Its silhouette 1 - sqrt(a / b) is then above (q - 1/2) / Q."""
    levels = (np.arange(1, LEVELS + 1) - 0.5) / LEVELS
    return np.rint((1 - levels) ** 2 * (1 << RATIO_BITS)).astype(np.int64)


class Measures(Seeding):
    """Shapes: n rows, d columns, k clusters."""

    def objective(self, sums: Shared, counts: Shared, centers: Shared) -> Shared:
        """The sum over rows of the squared distance to their centre, less the rows' own squares, shifted
        right by `objective_shift`: sum_j counts_j |c_j|^2 - 2 sums_j . c_j, a scalar (1,). |c_j|^2 and the sums are
        cut to fit before they are multiplied."""
        shift, sums = self.problem.objective_shift, self.widen(sums)
        squares = self.square(centers).sum(1)
        cut = self.truncate(concatenate([sums.reshape(sums.size), squares]), shift)
        left = concatenate([cut[: sums.size] * -2, cut[sums.size :]])
        product = self.product(left, concatenate([centers.reshape(centers.size), self.widen(counts)]))
        return product.reshape(1, product.size).sum(1)

    def scatter_within(self, sums: Shared, counts: Shared, centers: Shared, squares: Shared) -> Shared:
        """In each column (d,), the sum over rows of the squared distance to their centre: Q + sum_j c (t c - 2 T), with
        the `squares` [Q] (d,) of all rows."""
        sums, counts = self.widen(sums), self.widen(counts)
        size = self.product(concatenate([counts[:, None]] * self.problem.columns, axis=1), centers)
        return squares + self.product(centers, size - sums * 2).sum(0)

    def weighted_total(self, columns: Shared, weights: Shared, shift: int | None = None) -> Shared:
        """The weighted sum (1,) of what columns (d,) have, shifted right by `weighted_shift`, unless told."""
        cut = self.truncate(columns, self.problem.weighted_shift if shift is None else shift)
        return self.product(cut.reshape(*weights.shape), weights).sum(1)

    def weighted_squares(self, rows: Table, shift: int) -> Shared:
        """In each column (d,) the squares of all rows, each times the row's weight, added up, in multiples of 2^shift.
        Whoever holds a cell need not know the weight: squares enter in two parts, so that sums stay within a word."""
        parts = total(self.on_blocks(weigh_squares, rows.blocks, self.problem.columns, shift)())
        return parts[0] + self.truncate(parts[1], shift)

    def weights_of(self, block: Resident) -> Shared:
        """What the rows of a block count for (rows,)."""
        weights: Shared = block.held["weights"]
        return weights

    @metered("Silhouette")
    def silhouette(
        self, rows: Table, labels: Labels, centers: Shared, weights: Shared | None, copies: Ints | None = None
    ) -> Shared:
        """How many levels all rows reach together (1,). `copies` (k,): 1 where a centre is a copy of another, which
        is no neighbour.

        1. a, b: of each row the squared distance to its centre, and to the closest other.
        2. <256 a < N_q b> for each level q, added up. No division, and no root.
        """
        sampling = Sampling.of(self.problem)
        rough = self.rough_weights(rows, weights, sampling)
        labels.settle()
        return total(self._levels(rows, labels, centers, rough, sampling, copies))

    def _levels(
        self,
        rows: Table,
        labels: Labels,
        centers: Shared,
        weights: Shared | None,
        sampling: Sampling,
        copies: Ints | None,
    ) -> list[Shared]:
        given = (sampling, copies, centers, *self._weighed(centers, weights))
        return self.on_blocks(reach_levels, rows.blocks, labels.name, *given)()

    def levels_of(self, hot: Shared, distances: Shared, sampling: Sampling, copies: Ints | None) -> Shared:
        """From one-hot words and distances (k, rows), how many levels these rows reach (1,)."""
        away = 1 << (sampling.bits + 1)
        own = self.product(hot, distances).sum(0)
        others = distances + hot * away
        if copies is not None:
            others = others + copies[:, None] * away
        both = stack([own, self.least_of(others)])
        cut = self.truncate(both, max(0, sampling.bits - COMPARED_BITS))
        near = cut[0] * (1 << RATIO_BITS)
        below = self.is_negative(stack([near - cut[1] * int(n) for n in silhouette_thresholds()]))
        return self.to_words(below).sum(0).reshape(1, own.size).sum(1)

    def least_of(self, values: Shared) -> Shared:
        """The least entry of each column (n,) of [values] (k, n): neighbours play each other."""
        while (count := values.shape[0]) > 1:
            half = count // 2
            left, right = values[0 : 2 * half : 2], values[1 : 2 * half : 2]
            values = concatenate([self.select(self.is_negative(right - left), left, right), values[2 * half :]])
        return values[0]


@block_step
def reach_levels(
    family: Any,
    block: Resident,
    name: str,
    sampling: Sampling,
    copies: Ints | None,
    centers: Shared,
    weighed: Shared | None,
    squares: Shared | None,
) -> Shared:
    hot = family.to_words(block.held[name]).transpose()
    levels: Shared = family.levels_of(hot, row_distances(family, block, centers, weighed, squares), sampling, copies)
    return levels


@block_step
def weigh_squares(family: Any, block: Resident, columns: int, shift: int) -> Shared:
    own = block.held["own cells"]
    squares = None if own is None else own * own
    high = None if squares is None else squares >> shift
    low = None if squares is None else squares & ((1 << shift) - 1)
    weights = family.weights_of(block)[None]
    entered = [family.enter(part, (len(block.rows), columns)) for part in (high, low)]
    return concatenate([family.matrix_product(weights, part) for part in entered])
