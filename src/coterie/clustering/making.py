"""One maker of tasks, for fits and predictions of every kind; and what all roles together know in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.clustering.layout import Layout, Partition
from coterie.clustering.rules import check_rules, grid_of
from coterie.clustering.task import Outcome, Task
from coterie.errors import InputError
from coterie.protocols.metric import Metric, standard_precision
from coterie.ring import FixedPoint, fractional_bits
from coterie.transport import Traffic

__all__ = ["at_home", "make_encoding", "make_scaled", "make_task", "put_together", "stays_inside"]

#: Where each party standardises its own columns: standard deviations from the mean beyond which values are cut off.
SD_REACH = 64.0
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
) -> FixedPoint:
    """The fixed point for columns with these public ranges: as many places as fit, or those that are wanted."""
    f = fractional_bits(list(low), list(high), names, rows, clusters, scaled, wanted)
    return FixedPoint(tuple(low), tuple(high), tuple(names), f, scaled)


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
) -> tuple[FixedPoint, Metric | None]:
    """The fixed point for columns as they are (`scale` None or "none"), scaled by their "bounds" or "standard"-ised: by
    columns, at home, in standard deviations (`at_home`); else in secret, with a metric. `inside`: whether nothing but
    the data and means of them is ever measured in secret. `wanted`: for a prediction, the fractional bits of the fit.
    """
    if scale != "standard":
        return make_encoding(names, low, high, rows, clusters, scaled=scale == "bounds", wanted=wanted), None
    if partition == "vertical":
        reach = [SD_REACH] * len(names)
        return make_encoding(names, [-end for end in reach], reach, rows, clusters, wanted=wanted), None
    f, metric = standard_precision(len(names), rows, clusters, inside)
    if wanted is not None and not LEAST_STANDARD_BITS <= wanted <= f:
        raise InputError(f"fractional_bits={wanted} does not fit standardised columns here; use at most {f}")
    if f < LEAST_STANDARD_BITS:
        raise InputError(
            f"{rows} rows of {len(names)} columns cannot be standardised in secret within 64-bit words: {f} fractional "
            'bits would be left; use fewer columns, or scale="bounds"'
        )
    return FixedPoint(tuple(low), tuple(high), tuple(names), f if wanted is None else wanted, True), metric


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
        low[l], high[l] = mean - reach, mean + reach
    return FixedPoint(tuple(low), tuple(high), encoding.names, encoding.f, True, SD_REACH)


def make_task(
    protocol: str,
    clusters: int,
    layout: Layout,
    encoding: FixedPoint,
    *,
    resolution: Mapping[str, float] | None = None,
    names: tuple[str, ...] = (),
    checked: bool = True,
    **options: Any,
) -> Task:
    """A task without a plan. `checked`: refuse what could only end with every cluster closed. `resolution`: by
    column, the step on which its values lie; `names` by rank, for messages; `options`: the other fields of a task."""
    least = options.get("least", 1)
    if least == 1:
        options["sizes"] = "secret"
    task = Task(protocol, clusters, layout, encoding, grid=grid_of(encoding, resolution or {}, least), **options)
    if checked:
        check_rules(task, names)
    return task


def put_together(task: Task, outcomes: Sequence[Outcome]) -> Outcome:
    """What all roles together know."""
    layout, known = task.layout, [one for one in outcomes if one.rows is not None]
    labels, centers = np.full(layout.n, -1, np.int64), np.zeros((task.clusters, layout.d), np.int64)
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
        suppressed=first.suppressed,
        sizes=first.sizes,
        scales=first.scales,
        capped=first.capped,
        start_rows=first.start_rows,
        disclosures=first.disclosures,
        traffic=Traffic.together([one.traffic for one in outcomes if one.traffic is not None]),
    )
