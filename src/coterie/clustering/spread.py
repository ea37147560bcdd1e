"""How far the data spread, worked out in secret before the first iteration: weights of columns, and when to stop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.task import Task
from coterie.protocols import Family
from coterie.protocols.interface import Ints
from coterie.sharing import Shared

__all__ = ["Spread", "hold_spread", "measure_spread", "restore_spread"]

Held = dict[str, NDArray[np.uint64]]


class Spread(NamedTuple):
    """`tolerated` (1,): the total squared movement at which to stop. `scatter` (d,): in each column the sum of squared
    distances to the mean, where it is needed. Where columns are standardised, `weights` (1, d) of their squared
    distances, `capped` (d,): 1 where a column varies too little for the weight it should have, and `squares` (d,), the
    sums of all rows' squares."""

    tolerated: Shared
    scatter: Shared | None = None
    weights: Shared | None = None
    capped: Shared | None = None
    squares: Shared | None = None


def needed_of(task: Task) -> tuple[str, ...]:
    """What of the spread a task needs."""
    if task.metric is not None:
        return Spread._fields
    chooses = task.choices and task.choose == "calinski-harabasz"
    if (task.tol == 0 or task.private) and "calinski-harabasz" not in task.quality and not chooses:
        return ("tolerated",)
    return ("tolerated", "scatter")


def measure_spread(family: Family, task: Task, own: Ints | None) -> Spread:
    """`own` (n, d): what this party holds, zero elsewhere; None where it holds nothing."""
    if task.metric is not None:
        scatter, squares = family.scatter(own)
        weights, capped = family.column_weights(scatter)
        return Spread(family.public(np.array([task.threshold])), scatter, weights, capped, squares)
    if "scatter" not in needed_of(task):
        return Spread(family.public(np.zeros(1, np.int64)))
    scatter, _ = family.scatter(own)
    return Spread(family.tolerated(scatter, task.tol), scatter)


def hold_spread(family: Family, spread: Spread) -> Held | None:
    """This role's part of it, to be kept; None where it holds none."""
    if not family.me.serves:
        return None
    found = {name: family.export(value) for name, value in spread._asdict().items() if value is not None}
    return {f"{name}-{part}": share for name, parts in found.items() for part, share in parts.items()}


def restore_spread(family: Family, task: Task, held: Held | None) -> Spread:
    """From what `hold_spread` gave: a run that is taken up again goes on with the spread that it began with."""
    d = task.layout.d
    shapes = {"tolerated": (1,), "scatter": (d,), "weights": (1, d), "capped": (d,), "squares": (d,)}

    def restore(name: str) -> Shared:
        start = f"{name}-"
        parts = {part.removeprefix(start): share for part, share in (held or {}).items() if part.startswith(start)}
        return family.restore(parts if held is not None else None, shapes[name])

    return Spread(*(restore(name) if name in needed_of(task) else None for name in Spread._fields))  # type: ignore[arg-type]
