"""The task that follows from a study and from what everybody brings to a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.clustering import SEED_BYTES, Layout, Task, distinct_rows, make_task
from coterie.clustering.rules import strictest
from coterie.errors import DataError, FrameError, InputError, StudyError
from coterie.study.agreement import Study
from coterie.study.files import canonical
from coterie.study.greetings import MOST_ROWS, Greeting, Purpose
from coterie.study.home import encode_study, study_groups, study_resolution, study_stays_inside
from coterie.study.policy import check_least

__all__ = ["layout_by_columns", "make_study_task", "seeds_of", "strictest_least", "task_of_study"]


def strictest_least(study: Study, said: Mapping[str, Greeting]) -> int:
    """The least cluster size that holds for all."""
    least = max(study.disclosures.least_cluster_size, *(said[name].least for name in study.roles.owners))
    check_least(least, study, "the strictest policy among the participants")
    return least


def make_study_task(
    study: Study, purpose: Purpose, said: Mapping[str, Greeting], matched: Layout | None = None
) -> Task:
    """The task that follows from the study and from what everybody brings. `matched`: who holds what, where rows were
    matched."""
    todo, world = study.clustering, study.world()
    parties, least = [said[name] for name in study.roles.owners], strictest_least(study, said)
    layout = _layout(study, [one.rows for one in parties]) if matched is None else matched
    if purpose == "predict":
        return _prediction(study, layout, said, least)
    n, k = layout.n, todo.choices[-1]
    if n > MOST_ROWS:
        raise StudyError(f"there are {n} rows in all; at most {MOST_ROWS} can be clustered")
    if k > n:
        raise StudyError(f"there are {n} rows in all, fewer than the {k} clusters that the study asks for")
    try:
        return task_of_study(
            study,
            layout,
            least,
            names=world.names,
            starts=_random_starts(study, n),
            contribution=strictest([study.disclosures.contribution, *(one.contribution for one in parties)]),
            coalition=max(one.coalition for one in parties),
        )
    except InputError as error:
        raise StudyError(str(error)) from None


def task_of_study(study: Study, layout: Layout, least: int, **more: Any) -> Task:
    """What a study has everybody compute on a table that lies like this, under this least cluster size. `more`: as
    `make_task`."""
    todo, shown = study.clustering, study.disclosures
    try:
        encoding, metric = encode_study(study, layout.n, inside=study_stays_inside(study, least))
    except InputError as error:
        raise InputError(f"[data] of the study: {error}") from None
    options: dict[str, Any] = {
        "resolution": study_resolution(study),
        "groups": study_groups(study),
        "metric": metric,
        "scales": shown.scales,
        "counts": shown.counts,
        "labels": shown.labels,
        "centers": shown.centers,
        "choices": todo.choices if len(todo.choices) > 1 else (),
        "choose": todo.choose,
        "measures": shown.measures,
        "quality": tuple(shown.quality),
        "max_iter": todo.max_iter,
        "tol": todo.tol,
        "least": least,
        "contribution": shown.contribution,
        "sizes": shown.sizes,
        "most_weight": study.data.row_weights.largest,
        "private": study.private,
    }
    return make_task(todo.protocol, todo.choices[-1], layout, encoding, **{**options, **more})


def _random_starts(study: Study, n: int) -> tuple[tuple[int, ...], ...]:
    """Where every start begins, if it begins at random rows: public."""
    todo = study.clustering
    if todo.init != "random":
        return ()
    random = np.random.RandomState(todo.seed)
    return tuple(distinct_rows(random, n, k) for k in todo.choices for _ in range(todo.restarts))


def seeds_of(study: Study, run: str) -> tuple[bytes, ...]:
    """Of k-means++, for every start: from the study's seed and, by the run's name, from the nonces of those who began
    it. A run that is taken up again has the same."""
    todo = study.clustering
    if todo.init != "k-means++":
        return ()
    starts = [canonical(["coterie seed", todo.seed, run, start]) for start in range(todo.starts)]
    return tuple(hashlib.sha256(start).digest()[:SEED_BYTES] for start in starts)


def _layout(study: Study, counts: list[int]) -> Layout:
    """Who holds what, from how many rows each owner has."""
    owners, d = study.roles.owners, len(study.features)
    if study.clustering.partition == "horizontal":
        return Layout("horizontal", sum(counts), d, rows=tuple(counts))
    for name, count in zip(owners, counts, strict=True):
        if count != counts[0]:
            raise DataError(
                f"{name} has {count} rows where {owners[0]} has {counts[0]}; in a vertical study all parties "
                "hold the same rows"
            )
    return layout_by_columns(study, counts[0])


def layout_by_columns(study: Study, rows: int) -> Layout:
    """Who holds which columns of so many rows."""
    columns = tuple(tuple(study.own_columns(rank)) for rank in study.world().owners)
    return Layout("vertical", rows, len(study.features), columns=columns)


def _prediction(study: Study, layout: Layout, said: Mapping[str, Greeting], least: int) -> Task:
    name = study.roles.owners[0]
    first = said[name]
    for other in study.roles.players:
        mine, its = ((one.model, one.fractional_bits, one.clusters) for one in (first, said[other]))
        if mine != its:
            raise StudyError(f"{other} brings the model of another run than {name}; use results of the same run")
    k = first.clusters
    if k not in study.clustering.choices:
        raise FrameError(f"{name} brings a model that makes no sense (of {k} clusters)", name)
    try:
        encoding, metric = encode_study(study, 1, wanted=first.fractional_bits)
    except InputError as error:
        raise FrameError(f"{name} brings a model that makes no sense ({error})", name) from None
    protocol, centers = study.clustering.protocol, study.disclosures.centers
    scales = study.disclosures.scales
    return make_task(
        protocol,
        k,
        layout,
        encoding,
        checked=False,
        groups=study_groups(study),
        centers=centers,
        least=least,
        metric=metric,
        scales=scales,
    )
