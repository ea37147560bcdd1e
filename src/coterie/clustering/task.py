"""What all roles have agreed to compute, and what a role has at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering.layout import Layout
from coterie.protocols import Problem
from coterie.protocols.interface import Ints
from coterie.ring import FixedPoint
from coterie.sharing import Disclosure, Secret
from coterie.transport import Traffic

__all__ = ["SEED_BYTES", "Contribution", "Outcome", "Point", "Task", "Watch", "distinct_rows"]

#: Of a public seed for k-means++.
SEED_BYTES = 16


#: What others than a party must contribute to a cluster before that party may see it opened: at least the least size;
#: nothing, or at least that; anything.
Contribution = Literal["least", "none-or-least", "off"]


class Task(msgspec.Struct, frozen=True):
    """Public, and the same at every role. `starts`: per restart the k row numbers that the centres start from.
    `seeds`: per restart a public seed of k-means++, which draws them in secret. Both are empty where `centers_given`
    (k x d, encoded) says it instead, or where rows are only labelled.
    `least`, `contribution`, `coalition`: what a cluster must pass to be opened (`rules.py`); of one that does not
    nothing is opened, and its rows are labelled by the nearest open centre. `grid`: per column, to which power of two
    opened centres are rounded. `sizes`: whether rounded sizes of open clusters are opened."""

    protocol: str
    clusters: int
    layout: Layout
    encoding: FixedPoint
    counts: Literal["secret", "revealed"] = "secret"
    labels: Literal["private", "revealed"] = "private"
    centers: Literal["revealed", "shared"] = "revealed"
    starts: tuple[tuple[int, ...], ...] = ()
    seeds: tuple[bytes, ...] = ()
    centers_given: tuple[tuple[int, ...], ...] = ()
    max_iter: int = 300
    tol: float = 1e-4
    least: int = 1
    contribution: Contribution = "least"
    coalition: int = 1
    grid: tuple[int, ...] = ()
    sizes: Literal["secret", "rounded"] = "secret"
    block_rows: int = 1 << 14
    lanes: int = 0
    schedule: tuple[int, ...] = ()

    @property
    def problem(self) -> Problem:
        half = tuple(int(h) for h in self.encoding.half)
        return Problem(self.layout.n, self.clusters, half, self.block_rows, self.schedule)

    @property
    def restarts(self) -> int:
        """How many starts there are, of which the best is opened."""
        return max(len(self.starts), len(self.seeds), 1)

    @property
    def threshold(self) -> int:
        """The total squared movement at which to stop, in encoded units."""
        return min(math.floor(math.ldexp(self.tol, 2 * self.encoding.f)), (1 << 61) - 1)


class Point(msgspec.Struct):
    """Where a fit can be taken up again, at one role: the restart it is in, the iterations done in it, the most that
    any restart took, and what this role holds of the centres and of the best centres so far (with how many rows they
    were made of). The helper holds nothing of either; SVK-means' centres are this party's own columns. Behind the last
    restart nothing is left to do but open the best."""

    start: int
    iteration: int
    most: int = 0
    centers: dict[str, NDArray[np.uint64]] | None = None
    best: dict[str, NDArray[np.uint64]] | None = None

    def __repr__(self) -> str:
        return f"<Point {self.start}, {self.iteration}>"  # never a share


class Watch:
    """Told how a fit goes on. This one does nothing."""

    def iterated(self, point: Callable[[], Point]) -> None:
        """An iteration is done and another follows."""

    def finished(self, point: Callable[[], Point]) -> None:
        """All restarts are done, and nothing of the result is opened yet."""


class Outcome(msgspec.Struct):
    """What one role knows at the end. Whole numbers are encoded; `rows` and `columns` say which labels
    and which columns of the centres are this role's to know. `kept` are its shares. `start_rows`: per restart, the rows
    that the centres started from, where they are known."""

    n_iter: int = 0
    center_columns: list[int] = []
    centers: Ints | None = None
    rows: NDArray[np.bool_] | None = None
    labels: Ints | None = None
    counts: Ints | None = None
    inertia: float | None = None
    kept: dict[str, Secret] = {}
    disclosures: list[Disclosure] = []
    traffic: Traffic | None = None
    suppressed: NDArray[np.bool_] | None = None
    sizes: Ints | None = None
    start_rows: list[list[int]] = []

    @property
    def all_closed(self) -> bool:
        """Whether this role knows that no cluster is open."""
        return self.suppressed is not None and bool(self.suppressed.all())

    def open_clusters(self, clusters: int) -> int:
        """How many of the clusters are open, as far as this role knows."""
        return clusters if self.suppressed is None else int((~self.suppressed).sum())

    def __repr__(self) -> str:
        return f"<Outcome after {self.n_iter} iterations>"  # never what was opened to this role alone


def distinct_rows(random: np.random.RandomState, n: int, k: int) -> tuple[int, ...]:
    """k distinct row numbers to start from: a public choice."""
    return tuple(int(i) for i in random.choice(n, size=k, replace=False))
