"""What a fit leaves in a `SecureKMeans`, and how it reads rows that are not all numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.clustering import Outcome, put_together
from coterie.data import Blocks
from coterie.data.frames import LEFT_OUT, Recipe, make_recipe, prepare_block
from coterie.errors import InputError, ProtocolError
from coterie.parameters import Prepared, name_parties
from coterie.protocols import FAMILIES, load_family
from coterie.reporting import facts_of_fit
from coterie.runtime.job import Job, Report, do
from coterie.sharing import Disclosure

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans

__all__ = ["render_report", "rows_for_centers", "run_jobs", "split_raw", "spread_labels", "take_result"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

#: What not every fit leaves.
OPTIONAL = (
    "labels_",
    "ids_",
    "cluster_centers_",
    "_whole_centers",
    "counts_",
    "init_rows_",
    "suppressed_",
    "sizes_",
    "scales_",
    "capped_",
)


def take_result(
    model: SecureKMeans, table: Blocks, prepared: Prepared, reports: Mapping[int, Report], seconds: float, dtype: Any
) -> None:
    """From what every role reports, by rank. `seconds`: that it took. `dtype`: of the centres."""
    for name in OPTIONAL:
        if hasattr(model, name):
            delattr(model, name)
    task, outcomes = prepared.task, [report.outcome for report in reports.values()]
    whole = put_together(task, outcomes)
    assert whole.labels is not None
    assert whole.traffic is not None
    model._metric, model._weights, model._rows = task.metric, whole.scales, task.layout.n
    model._encoding, model._kept = task.encoding, {rank: report.kept for rank, report in reports.items()}
    model._columns, model._parties = task.layout.columns, len(prepared.blocks)
    model.bounds_ = np.column_stack([task.encoding.low, task.encoding.high])
    model.features_ = task.encoding.names
    if not task.private:
        model.labels_ = spread_labels(whole.labels.astype(np.int32), table.kept)
    if table.matched is not None and not task.private:
        model.ids_ = np.array(table.matched.ids, dtype=object)
    model.n_clusters_ = model._n_features_out = whole.chosen or task.clusters
    model.k_measures_, model.n_iter_ = whole.k_measures, whole.n_iter
    model._closed = np.zeros(model.n_clusters_, np.bool_) if whole.suppressed is None else whole.suppressed
    _take_centers(model, whole, dtype)
    _take_what_is_there(model, whole)
    opened = model.n_clusters_ - int(model._closed.sum())
    inertia = None if whole.inertia is None else whole.inertia * prepared.weight_unit
    told = (inertia, whole.silhouette, whole.calinski_harabasz(task.layout.n, opened))
    model.inertia_, model.silhouette_, model.calinski_harabasz_ = (math.nan if v is None else v for v in told)
    model.disclosures_ = prepared.disclosed + _agreed_log(outcomes)
    model.traffic_ = whole.traffic
    world = FAMILIES[model.protocol].world(name_parties(len(prepared.blocks)))
    model._facts, model._ran_over = facts_of_fit(world, table, prepared, whole, seconds), model.transport


def _take_centers(model: SecureKMeans, whole: Outcome, dtype: Any) -> None:
    if model.centers == "revealed":
        assert whole.centers is not None
        model._whole_centers = whole.centers
        model.cluster_centers_ = model._encoding.decode(whole.centers).astype(dtype, copy=False)
        model.cluster_centers_[model._closed] = np.nan
    if whole.scales is not None:
        model.scales_ = _deviations(model)


def _deviations(model: SecureKMeans) -> Floats:
    """Standard deviations of the columns; NaN for those of a category, whose weight is not that of their spread."""
    metric = model._metric
    assert metric is not None
    factors = model._factors() / metric.relative_factors(len(model.features_))
    found = np.where(factors > 0, 1 / np.sqrt(np.where(factors > 0, factors, 1.0)), 0.0)
    return np.where(np.array(metric.constants or [0]) > 0, np.nan, found)


def _take_what_is_there(model: SecureKMeans, whole: Outcome) -> None:
    for name in ("suppressed", "sizes", "capped", "counts"):
        if (value := getattr(whole, name)) is not None:
            setattr(model, f"{name}_", value)
    if whole.start_rows:
        model.init_rows_ = np.array(whole.start_rows[0] if len(whole.start_rows) == 1 else whole.start_rows)


def _agreed_log(outcomes: Sequence[Outcome]) -> list[Disclosure]:
    """The disclosure log, which every role must have written alike."""
    log = outcomes[0].disclosures
    for outcome in outcomes[1:]:
        if [msgspec.to_builtins(e) for e in outcome.disclosures] != [msgspec.to_builtins(e) for e in log]:
            raise ProtocolError("the roles wrote different disclosure logs")
    return log


def split_raw(x: Any, partition: str, parties: int) -> list[Any]:
    """A data frame or array, in which not all is numbers, cut into blocks of rows or columns."""
    cells = x if hasattr(x, "iloc") else np.asarray(x, dtype=object)
    if len(cells.shape) != 2:
        raise InputError(f"expected a table (rows, columns), got {len(cells.shape)} dimensions")
    axis = 1 if partition == "vertical" else 0
    if cells.shape[axis] < parties:
        what = "columns" if axis else "rows"
        raise InputError(f"{cells.shape[axis]} {what} cannot be split over n_parties={parties}; each needs one")
    taken: Any = cells.iloc if hasattr(cells, "iloc") else cells
    parts = np.array_split(np.arange(cells.shape[axis]), parties)
    return [taken[:, part] if axis else taken[part] for part in parts]


def run_jobs(model: SecureKMeans, jobs: Sequence[Job]) -> dict[int, Report]:
    """Do the jobs, by rank; the reports by rank. At rank 0 only if this family has somebody there."""
    world = FAMILIES[model.protocol].world(name_parties(len(jobs) - 1))
    say = functools.partial(print, flush=True) if model.verbose else None
    if model.transport == "tls":
        from coterie.runtime.processes import run_processes

        return dict(zip(world.ranks, run_processes(world, jobs, say=say), strict=True))
    from coterie.runtime.threads import run_threads

    load_family(FAMILIES[model.protocol])
    first = world.owners[0]
    reports = run_threads(
        world, lambda me: do(me, jobs[me.rank], say if me.rank == first else None), lanes=jobs[0].task.lanes
    )
    return dict(zip(world.ranks, reports, strict=True))


def rows_for_centers(model: SecureKMeans, x: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Features of rows to label that are not left out, and which these are."""
    check_is_fitted(model)
    if not hasattr(model, "cluster_centers_"):
        raise InputError('the centres are shared (centers="shared"); use predict_parties')
    if model._metric is not None and model._weights is None and not model._closed.all():
        raise InputError('the scales are secret (scales="secret"); use predict_parties')
    return _read_rows(model, x)


