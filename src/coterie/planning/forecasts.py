"""What a run will cost: rounds and bytes, exactly; memory and time, roughly.

A family with a dealer is run dry, and so is one whose steps tell an onlooker what is sent; any other is rehearsed.
Tests compare all of them with what the channel counted. Time follows from rounds, bytes and comparisons (`timing.py`).
"""

from __future__ import annotations

import msgspec

from coterie.clustering import Task
from coterie.planning.dry_run import Ending, dry_run
from coterie.planning.onlooker import look_on
from coterie.planning.rehearsal import rehearse
from coterie.planning.timing import time_of
from coterie.protocols import FAMILIES
from coterie.transport.links import Link

__all__ = ["Forecast", "forecast"]


class Forecast(msgspec.Struct):
    """What a fit will cost. Bytes and rounds are exact for the given number of iterations; of several numbers of
    clusters, if the largest is chosen, and an iteration is one with the largest. `without_start`: a start by k-means++
    is left out, of which a rehearsal with few rows tells nothing."""

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
    family, problem = FAMILIES[task.protocol], task.problem
    world = family.world([f"P{j}" for j in range(1, parties + 1)])
    choices = [task.choice(i) for i in range(len(task.choices))] or [task]
    starts = task.restarts // len(choices)  # of each number of clusters
    rehearsed = world.dealer is None and not family.tells_onlookers
    without_start = rehearsed and bool(task.seeds)
    if without_start:
        some = tuple((0,) * one.clusters for one in choices for _ in range(starts))
        task = msgspec.structs.replace(task, seeds=(), starts=some)
    find = rehearse if rehearsed else look_on if world.dealer is None else dry_run
    found = find(task, parties, ended_by)
    one, together = found.further, found.each.sum(axis=0) * starts
    whole, around = found.first + together * (iterations - 1), found.first - together
    comparisons = [task.layout.n * family.comparisons(each.clusters, each.schedule) for each in choices]
    at_zero, owner = family.memory(problem, task.lanes, task.labels == "revealed")
    slopes = [
        time_of(each, world, taken, compared, link)
        for each, taken, compared in zip(choices, found.each, comparisons, strict=True)
    ]
    return Forecast(
        rounds=int(whole[0]),
        rounds_per_iteration=int(one[0]),
        bytes_sent={world.names[j]: int(whole[1 + j]) for j in world.ranks},
        bytes_per_iteration={world.names[j]: int(one[1 + j]) for j in world.ranks},
        comparisons_per_iteration=comparisons[-1],
        memory={world.names[j]: owner if j else at_zero for j in world.ranks},
        seconds=time_of(task, world, around, starts * sum(comparisons), link) + sum(slopes) * starts * iterations,
        seconds_per_iteration=slopes[-1],
        without_start=without_start,
    )
