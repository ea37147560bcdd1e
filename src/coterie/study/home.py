"""How the columns of a study become whole numbers; those that a party standardises at home, for its own eyes."""

from __future__ import annotations

from typing import NamedTuple

from coterie.clustering import Task, at_home, make_scaled, relative_weights, stays_inside
from coterie.protocols.metric import Metric
from coterie.ring import FixedPoint
from coterie.study.agreement import Study
from coterie.study.prepare import Ready

__all__ = ["AtHome", "encode_study", "home_encoding", "standardised_at_home", "study_stays_inside"]


def encode_study(
    study: Study, rows: int, *, inside: bool = False, wanted: int | None = None
) -> tuple[FixedPoint, Metric | None]:
    """The fixed point of a study's columns, and the metric, if they are standardised in secret; as `make_scaled`."""
    todo, columns = study.clustering, study.data.columns
    low, high = ([getattr(column, end) for column in columns] for end in ("low", "high"))
    weights = relative_weights({column.name: column.weight for column in columns}, study.column_names)
    return make_scaled(
        todo.scale,
        todo.partition,
        study.column_names,
        low,
        high,
        rows,
        todo.choices[-1],
        inside=inside,
        wanted=wanted,
        weights=weights,
    )


def study_stays_inside(study: Study, least: int) -> bool:
    """Is nothing measured in secret but the data and means of them?"""
    shown, rounded = study.disclosures, any(column.resolution for column in study.data.columns) and least > 1
    return stays_inside(shown.centers, shown.scales, study.clustering.partition, rounded=rounded)


class AtHome(NamedTuple):
    """Of this party's columns."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]


def standardised_at_home(ready: Ready) -> AtHome | None:
    """How this party standardises its columns, by its rows; None where it does not."""
    todo = ready.study.clustering
    if todo.scale != "standard" or todo.partition != "vertical" or ready.rows is None:
        return None
    values = ready.rows.values
    return AtHome(tuple(map(float, values.mean(axis=0))), tuple(map(float, values.std(axis=0))))


def home_encoding(ready: Ready, task: Task, known: AtHome | None = None) -> FixedPoint:
    """The encoding in this party's own units. `known`: for new rows, how those of the fit were standardised."""
    found = standardised_at_home(ready)
    if found is None:
        return task.encoding
    return at_home(task.encoding, ready.study.own_columns(ready.rank), *(known or found))
