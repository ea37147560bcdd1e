"""One maker of tasks, for fits and predictions of every kind; and what all roles together know in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.clustering.layout import Layout
from coterie.clustering.rules import check_rules, grid_of
from coterie.clustering.task import Outcome, Task
from coterie.errors import InputError
from coterie.protocols.metric import Metric, standard_precision
from coterie.ring import FixedPoint, fractional_bits
from coterie.transport import Traffic

__all__ = ["SD_REACH", "make_encoding", "make_standard", "make_task", "put_together"]

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
    reach: float = 1.0,
) -> FixedPoint:
    """The fixed point for columns with these public ranges: as many places as fit, or those that are wanted. With
    `scaled`, half a column's range is `reach` units."""
    ends = (list(low), list(high))
    if scaled and reach != 1.0:
        ends = ([-reach] * len(low), [reach] * len(high))
    f = fractional_bits(*ends, names, rows, clusters, scaled and reach == 1.0, wanted)
    return FixedPoint(tuple(low), tuple(high), tuple(names), f, scaled, reach)


def make_standard(
    names: Sequence[str], low: Sequence[float], high: Sequence[float], rows: int, clusters: int, inside: bool
) -> tuple[FixedPoint, Metric]:
    """The fixed point for columns that are weighted by their spread in secret. `inside`: whether nothing but the data
    and means of them is ever measured."""
    f, metric = standard_precision(len(names), rows, clusters, inside)
    if f < LEAST_STANDARD_BITS:
        raise InputError(
            f"{rows} rows of {len(names)} columns cannot be standardised in secret within 64-bit words: {f} fractional "
            'bits would be left; use fewer columns, or scale="bounds"'
        )
    return FixedPoint(tuple(low), tuple(high), tuple(names), f, True), metric


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
