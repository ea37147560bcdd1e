"""A whole fit or prediction, as every role runs it: rows in, restarts, the winner out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.allowed import allow
from coterie.clustering.horizontal import open_counts, shk_means
from coterie.clustering.rules import (
    Rules,
    inertia_shift,
    round_to_grid,
    rounded_sizes,
    rules_of,
    small_clusters,
)
from coterie.clustering.task import Outcome, Point, Task, Watch
from coterie.clustering.vertical import svk_means
from coterie.errors import ProtocolError
from coterie.protocols import Family
from coterie.protocols.interface import Ints, Part
from coterie.protocols.sampling import public_draws
from coterie.sharing import Secret, Shared, open_wide

__all__ = ["fit", "predict"]

RESULT = "the result of the study"
START = "each party takes its own columns of the rows to start from"
#: Begins the names of the parts of what clusters were made of, among those of the centres.
MADE = "made-"
Held = dict[str, NDArray[np.uint64]]
NOBODY = Watch()


def fit(
    family: Family,
    task: Task,
    block: Ints | None,
    watch: Watch = NOBODY,
    resume: Point | None = None,
    rules: Rules | None = None,
) -> Outcome:
    """Cluster. `block` is what this party holds, encoded; None at the helper. `resume`: from there on. `rules`: what
    may be opened, where that does not follow from the task's own layout."""
    family.begin()
    allow(family.me, task)
    own = None if block is None else task.layout.place(family.me.rank, block)
    if rules is None and task.least > 1:
        rules = rules_of(task)
    run = _Run(family, task, own, watch, rules)
    outcome = run.outcome(resume or Point(0, 0))
    if task.counts == "revealed" and task.labels == "private":
        outcome.counts = open_counts(family, family.counts(outcome.kept["labels"]), family.me.world.owners)
    return outcome


class _Found(NamedTuple):
    """What a restart has found: centres (k, d); one-hot labels (n, k) for them, if they have been made; where output
    rules hold, how many rows of each of their sets each cluster had when the centres were made."""

    centers: Shared
    labels: Secret | None
    made: Shared | None


