"""What fits with weights of rows send is what is forecast."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie.clustering import put_together
from coterie.planning import forecast, planned
from coterie.planning.sketch import even_layout, sketch
from coterie.protocols import FAMILIES
from coterie.runtime.job import Job, do
from coterie.runtime.threads import run_threads
from coterie.transport.links import LINKS

ROWS, COLUMNS = 150, 3
RANDOM = np.random.default_rng(5)
TABLE, WEIGHTS = RANDOM.integers(-99, 99, (ROWS, COLUMNS)), RANDOM.integers(1, 6, ROWS)
HEAVY = {"most_weight": 5, "quality": ("inertia",)}
PRIVATE = {"private": True, "least": 2, "quality": ("inertia",)}


@pytest.mark.parametrize("init", ["random", "k-means++"])
@pytest.mark.parametrize(
    ("partition", "options"),
    [
        ("horizontal", HEAVY),
        ("horizontal", HEAVY | {"centers": "shared", "least": 3}),
        ("vertical", HEAVY),
        ("mixed", HEAVY),
        ("vertical", PRIVATE),
    ],
    ids=str,
)
@pytest.mark.parametrize(("protocol", "p"), [("onetime", 2), ("onetime", 3), ("securenn", 2)])
def test_bytes_and_rounds_are_those_of_a_fit(protocol, p, partition, options, init):
    task = sketch(even_layout(partition, ROWS, COLUMNS, p), 3, protocol=protocol, init=init)
    task = msgspec.structs.replace(task, max_iter=2, tol=0.0, **options)
    task = planned(task, p, {"block_rows": 64, "lanes": 0})

    def role(me):
        block = None if not me.owns else task.layout.own_cells(me.rank) * TABLE
        if me.owns and partition != "mixed":
            block = block[np.ix_(task.layout.own_rows(me.rank), task.layout.own_columns(me.rank))]
        gives = me.deals if task.private else me.owns and (partition == "horizontal" or me.rank == 1)
        weights = None
        if gives:
            weights = WEIGHTS % 2 if task.private else WEIGHTS[task.layout.own_rows(me.rank)]
        return do(me, Job(task, block, row_weights=weights))

    world = FAMILIES[protocol].world([f"P{j}" for j in range(1, p + 1)])
    counted = put_together(task, [report.outcome for report in run_threads(world, role)]).traffic
    found = forecast(task, p, 2, LINKS["loopback"], "max_iter")
    assert (found.bytes_sent, found.rounds) == (counted.bytes_sent, counted.rounds)
