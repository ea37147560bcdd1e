"""The closest centre of rows, where the centres are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.interface import Ints

__all__ = ["nearest_open"]


def nearest_open(rows: NDArray[Any], centers: Ints, closed: NDArray[np.bool_], weights: Ints | None = None) -> Ints:
    """Labels as the protocol gives them, from encoded rows (n, d) and centres (k, d): the open cluster whose centre is
    closest, the first of several; -1 where all are closed. `weights` (d,) of columns."""
    known = np.flatnonzero(~closed)
    if not len(known) or not len(rows):
        return np.full(len(rows), -1, np.int64)
    factors = np.ones(rows.shape[1], np.int64) if weights is None else weights
    reach = np.abs(rows).max(axis=0).astype(np.float64) + np.abs(centers).max(axis=0)
    if (factors * reach**2).sum() < 2.0**62:  # far outside the range whole numbers would overflow
        rows = rows.astype(np.int64)
    distances = np.stack([(factors * (rows - center) ** 2).sum(axis=1) for center in centers[known]], axis=1)
    return known[distances.argmin(axis=1)]