class _Run:
    """The restarts of a fit, of which the best is opened. Of the others nothing is learnt but their stop bits and,
    where these are revealed, their counts or labels; which one won follows from no opening but those."""

    def __init__(self, family: Family, task: Task, own: Ints | None, watch: Watch, rules: Rules | None) -> None:
        self.family, self.task, self.own, self.watch, self.rules = family, task, own, watch, rules
        self.me, self.n, self.k, self.d = family.me, task.layout.n, task.clusters, task.layout.d
        self.rows = family.table(own, task.layout)
        self.opened_starts = [list(start) for start in task.starts]

    def restart(self, point: Point, best: _Found | None) -> tuple[_Found, int]:
        """What a restart finds, from its start or where it was left, and after how many iterations."""
        return (self._svk_means if self.task.labels == "revealed" else self._shk_means)(point, best)

    def _shk_means(self, point: Point, best: _Found | None) -> tuple[_Found, int]:
        family, task = self.family, self.task
        if point.iteration:
            centers = family.restore(point.centers, (self.k, self.d))
        elif task.starts:
            centers = family.pick(self.rows, task.starts[point.start])
        elif task.seeds:
            centers, _ = self._seed(point.start)
        else:
            centers = family.public(np.array(task.centers_given, np.int64))

        def iterated(iteration: int, centers: Shared) -> None:
            self.watch.iterated(lambda: self._point(point, iteration, self._held(centers), best))

        centers, made, labels, n_iter = shk_means(family, task, self.rows, centers, point.iteration, iterated)
        counted = None if self.rules is None else family.tally(made, self.rules.sets)
        return _Found(centers, labels, counted), n_iter

    def _svk_means(self, point: Point, best: _Found | None) -> tuple[_Found, int]:
        own = centers = whole = None
        columns = self.task.layout.own_columns(self.me.rank) if self.own is not None else []
        start = None if point.iteration else self._open_start(point.start)
        if self.own is not None:
            own = self.own[:, columns]
            if point.centers is not None:
                centers = point.centers["own"].view(np.int64)
            elif self.task.centers_given:
                centers = np.array(self.task.centers_given, np.int64)[:, columns]
            elif start is not None:
                centers = own[start]

        def iterated(iteration: int, centers: Ints | None) -> None:
            held = None if centers is None else {"own": centers.view(np.uint64)}
            self.watch.iterated(lambda: self._point(point, iteration, held, best))

        centers, n_iter = svk_means(self.family, self.task, own, centers, point.iteration, iterated)
        if centers is not None:
            whole = np.zeros((self.k, self.d), np.int64)
            whole[:, columns] = centers
        shared = self.family.enter(whole, (self.k, self.d))
        return _Found(shared, None, None), n_iter

    def _seed(self, start: int) -> tuple[Shared, Shared]:
        """Centres by k-means++, and the numbers of their rows."""
        return self.family.seed(self.rows, *public_draws(self.task.seeds[start], self.n, self.k))

    def _open_start(self, start: int) -> Ints | None:
        """SVK-means works in the clear, so the rows that it starts from are opened to those who hold them."""
        if not self.task.seeds:
            return np.array(self.task.starts[start]) if self.task.starts else None
        _, rows = self._seed(start)
        opened = self.family.open(rows, self.me.world.owners, "start rows", START)
        if opened is not None:
            self.opened_starts.append(opened.tolist())
        return opened

    # -- where a fit can be taken up again ---------------------------------------------------------------

    def _held(self, value: Secret) -> Held | None:
        return None if not self.me.serves else self.family.export(value)

    def _point(self, begun: Point, iteration: int, centers: Held | None, best: _Found | None) -> Point:
        return Point(begun.start, iteration, begun.most, centers, None if best is None else self._held_of(best))

    def _held_of(self, found: _Found) -> Held | None:
        """This role's part of what a restart has found; the labels follow from the centres."""
        held = self._held(found.centers)
        if held is not None and found.made is not None:
            held |= {f"{MADE}{part}": share for part, share in self.family.export(found.made).items()}
        return held

    def _restored(self, held: Held | None) -> _Found:
        made = None
        if self.rules is not None:
            counted = None
            if held is not None:
                counted = {part.removeprefix(MADE): share for part, share in held.items() if part.startswith(MADE)}
            made = self.family.restore(counted, (self.k * len(self.rules.sets.members),))
        centers = self.family.restore(held, (self.k, self.d))
        return _Found(centers, None, made)

    def _labels_of(self, found: _Found) -> Secret:
        return self.family.label(self.rows, found.centers) if found.labels is None else found.labels

    # -- restarts ----------------------------------------------------------------------------------------

    def outcome(self, point: Point) -> Outcome:
        """Run the restarts that are left, and open what the best has found. A point behind the last restart is one
        where nothing is left to do but open."""
        restarts = self.task.restarts
        best = self._restored(point.best) if point.start else None
        objective = self._objective(best) if best is not None and point.start < restarts else None
        n_iter = point.most
        for start in range(point.start, restarts):
            self.me.ledger.restart = start
            if start > point.start:
                point = Point(start, 0, n_iter)
                self.me.channel.start_over()
                self.me.streams.begin(self.me.streams.phase + 1)
            self.me.ledger.restart = start
            found, iterations = self.restart(point, best)
            n_iter = max(n_iter, iterations)
            if restarts == 1:
                best = found
            elif best is None or objective is None:
                best, objective = found, self._objective(found)
            else:
                best, objective = self._better(best, objective, found, self._objective(found))
        self.me.ledger.restart = None
        self.me.streams.begin(self.me.streams.phase + 1)
        if best is None:
            raise ProtocolError("there is no restart to open the result of")
        found = best
        self.watch.finished(lambda: Point(restarts, n_iter, n_iter, None, self._held_of(found)))
        return self._open(best, n_iter)

    def _better(self, old: _Found, least: Shared, new: _Found, objective: Shared) -> tuple[_Found, Shared]:
        """The one with the smaller objective, the old one if they are equal; nobody learns which."""
        pairs = [(least, objective), (old.centers, new.centers)]
        if old.made is not None and new.made is not None:
            pairs.append((old.made, new.made))
        chosen, centers, *made = self.family.choose(least, objective, pairs)
        return _Found(centers, None, made[0] if made else None), chosen

    def _objective(self, found: _Found) -> Shared:
        sums, counts = self.family.sums(self.rows, self._labels_of(found))
        return self.family.objective(sums, counts, found.centers)

    # -- results -----------------------------------------------------------------------------------------

    def _open(self, found: _Found, n_iter: int) -> Outcome:
        """Centres, labels and inertia, to those who may have them."""
        family, task = self.family, self.task
        centers, called, kept = found.centers, None, found.centers
        out = Outcome(n_iter=n_iter, start_rows=self.opened_starts)
        slots = list(range(self.k))
        if self.rules is not None:
            centers, slots = self._closed(found, self.rules, out)
            found = _Found(centers, None, None)
            called = _called(slots, out.all_closed)
            kept = centers[[slots.index(j) if j in slots else 0 for j in range(self.k)]]
        labels = self._labels_of(found)
        out.kept = {"centers": kept} if self.rules is not None else {"centers": kept, "labels": labels}
        if task.centers == "revealed":
            open_centers(family, task, centers, slots, out)
        open_labels(family, task, labels, called, out)
        if self.rules is not None and task.sizes == "rounded":
            self._open_sizes(labels, self.rules, slots, out)
        self._open_inertia(labels, centers, out)
        return out

    def _closed(self, found: _Found, rules: Rules, out: Outcome) -> tuple[Shared, list[int]]:
        """Round the centres, find out which clusters stay closed, and put a copy of an open centre in the place of each
        closed one: nothing of a closed centre is left in what is labelled by, opened or kept.

        Returns the centres with the open ones first, and which cluster each is. Copies come after the first, which
        wins all ties, so no row is labelled by one. If all are closed, all centres are zero. At the helper, who does
        not know, any order will do.
        """
        family, task = self.family, self.task
        if found.made is None:
            raise ProtocolError("nobody has counted the clusters that the centres were made of")
        centers = round_to_grid(family, task.grid, found.centers)
        labels = family.label(self.rows, centers, counted=True) if task.grid else self._labels_of(found)
        few = small_clusters(family, rules, found.made, family.tally(labels, rules.sets))
        if few is None:
            return centers[list(range(self.k))], list(range(self.k))
        out.suppressed = few.astype(np.bool_)
        slots = _open_first(out.suppressed)
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

    def _open_inertia(self, labels: Secret, centers: Shared, out: Outcome) -> None:
        """The sum over all rows of the squared distance to the centre they are labelled by.

        Where output rules hold, in multiples of a public step. Rows and columns may lie with anybody: what is cut off
        is added up first."""
        task, family = self.task, self.family
        if task.centers == "revealed" and self.rules is None:
            total = open_wide(self.me, self._own_inertia(out), "inertia", RESULT)
            out.inertia = None if total is None else task.encoding.squared(total)
            return
        shift = inertia_shift(family.problem, task.grid)
        if task.centers == "revealed":
            rounded = self._shifted(self._own_inertia(out), shift)
        else:
            fine = family.problem.objective_shift
            sums, counts = family.sums(self.rows, labels)
            known = int(not out.all_closed)
            objective = family.objective(sums * known, counts * known, centers)
            rounded = family.truncate(objective + self._shifted(self._own_squares(out), fine), shift - fine)
        opened = family.open(rounded, self.me.world.owners, "inertia", RESULT)
        if opened is not None and not out.all_closed:
            out.inertia = task.encoding.squared(int(opened[0]), shift)

    def _shifted(self, part: int | None, shift: int) -> Shared:
        """The sum of what the parties hold, in multiples of 2^shift, rounded to the nearest."""
        high = low = None
        if part is not None:
            high, low = (np.array([word], np.int64) for word in divmod(part, 1 << shift))
        return self.family.enter(high, (1,)) + self.family.truncate(self.family.enter(low, (1,)), shift)

    def _own_inertia(self, out: Outcome) -> int:
        """The squared distances of own cells to the centres that this party has learnt; exact."""
        if self.own is None or out.rows is None or out.labels is None or out.centers is None:
            return 0
        known = out.labels >= 0
        rows = np.flatnonzero(out.rows)[known]
        held = self.task.layout.own_cells(self.me.rank)[rows]
        centers = np.zeros((self.k, self.d), np.int64)
        centers[:, out.center_columns] = out.centers
        difference = np.where(held, self.own[rows] - centers[out.labels[known]], 0)
        return _exact_sum(difference * difference)

    def _own_squares(self, out: Outcome) -> int:
        """The squares of own cells, of rows that have a label."""
        if self.own is None or out.rows is None or out.labels is None:
            return 0
        own = self.own[np.flatnonzero(out.rows)[out.labels >= 0]]  # of other rows it holds no cells
        return _exact_sum(own * own)