def render_report(model: SecureKMeans, x: Any) -> str:
    """The report of a fit; with `x`, the rows that were fitted, as they are to be drawn."""
    from coterie.report.overview import render_fit

    check_is_fitted(model)
    if x is None:
        return render_fit(model._facts, model._ran_over)
    if not hasattr(model, "labels_"):
        raise InputError('with matching="private" rows have no labels, and are not drawn: leave out X')
    values, kept = _read_rows(model, x)
    if len(kept) != len(model.labels_):
        raise InputError(f"X has {len(kept):,} rows, and the fit had {len(model.labels_):,}; give the same, or none")
    return render_fit(model._facts, model._ran_over, values, model.labels_[kept].astype(np.int64))


def _read_rows(model: SecureKMeans, x: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Features of rows, by the rules of the fit, and which rows are not left out."""
    recipe = make_recipe(model.missing, model.categories, model.distance)
    if recipe is not None:
        return _read_by_recipe(model, x, recipe)
    found: Floats = validate_data(model, x, dtype=np.float64, reset=False)
    return found, np.ones(len(found), np.bool_)


def _read_by_recipe(model: SecureKMeans, x: Any, recipe: Recipe) -> tuple[Floats, NDArray[np.bool_]]:
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    names = names or [f"x{l}" for l in range(model.n_features_in_)]
    given = [str(name) for name in getattr(x, "columns", names)]
    if given != names or np.shape(x)[1:] != (len(names),):
        raise InputError(f"X has other columns than the fit, which had {len(names)}: {', '.join(names)}")
    values, kept, _ = prepare_block(x, names, recipe, "of X")
    return values, kept


def spread_labels(labels: Labels, kept: Sequence[NDArray[np.bool_]]) -> Labels:
    """Labels of all rows, from those of the rows that were kept; of the others, `LEFT_OUT`."""
    rows = np.concatenate(kept) if kept else np.ones(len(labels), np.bool_)
    found = np.full(len(rows), LEFT_OUT, np.int32)
    found[rows] = labels
    return found
