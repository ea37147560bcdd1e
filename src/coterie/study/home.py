"""How the columns of a study become whole numbers; those that a party standardises at home, for its own eyes."""

from __future__ import annotations

from typing import NamedTuple

from coterie.clustering import Task, at_home, category_at_home, make_scaled, relative_weights, stays_inside
from coterie.protocols.metric import Metric
from coterie.ring import FixedPoint
from coterie.study.agreement import Study
from coterie.study.prepare import Ready

__all__ = [
    "AtHome",
    "encode_study",
    "home_encoding",
    "standardised_at_home",
    "study_groups",
    "study_resolution",
    "study_stays_inside",
]


def encode_study(
    study: Study, rows: int, *, inside: bool = False, wanted: int | None = None
) -> tuple[FixedPoint, Metric | None]:
    """The fixed point of a study's features, and the metric, if they are standardised in secret; as `make_scaled`."""
    todo, features = study.clustering, study.features
    weights = {feature.name: column.weight for column in study.data.columns for feature in column.features}
    return make_scaled(
        todo.scale,
        todo.partition,
        study.column_names,
        [feature.low - feature.room for feature in features],
        [feature.high + feature.room for feature in features],
        rows * max(study.data.row_weights.largest, 1),
        todo.choices[-1],
        inside=inside,
        wanted=wanted,
        weights=relative_weights(weights, study.column_names),
        distances=[feature.distance for feature in features],
    )


def study_resolution(study: Study) -> dict[str, float]:
    """The steps on which values of features lie, where the study names them; where rows are matched in private and
    columns standardised at home, the unit that they are standardised to, and 1 for a category."""
    if study.private and study.clustering.scale == "standard":
        return {one.name: 1 / category_at_home(one.distance)[1] if one.distance else 1.0 for one in study.features}
    return {
        feature.name: column.resolution
        for column in study.data.columns
        for feature in column.features
        if column.resolution
    }


def study_groups(study: Study) -> tuple[tuple[int, ...], ...]:
    """Which features belong to one category."""
    features = study.features
    return tuple(
        tuple(l for l, feature in enumerate(features) if feature.column == column.name)
        for column in study.data.columns
        if column.kind == "category"
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
    means, deviations = values.mean(axis=0), values.std(axis=0)
    steps = {column.name: column.resolution for column in ready.study.own_declared(ready.rank)}
    for own, l in enumerate(ready.study.own_columns(ready.rank)):
        feature = ready.study.features[l]
        if feature.distance:
            means[own], deviations[own] = category_at_home(feature.distance)
        elif ready.study.private:  # opened centres are rounded to a part of this unit
            deviations[own] = max(deviations[own], steps[feature.column])
    return AtHome(tuple(map(float, means)), tuple(map(float, deviations)))


def home_encoding(ready: Ready, task: Task, known: AtHome | None = None) -> FixedPoint:
    """The encoding in this party's own units. `known`: for new rows, how those of the fit were standardised."""
    found = standardised_at_home(ready)
    if found is None:
        return task.encoding
    return at_home(task.encoding, ready.study.own_columns(ready.rank), *(known or found))
