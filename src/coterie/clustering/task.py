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

__all__ = ["Contribution", "Outcome", "Point", "Task", "Watch", "distinct_rows"]


#: What others than a party must contribute to a cluster before that party may see it opened: at least the least size;
#: nothing, or at least that; anything.
Contribution = Literal["least", "none-or-least", "off"]


class Task(msgspec.Struct, frozen=True):
    """Public, and the same at every role. `starts`: per restart the k row numbers that the centres start
    from; empty where `centers_given` (k x d, encoded) says it instead, or where rows are only labelled.
    `least`: what a smaller cluster is stays closed; its rows are labelled -1."""

    protocol: str
    clusters: int
    layout: Layout
    encoding: FixedPoint
    counts: Literal["secret", "revealed"] = "secret"
    labels: Literal["private", "revealed"] = "private"
    centers: Literal["revealed", "shared"] = "revealed"
    starts: tuple[tuple[int, ...], ...] = ()
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
    def threshold(self) -> int:
        """The total squared movement at which to stop, in encoded units."""
        return min(math.floor(math.ldexp(self.tol, 2 * self.encoding.f)), (1 << 61) - 1)


class Point(msgspec.Struct):
    """Where a fit can be taken up again, at one role: the restart it is in, the iterations done in it, the most that
    any restart took, and what this role holds of the centres and of the best centres so far. The helper holds nothing
    of either; SVK-means' centres are this party's own columns."""

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
    and which columns of the centres are this role's to know. `kept` are its shares."""

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

    def __repr__(self) -> str:
        return f"<Outcome after {self.n_iter} iterations>"  # never what was opened to this role alone


def distinct_rows(random: np.random.RandomState, n: int, k: int) -> tuple[int, ...]:
    """k distinct row numbers to start from: a public choice."""
    return tuple(int(i) for i in random.choice(n, size=k, replace=False))
