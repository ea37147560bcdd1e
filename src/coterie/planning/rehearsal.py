"""What a run of any family will cost, by rehearsing it: a few rows, all roles as threads, every message counted.

A step sends arrays whose sizes grow with the rows of each party, and so many frames a block. So bytes are

    fixed + (a number of bytes for each row of each party) + (a number of bytes for each block)

and rounds depend on none of these. A rehearsal with few rows, one with another row at each party and one in two blocks
give the numbers; one with an iteration more, and one that stops, give those of an iteration. The program that is
rehearsed is the one that runs, and only the stop bit is not listened to: there is no second copy of its sizes.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from coterie.clustering import Layout, Task, fit
from coterie.errors import InputError
from coterie.planning.dry_run import Ending, Found
from coterie.protocols import FAMILIES, Family
from coterie.protocols.interface import Ints
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, Shared
from coterie.transport import Traffic

__all__ = ["rehearse"]


def rehearse(task: Task, parties: int, ended_by: Ending) -> Found:
    """What a fit takes; no cluster is suppressed."""
    if task.layout.partition == "mixed":
        raise InputError(f"there is no forecast for a patchwork of cells with {task.protocol}; use rows or columns")
    first = _extrapolate(task, parties, 1, ended_by)
    choices = [task.choice(i) for i in range(len(task.choices))] or [task]
    return Found(first, np.stack([_further(one, parties) for one in choices]))


def _further(task: Task, parties: int) -> Ints:
    """What each further iteration of a start takes."""
    one, two = (_extrapolate(task, parties, iterations, "max_iter") for iterations in (1, 2))
    return (two - one) // task.restarts


def _extrapolate(task: Task, parties: int, iterations: int, ended_by: Ending) -> Ints:
    """From few rows in a block, one more at each party, and two blocks, to all rows and blocks."""
    layout = task.layout
    rows = (layout.n,) if layout.partition == "vertical" else layout.rows
    few = (task.clusters * task.least,) * len(rows)  # of every cluster, every party holds enough to open it

    def cost(counts: tuple[int, ...], blocks: int) -> Ints:
        small = Layout(layout.partition, sum(counts), layout.d, columns=layout.columns)
        if layout.partition == "horizontal":
            small = msgspec.structs.replace(small, rows=counts)
        starts = tuple(tuple(range(len(start))) for start in task.starts)
        rehearsed = msgspec.structs.replace(
            task, layout=small, starts=starts, block_rows=-(-small.n // blocks), lanes=0
        )
        return _run(rehearsed, parties, layout.n, iterations, ended_by)

    base = cost(few, 1)
    whole = base + (cost(few, 2) - base) * (-(-layout.n // task.block_rows) - 1)
    for j, count in enumerate(rows):
        more = tuple(held + (i == j) for i, held in enumerate(few))
        whole = whole + (cost(more, 1) - base) * (count - few[j])
    return whole


@lru_cache(maxsize=256)
def _run(task: Task, parties: int, rows: int, iterations: int, ended_by: Ending) -> Ints:
    """All roles, on rows that lie on the centres."""
    family, layout = _stopping(FAMILIES[task.protocol], ended_by == "stop"), task.layout
    centers = _centers(task)
    table = np.concatenate([centers[np.arange(count) % task.clusters] for count in layout.rows or (layout.n,)])
    task = msgspec.structs.replace(
        task,
        centers_given=tuple(tuple(int(v) for v in row) for row in centers),
        max_iter=iterations if ended_by == "max_iter" else iterations + 1,
    )

    def role(me: Party) -> Traffic:
        own = None
        if me.owns:
            own = table[layout.own_rows(me.rank)][:, layout.own_columns(me.rank)]
        fit(family(me, msgspec.structs.replace(task.problem, rows=rows)), task, own)
        return me.channel.traffic()

    world = family.world([f"P{j}" for j in range(1, parties + 1)])
    traffic = Traffic.together(run_threads(world, role))
    return np.array([traffic.rounds, *(traffic.bytes_sent.get(f"P{j}", 0) for j in range(parties + 1))])


def _stopping(family: type[Family], stop: bool) -> type[Family]:
    """The family, with runs that stop or go on whatever the stop bit says."""

    def open_stop_bit(self: Family, movement: Shared, threshold: int, reason: str) -> bool:
        family.open_stop_bit(self, movement, threshold, reason)
        return stop

    return type(family.__name__, (family,), {"open_stop_bit": open_stop_bit})


def _centers(task: Task) -> Ints:
    """As far from each other as they go."""
    places = np.linspace(-1.0, 1.0, task.clusters)
    return np.array([[int(h * place) for h in task.encoding.half] for place in places], np.int64)
