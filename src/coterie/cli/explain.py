"""A study in plain words, with a forecast of what it will cost."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.cli.people import participants, shown_participants
from coterie.clustering import Layout, Task
from coterie.errors import InputError
from coterie.planning import forecast, planned
from coterie.planning.sketch import even_layout
from coterie.report.words import duration, enumerated, promises, size
from coterie.ring import FixedPoint, fractional_bits
from coterie.study.agreement import Study, study_hash
from coterie.transport.links import LINKS

__all__ = ["explained"]


def explained(study: Study, rows: int, iterations: int) -> tuple[str, dict[str, Any]]:
    """The text, and what machines get: the promises and the forecast."""
    todo, shown, names = study.clustering, study.disclosures, study.names
    told = promises(
        todo.partition, shown.counts, shown.labels, shown.centers, todo.protocol, names[0], names[1:], 1, todo.restarts
    )
    lines = [
        f"{study.study.name}, hash {study_hash(study)}",
        "",
        "WHO TAKES PART",
        *shown_participants(study),
        "",
        "WHAT IS COMPUTED",
        f"k-means with {todo.clusters} clusters over {len(study.data.columns)} columns of {enumerated(names[1:])}, "
        f"partitioned {'by rows' if todo.partition == 'horizontal' else 'by columns'}; protocol {todo.protocol}; at "
        f"most {todo.max_iter} iterations; {todo.restarts} {'start' if todo.restarts == 1 else 'starts'} from public "
        f"row numbers (seed {todo.seed}); columns are "
        f"{'scaled by their bounds' if todo.scale == 'bounds' else 'not scaled'}.",
    ]
    for column in study.data.columns:
        held = f", held by {column.holder}" if column.holder else ""
        lines.append(f"  - {column.name}: between {column.low:g} and {column.high:g}{held}")
    lines += ["", "WHAT IS DISCLOSED WHILE IT RUNS", *_listed(told.during), "", "WHAT IS DISCLOSED AT THE END"]
    for name, learnt in told.at_end.items():
        lines += [f"to {name}:", *_listed(learnt)]
    lines.append(
        "to all parties, where a party's policy sets a least cluster size above 1 (10 unless it says otherwise): which "
        "clusters are smaller. The centres of these stay closed and their rows are labelled -1."
    )
    for head, sentences in (
        ("WHAT NOBODY LEARNS", told.nobody),
        ("WHAT EVERYBODY KNOWS", told.public),
        ("WHAT THIS RESTS ON", told.assumptions),
        ("WHAT IS NOT PROTECTED", told.not_protected),
    ):
        lines += ["", head, *_listed(sentences)]
    lines += ["", f"WHAT IT WILL COST, with {rows:,} rows in all and {iterations} iterations"]
    costs: dict[str, Any] = {}
    try:
        for link in ("lan", "wan"):
            costs[link] = _forecast(study, rows, iterations, link)
            lines.append("  - " + _cost(link, costs[link]))
    except InputError as error:
        lines.append(f"  - no forecast: {error}")
    return "\n".join(lines), {
        "participants": participants(study),
        "promises": msgspec.to_builtins(told),
        "forecast": costs,
    }


def _listed(sentences: list[str]) -> list[str]:
    return [f"  - {sentence}" for sentence in sentences]


def _forecast(study: Study, rows: int, iterations: int, link: str) -> dict[str, Any]:
    todo, parties, d = study.clustering, len(study.names) - 1, len(study.data.columns)
    if todo.protocol != "onetime":
        raise InputError("the cost model is for the protocol onetime")
    low, high = ([getattr(c, end) for c in study.data.columns] for end in ("low", "high"))
    scaled = todo.scale == "bounds"
    f = fractional_bits(low, high, study.column_names, rows, todo.clusters, scaled, None)
    if todo.partition == "horizontal":
        layout = even_layout("horizontal", rows, d, parties)
    else:
        layout = Layout("vertical", rows, d, columns=tuple(tuple(study.own_columns(j + 1)) for j in range(parties)))
    task = Task(
        todo.protocol,
        todo.clusters,
        layout,
        FixedPoint(tuple(low), tuple(high), study.column_names, f, scaled),
        study.disclosures.counts,
        study.disclosures.labels,
        study.disclosures.centers,
        max_iter=todo.max_iter,
        tol=todo.tol,
    )
    found = forecast(planned(task, parties, "auto", LINKS[link]), parties, iterations, LINKS[link], "stop")
    return {
        "seconds": found.seconds * todo.restarts,
        "rounds": found.rounds * todo.restarts,
        "bytes_by_party": max(v for k, v in found.bytes_sent.items() if k != "P0") * todo.restarts,
        "bytes_by_helper": found.bytes_sent["P0"] * todo.restarts,
        "memory": max(found.memory.values()),
    }


def _cost(link: str, cost: dict[str, Any]) -> str:
    about = {"lan": "1 Gbit/s, 0.5 ms round trip", "wan": "100 Mbit/s, 40 ms round trip"}[link]
    return (
        f"{link.upper()} ({about}): about {duration(cost['seconds'])}, {cost['rounds']:,} rounds; a party sends "
        f"{size(cost['bytes_by_party'])}, the helper {size(cost['bytes_by_helper'])}; {size(cost['memory'])} of memory"
    )
