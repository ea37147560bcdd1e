"""One maker of tasks, for fits and predictions of every kind; and what all roles together know in the end."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from coterie.clustering.layout import Layout, Partition
from coterie.clustering.rules import check_rules, grid_of
from coterie.clustering.task import Outcome, Task
from coterie.clustering.weighing import SD_REACH, check_weighing
from coterie.errors import InputError
from coterie.protocols.metric import FACTOR_BITS, Metric, standard_precision
from coterie.ring import FixedPoint, fractional_bits
from coterie.transport import Traffic

__all__ = [
    "at_home",
    "category_at_home",
    "make_encoding",
    "make_scaled",
    "make_task",
    "put_together",
    "relative_weights",
    "stays_inside",
]

#: The largest ratio of what two columns may count for.
MOST_WEIGHT = 100
#: Columns of categories, which fill their range, are encoded in steps four times as coarse as others: so that their
#: constant weight has more bits.
CATEGORY_STEP = 1 / 16
#: The fewest fractional bits with which a column, scaled to -1..1, is standardised in secret.
LEAST_STANDARD_BITS = 9


def make_encoding(
    names: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
    rows: int,
    clusters: int,
    *,
    scaled: bool = False,
    wanted: int | None = None,
    weights: Sequence[float] = (),
) -> FixedPoint:
    """The fixed point for columns with these public ranges: as many places as fit, or those that are wanted. `weights`
    of their squared differences."""
    if not weights:
        f = fractional_bits(list(low), list(high), names, rows, clusters, scaled, wanted)
        return FixedPoint(tuple(low), tuple(high), tuple(names), f, scaled)
    unweighted = FixedPoint(tuple(low), tuple(high), tuple(names), 0, scaled)
    half = (np.array(high) - np.array(low)) / 2 / unweighted.unit * np.sqrt(weights)
    f = fractional_bits((-half).tolist(), half.tolist(), names, rows, clusters, False, wanted)
    return FixedPoint(tuple(low), tuple(high), tuple(names), f, scaled, 1.0, tuple(weights))


def make_scaled(
    scale: str | None,
    partition: Partition,
    names: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
    rows: int,
    clusters: int,
    *,
    inside: bool = False,
    wanted: int | None = None,
    weights: Sequence[float] = (),
    distances: Sequence[float] = (),
) -> tuple[FixedPoint, Metric | None]:
    """The fixed point for columns as they are (`scale` None or "none"), scaled by their "bounds" or "standard"-ised: by
    columns, at home, in standard deviations (`at_home`); else in secret, with a metric. `inside`: whether nothing but
    the data and means of them is ever measured in secret. `wanted`: for a prediction, the fractional bits of the fit.
    `weights`: what columns count for on top; the largest is 1. `distances`: of a column that is 1 for one value of a
    category and 0 for others, how far two values are apart in the end, whatever the scale; 0 for all others.
    """
    if not any(distances):
        distances = ()
    if scale != "standard":
        scaled = scale == "bounds"
        weights = _with_categories(weights, distances, low, high, scaled)
        return make_encoding(names, low, high, rows, clusters, scaled=scaled, wanted=wanted, weights=weights), None
    if partition == "vertical":
        reach = [SD_REACH] * len(names)
        return make_encoding(
            names, [-end for end in reach], reach, rows, clusters, wanted=wanted, weights=weights
        ), None
    f, metric = standard_precision(len(names), rows, clusters, inside)
    if weights:
        metric = msgspec.structs.replace(metric, factors=tuple(round(w * (1 << FACTOR_BITS)) for w in weights))
    if wanted is not None and not LEAST_STANDARD_BITS <= wanted <= f:
        raise InputError(f"fractional_bits={wanted} does not fit standardised columns here; use at most {f}")
    if f < LEAST_STANDARD_BITS:
        raise InputError(
            f"{rows} rows of {len(names)} columns cannot be standardised in secret within 64-bit words: {f} fractional "
            'bits would be left; use fewer columns, or scale="bounds"'
        )
    finer = tuple(CATEGORY_STEP if apart else 1.0 for apart in distances)
    encoding = FixedPoint(tuple(low), tuple(high), tuple(names), f if wanted is None else wanted, True, weights=finer)
    if distances:
        constants = _constant_weights(encoding, metric, rows, weights or [1.0] * len(names), distances)
        metric = msgspec.structs.replace(metric, constants=constants)
    return encoding, metric


def _with_categories(
    weights: Sequence[float], distances: Sequence[float], low: Sequence[float], high: Sequence[float], scaled: bool
) -> Sequence[float]:
    """Weights by which two values of a category, which differ by 1 in two columns, are so far apart after scaling."""
    if not distances:
        return weights
    found = []
    for weight, apart, least, most in zip(weights or [1.0] * len(distances), distances, low, high, strict=True):
        unit = (most - least) / 2 if scaled else 1.0
        found.append(weight * (apart * unit) ** 2 / 2 if apart else weight)
    return found


def _constant_weights(
    encoding: FixedPoint, metric: Metric, rows: int, weights: Sequence[float], distances: Sequence[float]
) -> tuple[int, ...]:
    """The same for standardised columns, whose weights are n / 2^T times those of squared standard deviations."""
    scale = metric.scale(rows, int(encoding.half.max()))
    found = []
    for l, (weight, apart) in enumerate(zip(weights, distances, strict=True)):
        steps = 2.0**encoding.f / float(encoding.unit[l])  # of which a value is apart from another
        wanted = math.ldexp(weight * apart**2 / 2 / rows, scale) / steps**2
        found.append(max(round(wanted), 1) if apart else 0)
    return tuple(found)


def category_at_home(distance: float) -> tuple[float, float]:
    """In place of mean and standard deviation, where a party standardises its own columns: by these, two values of a
    category are so far apart."""
    return 0.5, math.sqrt(2) / distance


def relative_weights(wanted: Mapping[str, float] | None, names: Sequence[str]) -> tuple[float, ...]:
    """What columns count for, by name (1 where nothing is said), relative to the largest; none, if all are alike."""
    if not wanted:
        return ()
    for name, weight in wanted.items():
        if name not in names:
            raise InputError(f"column_weights names column {name!r}, which is not in the data")
        if not isinstance(weight, numbers.Real) or not 0 < float(weight) < math.inf:
            raise InputError(f"column_weights: the weight of column {name!r} must be a number above 0, not {weight!r}")
    found = [float(wanted.get(name, 1.0)) for name in names]
    if max(found) > MOST_WEIGHT * min(found):
        raise InputError(f"column_weights may differ by a factor of {MOST_WEIGHT} at most; leave columns out instead")
    return tuple(weight / max(found) for weight in found) if len(set(found)) > 1 else ()


def stays_inside(task_centers: str, scales: str, partition: str, given: bool = False, rounded: bool = False) -> bool:
    """Is nothing measured in secret but the data and means of them? New rows, given and rounded centres may lie outside
    the hull of the data, where distances are longer."""
    at_home = task_centers == "revealed" and scales == "revealed" and partition == "horizontal"
    return at_home and not given and not rounded


def at_home(
    encoding: FixedPoint, columns: Sequence[int], means: Sequence[float], deviations: Sequence[float]
) -> FixedPoint:
    """A party's own view of columns that it standardises itself: in data units, and for nobody else's eyes."""
    low, high = list(encoding.low), list(encoding.high)
    for l, mean, deviation in zip(columns, means, deviations, strict=True):
        reach = SD_REACH * (deviation or 1.0)
        low[l], high[l] = float(mean - reach), float(mean + reach)
    return FixedPoint(tuple(low), tuple(high), encoding.names, encoding.f, True, SD_REACH, encoding.weights)


def make_task(
    protocol: str,
    clusters: int,
    layout: Layout,
    encoding: FixedPoint,
    *,
    resolution: Mapping[str, float] | None = None,
    groups: tuple[tuple[int, ...], ...] = (),
    names: tuple[str, ...] = (),
    checked: bool = True,
    **options: Any,
) -> Task:
    """A task without a plan. `checked`: refuse what could only end with every cluster closed. `resolution`: by
    column, the step on which its values lie; `groups`: columns that are one category's; `names` by rank, for messages;
    `options`: the other fields of a task."""
    least = options.get("least", 1)
    if least == 1:
        options["sizes"] = "secret"
    grid = grid_of(encoding, resolution or {}, least, groups)
    task = Task(protocol, clusters, layout, encoding, grid=grid, groups=groups, **options)
    if checked:
        check_rules(task, names)
        check_weighing(task)
    return task


def put_together(task: Task, outcomes: Sequence[Outcome]) -> Outcome:
    """What all roles together know."""
    layout, known = task.layout, [one for one in outcomes if one.rows is not None]
    clusters = known[0].chosen or task.clusters
    labels, centers = np.full(layout.n, -1, np.int64), np.zeros((clusters, layout.d), np.int64)
    for one in known:
        if one.labels is not None:
            labels[one.rows] = one.labels
        if one.centers is not None:
            centers[:, one.center_columns] = one.centers
    first = known[0]
    return Outcome(
        n_iter=first.n_iter,
        center_columns=list(range(layout.d)),
        centers=centers,
        rows=np.ones(layout.n, np.bool_),
        labels=labels,
        counts=first.counts,
        inertia=first.inertia,
        silhouette=first.silhouette,
        scatter=first.scatter,
        chosen=first.chosen,
        k_measures=first.k_measures,
        suppressed=first.suppressed,
        sizes=first.sizes,
        scales=first.scales,
        capped=first.capped,
        start_rows=first.start_rows,
        disclosures=first.disclosures,
        traffic=Traffic.together([one.traffic for one in outcomes if one.traffic is not None]),
    )
