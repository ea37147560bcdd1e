"""What is opened at the end of a fit or prediction: labels, centres, scales, inertia, to those who may have them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.rules import (
    Rules,
    inertia_shift,
    round_to_grid,
    rounded_sizes,
    small_clusters,
    weighted_inertia_shift,
)
from coterie.clustering.spread import Spread
from coterie.clustering.task import Outcome, Task
from coterie.clustering.weighing import exact_sum, weighed_at_home
from coterie.errors import ProtocolError
from coterie.protocols import Family
from coterie.protocols.blocks import labels_of, table_of
from coterie.protocols.interface import Ints, Part
from coterie.protocols.measures import LEVELS
from coterie.sharing import Secret, Shared, open_wide

__all__ = ["RESULT", "Found", "Results", "called", "open_centers", "open_first", "open_labels"]

RESULT = "the result of the study"


class Found(NamedTuple):
    """What a restart has found: centres (k, d); one-hot labels (n, k) for them, if they have been made; where output
    rules hold, how many rows of each of their sets each cluster had when the centres were made."""

    centers: Shared
    labels: Secret | None
    made: Shared | None


class Results:
    """Of a fit, at one role."""

    def __init__(
        self,
        family: Family,
        task: Task,
        own: Ints | None,
        rows: Secret,
        spread: Spread,
        rules: Rules | None,
        row_weights: Ints | None = None,
    ) -> None:
        self.family, self.task, self.own, self.rows, self.spread, self.rules = family, task, own, rows, spread, rules
        self.row_weights, self.at_home = row_weights, weighed_at_home(task)
        self.me, self.n, self.k, self.d = family.me, task.layout.n, task.clusters, task.layout.d

    def labels_of(self, found: Found) -> Secret:
        """Labels for the centres that were found."""
        if found.labels is not None:
            return found.labels
        return self.family.label(self.rows, found.centers, weights=self.spread.weights)

    def open(self, found: Found, n_iter: int) -> Outcome:
        """Centres, labels and inertia, to those who may have them."""
        family, task = self.family, self.task
        centers, names, kept = found.centers, None, found.centers
        out = Outcome(n_iter=n_iter)
        slots = list(range(self.k))
        if self.rules is not None:
            centers, slots = self._closed(found, self.rules, out)
            found = Found(centers, None, None)
            names = called(slots, out.all_closed)
            kept = centers[[slots.index(j) if j in slots else 0 for j in range(self.k)]]
        labels = self.labels_of(found)
        out.kept = {"centers": kept} if self.rules is not None else {"centers": kept, "labels": labels}
        if task.centers == "revealed":
            open_centers(family, task, centers, slots, out)
        if self.spread.weights is not None:
            out.kept["weights"] = self.spread.weights
            self._open_scales(self.spread, out)
        if not task.private:
            open_labels(family, task, labels, names, out)
        elif self.me.owns:
            out.rows = np.zeros(self.n, np.bool_)
        if self.rules is not None and task.sizes == "rounded":
            self._open_sizes(labels, self.rules, slots, out)
        if task.quality:
            self._open_quality(labels, centers, out)
        return out

    def _open_quality(self, labels: Secret, centers: Shared, out: Outcome) -> None:
        """How good the open clusters are: the inertia, the scatter that it is compared with, the silhouette."""
        quality = self.task.quality
        if "inertia" in quality or "calinski-harabasz" in quality:
            self._open_inertia(labels, centers, out)
        if "calinski-harabasz" in quality:
            self._open_scatter(out)
        if "silhouette" in quality and self.k > 1:
            self._open_silhouette(labels, centers, out)

    def _open_scatter(self, out: Outcome) -> None:
        """The inertia of a single cluster, as precisely as that of several."""
        family, spread = self.family, self.spread
        assert spread.scatter is not None
        if spread.weights is not None:
            total = family.truncate(family.weighted_total(spread.scatter, spread.weights, self._cut), self._rough)
        else:
            shift = inertia_shift(family.problem, self.task.grid, self.task.least)
            total = family.truncate(spread.scatter, shift).reshape(1, self.d).sum(1)
        opened = family.open(total * int(not out.all_closed), self.me.world.owners, "scatter", RESULT)
        if opened is not None and not out.all_closed:
            out.scatter = self._in_units(int(opened[0]))

    @property
    def _cut(self) -> int:
        """How many low bits columns drop before they are weighted. A row of a closed cluster counts to an open centre,
        the mean of at least so many rows: then a column's inertia is at most n / least times its scatter, and once
        more."""
        problem = self.family.problem
        return problem.weighted_shift_for(1 + self.n // self.task.least if self.rules is not None else 1)

    @property
    def _rough(self) -> int:
        """How many more low bits a weighted total drops where output rules hold."""
        if self.rules is None:
            return 0
        return weighted_inertia_shift(self.family.problem, self._cut, self.task.grid, self.task.least)

    @property
    def dropped(self) -> int:
        """How many low bits an opened total of squared distances lacks, in the units of objectives."""
        problem = self.family.problem
        if self.task.metric is not None:
            return self._rough + self._cut - problem.weighted_shift
        return inertia_shift(problem, self.task.grid, self.task.least) - problem.objective_shift

    def _in_units(self, opened: int) -> float:
        """An opened total of squared distances, in (scaled) data units."""
        return self.in_units(opened, self.dropped)

    def in_units(self, opened: int, cut: int) -> float:
        """As many low bits as that were cut off, of a total in the units of objectives."""
        problem, metric = self.family.problem, self.task.metric
        if metric is None:
            return self.task.encoding.squared(opened, problem.objective_shift + cut)
        shift = cut + problem.weighted_shift - metric.scale(self.n, max(problem.half))
        return math.ldexp(opened * self.n, shift)

    def _open_silhouette(self, labels: Secret, centers: Shared, out: Outcome) -> None:
        """The mean of all rows', to a number of levels; nothing where a single cluster is open."""
        count = out.open_clusters(self.k)
        copies = (np.arange(self.k) >= count).astype(np.int64) if self.rules is not None else None
        reached = self.family.silhouette(table_of(self.rows), labels_of(labels), centers, self.spread.weights, copies)
        opened = self.family.open(reached * int(count > 1), self.me.world.owners, "silhouette", RESULT)
        if opened is not None and count > 1:
            out.silhouette = int(opened[0]) / (LEVELS * self.n)

    def _closed(self, found: Found, rules: Rules, out: Outcome) -> tuple[Shared, list[int]]:
        """Round the centres, find out which clusters stay closed, and put a copy of an open centre in the place of each
        closed one: nothing of a closed centre is left in what is labelled by, opened or kept.

        Returns the centres with the open ones first, and which cluster each is. Copies come after the first, which
        wins all ties, so no row is labelled by one. If all are closed, all centres are zero. At the helper, who does
        not know, any order will do.
        """
        family, task = self.family, self.task
        if found.made is None:
            raise ProtocolError("nobody has counted the clusters that the centres were made of")
        centers = round_to_grid(family, task, found.centers)
        labels = self.labels_of(found)
        if task.grid:
            labels = family.label(self.rows, centers, counted=True, weights=self.spread.weights)
        few = small_clusters(family, rules, found.made, family.tally(labels, rules.sets))
        if few is None:
            return centers[list(range(self.k))], list(range(self.k))
        out.suppressed = few.astype(np.bool_)
        slots = open_first(out.suppressed)
        return centers[slots] * int(not out.all_closed), slots

    def _open_sizes(self, labels: Secret, rules: Rules, slots: list[int], out: Outcome) -> None:
        """The sizes of the open clusters, to the nearest multiple of the least size."""
        family, count = self.family, out.open_clusters(self.k)
        sizes = rounded_sizes(family, rules.least, family.tally(labels, rules.sets.whole))
        part = Part(slice(0, count), self.me.world.owners, f"multiples of {rules.least}")
        (opened,) = family.open_parts(sizes, [part], "sizes", RESULT)
        if opened is not None:
            out.sizes = np.zeros(self.k, np.int64)
            out.sizes[slots[:count]] = rules.least * opened

    def _open_scales(self, spread: Spread, out: Outcome) -> None:
        """Which columns are capped and, where that is agreed on, the weights of all."""
        family, owners = self.family, self.me.world.owners
        assert spread.weights is not None
        assert spread.capped is not None
        known = int(not out.all_closed)
        capped = family.open(spread.capped * known, owners, "capped columns", RESULT)
        if capped is not None and known:
            out.capped = capped.astype(np.bool_)
        if self.task.scales == "revealed" and self.task.centers == "revealed":
            opened = family.open(spread.weights * known, owners, "scales", RESULT)
            if opened is not None and known:
                out.scales = opened[0]

    def _open_inertia(self, labels: Secret, centers: Shared, out: Outcome) -> None:
        """The sum over all rows of the squared distance to the centre they are labelled by.

        Where output rules hold, in multiples of a public step. Rows and columns may lie with anybody: what is cut off
        is added up first."""
        task, family = self.task, self.family
        if self.spread.weights is not None:
            self._open_weighted_inertia(self.spread, labels, centers, out)
            return
        if task.centers == "revealed" and self.at_home and self.rules is None:
            total = open_wide(self.me, self._add_up(self._own_inertia(out), out), "inertia", RESULT)
            out.inertia = None if total is None else task.encoding.squared(total)
            return
        shift = inertia_shift(family.problem, task.grid, task.least)
        if task.centers == "revealed" and self.at_home:
            rounded = self._shifted([self._add_up(self._own_inertia(out), out)], shift)
        else:
            fine = family.problem.objective_shift
            sums, counts = family.sums(self.rows, labels)
            known = int(not out.all_closed)
            objective = family.objective(sums * known, counts * known, centers)
            if self.at_home:
                squares = self._shifted([self._add_up(self._own_squares(out), out)], fine)
            else:
                squares = family.weighted_squares(table_of(self.rows), fine).reshape(1, self.d).sum(1) * known
            rounded = family.truncate(objective + squares, shift - fine)
        opened = family.open(rounded, self.me.world.owners, "inertia", RESULT)
        if opened is not None and not out.all_closed:
            out.inertia = self._in_units(int(opened[0]))

    def _open_weighted_inertia(self, spread: Spread, labels: Secret, centers: Shared, out: Outcome) -> None:
        """As `_open_inertia`, column by column, and then weighted; in units of standardised data."""
        task, family = self.task, self.family
        assert spread.weights is not None
        assert spread.squares is not None
        known = int(not out.all_closed)
        if task.centers == "revealed" and self.at_home:
            parts = [self._add_up(column, out) for column in self._own_inertia(out).T]
            total = self._shifted(parts, self._cut)
            weighted = family.product(total.reshape(1, self.d), spread.weights).sum(1)
        else:
            sums, counts = family.sums(self.rows, labels)
            within = family.scatter_within(sums, counts, centers, self._squares_by_column(spread.squares))
            weighted = family.weighted_total(within * known, spread.weights, self._cut)
        opened = family.open(family.truncate(weighted, self._rough), self.me.world.owners, "inertia", RESULT)
        if opened is not None and known:
            out.inertia = self._in_units(int(opened[0]))

    def _squares_by_column(self, unweighted: Shared) -> Shared:
        """The sum of squares of all rows in each column (d,), each row's times its weight, if it has one."""
        if not self.task.most_weight:
            return unweighted
        if not self.at_home:
            return self.family.weighted_squares(table_of(self.rows), 0)
        own = None
        if self.own is not None and self.row_weights is not None:
            held = self.own[self.task.layout.own_rows(self.me.rank)]
            own = (held * held * self.row_weights[:, None]).sum(axis=0)
        return self.family.enter(own, (self.d,))

    def _add_up(self, squares: Ints, out: Outcome) -> int:
        """Squares of this party's rows that have a label, each times the weight of its row, if it has one."""
        if self.row_weights is None or out.labels is None:
            return exact_sum(squares)
        return exact_sum(squares, self.row_weights[out.labels >= 0])

    def _shifted(self, parts: list[int], shift: int) -> Shared:
        """The sums (m,) of what the parties hold, in multiples of 2^shift, rounded to the nearest."""
        high, low = zip(*(divmod(part, 1 << shift) for part in parts), strict=True)
        words = [np.array(half, np.int64) if self.me.owns else None for half in (high, low)]
        upper, lower = (self.family.enter(half, (len(parts),)) for half in words)
        return upper + self.family.truncate(lower, shift)

    def shifted_squares(self, own: Ints | None, shift: int) -> Shared:
        """The squares of all cells, added up (1,), in multiples of 2^shift."""
        return self._shifted([0 if own is None else exact_sum(own * own)], shift)

    def _own_inertia(self, out: Outcome) -> Ints:
        """The squared distances of own cells to the centres that this party has learnt (rows, d); exact."""
        if self.own is None or out.rows is None or out.labels is None or out.centers is None:
            return np.zeros((0, self.d), np.int64)
        known = out.labels >= 0
        rows = np.flatnonzero(out.rows)[known]
        held = self.task.layout.own_cells(self.me.rank)[rows]
        centers = np.zeros((self.k, self.d), np.int64)
        centers[:, out.center_columns] = out.centers
        difference = np.where(held, self.own[rows] - centers[out.labels[known]], 0)
        return np.asarray(difference * difference)

    def _own_squares(self, out: Outcome) -> Ints:
        """The squares of own cells, of rows that have a label."""
        if self.own is None or out.rows is None or out.labels is None:
            return np.zeros((0, self.d), np.int64)
        own = self.own[np.flatnonzero(out.rows)[out.labels >= 0]]  # of other rows it holds no cells
        return np.asarray(own * own)


