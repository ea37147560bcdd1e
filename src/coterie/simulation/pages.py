"""The pages of a simulation: an overview, and the report that each role would have in a real study."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coterie.data.sinks import write_labels
from coterie.planning import forecast
from coterie.report.centers import centers_as_csv
from coterie.report.facts import Facts, Participant, facts_of, rows_per_cluster, versions
from coterie.report.formats import format_bytes, format_count, format_duration
from coterie.report.overview import Role, write_overview
from coterie.report.write import write_report
from coterie.simulation.comparison import Comparison
from coterie.simulation.run import Simulation
from coterie.transport.links import LINKS

__all__ = ["summarise", "write_pages"]


def write_pages(folder: Path, run: Simulation, beside: Comparison) -> None:
    """Fill the folder with a folder for each role and the overview."""
    participants = [Participant(name, "data party" if j else "helper") for j, name in enumerate(run.names)]
    common: dict[str, Any] = {
        "title": f"k-means of {run.data.file.name}",
        "when": datetime.now().astimezone().isoformat(" ", "seconds"),
        "versions": versions("scikit-learn"),
        "forecast": _forecast(run),
    }
    roles = [_write_role(folder, run, beside, rank, participants, common) for rank in range(len(run.names))]
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
    name, outcome, layout, usage = run.names[rank], run.outcomes[rank], run.task.layout, run.usage
    facts = facts_of(
        run.task,
        outcome,
        rank,
        participants,
        run.options,
        _ranges(run),
        seconds={"from the first connection to the end": usage.seconds[rank]},
        seconds_per_iteration=run.iterations[rank],
        memory=usage.peak[rank],
        **common,
    )
    values = None
    if rank:
        held, columns = layout.own_rows(rank), layout.own_columns(rank)
        facts.comparison = beside.describe(run, held, columns)
        values = np.where(layout.own_cells(rank), run.data.values, np.nan)[held][:, columns]
    (folder / name).mkdir()
    write_report(folder / name / "report.html", facts, values, outcome.labels)
    sent, report = sum(facts.traffic.bytes_sent.values()), f"{name}/report.html"
    return Role(name, facts.role, usage.seconds[rank], usage.busy[rank], usage.peak[rank], sent, report)


def _gather_facts(
    run: Simulation, beside: Comparison, participants: list[Participant], common: dict[str, Any]
) -> Facts:
    """What all roles together know."""
    task, layout = run.task, run.task.layout
    facts = facts_of(task, run.whole, 1, participants, run.options, _ranges(run), **common)
    facts.party = "all parties together"
    with open(run.data.file, "rb") as file:
        facts.hashes = {run.data.file.name: hashlib.file_digest(file, "sha256").hexdigest()}
    facts.comparison = beside.describe(run, np.ones(layout.n, np.bool_), range(layout.d))
    facts.comparison["time"] = f"{max(run.usage.seconds):.3g} s here, {beside.seconds:.3g} s there"
    facts.own_rows = None
    if run.whole.sizes is None:
        assert run.whole.labels is not None
        counted = rows_per_cluster(run.whole.labels, task.clusters)
        facts.sizes = [None if facts.closed(j) else count for j, count in enumerate(counted)]
    return facts


def _ranges(run: Simulation) -> list[tuple[float, float]] | None:
    """Of columns that parties have standardised at home, those of the data: none were agreed on."""
    if run.task.encoding.reach == 1.0:
        return None
    return list(zip(run.data.values.min(axis=0).tolist(), run.data.values.max(axis=0).tolist(), strict=True))


def _forecast(run: Simulation) -> dict[str, str] | None:
    """What was to be expected of this run. Of several starts nobody knows how many iterations each took."""
    task = run.task
    if len(task.starts) > 1:
        return None
    ended: Literal["stop", "max_iter"] = "stop" if run.whole.n_iter < task.max_iter else "max_iter"
    cost = forecast(task, len(run.names) - 1, run.whole.n_iter, LINKS[run.link], ended)
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
        "parties": len(run.names) - 1,
        "partition": run.task.layout.partition,
        "protocol": run.task.protocol,
        "iterations": run.whole.n_iter,
        "inertia": run.whole.inertia,
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
