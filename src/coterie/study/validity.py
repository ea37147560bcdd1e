"""Everything that can be wrong with a study that can be read."""

from __future__ import annotations

import math
from collections.abc import Callable

from coterie.errors import InputError, StudyError
from coterie.ideal import MOST_CHOICES
from coterie.study.agreement import FORMAT, Study, StudyColumn
from coterie.study.identity import check_identity
from coterie.study.seating import find_misfit
from coterie.study.statement import state_disclosures

__all__ = ["check_study"]

#: Raises an error with the text unless the first argument is true.
Must = Callable[[bool, str], None]
VERTICAL_RESOLUTION = (
    "[data] resolution is for a horizontal study: where columns are split, every party learns every label, and so the "
    "sizes"
)


def check_study(study: Study, where: str) -> None:
    """Refuse a study that cannot be run, or whose statement is not what it amounts to. `where` it comes from."""

    def must(holds: bool, problem: str) -> None:
        if not holds:
            raise StudyError(f"{where}: {problem}")

    must(study.study.format == FORMAT, f"[study] format {study.study.format} is not known; this version reads {FORMAT}")
    _check_options(study, must)
    _check_columns(study, must)
    _check_participants(study, must, where)
    _check_partition(study, must)
    must(
        study.disclosures.statement == state_disclosures(study),
        "[disclosures] the statement is not what [clustering], [disclosures] and [participants] amount to",
    )


def _check_options(study: Study, must: Must) -> None:
    from coterie.protocols import FAMILIES  # takes long to load

    todo, data, shown = study.clustering, study.data, study.disclosures
    several = not isinstance(todo.clusters, int)
    must(todo.choices[:1] >= ((2,) if several else (1,)), f"[clustering] clusters must be at least {1 + several}")
    must(list(todo.choices) == sorted(set(todo.choices)), "[clustering] clusters must be in order, each once")
    must(
        len(todo.choices) <= MOST_CHOICES, f"[clustering] clusters may be at most {MOST_CHOICES} numbers to choose from"
    )
    must(not several or len(todo.choices) > 1, "[clustering] clusters must be a number, or at least two of them")
    must(todo.protocol in FAMILIES, f"[clustering] protocol must be one of {', '.join(FAMILIES)}")
    must(
        shown.least_cluster_size >= 1,
        "[disclosures] least_cluster_size must be at least 1, which leaves it to policies",
    )
    for option in ("counts", "labels"):
        told = shown.least_cluster_size > 1 and getattr(shown, option) == "revealed"
        must(not told, f"[disclosures] revealed {option} would tell what least_cluster_size keeps back")
    must(len(set(shown.quality)) == len(shown.quality), "[disclosures] quality must name each of its numbers once")
    must(data.most_rows >= 1, "[data] most_rows must be at least 1")
    must(todo.restarts >= 1, "[clustering] restarts must be at least 1")
    must(todo.max_iter >= 1, "[clustering] max_iter must be at least 1")
    must(0 <= todo.tol < math.inf, "[clustering] tol must be a number of at least 0")
    must(0 <= todo.seed < 1 << 32, "[clustering] seed must lie between 0 and 2^32 - 1")


def _check_columns(study: Study, must: Must) -> None:
    data, names = study.data, study.column_names
    must(bool(names), "[data] there must be columns")
    must(all(names), "[data] a column needs a name")
    for text in (study.study.name, study.study.created, study.study.made_with, data.id, *names):
        fine = text.isprintable() and len(text) <= 200  # people decide by what they see of it
        must(fine, f"the name {text[:40]!r} must be printable, and of at most 200 characters")
    for name in names:
        must(names.count(name) == 1, f"[data] column {name!r} is listed twice")
        must(name != data.id, f"[data] the id column {name!r} cannot be clustered by")
    for column in data.columns:
        fine = math.isfinite(column.low) and math.isfinite(column.high) and column.low < column.high
        must(fine, f"[data] the bounds of column {column.name!r} must be finite, low before high")
    for column in data.columns:
        _check_resolution(column, study.clustering.partition, must)
    from coterie.clustering import relative_weights  # takes long to load

    try:
        relative_weights({column.name: column.weight for column in data.columns}, names)
    except InputError as error:
        must(False, f"[data] {error}")


def _check_resolution(column: StudyColumn, partition: str, must: Must) -> None:
    step = column.resolution
    must(0 <= step < math.inf, f"[data] the resolution of column {column.name!r} must be a number of at least 0")
    if step:
        must(partition == "horizontal", VERTICAL_RESOLUTION)
        ends = (column.low / step, column.high / step)
        fine = all(abs(end - round(end)) < 1e-6 for end in ends) and column.high - column.low >= step
        must(fine, f"[data] the bounds of column {column.name!r} must be multiples of its resolution {step:g}")


def _check_participants(study: Study, must: Must, where: str) -> None:
    people, parties = study.everybody, study.participants.parties
    must(len(parties) >= 2, "[participants] at least two parties are needed")
    must(len(parties) <= 255, "[participants] at most 255 parties can take part")
    for one in people:
        check_identity(one, f"{where}: [participants]")
        must(study.names.count(one.name) == 1, f"[participants] {one.name} is listed twice")
        must(
            sum(other.fingerprint == one.fingerprint for other in people) == 1,
            f"[participants] {one.name} shows the certificate of another participant",
        )
        must(
            sum(other.address == one.address for other in people) == 1,
            f"[participants] {one.name} has the address of another participant",
        )
    misfit = find_misfit(study.clustering.protocol, study.participants)
    must(not misfit, f"[participants] {misfit}")


def _check_partition(study: Study, must: Must) -> None:
    data, owners = study.data, study.roles.owners
    if study.clustering.partition == "vertical":
        must(bool(data.id), "[data] a vertical study needs an id column, by which rows are put in a common order")
        for column in data.columns:
            must(
                column.holder in owners,
                f"[data] column {column.name!r} must be held by one of the parties ({', '.join(owners)})",
            )
        for name in owners:
            must(any(c.holder == name for c in data.columns), f"[data] party {name} holds no column")
    else:
        must(not any(c.holder for c in data.columns), "[data] only in a vertical study columns have holders")
        must(study.disclosures.labels == "private", "[disclosures] revealed labels need a vertical study")
