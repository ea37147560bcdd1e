"""A whole fit or prediction, as every role runs it: rows in, restarts, the winner out."""

from __future__ import annotations

import numpy as np

from coterie.clustering.horizontal import open_counts, shk_means
from coterie.clustering.task import Outcome, Task
from coterie.clustering.vertical import svk_means
from coterie.protocols import Family
from coterie.protocols.interface import Ints, Part
from coterie.sharing import Secret, open_wide

__all__ = ["fit", "predict"]

RESULT = "the result of the study"


def fit(family: Family, task: Task, block: Ints | None) -> Outcome:
    """Cluster. `block` is what this party holds, encoded; None at the helper."""
    own = None if block is None else task.layout.place(family.me.rank, block)
    run = _Run(family, task, own)
    outcome = run.outcome()
    if task.counts == "revealed" and task.labels == "private":
        _, counts = family.sums(run.rows, outcome.kept["labels"])
        outcome.counts = open_counts(family, counts)
    return outcome


class _Run:
    """The restarts of a fit, of which the best is opened and nothing is learnt of the others."""

    def __init__(self, family: Family, task: Task, own: Ints | None) -> None:
        self.family, self.task, self.own = family, task, own
        self.me, self.n, self.k, self.d = family.me, task.layout.n, task.clusters, task.layout.d
        self.rows = family.table(own, task.layout)

    def restart(self, start: int) -> tuple[Secret, Secret, int]:
        """Centres (k, d), one-hot labels (n, k) for them, and iterations, from the given start."""
        return self._svk_means(start) if self.task.labels == "revealed" else self._shk_means(start)

    def _shk_means(self, start: int) -> tuple[Secret, Secret, int]:
        if self.task.starts:
            centers = self.family.pick(self.rows, self.task.starts[start])
        else:
            centers = self.family.public(np.array(self.task.centers_given, np.int64))
        return shk_means(self.family, self.task, self.rows, centers)

    def _svk_means(self, start: int) -> tuple[Secret, Secret, int]:
        own = centers = whole = None
        columns = self.task.layout.own_columns(self.me.rank) if self.own is not None else []
        if self.own is not None:
            own = self.own[:, columns]
            given = np.array(self.task.centers_given, np.int64)
            centers = own[list(self.task.starts[start])] if self.task.starts else given[:, columns]
        centers, n_iter = svk_means(self.family, self.task, own, centers)
        if centers is not None:
            whole = np.zeros((self.k, self.d), np.int64)
            whole[:, columns] = centers
        shared = self.family.contribute(whole, (self.k, self.d))
        return shared, self.family.label(self.rows, shared), n_iter

    def outcome(self) -> Outcome:
        family, restarts = self.family, max(len(self.task.starts), 1)
        centers, labels, n_iter = self.restart(0)
        best = self._objective(labels, centers) if restarts > 1 else None
        for start in range(1, restarts):
            self.me.channel.start_over()
            self.me.streams.begin(self.me.streams.phase + 1)
            new_centers, new_labels, iterations = self.restart(start)
            objective = self._objective(new_labels, new_centers)
            assert best is not None
            best, centers, labels = family.choose(
                best, objective, [(best, objective), (centers, new_centers), (labels, new_labels)]
            )
            n_iter = max(n_iter, iterations)
        self.me.streams.begin(self.me.streams.phase + 1)
        return self._open(centers, labels, n_iter)

    def _objective(self, labels: Secret, centers: Secret) -> Secret:
        sums, counts = self.family.sums(self.rows, labels)
        return self.family.objective(sums, counts, centers)

    def _open(self, centers: Secret, labels: Secret, n_iter: int) -> Outcome:
        family, me = self.family, self.me
        out = Outcome(n_iter=n_iter, kept={"centers": centers, "labels": labels})
        if self.task.centers == "revealed":
            _open_centers(family, self.task, centers, out)
        open_labels(family, self.task, labels, out)
        if self.task.centers == "revealed":
            total = open_wide(me, self._own_inertia(out), "inertia", RESULT)
            if total is not None:
                out.inertia = self.task.encoding.squared(total)
        else:
            out.inertia = self._shared_inertia(labels, centers)
        return out

    def _own_inertia(self, out: Outcome) -> int:
        """The squared distances of own cells to the centres that this party has learnt; exact."""
        if self.own is None or out.rows is None or out.labels is None or out.centers is None:
            return 0
        held = self.task.layout.own_cells(self.me.rank)[out.rows]
        centers = np.zeros((self.k, self.d), np.int64)
        centers[:, out.center_columns] = out.centers
        difference = np.where(held, self.own[out.rows] - centers[out.labels], 0)
        return _exact_sum(difference * difference)

    def _shared_inertia(self, labels: Secret, centers: Secret) -> float | None:
        """The inertia of centres that stay shared: their objective plus all squares, which each party adds up for
        its own cells. What the shift cuts off is added up first, so that it does not matter who holds which."""
        family, shift = self.family, self.task.problem.objective_shift
        high = low = None
        if self.own is not None:
            squares = _exact_sum(self.own * self.own)
            high, low = (np.array([part], np.int64) for part in divmod(squares, 1 << shift))
        rest = family.truncate(family.contribute(low, (1,)), shift)
        total = family.add(family.add(self._objective(labels, centers), family.contribute(high, (1,))), rest)
        opened = family.open(total, self.me.world.data_ranks, "inertia", RESULT)
        return None if opened is None else self.task.encoding.squared(int(opened[0]), shift)


def predict(family: Family, task: Task, block: Ints | None, centers: Secret) -> Outcome:
    """Label new rows that are shared like the data; each party learns the labels of its own rows."""
    own = None if block is None else task.layout.place(family.me.rank, block)
    rows = family.table(own, task.layout)
    labels = family.label(rows, centers)
    out = Outcome(kept={"labels": labels})
    open_labels(family, task, labels, out)
    return out


def open_labels(family: Family, task: Task, labels: Secret, out: Outcome) -> None:
    """The label of each row, to the parties that hold cells of it."""
    me, layout = family.me, task.layout
    numbers = family.index(labels)
    known = np.zeros(layout.n, np.bool_)
    found = np.zeros(layout.n, np.int64)
    groups = layout.label_groups(me.world.p)
    parts = [Part(rows, holders, f"{len(rows)} rows") for rows, holders in groups]
    for (rows, _), opened in zip(groups, family.open_parts(numbers, parts, "labels", RESULT), strict=True):
        if opened is not None:
            known[rows], found[rows] = True, opened
    if not me.is_helper:
        out.rows, out.labels = known, found[known]


def _open_centers(family: Family, task: Task, centers: Secret, out: Outcome) -> None:
    me, layout = family.me, task.layout
    groups, names = layout.center_groups(me.world.p), task.encoding.names
    parts = [Part((slice(None), columns), to, ", ".join(names[l] for l in columns)) for columns, to in groups]
    for (columns, _), opened in zip(groups, family.open_parts(centers, parts, "centers", RESULT), strict=True):
        if opened is not None:
            out.center_columns, out.centers = columns, opened


def _exact_sum(squares: Ints) -> int:
    """The sum of non-negative 63-bit numbers, of which there may be more than 64 bits hold."""
    high, low = squares >> 31, squares & ((1 << 31) - 1)
    return (int(high.sum()) << 31) + int(low.sum())
