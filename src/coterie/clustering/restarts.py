"""The restarts of a fit with one number of clusters, of which the best is opened."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.horizontal import open_counts, shk_means
from coterie.clustering.opening import Found, Results
from coterie.clustering.rules import Rules
from coterie.clustering.spread import Spread
from coterie.clustering.task import Outcome, Point, Task, Watch
from coterie.clustering.vertical import svk_means
from coterie.errors import ProtocolError
from coterie.protocols import Family
from coterie.protocols.blocks import Table
from coterie.protocols.interface import Ints
from coterie.protocols.sampling import public_draws
from coterie.sharing import Secret, Shared

__all__ = ["Run"]

START = "each party takes its own columns of the rows to start from"
#: Begins the names of the parts of what clusters were made of, among those of the centres.
MADE = "made-"
Held = dict[str, NDArray[np.uint64]]


class Run:
    """The restarts of a fit, of which the best is opened. Of the others nothing is learnt but their stop bits and,
    where these are revealed, their counts or labels; which one won follows from no opening but those."""

    def __init__(
        self,
        family: Family,
        task: Task,
        own: Ints | None,
        watch: Watch,
        rules: Rules | None,
        rows: Table,
        spread: Spread,
        before: int = 0,
        row_weights: Ints | None = None,
    ) -> None:
        """`before`: how many starts of other numbers of clusters come before. `row_weights`: what this party's rows
        count for, where it says so."""
        self.family, self.task, self.own, self.watch, self.rules = family, task, own, watch, rules
        self.me, self.n, self.k, self.d = family.me, task.layout.n, task.clusters, task.layout.d
        self.rows, self.spread, self.before = rows, spread, before
        self.results = Results(family, task, own, self.rows, self.spread, rules, row_weights)
        self.opened_starts = [list(start) for start in task.starts]

    def restart(self, point: Point, best: Found | None) -> tuple[Found, int]:
        """What a restart finds, from its start or where it was left, and after how many iterations."""
        return (self._svk_means if self.task.labels == "revealed" else self._shk_means)(point, best)

    def _shk_means(self, point: Point, best: Found | None) -> tuple[Found, int]:
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

        centers, made, labels, n_iter = shk_means(
            family, task, self.rows, self.spread, centers, point.iteration, iterated
        )
        counted = None if self.rules is None else family.tally(made, self.rules.sets)
        return Found(centers, labels, counted), n_iter

    def _svk_means(self, point: Point, best: Found | None) -> tuple[Found, int]:
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

        centers, n_iter = svk_means(self.family, self.task, own, self.spread, centers, point.iteration, iterated)
        if centers is not None:
            whole = np.zeros((self.k, self.d), np.int64)
            whole[:, columns] = centers
        shared = self.family.enter(whole, (self.k, self.d))
        return Found(shared, None, None), n_iter

    def _seed(self, start: int) -> tuple[Shared, Shared]:
        """Centres by k-means++, and the numbers of their rows."""
        weighted = bool(self.task.problem.most_weight)
        draws = public_draws(self.task.seeds[start], self.n, self.k, weighted)
        return self.family.seed(self.rows, *draws, weights=self.spread.weights)

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

    def _point(self, begun: Point, iteration: int, centers: Held | None, best: Found | None) -> Point:
        return Point(begun.start, iteration, begun.most, centers, None if best is None else self.held_of(best))

    def held_of(self, found: Found) -> Held | None:
        """This role's part of what a restart has found; the labels follow from the centres."""
        held = self._held(found.centers)
        if held is not None and found.made is not None:
            held |= {f"{MADE}{part}": share for part, share in self.family.export(found.made).items()}
        return held

    def restored(self, held: Held | None) -> Found:
        made = None
        if self.rules is not None:
            counted = None
            if held is not None:
                counted = {part.removeprefix(MADE): share for part, share in held.items() if part.startswith(MADE)}
            made = self.family.restore(counted, (self.k * len(self.rules.sets.members),))
        centers = self.family.restore(held, (self.k, self.d))
        return Found(centers, None, made)

    # -- restarts ----------------------------------------------------------------------------------------

    def outcome(self, point: Point) -> Outcome:
        """Run the restarts that are left, and open what the best has found. A point behind the last restart is one
        where nothing is left to do but open."""
        best, n_iter = self.best(point)
        self.me.ledger.restart = None
        self.me.streams.begin(self.me.streams.phase + 1)
        self.watch.finished(lambda: Point(self.task.restarts, n_iter, n_iter, None, self.held_of(best)))
        return self.open(best, n_iter)

    def open(self, best: Found, n_iter: int) -> Outcome:
        outcome = self.results.open(best, n_iter)
        outcome.start_rows = self.opened_starts
        if self.task.counts == "revealed" and self.task.labels == "private":
            counts = self.family.counts(outcome.kept["labels"])
            outcome.counts = open_counts(self.family, counts, self.me.world.owners)
        return outcome

    def best(self, point: Point) -> tuple[Found, int]:
        """What the best of the restarts that are left has found, and the most iterations of any."""
        restarts = self.task.restarts
        best = self.restored(point.best) if point.start else None
        objective = self.objective(best) if best is not None and point.start < restarts else None
        n_iter = point.most
        for start in range(point.start, restarts):
            if start > point.start:
                point = Point(start, 0, n_iter)
                self.start_over()
            self.me.ledger.restart = self.before + start
            found, iterations = self.restart(point, best)
            n_iter = max(n_iter, iterations)
            if restarts == 1:
                best = found
            elif best is None or objective is None:
                best, objective = found, self.objective(found)
            else:
                best, objective = self._better(best, objective, found, self.objective(found))
        if best is None:
            raise ProtocolError("there is no restart to open the result of")
        return best, n_iter

    def start_over(self) -> None:
        """Another start begins."""
        self.me.channel.start_over()
        self.me.streams.begin(self.me.streams.phase + 1)

    def _better(self, old: Found, least: Shared, new: Found, objective: Shared) -> tuple[Found, Shared]:
        """The one with the smaller objective, the old one if they are equal; nobody learns which."""
        pairs = [(least, objective), (old.centers, new.centers)]
        if old.made is not None and new.made is not None:
            pairs.append((old.made, new.made))
        chosen, centers, *made = self.family.choose(least, objective, pairs)
        return Found(centers, None, made[0] if made else None), chosen

    def objective(self, found: Found) -> Shared:
        sums, counts = self.family.sums(self.rows, self.results.labels_of(found))
        weights, squares = self.spread.weights, self.spread.squares
        if weights is None or squares is None:
            return self.family.objective(sums, counts, found.centers)
        within = self.family.scatter_within(sums, counts, found.centers, squares)
        return self.family.weighted_total(within, weights)
