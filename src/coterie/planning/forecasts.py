"""What a run will cost: rounds and bytes, exactly; memory and time, roughly.

A family with a dealer is run dry; any other is rehearsed. Tests compare either with what the channel counted.
"""

from __future__ import annotations

import msgspec

from coterie.clustering import Task
from coterie.planning.dry_run import Ending, dry_run
from coterie.planning.rehearsal import rehearse
from coterie.protocols import FAMILIES
from coterie.protocols.interface import Ints
from coterie.transport.links import Link

__all__ = ["Forecast", "forecast", "seconds"]

#: Nanoseconds of one core that a product with the data, and a byte on the wire take, all roles together; and seconds
#: for a step in Python. Measured on a 2.8 GHz Xeon.
PRODUCT_NS = 1.2
BYTE_NS = 2.2
STEP_SECONDS = 1.2e-3


class Forecast(msgspec.Struct):
    """What a fit will cost. Bytes and rounds are exact for the given number of iterations. `without_start`: a start by
    k-means++ is left out, of which a rehearsal with few rows tells nothing."""

    rounds: int
    rounds_per_iteration: int
    bytes_sent: dict[str, int]
    bytes_per_iteration: dict[str, int]
    comparisons_per_iteration: int
    memory: dict[str, int]
    seconds: float
    seconds_per_iteration: float
    without_start: bool = False


def forecast(task: Task, parties: int, iterations: int, link: Link, ended_by: Ending) -> Forecast:
    """The cost of a fit of which each start takes so many iterations, and no cluster stays closed."""
    family, problem, starts = FAMILIES[task.protocol], task.problem, task.restarts
    world = family.world([f"P{j}" for j in range(1, parties + 1)])
    without_start = world.dealer is None and bool(task.seeds)
    if without_start:
        task = msgspec.structs.replace(task, seeds=(), starts=((0,) * task.clusters,) * starts)
    first, one = (rehearse if world.dealer is None else dry_run)(task, parties, ended_by)
    whole, around = first + one * starts * (iterations - 1), first - one * starts
    comparisons = task.layout.n * family.comparisons(task.clusters, task.schedule)
    at_zero, owner = family.memory(problem, task.lanes, task.labels == "revealed")
    slope = seconds(task, one, comparisons, link)
    return Forecast(
        rounds=int(whole[0]),
        rounds_per_iteration=int(one[0]),
        bytes_sent={world.names[j]: int(whole[1 + j]) for j in world.ranks},
        bytes_per_iteration={world.names[j]: int(one[1 + j]) for j in world.ranks},
        comparisons_per_iteration=comparisons,
        memory={world.names[j]: owner if j else at_zero for j in world.ranks},
        seconds=seconds(task, around, starts * comparisons, link) + slope * starts * iterations,
        seconds_per_iteration=slope,
        without_start=without_start,
    )


def seconds(task: Task, taken: Ints, comparisons: int, link: Link, cores: int = 2) -> float:
    """How long a part of a run takes: the larger of computing and sending, and every round's delay. A link is between
    two roles: the helper has one to each party, a party one to each other party."""
    rounds, *sent = taken.tolist()
    products = task.layout.n * task.clusters * task.layout.d
    each = FAMILIES[task.protocol].comparison_ns
    computing = (each * comparisons + PRODUCT_NS * products + BYTE_NS * sum(sent)) * 1e-9 / cores
    helper, *parties = sent
    sending = max(helper / len(parties), max(parties) / (len(parties) - 1)) / link.bandwidth
    return max(computing, sending) + rounds * (link.round_trip / 2 + STEP_SECONDS)
