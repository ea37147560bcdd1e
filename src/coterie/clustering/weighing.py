"""Rows that count for more or less than others, or not at all: whose weights they are, and what they rule out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.task import Task
from coterie.errors import InputError
from coterie.protocols.interface import Ints
from coterie.sharing import Party

__all__ = [
    "MOST_MASS",
    "SD_REACH",
    "check_weighing",
    "exact_sum",
    "place_weights",
    "to_whole_weights",
    "weighed_at_home",
]

#: The most that all rows together may weigh: reciprocals of all masses are looked up in a table.
MOST_MASS = 1 << 24
#: Where each party standardises its own columns: standard deviations from the mean beyond which values are cut off.
SD_REACH = 64.0
#: What no weights go with, and why.
WITHOUT = {
    "counts": ("revealed", "they would tell what rows weigh"),
    "labels": ("revealed", "each party would need the weights for its own means"),
    "sizes": ("rounded", "they would be sums of weights"),
}


def weighed_at_home(task: Task) -> bool:
    """Does whoever holds the cells of a row know what the row counts for, and its label?"""
    return not task.private and (not task.most_weight or task.layout.partition == "horizontal")


def check_weighing(task: Task) -> None:
    """Refuse options that weights rule out."""
    if not task.private and not task.most_weight:
        return
    rows = "private matching" if task.private else "row weights"
    for option, (value, why) in WITHOUT.items():
        if getattr(task, option) == value:
            raise InputError(f"{rows} cannot go with {option}={value!r}: {why}")
    if task.choices:
        raise InputError(f"{rows} cannot go with several numbers of clusters to choose from; give one")
    if others := set(task.quality) - {"inertia"}:
        raise InputError(f"{rows} cannot go with quality {', '.join(sorted(others))}: every row would count alike")
    if task.problem.mass >= MOST_MASS:
        raise InputError(
            f"{task.layout.n} rows of a weight of up to {task.most_weight} may weigh {task.problem.mass} in all; less "
            f"than {MOST_MASS} is possible"
        )
    if task.private and (task.layout.partition != "vertical" or task.least < 2):
        raise InputError("private matching is for columns of the same rows, with a least cluster size of at least 2")
    if task.private and task.starts:
        raise InputError('private matching cannot go with init="random": rows at random may count for nothing')


def place_weights(me: Party, task: Task, given: Ints | None) -> Ints | None:
    """What this role gives to all rows (n,), zero where others give it; None, if it gives none."""
    if given is None or (task.private and not me.deals):
        return None
    if task.private:
        return given
    placed = np.zeros(task.layout.n, np.int64)
    placed[task.layout.own_rows(me.rank)] = given
    return placed


def to_whole_weights(weights: NDArray[np.float64], rows: int) -> tuple[Ints, float]:
    """Weights as whole numbers, and what 1 of them stands for: as they are if whole and small enough, else as parts of
    the largest, as fine as the mass of so many rows allows."""
    largest, most = float(weights.max()), min((MOST_MASS - 1) // rows, (1 << 16) - 1)
    if largest <= most and (weights == np.rint(weights)).all():
        return weights.astype(np.int64), 1.0
    unit = largest / most
    whole = np.rint(weights / unit).astype(np.int64)
    return np.where(weights > 0, np.maximum(whole, 1), 0), unit


def exact_sum(squares: Ints, weights: Ints | None = None) -> int:
    """The sum of non-negative 63-bit numbers, each times a weight, of which there may be more than 64 bits hold."""
    high, low = squares >> 31, squares & ((1 << 31) - 1)
    if weights is not None:
        times = weights.reshape(-1, *[1] * (squares.ndim - 1))
        high, low = high * times, low * times
    return (int(high.sum()) << 31) + int(low.sum())
