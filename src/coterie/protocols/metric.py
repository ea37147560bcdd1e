"""Distances in standard deviations (docs/arithmetic.md#standardisation): what is public about the columns' weights.

A column of n rows with the scatter W = sum of (x - mean)^2 gets the weight 2^T / W, a number of m bits times a power of
two. Weighted distances are then 2^T / n times those between standardised rows.
"""

from __future__ import annotations

import msgspec
import numpy as np

__all__ = ["FACTOR_BITS", "MANTISSA", "Metric", "mantissas", "standard_precision"]

#: m: bits of a weight.
MANTISSA = 12
#: R: powers of two that weights may differ by; the smaller number, if values would become too coarse.
OCTAVES, FEWER_OCTAVES = 24, 12
#: Bits of the factors that columns may have on top; the largest of them is 1.
FACTOR_BITS = 12
#: Fractional bits below which that is so.
FINE = 13


class Metric(msgspec.Struct, frozen=True):
    """`octaves`: the largest weight is at most 2^octaves times the smallest; a column that varies less is *capped*.
    `inside`: whether rows and centres all lie in the hull of the rows that the weights were made of. `factors`: per
    column, what its weight is multiplied with, in parts of 2^12; none, if that is 1 for all. `constants`: per column,
    its weight where that is public and does not follow from its spread, and 0 where it does; none, if it always
    does."""

    mantissa: int = MANTISSA
    octaves: int = OCTAVES
    inside: bool = True
    factors: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()

    @property
    def mean_factor(self) -> float:
        """Of all columns' variances, by which a tolerance counts; how far one with a constant weight varies is not
        public, and taken for nothing."""
        count = len(self.factors or self.constants)
        if not count:
            return 1.0
        factors, constants = self.relative_factors(count), self.constants or (0,) * count
        return sum(float(f) for f, constant in zip(factors, constants, strict=True) if not constant) / count

    def relative_factors(self, columns: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """What the columns count for on top; at most 1."""
        return np.array(self.factors or (1 << FACTOR_BITS,) * columns) / (1 << FACTOR_BITS)

    def top(self, rows: int, half: int) -> int:
        """Bits of the largest scatter that a column can have, and some more."""
        return (rows * half * half + rows).bit_length()

    def scale(self, rows: int, half: int) -> int:
        """T: weights are 2^T over the scatter."""
        return self.mantissa + self.top(rows, half) - 1

    def distance_bits(self, rows: int, half: tuple[int, ...]) -> int:
        """Bits of the largest weighted distance. Between rows, (x - y)^2 is at most 2 W in every column, whatever its
        bounds; a weight is a little more than 2^T / W."""
        most = (4 * sum(h * h for h in half) << (self.mantissa + self.octaves)).bit_length()
        if not self.inside:
            return most
        within = (202 * len(half) << self.scale(rows, max(half))) // 100
        return min(most, within.bit_length())


def standard_precision(columns: int, rows: int, clusters: int, inside: bool) -> tuple[int, Metric]:
    """Fractional bits of columns scaled to -1..1, and the metric for them: as fine as 64-bit words allow."""
    best = _precision(columns, rows, clusters, Metric(octaves=OCTAVES if inside else FEWER_OCTAVES, inside=inside))
    if best[0] < FINE:
        best = _precision(columns, rows, clusters, Metric(octaves=FEWER_OCTAVES, inside=inside))
    return best


def _precision(columns: int, rows: int, clusters: int, metric: Metric) -> tuple[int, Metric]:
    """The largest f for which the movement of all centres fits, and a column's squares added up."""
    f = min(16, (60 - rows.bit_length()) // 2)
    while f > 0 and metric.distance_bits(rows, (1 << f,) * columns) + clusters.bit_length() > 61:
        f -= 1
    return f, metric


def mantissas(bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """round(2^2m / (V + 1/2)) for V = 2^m .. 2^(m+1) - 1, and 2^m below."""
    v = np.arange(1 << (bits + 1), dtype=np.int64)
    inverse = ((1 << (2 * bits + 2)) // (2 * v + 1) + 1) >> 1
    return np.where(v < 1 << bits, 1 << bits, inverse).astype(np.uint64)
