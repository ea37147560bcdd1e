"""What `SecureKMeans.predict_parties` has every role do: labels for new rows, by the secure protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.clustering import make_task
from coterie.data import Blocks
from coterie.encoded import category_groups, encode_blocks
from coterie.errors import InputError
from coterie.planning import planned
from coterie.runtime.job import Job

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans

__all__ = ["check_like_the_fit", "prediction_jobs"]


def check_like_the_fit(model: SecureKMeans, table: Blocks, blocks: Sequence[Any]) -> None:
    """Do blocks to predict lie like those of the fit?"""
    if _needs_shares(model) and model.shares() and len(table.blocks) != model._parties:
        what = "centres" if model.centers == "shared" else "scales"
        raise InputError(f"{what} are shared among {model._parties} parties, but there are {len(blocks)} blocks")
    if table.layout.d != model._encoding.columns:
        raise InputError(f"the blocks have {table.layout.d} columns in all, the model has {model._encoding.columns}")
    if len(table.layout.columns) != len(model._columns):
        raise InputError(f"at the fit {len(model._columns)} parties had columns; there are {len(blocks)} blocks")
    for j, (own, before) in enumerate(zip(table.layout.columns, model._columns, strict=True)):
        if own != before:
            raise InputError(f"party P{j + 1} brings {len(own)} columns; at the fit it had columns {list(before)}")
    known = model.features_ if hasattr(model, "feature_names_in_") else None
    if known is not None and all(hasattr(b, "columns") for b in blocks) and list(known) != list(table.names):
        other = next(a for a, b in zip(table.names, known, strict=True) if a != b)
        raise InputError(f"column {other!r} stands where the fit had another; put columns in the fit's order")


def _needs_shares(model: SecureKMeans) -> bool:
    secret = model._metric is not None and model._weights is None
    return model.centers == "shared" or secret


def prediction_jobs(model: SecureKMeans, table: Blocks) -> list[Job]:
    """By rank, that of the helper first."""
    task = make_task(
        model.protocol,
        model._n_features_out,
        table.layout,
        model._encoding,
        checked=False,
        groups=category_groups(table.features),
        centers="shared" if model.centers == "shared" else "revealed",
        least=int(model.least_cluster_size),
        metric=model._metric,
        scales=model.scales,
    )
    task = planned(task, len(table.blocks), model.plan)
    jobs = [Job(task, predicting=True, closed=model._closed)]
    for j, block in enumerate(encode_blocks(task, table)):
        job = Job(task, block=block, predicting=True, closed=model._closed)
        if model.centers != "shared":
            job.centers = _known_centers(model, table, j + 1)
        if model._weights is not None:
            job.weights = model._weights[None]
        jobs.append(job)
    if _needs_shares(model):
        for rank, job in enumerate(jobs):
            kept = model._kept.get(rank, {})
            job.kept_centers, job.kept_weights = kept.get("centers"), kept.get("weights")
    return jobs


def _known_centers(model: SecureKMeans, table: Blocks, rank: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a party knows of the centres: all of them or, where columns are split, its own."""
    if model.partition != "vertical":
        return model._whole_centers
    own, known = table.layout.own_columns(rank), np.zeros_like(model._whole_centers)
    known[:, own] = model._whole_centers[:, own]
    return known
