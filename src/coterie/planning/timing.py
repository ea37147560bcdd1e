"""How long a part of a run takes: a simple model, and the only place with its constants.

1. A role's processor time is the sum, over kinds of work, of how much of it there is (`loads`) times what it takes
   (`NS`). What expanding streams takes is part of what a comparison takes.
2. All roles share `CORES`, and wait for one another: while they compute, `PACE` of the cores is used. So computing
   takes (busiest role, or all roles over the cores, whichever is more) / PACE.
3. Links are filled meanwhile: what counts is the longer of computing and of sending over the busiest link.
4. In addition, each round waits for half a round trip, and for a process to wake up.

`python benchmarks/floor.py --constants` measures all constants and prints them as they stand here, with what the model
then says beside what was measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from coterie.clustering import Task
from coterie.protocols import FAMILIES
from coterie.protocols.interface import Ints
from coterie.transport import World
from coterie.transport.links import Link

__all__ = [
    "CORES",
    "NS",
    "PACE",
    "WAKE_SECONDS",
    "Load",
    "collecting_pays_from",
    "loads",
    "nanoseconds",
    "sending_seconds",
    "time_of",
]


class Load(NamedTuple):
    """How much of each kind of work a role has; or, in `NS`, the nanoseconds of a core that one of each takes."""

    rounds: float  # what is computed around a round in Python
    messages: float  # one for each round and peer
    bytes: float  # at either end: those sent and those received
    products: float  # of a number in the table with one in a centre: rows x columns x clusters
    compared: float  # comparisons, at one who holds shares
    dealt: float  # comparisons, at the dealer
    expanded: float  # comparisons at the dealer, times those who hold shares: each has a stream of its own


#: By family. Rounded from fits on two cores of a 2.8 GHz Xeon, which had much other work.
NS = {
    "onetime": Load(100_000, 90_000, 0.76, 0.6, 60, 40, 20),
    "securenn": Load(100_000, 90_000, 0.76, 0.6, 700, 230, 160),
    "falcon": Load(100_000, 90_000, 0.76, 0.6, 110, 0, 0),
}
#: How many cores all roles share.
CORES = 2
#: How much of them is used while roles compute.
PACE = 0.8
#: Seconds until a process goes on when a message has arrived.
WAKE_SECONDS = 1e-4


def nanoseconds(protocol: str) -> Load:
    """What work takes in a family; one that was not measured is taken for the slower one."""
    return NS.get(protocol, NS["securenn"])


def time_of(task: Task, world: World, taken: Ints, comparisons: int, link: Link) -> float:
    """Seconds of a part of a run that takes so many rounds and bytes (by rank), and compares so often."""
    each = nanoseconds(task.protocol)
    busy = [
        sum(ns * amount for ns, amount in zip(each, load, strict=True))
        for load in loads(task, world, taken, comparisons).values()
    ]
    computing = max(*busy, sum(busy) / CORES) * 1e-9 / PACE
    rounds = int(taken[0])
    return max(computing, sending_seconds(world, taken, link)) + rounds * (link.round_trip / 2 + WAKE_SECONDS)


def collecting_pays_from(protocol: str, parties: int, link: Link) -> int:
    """From how many bytes on an opening is quicker by way of collectors (`sharing/collecting.py`); 0: never.

    They take a round and p - 1 messages more. They save bytes: p - 1 less 2 (p - 1) / p times the size, of which each
    takes processor time at both ends, and p / 2 - 1 of what crosses a link.
    """
    servers = len(FAMILIES[protocol].world([f"P{j}" for j in range(1, parties + 1)]).servers)
    if servers < 3:
        return 0
    each, share = nanoseconds(protocol), min(1.0, CORES / (servers + 1)) * PACE
    more = link.round_trip / 2 + WAKE_SECONDS + (each.rounds + each.messages * (servers - 1)) * 1e-9 / share
    computing = 2 * each.bytes * (servers - 1) * (1 - 2 / servers) * 1e-9 / share
    sending = (1 - 2 / servers) / link.bandwidth
    return math.ceil(more / max(computing, sending))


def loads(task: Task, world: World, taken: Ints, comparisons: int) -> dict[int, Load]:
    """The work of each role, by rank."""
    rounds, *sent = taken.tolist()
    serving = len(world.servers)
    hearers = world.players if FAMILIES[task.protocol].dealer_hears <= {"note"} else world.ranks
    products = task.layout.n * task.layout.d * task.clusters
    found = {}
    for rank in world.ranks:
        received = (sum(sent) - sent[rank]) / len(hearers) if rank in hearers else 0
        deals, computes = rank == world.dealer, rank in world.servers
        found[rank] = Load(
            rounds=rounds,
            messages=rounds * len(world.peers(rank)),
            bytes=sent[rank] + received,
            products=products if deals or computes else 0,
            compared=comparisons if computes else 0,
            dealt=comparisons if deals else 0,
            expanded=comparisons * serving if deals else 0,
        )
    return found


def sending_seconds(world: World, taken: Ints, link: Link) -> float:
    """Over the busiest link. Each is between two roles: a dealer has one to each server, a player one to each other
    player."""
    _, *sent = taken.tolist()
    busiest = 0.0
    for rank in world.ranks:
        links = len(world.servers) if rank == world.dealer else max(len(world.players) - 1, 1)
        busiest = max(busiest, sent[rank] / links)
    return busiest / link.bandwidth
