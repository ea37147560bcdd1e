"""A fit between processes on one machine, role by role: what the estimator does, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome, Task, put_together
from coterie.clustering.allowed import roles_of
from coterie.data import gather, split
from coterie.errors import InputError
from coterie.estimator import SecureKMeans
from coterie.ideal import Roles
from coterie.parameters import check_parameters, name_parties, prepare_fit
from coterie.planning import planned
from coterie.protocols import FAMILIES
from coterie.report.facts import describe_choices
from coterie.ring import widen
from coterie.runtime.processes import Usage, run_processes
from coterie.sharing import Disclosure
from coterie.simulation.numeric_file import NumericFile
from coterie.transport import Lap, World
from coterie.transport.links import LINKS

__all__ = ["HELPER", "Simulation", "run_simulation"]

HELPER = "P0"
Ranges = dict[str, tuple[float, float]]


@dataclass(frozen=True, repr=False)
class Simulation:
    """What was run, and what came of it: of each role, in the order of ranks, and of all together (`whole`). `choices`:
    the numbers of clusters that the task's was chosen from. `ranges`: of columns, where they were given."""

    data: NumericFile
    link: str
    world: World
    task: Task
    usage: Usage
    outcomes: list[Outcome]
    iterations: list[list[Lap]]
    waited: list[float]
    whole: Outcome
    choices: tuple[int, ...] = ()
    ranges: Ranges = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of those who take part, as outcomes are listed."""
        return self.world.everybody

    @property
    def roles(self) -> Roles:
        return roles_of(self.world)

    @property
    def options(self) -> dict[str, str]:
        """What a report says beside what the task says."""
        return {"link": self.link, **describe_choices(self.choices, self.task.choose, self.task.measures)}

    @property
    def at_home(self) -> bool:
        """Does each party standardise its own columns?"""
        return self.task.encoding.reach != 1.0

    @property
    def spans(self) -> NDArray[np.float64]:
        """How wide the columns' ranges are; those of the data, where columns were standardised at home."""
        if self.at_home:
            return np.ptp(self.data.values, axis=0)
        return np.subtract(self.task.encoding.high, self.task.encoding.low)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which clusters are open."""
        closed = self.whole.suppressed
        return np.ones(self.task.clusters, np.bool_) if closed is None else ~closed


def run_simulation(
    data: NumericFile, clusters: int | range, arguments: dict[str, Any], ranges: Ranges, link: str
) -> Simulation:
    """Split the data and cluster it between processes. `arguments`: those of the estimator."""
    p = arguments["n_parties"]
    if p < 2:
        raise InputError(f"--parties must be at least 2, not {p}")
    model = SecureKMeans(clusters, **arguments)
    check_parameters(model)
    owners = name_parties(p)
    world = FAMILIES[model.protocol].world(owners, HELPER)
    model.bounds, disclosed = _find_bounds(data, ranges, world.everybody)
    table = gather(split(data.values, arguments["partition"], p), arguments["partition"], owners)
    prepared = prepare_fit(model, table, data.names)
    task, automatic = planned(prepared.task, p, "auto", LINKS[link]), prepared.disclosed
    jobs = prepared._replace(task=task).jobs
    usage = Usage()
    reports = run_processes(
        world,
        jobs,
        usage,
        link=None if link == "loopback" else LINKS[link],
    )
    outcomes = [report.outcome for report in reports]
    for outcome in outcomes:
        outcome.disclosures = (automatic or disclosed) + outcome.disclosures
    iterations, waited = [report.iterations for report in reports], [report.waited for report in reports]
    whole = put_together(task, outcomes)
    return Simulation(
        data, link, world, task.chosen(whole), usage, outcomes, iterations, waited, whole, task.choices, ranges
    )


def _find_bounds(data: NumericFile, given: Ranges, names: tuple[str, ...]) -> tuple[Any, list[Disclosure]]:
    """Ranges for all columns: as given, and for the rest from the data, which discloses them."""
    rest = [name for name in data.names if name not in given]
    if not given:
        return "auto", []
    low, high = widen(data.values.min(axis=0), data.values.max(axis=0))
    found = dict(zip(data.names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    reason = "no bounds were given for these: they come from the data, widened twofold"
    entry = Disclosure("bounds", names, reason, None, ", ".join(rest))
    return {**found, **given}, [entry] if rest else []
