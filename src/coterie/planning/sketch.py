"""The task of a study of which only the sizes are known, for a forecast."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from coterie.clustering import SEED_BYTES, Layout, Partition, Task, make_encoding, make_task
from coterie.errors import InputError

__all__ = ["even_layout", "sketch", "some_starts"]


def even_layout(partition: Partition, rows: int, columns: int, parties: int) -> Layout:
    """Rows, columns or a checkerboard of cells, as evenly over the parties as they go; the first get one more."""
    if parties < 2 or parties > 255:
        raise InputError(f"there must be between 2 and 255 parties, not {parties}")
    if rows < 1 or columns < 1:
        raise InputError(f"there must be at least one row and one column, not {rows} x {columns}")
    if partition == "horizontal":
        if rows < parties:
            raise InputError(f"{rows} rows cannot be split over {parties} parties")
        return Layout("horizontal", rows, columns, rows=tuple(len(part) for part in _even(rows, parties)))
    if partition == "vertical":
        if columns < parties:
            raise InputError(f"{columns} columns cannot be split over {parties} parties")
        return Layout("vertical", rows, columns, columns=tuple(tuple(part) for part in _even(columns, parties)))
    row_block = np.arange(rows) * parties // rows
    column_block = np.arange(columns) * parties // columns
    owners = ((row_block[:, None] + column_block[None, :]) % parties + 1).astype(np.uint8)
    return Layout("mixed", rows, columns, owners=owners.tobytes())


def _even(count: int, parts: int) -> list[range]:
    edges = [0]
    for part in range(parts):
        edges.append(edges[-1] + count // parts + (part < count % parts))
    return [range(a, b) for a, b in pairwise(edges)]


def sketch(
    layout: Layout,
    clusters: int,
    bounds: tuple[float, float] = (-1.0, 1.0),
    counts: Literal["secret", "revealed"] = "secret",
    labels: Literal["private", "revealed"] = "private",
    centers: Literal["revealed", "shared"] = "revealed",
    protocol: str = "onetime",
    restarts: int = 1,
    init: str = "k-means++",
) -> Task:
    """The task for data that lie like this, with the same public range for every column; without a plan."""
    n, d = layout.n, layout.d
    if not 1 <= clusters <= n:
        raise InputError(f"there must be between 1 and {n} clusters for {n} rows, not {clusters}")
    if labels == "revealed" and layout.partition != "vertical":
        raise InputError("revealed labels are SVK-means, which needs a vertical partition")
    low, high = (float(end) for end in bounds)
    if not (np.isfinite(bounds).all() and low <= high):
        raise InputError(f"the range of the columns must be finite, low before high, not {low:g} to {high:g}")
    names = tuple(f"x{l}" for l in range(d))
    encoding = make_encoding(names, [low] * d, [high] * d, n, clusters)
    starts = some_starts(init, (clusters,), restarts)
    return make_task(protocol, clusters, layout, encoding, counts=counts, labels=labels, centers=centers, **starts)


def some_starts(init: str, choices: tuple[int, ...], restarts: int) -> dict[str, Any]:
    """As many starts as there are restarts, as a task says it: what a run costs does not depend on which rows."""
    if init == "k-means++":
        return {"seeds": (bytes(SEED_BYTES),) * (restarts * len(choices))}
    return {"starts": tuple(tuple(range(k)) for k in choices for _ in range(restarts))}
