"""What `SecureKMeans` warns of: what data and results show, and a user may not see."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coterie.data import Blocks
from coterie.data.frames import LEFT_OUT

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans

__all__ = ["say_result", "warn_of_one_column", "warn_of_result"]

#: The part of the variance of a party's rows beyond which a single column decides alone.
NEARLY_ALL = 0.95


def warn_of_one_column(model: SecureKMeans, table: Blocks, columns: Sequence[str]) -> None:
    """Where columns are not scaled, the one with the largest numbers may decide alone."""
    if model.scale is not None or table.layout.d == 1 or model.column_weights:
        return
    for j, block in enumerate(table.blocks):
        own = table.layout.own_columns(j + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column of which this party holds no cell
            variance = np.nan_to_num(np.nanvar(block, axis=0))
        total, held = float(variance.sum()), int(np.isfinite(block).any(axis=0).sum())
        if held > 1 and total > 0 and (share := float(variance.max()) / total) > NEARLY_ALL:
            name = columns[own[int(variance.argmax())]]
            warnings.warn(
                f"column {name!r} carries {share:.0%} of the variance of party P{j + 1}'s rows, and so decides "
                'nearly alone which are close; use scale="standard" to let columns count alike',
                stacklevel=4,
            )


def say_result(model: SecureKMeans) -> None:
    """What a fit came to, as far as it is known: by how much centres moved in the end stays secret."""
    if model.n_iter_ < model.max_iter:
        why = "strict convergence" if model.tol == 0 else "center shift (not opened) within tolerance"
        print(f"Converged at iteration {model.n_iter_}: {why}.")
    else:
        print(f"Ended at iteration {model.n_iter_}, the most that is allowed (max_iter).")
    traffic = model.traffic_
    inertia = "inertia not opened" if math.isnan(model.inertia_) else f"inertia {model.inertia_:.6g}"
    print(
        f"SecureKMeans: {model.n_iter_} iterations, {inertia}, {traffic.rounds} rounds, "
        f"{sum(traffic.bytes_sent.values()):,} bytes"
    )


def warn_of_result(model: SecureKMeans, columns: Sequence[str]) -> None:
    """Clusters without rows, and columns that could not get their full weight."""
    labels = getattr(model, "labels_", np.arange(model.n_clusters_))  # if they are nobody's to know, nothing is said
    found = len(np.unique(labels[labels != LEFT_OUT]))
    if found < model.n_clusters_ and not model._closed.any():
        said = f"Number of distinct clusters ({found}) found smaller than n_clusters ({model.n_clusters_})"
        warnings.warn(f"{said}. Possibly due to duplicate points in X.", ConvergenceWarning, stacklevel=4)
    capped = [name for name, one in zip(columns, getattr(model, "capped_", ()), strict=False) if one]
    if capped:
        said = "these columns vary so little, for their bounds, that they count less than they should; use tighter ones"
        warnings.warn(f"{', '.join(capped)}: {said}", stacklevel=4)
