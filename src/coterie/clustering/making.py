"""One maker of tasks, for fits and predictions of every kind; and what all roles together know in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.clustering.layout import Layout
from coterie.clustering.rules import check_rules, grid_of
from coterie.clustering.task import Outcome, Task
from coterie.ring import FixedPoint, fractional_bits
from coterie.transport import Traffic

__all__ = ["make_encoding", "make_task", "put_together"]


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
        start_rows=first.start_rows,
        disclosures=first.disclosures,
        traffic=Traffic.together([one.traffic for one in outcomes if one.traffic is not None]),
    )
