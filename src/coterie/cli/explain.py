"""A study in plain words, with a forecast of what it will cost."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.cli.people import (
    explain_relays,
    explain_renewals,
    explain_software,
    list_participants,
    show_participants,
)
from coterie.cli.promised import bullets, list_promises
from coterie.clustering import Layout
from coterie.errors import InputError
from coterie.ideal import Terms
from coterie.matching import cost_of_matching
from coterie.planning import forecast, planned
from coterie.planning.sketch import even_layout, some_starts
from coterie.report.formats import format_bytes, format_duration, join_names
from coterie.report.promises import promises
from coterie.study.agreement import Study, StudyColumn, study_hash
from coterie.study.policy import LEAST
from coterie.study.statement import state_output_rules, terms_of_study
from coterie.study.tasks import layout_by_columns, task_of_study
from coterie.transport.links import LINKS

__all__ = ["explain_study"]

PARTITIONS = {"horizontal": "by rows", "vertical": "by columns", "mixed": "cell by cell"}
SCALES = {
    "none": "not scaled",
    "bounds": "scaled by their bounds",
    "standard": "standardised, to a variance of 1 over all rows",
}
STARTS = {
    "k-means++": "by k-means++, which draws rows in secret, far from each other",
    "random": "from rows with public numbers",
}


def explain_study(study: Study, rows: int, iterations: int) -> tuple[str, dict[str, Any]]:
    """The text, and what machines get: the promises and the forecast."""
    todo, roles = study.clustering, study.roles
    told = promises(expect_terms(study), roles, todo.protocol)
    lines = [
        f"{study.study.name}, hash {study_hash(study)}",
        "",
        "WHO TAKES PART",
        *show_participants(study),
        f"  - {explain_renewals(study)}",
        f"  - {explain_software(study)}",
        *explain_relays(study),
        "",
        "WHAT IS COMPUTED",
        f"k-means with {_describe_clusters(study)} over {len(study.data.columns)} columns of "
        f"{join_names(roles.owners)}, partitioned {PARTITIONS[todo.partition]}; "
        f"protocol {todo.protocol}; {'exactly' if study.private else 'at most'} {todo.max_iter} iterations; "
        f"{todo.restarts} {'start' if todo.restarts == 1 else 'starts'}{_each(study)} {STARTS[todo.init]} (seed "
        f"{todo.seed}); columns are {SCALES[todo.scale]}{_by_whom(study)}.",
        _describe_breaks(study.participants.reconnect),
    ]
    for column in study.data.columns:
        held = f", held by {column.holder}" if column.holder else ""
        step = f", multiples of {column.resolution:g}" if column.resolution else ""
        step += f", counting {column.weight:g}-fold" if column.weight != 1 else ""
        lines.append(f"  - {column.name}: {_describe_values(column)}{step}{held}")
    weights = study.data.row_weights
    if weights.column:
        whose = f"{weights.holder} alone" if weights.holder else "the owner of a row alone"
        lines.append(
            f"  - Rows count for what column {weights.column} says, at most {weights.most:g}, to a multiple of "
            f"{weights.step:g}; {whose} knows it, and it is never opened."
        )
    lines += ["", "WHICH CLUSTERS ARE OPENED", *bullets(state_output_rules(study)), f"  - {_policies(study)}"]
    lines += list_promises(told, study)
    lines += ["", f"WHAT IT WILL COST, with {rows:,} rows in all and {iterations} iterations"]
    costs: dict[str, Any] = {}
    try:
        for link in ("lan", "wan"):
            costs[link] = _forecast(study, rows, iterations, link)
            lines.append("  - " + _describe_cost(link, costs[link]))
        if study.data.matching != "equal":
            costs["matching"] = _cost_of_matching(study, rows)
            lines.append("  - " + _describe_matching(rows, costs["matching"]))
    except InputError as error:
        lines.append(f"  - no forecast: {error}")
    return "\n".join(lines), {
        "participants": list_participants(study),
        "promises": msgspec.to_builtins(told),
        "forecast": costs,
    }


def expect_terms(study: Study) -> Terms:
    """What the promises follow from, if every party has the default policy; revealed counts and labels do not go with
    its least cluster size, so these need policies that switch it off. A weaker rule on contributions that the study
    names is taken to be named by every policy, too: nobody is told of more protection than there may be."""
    shown = study.disclosures
    revealed = "revealed" in (shown.counts, shown.labels)
    return terms_of_study(study, 1 if revealed else max(shown.least_cluster_size, LEAST))


def _policies(study: Study) -> str:
    options = expect_terms(study)
    if not options.ruled:
        return (
            "What follows is for policies that switch the least cluster size off (least_cluster_size = 1): others "
            "refuse a study that reveals counts or labels."
        )
    weaker = ""
    if options.by_rows and options.contribution != "least":
        weaker = f" and name the rule contribution = {options.contribution!r}, as the study does"
    return (
        f"What follows is for a least cluster size of {options.least} and policies that ask for no more{weaker}. What "
        "holds in the end is agreed on when the run begins, and stands in everybody's report."
    )


def _describe_clusters(study: Study) -> str:
    """How many there are, or from which numbers one is chosen, and how."""
    todo = study.clustering
    if len(todo.choices) == 1:
        return f"{todo.choices[0]} clusters"
    tried = ", ".join(map(str, todo.choices[:-1])) + f" or {todo.choices[-1]}"
    by = {"calinski-harabasz": "the Calinski-Harabasz index", "silhouette": "the mean silhouette"}[todo.choose]
    return f"{tried} clusters, whichever is best by {by},"


def _describe_breaks(seconds: int) -> str:
    if not seconds:
        return "If a connection breaks, the run stops; started again, by all, it goes on."
    return (
        f"If a connection breaks, all meet again within {seconds} s by themselves, and the run goes on from the newest "
        "checkpoint that all hold, with fresh keys and the data masked anew."
    )


def _each(study: Study) -> str:
    return " for each number of clusters" if len(study.clustering.choices) > 1 else ""


def _by_whom(study: Study) -> str:
    """Who standardises columns."""
    todo = study.clustering
    if todo.scale != "standard":
        return ""
    if todo.partition == "vertical":
        return ", each at home by the party that holds it"
    return f", in secret; what that takes is opened {'at the end' if study.scales == 'revealed' else 'to nobody'}"


def _describe_values(column: StudyColumn) -> str:
    """What values a column has, and what is made of them at home."""
    if column.kind == "category":
        said = f"one of {join_names(column.categories)}, any two {column.distance:g} apart in distances between rows"
    elif column.kind == "boolean":
        said = "true or false, as 1 or 0"
    else:
        low, high = (end if isinstance(end, str) else f"{end:g}" for end in (column.low, column.high))
        said = f"{'a date ' if column.kind == 'date' else ''}between {low} and {high}"
        said += ", others set to the nearer of these" if column.clip else ""
        said += {"none": "", "log": "; its logarithm counts", "log1p": "; the logarithm of 1 more counts"}[
            column.transform
        ]
    if column.missing == "drop":
        return f"{said}; rows without a value are left out"
    if column.missing != "error":
        return f"{said}; a missing value counts as {column.missing}"
    return said


def _cells_of_holders(study: Study, rows: int) -> Layout:
    """A patchwork in which all who bring a column hold it for as many rows."""
    owners = study.roles.owners
    each = [[1 + owners.index(name) for name in c.holders] for c in study.data.columns for _ in c.features]
    cells = [[able[i * len(able) // rows] for able in each] for i in range(rows)]
    return Layout("mixed", rows, len(each), owners=bytes(rank for row in cells for rank in row))


def _forecast(study: Study, rows: int, iterations: int, link: str) -> dict[str, Any]:
    todo, world, d = study.clustering, study.world(), len(study.features)
    parties = world.p
    if todo.partition == "horizontal":
        layout = even_layout("horizontal", rows, d, parties)
    elif todo.partition == "vertical":
        layout = layout_by_columns(study, rows)
    else:
        layout = _cells_of_holders(study, rows)
    starts = some_starts(todo.init, todo.choices, todo.restarts)
    task = task_of_study(study, layout, expect_terms(study).least, checked=False, **starts)
    found = forecast(planned(task, parties, "auto", LINKS[link]), parties, iterations, LINKS[link], "stop")
    sent = dict(found.bytes_sent)
    dealt = {"bytes_by_helper": sent.pop("P0")} if world.dealer is not None else {}
    return {
        "seconds": found.seconds,
        "rounds": found.rounds,
        "bytes_by_party": max(sent.values()),
        **dealt,
        "memory": max(found.memory.values()),
        **({"without_start": True} if found.without_start else {}),
    }


def _cost_of_matching(study: Study, rows: int) -> dict[str, int]:
    """If every party brings so many rows."""
    mixed = study.clustering.partition == "mixed"
    found = cost_of_matching(
        study.data.matching, [rows] * len(study.roles.owners), rows * len(study.features) if mixed else 0
    )
    return {"bytes_by_party": max(found.parties), "bytes_by_helper": found.helper}


def _describe_matching(rows: int, cost: dict[str, int]) -> str:
    party, helper = (format_bytes(cost[name]) for name in ("bytes_by_party", "bytes_by_helper"))
    return f"matching rows before that, with {rows:,} ids at each party: a party sends {party}, the helper {helper}"


def _describe_cost(link: str, cost: dict[str, Any]) -> str:
    about = {"lan": "1 Gbit/s, 0.5 ms round trip", "wan": "100 Mbit/s, 40 ms round trip"}[link]
    party, memory = (format_bytes(cost[name]) for name in ("bytes_by_party", "memory"))
    sent = f"a server sends {party}"
    if "bytes_by_helper" in cost:
        sent = f"a party sends {party}, the helper {format_bytes(cost['bytes_by_helper'])}"
    return (
        f"{link.upper()} ({about}): about {format_duration(cost['seconds'])}, {cost['rounds']:,} rounds; {sent}; "
        f"{memory} of memory{', the start by k-means++ not counted' if cost.get('without_start') else ''}"
    )
