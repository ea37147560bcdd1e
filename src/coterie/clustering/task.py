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
from coterie.protocols.interface import Ints, Weigher
from coterie.protocols.metric import Metric
from coterie.ring import FixedPoint
from coterie.sharing import Disclosure, Secret
from coterie.transport import Traffic

__all__ = [
    "QUALITY",
    "SEED_BYTES",
    "Choose",
    "Contribution",
    "Outcome",
    "Point",
    "Quality",
    "Task",
    "Watch",
    "distinct_rows",
]

OWNERS: Weigher = "owners"
DEALER: Weigher = "dealer"
#: Of a public seed for k-means++.
SEED_BYTES = 16


#: What others than a party must contribute to a cluster before that party may see it opened: at least the least size;
#: nothing, or at least that; anything.
Contribution = Literal["least", "none-or-least", "off"]


#: What is told of how good clusters are.
Quality = Literal["inertia", "silhouette", "calinski-harabasz"]
QUALITY: tuple[Quality, ...] = ("inertia", "silhouette", "calinski-harabasz")


Choose = Literal["calinski-harabasz", "silhouette"]


class Task(msgspec.Struct, frozen=True):
    """Public, and the same at every role. `starts`: per restart the k row numbers that the centres start from.
    `seeds`: per restart a public seed of k-means++, which draws them in secret. Both are empty where `centers_given`
    (k x d, encoded) says it instead, or where rows are only labelled.
    `least`, `contribution`, `coalition`: what a cluster must pass to be opened (`rules.py`); of one that does not
    nothing is opened, and its rows are labelled by the nearest open centre. `metric`: columns are weighted by their
    spread, which is opened or not as `scales` says. `grid`: per column, to which power of two opened centres are
    rounded. `groups`: columns that belong to one category; in each row one of them is 1 and the others are 0. `sizes`:
    whether rounded sizes of open clusters are opened. `quality`: what is told of how good clusters are. `most_weight`:
    the largest weight that an owner gives to a row; 0, if rows have none. `private`: only rows count of which the
    dealer knows that all owners hold them, nothing is opened row by row, and there are just `max_iter` iterations."""

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
    metric: Metric | None = None
    scales: Literal["revealed", "secret"] = "revealed"
    grid: tuple[int, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    sizes: Literal["secret", "rounded"] = "secret"
    quality: tuple[Quality, ...] = QUALITY
    choices: tuple[int, ...] = ()
    choose: Choose = "calinski-harabasz"
    measures: Literal["revealed", "secret"] = "revealed"
    most_weight: int = 0
    private: bool = False
    block_rows: int = 1 << 14
    lanes: int = 0
    schedule: tuple[int, ...] = ()
    schedules: tuple[tuple[int, ...], ...] = ()
    collect_from: int = 0

    @property
    def problem(self) -> Problem:
        half = tuple(int(h) for h in self.encoding.half)
        heaviest, weigher = (1, DEALER) if self.private else (self.most_weight, OWNERS)
        return Problem(
            self.layout.n,
            self.clusters,
            half,
            self.block_rows,
            self.schedule,
            self.metric,
            heaviest,
            weigher,
            self.collect_from,
        )

    @property
    def restarts(self) -> int:
        """How many starts there are, of which the best is opened."""
        return max(len(self.starts), len(self.seeds), 1)

    def chosen(self, outcome: Outcome) -> Task:
        """The task of the number of clusters that was chosen; this one, if there was nothing to choose."""
        return self if outcome.chosen is None else self.choice(self.choices.index(outcome.chosen))

    def choice(self, number: int) -> Task:
        """The task of one of several numbers of clusters."""
        each = self.restarts // len(self.choices)
        mine = slice(number * each, (number + 1) * each)
        return msgspec.structs.replace(
            self,
            clusters=self.choices[number],
            starts=self.starts[mine],
            seeds=self.seeds[mine],
            schedule=self.schedules[number] if self.schedules else (),
            choices=(),
            schedules=(),
        )

    @property
    def threshold(self) -> int:
        """With a metric: the total weighted movement at which to stop. Standardised columns have a variance of 1."""
        assert self.metric is not None
        scale = self.metric.scale(self.layout.n, max(self.problem.half))
        tol = self.tol * self.metric.mean_factor
        return min(math.floor(math.ldexp(tol / self.layout.n, scale)), (1 << 61) - 1)


class Point(msgspec.Struct):
    """Where a fit can be taken up again, at one role: the restart it is in, the iterations done in it, the most that
    any restart took, and what this role holds of the centres and of the best centres so far (with how many rows they
    were made of). `spread`: what it holds of how far the data spread. The helper holds nothing of any; SVK-means'
    centres are this party's own columns. Behind the last restart nothing is left to do but open the best."""

    start: int
    iteration: int
    most: int = 0
    centers: dict[str, NDArray[np.uint64]] | None = None
    best: dict[str, NDArray[np.uint64]] | None = None
    spread: dict[str, NDArray[np.uint64]] | None = None

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
    that the centres started from, where they are known. `scales`: the columns' weights; `capped`: the columns that vary
    too little to weigh as much as they should."""

    n_iter: int = 0
    center_columns: list[int] = []
    centers: Ints | None = None
    rows: NDArray[np.bool_] | None = None
    labels: Ints | None = None
    counts: Ints | None = None
    inertia: float | None = None
    silhouette: float | None = None
    scatter: float | None = None
    chosen: int | None = None
    k_measures: dict[int, float] = {}
    kept: dict[str, Secret] = {}
    disclosures: list[Disclosure] = []
    traffic: Traffic | None = None
    suppressed: NDArray[np.bool_] | None = None
    sizes: Ints | None = None
    scales: Ints | None = None
    capped: NDArray[np.bool_] | None = None
    start_rows: list[list[int]] = []

    def calinski_harabasz(self, rows: int, clusters: int) -> float | None:
        """How far the centres lie apart, by how far rows lie from them; for so many open clusters."""
        if self.scatter is None or self.inertia is None or not 1 < clusters < rows or self.inertia <= 0:
            return None
        return (self.scatter - self.inertia) / (clusters - 1) / (self.inertia / (rows - clusters))

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
