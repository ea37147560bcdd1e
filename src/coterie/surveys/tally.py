"""What a party makes of its own columns at home: how many values lie in each cell of the public grid, and their sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.protocols.interface import Ints
from coterie.surveys.task import HALF_BITS, SurveyTask

__all__ = ["places_of", "tally_size", "tally_values"]

Floats = NDArray[np.float64]


def places_of(task: SurveyTask, column: int, values: Floats) -> Ints:
    """Where values lie: 0 is below the range, 1 to `cells` are its cells, `cells` + 1 is above. A cell holds where it
    begins; the last one also where it ends."""
    edges = task.edges(column)
    places = np.searchsorted(edges, values, side="right").astype(np.int64)
    places[values == edges[-1]] = task.cells
    return places


def encode_clipped(task: SurveyTask, column: int, values: Floats) -> Ints:
    """Values in steps of their range, -2^16 to 2^16; those beyond it as if they lay on it."""
    low, high = task.low[column], task.high[column]
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return np.rint((np.clip(values, low, high) - middle) / half * (1 << HALF_BITS)).astype(np.int64)


def tally_values(task: SurveyTask, rank: int, columns: Sequence[int], values: Floats) -> Ints:
    """What the party of this rank enters (`tally_size`,), zero where it holds nothing: of each contributor and column
    how many values lie at each place, then the sum of each column. `values` (n, its columns), NaN where one is
    missing."""
    if values.shape != (task.rows[rank - 1], len(columns)):
        raise InputError(f"the block has shape {values.shape}; agreed was {(task.rows[rank - 1], len(columns))}")
    counts = np.zeros((task.contributors, task.columns, task.places), np.int64)
    sums = np.zeros(task.columns, np.int64)
    for at, l in enumerate(columns):
        there = values[~np.isnan(values[:, at]), at]
        own = 0 if task.holders else rank - 1
        counts[own, l] = np.bincount(places_of(task, l, there), minlength=task.places)
        sums[l] = encode_clipped(task, l, there).sum()
    return np.concatenate([counts.reshape(-1), sums])


def tally_size(task: SurveyTask) -> int:
    return task.contributors * task.columns * task.places + task.columns