def predict(
    family: Family, task: Task, block: Ints | None, centers: Shared, closed: NDArray[np.bool_] | None = None
) -> Outcome:
    """Label new rows that are shared like the data; each party learns the labels of its own rows. `closed`: which
    clusters have no centre of their own, where `task.least` says that there may be such; None at the helper."""
    family.begin()
    allow(family.me, task, "predict")
    own = None if block is None else task.layout.place(family.me.rank, block)
    rows = family.table(own, task.layout)
    called = None
    if task.least > 1:
        if closed is None:
            closed = np.zeros(task.clusters, np.bool_)
        slots = _open_first(closed)
        centers = centers[slots]
        called = _called(slots, bool(closed.all()))
    labels = family.label(rows, centers)
    out = Outcome(kept={"labels": labels})
    open_labels(family, task, labels, called, out)
    return out


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


def _open_first(closed: NDArray[np.bool_]) -> list[int]:
    """Which cluster's centre stands in each of k slots: the open ones first, then copies of the first of them."""
    opened = [int(j) for j in np.flatnonzero(~closed)]
    return opened + [opened[0] if opened else 0] * (len(closed) - len(opened))


def _called(slots: list[int], all_closed: bool) -> Ints:
    """What a row labelled by a slot is called, plus 1; 0 where every cluster is closed."""
    return np.zeros(len(slots), np.int64) if all_closed else np.array(slots) + 1


def _exact_sum(squares: Ints) -> int:
    """The sum of non-negative 63-bit numbers, of which there may be more than 64 bits hold."""
    high, low = squares >> 31, squares & ((1 << 31) - 1)
    return (int(high.sum()) << 31) + int(low.sum())
