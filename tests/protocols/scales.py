"""Weights of columns, and the silhouette, once more: from their definitions, in Python's own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, sqrt

import numpy as np

from coterie.protocols import Problem
from coterie.protocols.metric import Metric

Column = Sequence[int]


def nearest(value: Fraction) -> int:
    """Rounded, halves upwards."""
    return floor(value + Fraction(1, 2))


def scatter_of(column: Column, reciprocal_bits: int) -> int:
    """The sum of squared distances to the mean, as far as one word tells it."""
    one = nearest(Fraction(1 << reciprocal_bits, len(column)))
    mean = nearest(Fraction(sum(column) * one, 1 << reciprocal_bits))
    return sum((x - mean) ** 2 for x in column)


def weight_of(scatter: int, rows: int, half: int, metric: Metric, factor: int | None = None) -> tuple[int, int]:
    """The weight of a column, and whether it is capped."""
    m, octaves = metric.mantissa, metric.octaves
    top = (rows * half * half + rows).bit_length()
    power = 0 if scatter == 0 else 1 << min(top - scatter.bit_length(), octaves)
    leading = scatter * power // (1 << (top - m - 1))
    mantissa = 1 << m if leading < 1 << m else nearest(Fraction(1 << 2 * m) / (leading + Fraction(1, 2)))
    weight = mantissa * power
    if factor is not None:
        weight = nearest(Fraction(weight * factor, 1 << 12))
    return weight, int(scatter > 0 and scatter.bit_length() < top - octaves)


def weights_of(table: np.ndarray, problem: Problem) -> tuple[list[int], list[int]]:
    """Of all columns of a table (n, d): weights, and which of them are capped."""
    metric = problem.metric
    assert metric is not None
    half, factors = max(problem.half), metric.factors or [None] * problem.columns
    scatters = [scatter_of([int(x) for x in column], problem.reciprocal_bits) for column in table.T]
    found = [weight_of(w, problem.rows, half, metric, f) for w, f in zip(scatters, factors, strict=True)]
    if metric.constants:
        found = [(constant, 0) if constant else one for constant, one in zip(metric.constants, found, strict=True)]
    return [weight for weight, _ in found], [capped for _, capped in found]


def distances(table: np.ndarray, centers: np.ndarray, weights: Sequence[int]) -> list[list[int]]:
    """Weighted, of each row to each centre."""
    return [
        [sum(w * (int(x) - int(c)) ** 2 for x, c, w in zip(row, center, weights, strict=True)) for center in centers]
        for row in table
    ]


def label_of(row: Sequence[int]) -> int:
    """The first of the closest."""
    return min(range(len(row)), key=lambda j: row[j])


LEVELS = 8


def levels_of(row: Sequence[int], shift: int = 0, label: int | None = None, copies: Sequence[int] = ()) -> int:
    """How many levels a row reaches by its distances, each without its lowest `shift` bits. `copies`: centres that are
    no neighbours."""
    own = label_of(row) if label is None else label
    others = [d for j, d in enumerate(row) if j != own and j not in copies]
    a, b = (nearest(Fraction(d, 1 << shift)) for d in (row[own], min(others)))
    parts = [nearest(256 * (1 - Fraction(2 * q - 1, 2 * LEVELS)) ** 2) for q in range(1, LEVELS + 1)]
    return sum(256 * a < part * b for part in parts)


def simplified_silhouette(row: Sequence[int], label: int) -> float:
    """(b - a) / b of distances, as scikit-learn would have it if a cluster were its centre."""
    b = sqrt(min(d for j, d in enumerate(row) if j != label))
    a = sqrt(row[label])
    return 0.0 if max(a, b) == 0 else (b - a) / max(a, b)
