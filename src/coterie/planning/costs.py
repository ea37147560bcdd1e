"""What a run will cost: rounds and bytes, exactly; memory and time, roughly.

A family that counts says what each step costs, by what the step declares; here these are put together as `clustering/`
runs them. Any other family is rehearsed. A test compares either with what the channel counted.
"""

from __future__ import annotations

import msgspec

from coterie.clustering import Task
from coterie.clustering.rules import inertia_shift, rules_of, size_bits
from coterie.planning.rehearsal import Ending, rehearse
from coterie.protocols import FAMILIES
from coterie.protocols.cost import Cost, StepCosts
from coterie.transport.links import Link

__all__ = ["Forecast", "forecast", "seconds"]

#: Nanoseconds of one core that a product with the data, and a byte on the wire take, all roles together; and seconds
#: for a step in Python. Measured on a 2.8 GHz Xeon.
PRODUCT_NS = 1.2
BYTE_NS = 2.2
STEP_SECONDS = 1.2e-3


class Forecast(msgspec.Struct):
    """What a fit will cost. Bytes and rounds are exact for the given number of iterations."""

    rounds: int
    rounds_per_iteration: int
    bytes_sent: dict[str, int]
    bytes_per_iteration: dict[str, int]
    comparisons_per_iteration: int
    memory: dict[str, int]
    seconds: float
    seconds_per_iteration: float


class _Fit:
    """The steps of a fit (`clustering/`), with what each of them costs a family that counts."""

    def __init__(self, task: Task, parties: int, costs: StepCosts) -> None:
        self.task, self.parties, self.costs = task, parties, costs
        self.k, self.revealing = task.clusters, task.labels == "revealed"

    def begin(self) -> Cost:
        """The data enter; SHK-means labels them for the first time."""
        table = self.costs.table()
        return table if self.revealing else table.then(self.costs.label(counted=True))

    def iteration(self, stop: bool) -> Cost:
        """SHK-means: new centres, labels for them, and the stop test beside the labelling. SVK-means: labels of
        distances that the parties have computed in the clear, opened; the stop test after them. All else is local."""
        costs, test = self.costs, self.costs.nothing()
        if stop:
            test = costs.at_most(1).then(costs.open_bits(1))
        if self.revealing:
            return costs.arg_min().then(costs.open_labels(self.task.layout.n, called=False)).then(test)
        if self.task.counts == "secret":
            means = costs.new_centers()
        else:
            means = costs.sums().then(costs.open(self.k)).then(costs.means_of_public_counts())
        return means.then(costs.label(counted=True, beside=costs.movement().then(test) if stop else None))

    def results(self) -> Cost:
        """Centres, labels and inertia to those who may have them; no cluster suppressed. Where output rules hold, and
        after SVK-means, rows are labelled once more while the centres are opened."""
        task, costs, layout = self.task, self.costs, self.task.layout
        ruled = task.least > 1
        cost, opened, labels = costs.nothing(), costs.nothing(), costs.nothing()
        for columns, to in layout.center_groups(self.parties):
            opened = opened.beside(costs.open(self.k * len(columns), to))
        for rows, to in layout.label_groups(self.parties):
            labels = labels.beside(costs.open_labels(len(rows), ruled, to))
        if ruled:
            cost = self.output_rules()
        if ruled or self.revealing:
            opened = costs.label(counted=False, beside=opened)
        cost = cost.then(opened).then(labels)
        if ruled and task.sizes == "rounded":
            rounding = costs.truncate(self.k, size_bits(layout.n, task.least))
            cost = cost.then(costs.tally(1, counted=False)).then(rounding).then(costs.open(self.k))
        if ruled:
            cost = cost.then(costs.truncate(1, inertia_shift(task.problem, task.grid))).then(costs.open(1))
        else:
            cost = cost.then(costs.open_wide())
        return cost.then(costs.open(self.k)) if task.counts == "revealed" and not self.revealing else cost

    def output_rules(self) -> Cost:
        """Rounding, labels for it, and the tests of both labellings."""
        task, costs, rules = self.task, self.costs, rules_of(self.task)
        sets = len(rules.sets.members)
        cost = costs.tally(sets, counted=True)  # the labelling that made the centres
        if task.grid:
            cost = cost.then(costs.truncate(self.k * task.layout.d, max(task.grid))).then(costs.label(counted=True))
        cost = cost.then(costs.tally(sets, counted=True))
        for _ in range(2 if rules.lenient.any() else 1):
            cost = cost.then(costs.at_most(2 * sets * self.k))
        return cost.then(costs.any_of(2 * sets, self.k)).then(costs.open_bits(self.k))


def forecast(task: Task, parties: int, iterations: int, link: Link, ended_by: Ending) -> Forecast:
    """The cost of a fit with revealed centres and one start, as the family counts it or as its rehearsal shows."""
    family = FAMILIES[task.protocol]
    costs = family.costs(task.problem, task.layout, parties)
    if isinstance(costs, StepCosts):
        fit = _Fit(task, parties, costs)
        one = fit.iteration(stop=True)
        around = fit.begin().then(fit.results())  # before and after the iterations; labels all rows once
        whole = around.then(one.times(iterations - 1)).then(fit.iteration(stop=ended_by == "stop"))
    else:
        first, one = rehearse(task, parties, ended_by)
        whole, around = first.then(one.times(iterations - 1)), first.less(one)
    comparisons, memory = costs.comparisons(), costs.memory(task.lanes, task.labels == "revealed")
    world = family.world([f"P{j}" for j in range(1, parties + 1)])
    slope = seconds(task, one, comparisons, link)
    return Forecast(
        rounds=whole.rounds,
        rounds_per_iteration=one.rounds,
        bytes_sent={world.names[j]: whole.sent[j] for j in world.ranks},
        bytes_per_iteration={world.names[j]: one.sent[j] for j in world.ranks},
        comparisons_per_iteration=comparisons,
        memory={world.names[j]: memory[j] for j in world.ranks},
        seconds=seconds(task, around, comparisons, link) + slope * iterations,
        seconds_per_iteration=slope,
    )


def seconds(task: Task, cost: Cost, comparisons: int, link: Link, cores: int = 2) -> float:
    """How long a part of a run takes: the larger of computing and sending, and every round's delay. A link is between
    two roles: the helper has one to each party, a party one to each other party."""
    products = task.layout.n * task.clusters * task.layout.d
    each = FAMILIES[task.protocol].comparison_ns
    computing = (each * comparisons + PRODUCT_NS * products + BYTE_NS * sum(cost.sent)) * 1e-9 / cores
    helper, *parties = cost.sent
    sending = max(helper / len(parties), max(parties) / (len(parties) - 1)) / link.bandwidth
    return max(computing, sending) + cost.rounds * (link.round_trip / 2 + STEP_SECONDS)
