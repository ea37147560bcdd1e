"""`sample_weight`, as each party holds it for its rows, and as whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.clustering import to_whole_weights
from coterie.data import Blocks
from coterie.errors import InputError
from coterie.protocols import Ints

__all__ = ["check_parties_weights", "split_weights", "to_numbers", "to_whole"]

Floats = NDArray[np.float64]


def split_weights(given: Any, rows: Sequence[int], partition: str) -> list[Floats | None]:
    """What each party gives to its rows, of weights for all rows. `rows`: of each party's block. Where rows are not
    split, P1 gives them all."""
    weights, n = to_numbers("sample_weight", given), sum(rows) if partition == "horizontal" else rows[0]
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}; one for each row is {(n,)}")
    if partition != "horizontal":
        return [weights, *([None] * (len(rows) - 1))]
    return [*np.split(weights, np.cumsum(rows)[:-1])]


def check_parties_weights(given: Any, table: Blocks) -> list[Floats | None]:
    """One array for each party, of its own rows; where rows are not split, one party gives all, the others None."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(table.blocks):
        raise InputError("sample_weight must be a sequence: for each block, what the party gives to its rows")
    found = [None if one is None else to_numbers("sample_weight", one) for one in given]
    horizontal = table.layout.partition == "horizontal"
    if not horizontal and sum(one is not None for one in found) != 1:
        raise InputError("sample_weight: where rows are not split, one party gives the weights and the others None")
    for j, one in enumerate(found):
        rows = len(table.kept[j]) if table.kept else table.layout.rows[j] if horizontal else table.layout.n
        if (one is None and horizontal) or (one is not None and one.shape != (rows,)):
            raise InputError(f"party P{j + 1}: sample_weight must be an array of {rows} numbers, one for each row")
        if one is not None and table.kept:
            found[j] = one[table.kept[j]]
    return found


def to_whole(given: Sequence[Floats | None], rows: int, ruled: bool) -> tuple[list[Ints | None], int, float]:
    """Weights as whole numbers, the largest of them, and what 1 stands for; nothing, if all rows count alike."""
    present = [one for one in given if one is not None]
    if not present:
        return [None] * len(given), 0, 1.0
    together = np.concatenate(present)
    if not np.isfinite(together).all() or (together < 0).any():
        raise InputError("sample_weight must be finite numbers of at least 0")
    if not together.any():
        raise InputError("all weights in sample_weight are zero; at least one row must count")
    if ruled and not together.all():
        raise InputError("sample_weight must be above 0 where a least cluster size holds; leave such rows out")
    if (together == together[0]).all():
        return [None] * len(given), 0, 1.0
    whole, unit = to_whole_weights(together, rows)
    parts = iter(np.split(whole, np.cumsum([len(one) for one in present])[:-1]))
    return [None if one is None else next(parts) for one in given], int(whole.max()), unit


def to_numbers(name: str, value: Any) -> Floats:
    """An argument that must be an array of numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, in rows of equal length") from None
