"""How far columns spread, in secret: for standardised distances, and for a tolerance that is relative to the data.

docs/arithmetic.md#standardisation. Nothing is opened here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coterie.protocols.blocks import Resident
from coterie.protocols.interface import Ints, Primitives
from coterie.protocols.metric import FACTOR_BITS, mantissas
from coterie.sharing import Shared, concatenate, stack
from coterie.transport import metered

__all__ = ["Scaling", "Weighed", "relative_tolerance", "weighed_scores"]

#: Bits of the columns' scatter, added up, and of what it is multiplied with, to get at the tolerance.
SCATTER_BITS, TOLERANCE_BITS = 36, 24


class Weighed(NamedTuple):
    """Of centres (k, d): the centres times weights (k, d), their weighted squares (k,), and by which weights."""

    centers: Shared
    squares: Shared
    by: Shared


class Scaling(Primitives):
    """Shapes: n rows, d columns, k clusters."""

    @metered("Scatter")
    def scatter(self, own: Ints | None) -> tuple[Shared, Shared]:
        """[W] (d,), in each column the sum of squared distances of all rows to their mean; and [Q], that of squares.
        `own` (n, d): the cells that this party holds, zero elsewhere.

        1. S = sum of x, Q = sum of x^2: everybody enters its own part.
        2. mu = S round(2^g / n), truncated by g. W = Q + mu (n mu - 2 S) = sum of (x - mu)^2.

        mu is the mean to within a step and a half, so that W is n times the variance and at most 9 n / 4 more.
        """
        n, d, g = self.problem.rows, self.problem.columns, self.problem.reciprocal_bits
        sums = self.enter(None if own is None else own.sum(axis=0), (d,))
        squares = self.enter(None if own is None else (own * own).sum(axis=0), (d,))
        mean = self.truncate(sums * (((1 << (g + 1)) // n + 1) >> 1), g)
        return squares + self.product(mean, mean * n - sums * 2), squares

    @metered("Weights")
    def column_weights(self, scatter: Shared) -> tuple[Shared, Shared]:
        """[w] (1, d), about 2^T / W in each column, 0 where nothing varies; bits (d,): is a column capped?

        1. <W < 2^b> for the octaves b below the highest, and <W < 1>.
        2. P = 2^(top - e) for a W of e bits, at most 2^R; 0 where W = 0.
        3. V = floor(W P / 2^(top - m - 1)): the m + 1 leading bits of W. q = round(2^2m / (V + 1/2)), looked up.
        4. w = q P, times what the column counts for; or, where that is public, a constant.
        """
        metric, d = self.problem.metric, self.problem.columns
        assert metric is not None
        m, octaves, top = metric.mantissa, metric.octaves, metric.top(self.problem.rows, max(self.problem.half))
        edges = [1, 1 << max(top - octaves - 1, 0), *(1 << max(b, 0) for b in range(top - octaves, top))]
        below = self.is_negative(stack([scatter - edge for edge in edges]))
        words = self.to_words(below)
        powers = np.array([1 << (octaves - 1 - i) for i in range(octaves)], np.int64)[:, None]
        power = (words[2:] * powers).sum(0) + 1 - words[0] * (1 << octaves)
        shift = top - m - 1
        leading = self.product(scatter, power) - (1 << shift >> 1)
        found = self.look_up(self.truncate(leading, shift), mantissas(m))
        capped = words[1] - words[0]
        weights = self.product(found, power)
        if metric.factors:
            weights = self.truncate(weights * np.array(metric.factors), FACTOR_BITS)
        if metric.constants:
            constants = np.array(metric.constants, np.int64)
            follows = (constants == 0).astype(np.int64)
            weights, capped = weights * follows + constants, capped * follows
        return weights.reshape(1, d), capped

    def weigh(self, centers: Shared, weights: Shared) -> Weighed:
        """Once for these centres and weights."""
        if not isinstance(centers.memo, Weighed) or centers.memo.by is not weights:
            weighed = self.product(concatenate([weights] * centers.shape[0]), centers)
            centers.memo = Weighed(weighed, self.product(centers, weighed).sum(1), weights)
        return centers.memo

    def tolerated(self, scatter: Shared, tol: float) -> Shared:
        """[the total squared movement at which to stop] (1,): the mean variance of the columns times `tol`."""
        problem = self.problem
        shift, factor, g = relative_tolerance(problem.rows, problem.half, tol)
        total = self.truncate(scatter, shift).reshape(1, scatter.size).sum(1)
        return self.truncate(total * factor, g)


def weighed_scores(family: Primitives, block: Resident, weighed: Shared, squares: Shared) -> Shared:
    """|c|^2 - 2 x . c (rows, k), which differ as weighted distances do; by themselves they may exceed a word."""
    return family.matrix_product(block.held["rows"], weighed.transpose()) * -2 + squares[None]


def relative_tolerance(rows: int, half: tuple[int, ...], tol: float) -> tuple[int, int, int]:
    """How tol / (n d) is multiplied with the columns' scatter, added up: shift that, times a factor, shift again. Below
    0, no movement is small enough."""
    shift = max(0, (rows * sum(h * h for h in half) + rows * len(half)).bit_length() - SCATTER_BITS)
    wanted = math.ldexp(abs(tol) / (rows * len(half)), shift)
    if wanted == 0:
        return shift, 0, 0
    g = min(max(TOLERANCE_BITS - 1 - math.floor(math.log2(wanted)), 0), 60)
    factor = min(round(math.ldexp(wanted, g)), 1 << TOLERANCE_BITS)
    return shift, factor if tol > 0 else -factor, g
