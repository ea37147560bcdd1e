"""The pages of a simulation: an overview, and the report that each role would have in a real study."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coterie.data.sinks import write_labels
from coterie.planning import forecast
from coterie.report.centers import centers_as_csv
from coterie.report.facts import Facts, Participant, describe_role, facts_of, facts_of_all, versions
from coterie.report.formats import format_bytes, format_count, format_duration
from coterie.report.overview import Role, write_overview
from coterie.report.write import write_report
from coterie.simulation.comparison import Comparison
from coterie.simulation.run import Simulation
from coterie.transport.links import LINKS

__all__ = ["summarise", "write_pages"]


def write_pages(folder: Path, run: Simulation, beside: Comparison) -> None:
    """Fill the folder with a folder for each role and the overview."""
    participants = [Participant(name, describe_role(run.roles, name)) for name in run.names]
    common: dict[str, Any] = {
        "title": f"k-means of {run.data.file.name}",
        "when": datetime.now().astimezone().isoformat(" ", "seconds"),
        "versions": versions("scikit-learn"),
        "forecast": _forecast(run),
    }
    roles = [_write_role(folder, run, beside, rank, participants, common) for rank in run.world.ranks]
    assert run.whole.labels is not None
    facts = _gather_facts(run, beside, participants, common)
    write_labels(folder / "labels.parquet", run.whole.labels, None, None)
    (folder / "centers.csv").write_text(centers_as_csv(facts), encoding="utf-8")
    write_overview(folder / "index.html", facts, roles, run.data.values, run.whole.labels)


def _write_role(
    folder: Path,
    run: Simulation,
    beside: Comparison,
    rank: int,
    participants: list[Participant],
    common: dict[str, Any],
) -> Role:
    here, layout, usage = run.world.ranks.index(rank), run.task.layout, run.usage
    name, outcome = run.names[here], run.outcomes[here]
    columns = layout.own_columns(rank) if rank else []
    facts = facts_of(
        run.task,
        outcome,
        rank,
        participants,
        run.options,
        _ranges(run, columns),
        _deviations(run, columns),
        range_name=_range_name(run),
        seconds={"from the first connection to the end": usage.seconds[here]},
        laps=run.iterations[here],
        waited=run.waited[here],
        memory=usage.peak[here],
        **common,
    )
    values = None
    if rank:
        held = layout.own_rows(rank)
        facts.comparison = beside.describe(run, held, columns)
        values = np.where(layout.own_cells(rank), run.data.values, np.nan)[held][:, columns]
    (folder / name).mkdir()
    write_report(folder / name / "report.html", facts, values, outcome.labels)
    sent, report = sum(facts.traffic.bytes_sent.values()), f"{name}/report.html"
    return Role(name, facts.role, usage.seconds[here], usage.busy[here], usage.peak[here], sent, report)


def _gather_facts(
    run: Simulation, beside: Comparison, participants: list[Participant], common: dict[str, Any]
) -> Facts:
    """What all roles together know."""
    task, layout = run.task, run.task.layout
    every = range(layout.d)
    spread = _deviations(run, every)
    facts = facts_of_all(
        task,
        run.whole,
        participants,
        run.options,
        _ranges(run, every),
        spread,
        range_name=_range_name(run),
        **common,
    )
    with open(run.data.file, "rb") as file:
        facts.hashes = {run.data.file.name: hashlib.file_digest(file, "sha256").hexdigest()}
    facts.comparison = beside.describe(run, np.ones(layout.n, np.bool_), range(layout.d))
    here, there = format_duration(max(run.usage.seconds)), format_duration(beside.seconds)
    facts.comparison["time"] = f"{here} here, {there} there"
    return facts


def _ranges(run: Simulation, known: Sequence[int]) -> list[tuple[float, float]] | None:
    """Of columns that parties have standardised at home, those that were given or, of columns whose values are
    `known`, those of the data: no others are agreed on."""
    if not run.at_home:
        return None
    low, high = run.data.values.min(axis=0).tolist(), run.data.values.max(axis=0).tolist()
    found = {name: (low[l], high[l]) if l in known else (math.nan, math.nan) for l, name in enumerate(run.data.names)}
    return list({**found, **run.ranges}.values())


def _range_name(run: Simulation) -> str:
    given = set(run.data.names) <= set(run.ranges)
    return "agreed range" if given or not run.at_home else "range in the data"


def _deviations(run: Simulation, known: Sequence[int]) -> dict[str, float] | None:
    """Of columns that were standardised at home, for whoever holds them."""
    if not run.at_home:
        return None
    spread = run.data.values.std(axis=0).tolist()
    return {run.data.names[l]: spread[l] for l in known}


def _forecast(run: Simulation) -> dict[str, str] | None:
    """What was to be expected of this run. Of several starts, nobody knows how many iterations each took."""
    task = run.task
    if task.restarts > 1 or run.choices:
        return None
    ended: Literal["stop", "max_iter"] = "stop" if run.whole.n_iter < task.max_iter else "max_iter"
    cost = forecast(task, run.world.p, run.whole.n_iter, LINKS[run.link], ended)
    sent = zip(run.names, cost.bytes_sent.values(), strict=True)
    return {
        "rounds": format_count(cost.rounds),
        **{f"sent by {name}": format_bytes(count) for name, count in sent},
        "time": format_duration(cost.seconds),
    }


def summarise(run: Simulation, beside: Comparison) -> dict[str, Any]:
    """What machines get: of `--json`, and in the folder."""
    assert run.whole.labels is not None
    assert run.whole.traffic is not None
    off, l = beside.find_largest(run, range(run.task.layout.d))
    differ, compared = beside.count_differing(run, np.ones(run.task.layout.n, np.bool_))
    return {
        "file": str(run.data.file),
        "rows": run.task.layout.n,
        "columns": list(run.task.encoding.names),
        "clusters": run.task.clusters,
        "tried": list(run.choices),
        "measures": {str(k): None if math.isnan(one) else one for k, one in run.whole.k_measures.items()},
        "parties": run.world.p,
        "partition": run.task.layout.partition,
        "protocol": run.task.protocol,
        "iterations": run.whole.n_iter,
        "inertia": run.whole.inertia,
        "silhouette": run.whole.silhouette,
        "calinski_harabasz": run.whole.calinski_harabasz(run.task.layout.n, int(run.open.sum())),
        "lost_a_cluster": beside.emptied,
        "seconds": max(run.usage.seconds),
        "peak_bytes": dict(zip(run.names, run.usage.peak, strict=True)),
        "bytes_sent": run.whole.traffic.bytes_sent,
        "rounds": run.whole.traffic.rounds,
        "least_cluster_size": run.task.least,
        "contribution": run.task.contribution,
        "closed": [j for j, opened in enumerate(run.open.tolist()) if not opened],
        "labels_compared": compared,
        "labels_that_differ": differ,
        "largest_centre_difference": off if run.open.any() else None,
        "column_of_it": run.task.encoding.names[l] if run.open.any() else None,
        "as_users_call_it": {one.how: one._asdict() for one in beside.called},
    }
