"""Several numbers of clusters in one fit, on one table: each is measured in secret, and the best of them opened."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering.opening import RESULT, Found
from coterie.clustering.restarts import Run
from coterie.clustering.rules import Rules, too_small
from coterie.clustering.spread import Spread
from coterie.clustering.task import Outcome, Point, Quality, Task, Watch
from coterie.errors import ProtocolError
from coterie.protocols import Family
from coterie.protocols.blocks import Table, labels_of
from coterie.protocols.interface import Ints, Problem
from coterie.protocols.measures import LEVELS
from coterie.sharing import Shared, concatenate

__all__ = ["Choosing", "inertia_bits", "trade_offs"]

CHOSEN = "everybody goes on with the number of clusters that is chosen"
#: Bits of an inertia, counted from the most that it can be, and of the factors that numbers of clusters have.
INERTIA_BITS, FACTOR_BITS = 24, 12
TOTAL_BITS = 61
Held = dict[str, NDArray[np.uint64]]


def inertia_bits(problem: Problem) -> int:
    """How many low bits an inertia in the units of objectives drops: sums of squares stay below 2^61 in these."""
    bits = TOTAL_BITS if problem.metric is not None or problem.objective_shift else _plain_bits(problem)
    return max(0, bits - INERTIA_BITS)


def _plain_bits(problem: Problem) -> int:
    return problem.distance_bits + problem.rows.bit_length()


def trade_offs(rows: int, choices: tuple[int, ...]) -> list[int]:
    """(n - k) / (k - 1) for each k, relative to the first and so largest, in parts of 2^12."""
    first = (rows - choices[0]) / (choices[0] - 1)
    return [round((rows - k) / (k - 1) / first * (1 << FACTOR_BITS)) for k in choices]


class Measured(NamedTuple):
    """What the best start with one number of clusters has found, after how many iterations, and how good it is: its
    inertia (1,), or how many levels of the silhouette its rows reach together (1,). `told` (1,): 1 if the measure may
    be opened, since all of the clusters pass the output rules; None where there are none."""

    found: Found
    n_iter: int
    measure: Shared
    told: Shared | None


class Choosing:
    """The numbers of clusters, one after another. Of all but the chosen one nothing is learnt but stop bits and, where
    that is agreed on, their measures."""

    def __init__(
        self,
        family: Family,
        task: Task,
        own: Ints | None,
        watch: Watch,
        rules: Rules | None,
        rows: Table,
        spread: Spread,
    ) -> None:
        self.family, self.task, self.own, self.watch = family, task, own, watch
        self.rows, self.spread, self.me, self.rules = rows, spread, family.me, rules
        self.each = task.restarts // len(task.choices)
        self.held: list[Callable[[], Held | None]] = []
        self.iterations: list[int] = []
        self.runs: list[Run] = []
        self.inertias: list[float] = []
        for i in range(len(task.choices)):
            one = msgspec.structs.replace(task.choice(i), quality=_told_later(task))
            shifted = _Shifted(watch, i * self.each, self.held, self.iterations)
            problem = msgspec.structs.replace(family.problem, clusters=one.clusters, schedule=one.schedule)
            self.runs.append(Run(family.of(problem), one, own, shifted, rules, rows, spread, i * self.each))

    def outcome(self, point: Point) -> Outcome:
        """Run what is left, choose, and open the chosen."""
        found = [self._measured(i, run, point) for i, run in enumerate(self.runs)]
        n_iter = max(one.n_iter for one in found)
        self.me.ledger.restart = None
        self.me.streams.begin(self.me.streams.phase + 1)
        self.watch.finished(lambda: Point(self.task.restarts, n_iter, n_iter, None, _together(self.held)))
        measures = concatenate([one.measure for one in found])
        told = self._open_measures(measures, found) if self.task.measures == "revealed" else []
        number = min(self._choose(measures), len(found) - 1)
        outcome = self.runs[number].open(found[number].found, n_iter)
        outcome.chosen = self.task.choices[number]
        outcome.k_measures = dict(zip(self.task.choices, told, strict=False))
        if self.inertias and not math.isnan(told[number]):
            outcome.scatter, outcome.inertia = self.inertias[0], self.inertias[1 + number]
        elif told and self.task.choose == "silhouette" and "silhouette" in self.task.quality:
            outcome.silhouette = None if math.isnan(told[number]) else told[number]
        return outcome

    def _measured(self, i: int, run: Run, point: Point) -> Measured:
        """What a number of clusters comes to: anew, from where it was left, or as it was kept."""
        first, last = i * self.each, (i + 1) * self.each
        if point.start >= last:
            best, n_iter = run.restored(_part(point.best, i)), point.most
        else:
            here = Point(0, 0)
            if point.start >= first and point.start + point.iteration > 0:
                kept = _part(point.best, i) if point.start > first else None
                here = Point(point.start - first, point.iteration, point.most, point.centers, kept)
            elif i:
                run.start_over()
            best, n_iter = run.best(here)
        self.held.append(lambda: run.held_of(best))
        self.iterations.append(n_iter)
        return Measured(best, n_iter, self._measure(run, best), self._may_tell(run, best))

    def _may_tell(self, run: Run, found: Found) -> Shared | None:
        """Whether all clusters pass the output rules (1,). Of a cluster that does not, measures would tell: how they
        change from one number of clusters to the next is what its rows come to."""
        if self.rules is None or self.task.measures == "secret":
            return None
        if found.made is None:
            raise ProtocolError("nobody has counted the clusters that the centres were made of")
        final = run.family.tally(run.results.labels_of(found), self.rules.sets)
        closed = run.family.any_of(too_small(run.family, self.rules, found.made, final), 1)
        return run.family.to_words(1 - closed)

    def _measure(self, run: Run, found: Found) -> Shared:
        family = run.family
        if self.task.choose == "silhouette":
            labels = labels_of(run.results.labels_of(found))
            return family.silhouette(self.rows, labels, found.centers, self.spread.weights)
        inertia = run.objective(found)
        if self.spread.weights is None:
            inertia = inertia + run.results.shifted_squares(self.own, family.problem.objective_shift)
        return family.truncate(inertia, inertia_bits(family.problem))

    def _scatter(self) -> Shared:
        """The inertia of one cluster, in the units of the others."""
        family, spread, problem = self.family, self.spread, self.family.problem
        if spread.scatter is None:
            raise ProtocolError("nobody has measured how far the rows spread")
        if spread.weights is not None:
            total = family.weighted_total(spread.scatter, spread.weights)
        else:
            total = family.truncate(spread.scatter, problem.objective_shift).reshape(1, problem.columns).sum(1)
        return family.truncate(total, inertia_bits(problem))

    def _choose(self, measures: Shared) -> int:
        """The number of the best, the first of several; opened to everybody, a dealer included.

        Calinski-Harabasz: (S - I_k) / I_k times (n - k) / (k - 1), for the scatter S. Two of them are compared by
        (S - I_k) I_l A_k and (S - I_l) I_k A_l, without a division.
        """
        family, count = self.family, measures.size
        if self.task.choose == "silhouette":
            hot = family.one_hot_least(-measures[None, :])
        else:
            gained = _repeated(self._scatter(), count) - measures
            products = family.matrix_product(gained.reshape(count, 1), measures.reshape(1, count))
            factors = trade_offs(self.task.layout.n, self.task.choices)
            pairs = [(j, l) for j in range(count) for l in range(j + 1, count)]
            worse = concatenate(
                [products[j : j + 1, l] * factors[j] - products[l : l + 1, j] * factors[l] for j, l in pairs]
            )
            hot = family.winner(1 - family.is_negative(worse[None, :]), count)
        index = (family.to_words(hot) * np.arange(count)).sum(1)
        bits = family.to_bits(index, max(count - 1, 1).bit_length())
        opened = family.open_to_all(bits.reshape(bits.size), "chosen k", CHOSEN)
        return sum(int(bit) << place for place, bit in enumerate(opened))

    def _open_measures(self, measures: Shared, found: list[Measured]) -> list[float]:
        """What each number of clusters comes to, in the order of the choices; NaN where that is not told."""
        family, task, owners = self.family, self.task, self.me.world.owners
        n, silhouette = task.layout.n, task.choose == "silhouette"
        values = measures if silhouette else concatenate([self._scatter(), measures])
        shift = 0 if silhouette else self._rounding()
        told = [one.told for one in found if one.told is not None]
        if told:
            each = concatenate(told)
            some = [] if silhouette else [family.to_words(family.any_of(family.at_most(-each, -1), 1))]
            values = family.product(family.truncate(values, shift), concatenate([*some, each]))
        opened = family.open(values, owners, "measures of k", RESULT)
        if opened is None:
            return []
        numbers = [int(v) << shift for v in opened]
        if silhouette:
            return [v / (LEVELS * n) if v or not told else math.nan for v in numbers]
        scatter, *inertias = numbers
        self.inertias = [self.runs[0].results.in_units(v, inertia_bits(family.problem)) for v in numbers]
        return [
            math.nan if told and not inertia else (scatter - inertia) / max(inertia, 1) * (n - k) / (k - 1)
            for k, inertia in zip(task.choices, inertias, strict=True)
        ]

    def _rounding(self) -> int:
        """How many more low bits opened inertias drop, as those of a single number of clusters do."""
        results, problem = self.runs[0].results, self.family.problem
        return max(0, results.dropped - inertia_bits(problem)) if self.rules is not None else 0


def _told_later(task: Task) -> tuple[Quality, ...]:
    """What is opened of the quality of the chosen one. The inertias, or silhouettes, of all are told before: to open
    that of the chosen again, over rows of open clusters alone, would tell those of closed ones apart."""
    if task.measures == "secret":
        return task.quality
    before = ("silhouette",) if task.choose == "silhouette" else ("inertia", "calinski-harabasz")
    return tuple(one for one in task.quality if one not in before)


class _Shifted(Watch):
    """Told of one number of clusters, tells of all: how many starts came before, what they have found, and after how
    many iterations."""

    def __init__(self, watch: Watch, before: int, held: list[Callable[[], Held | None]], iterations: list[int]) -> None:
        self.watch, self.before, self.held, self.iterations = watch, before, held, iterations

    def iterated(self, point: Callable[[], Point]) -> None:
        self.watch.iterated(lambda: self._shift(point()))

    def _shift(self, point: Point) -> Point:
        best = _together([*self.held, lambda: point.best] if point.best is not None else self.held)
        most = max(point.most, *self.iterations, 0)
        return msgspec.structs.replace(point, start=point.start + self.before, most=most, best=best)


def _together(held: list[Callable[[], Held | None]]) -> Held | None:
    """Of several numbers of clusters, under names of their own; None at one who holds nothing, or of nothing."""
    parts = [one() for one in held]
    if not parts or parts[0] is None:
        return None
    return {f"{i}-{name}": share for i, part in enumerate(parts) for name, share in (part or {}).items()}


def _part(held: Held | None, number: int) -> Held | None:
    if held is None:
        return None
    start = f"{number}-"
    return {name.removeprefix(start): share for name, share in held.items() if name.startswith(start)}


def _repeated(value: Shared, times: int) -> Shared:
    return concatenate([value] * times)