def open_labels(family: Family, task: Task, labels: Secret, called: Ints | None, out: Outcome) -> None:
    """The label of each row, to the parties that hold cells of it. `called`: what each slot's label is plus 1; 0, that
    is -1, where every cluster is closed."""
    me, layout, first = family.me, task.layout, 0 if called is None else 1
    index = family.index(labels, called)
    known = np.zeros(layout.n, np.bool_)
    found = np.zeros(layout.n, np.int64)
    groups = layout.label_groups(me.world.p)
    parts = [Part(rows, holders, f"{len(rows)} rows") for rows, holders in groups]
    for (rows, _), opened in zip(groups, family.open_parts(index, parts, "labels", RESULT), strict=True):
        if opened is not None:
            known[rows], found[rows] = True, opened - first
    if me.owns:
        out.rows, out.labels = known, found[known]


def open_centers(family: Family, task: Task, centers: Shared, slots: list[int], out: Outcome) -> None:
    """Columns of the centres to those who may know them; closed clusters have none (zero here)."""
    me, layout = family.me, task.layout
    groups, names = layout.center_groups(me.world.p), task.encoding.names
    count = out.open_clusters(task.clusters)
    parts = [
        Part(np.ix_(np.arange(count), np.array(columns)), to, ", ".join(names[l] for l in columns))
        for columns, to in groups
    ]
    for (columns, _), opened in zip(groups, family.open_parts(centers, parts, "centers", RESULT), strict=True):
        if opened is not None:
            out.center_columns, out.centers = columns, np.zeros((task.clusters, len(columns)), np.int64)
            out.centers[slots[:count]] = opened


def open_first(closed: NDArray[np.bool_]) -> list[int]:
    """Which cluster's centre stands in each of k slots: the open ones first, then copies of the first of them."""
    opened = [int(j) for j in np.flatnonzero(~closed)]
    return opened + [opened[0] if opened else 0] * (len(closed) - len(opened))


def called(slots: list[int], all_closed: bool) -> Ints:
    """What a row labelled by a slot is called, plus 1; 0 where every cluster is closed."""
    return np.zeros(len(slots), np.int64) if all_closed else np.array(slots) + 1
