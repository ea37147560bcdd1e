"""Fresh values for the constants of the time model: `python benchmarks/floor.py --constants`.

A byte's nanoseconds are those of a bare exchange, and the streams' of a bare expansion (`exchange.py`). The others are
those with which the model (`coterie.planning.timing`) comes nearest to what fits take, none below zero, by relative
error: first the processor time of each role, then, given these, the time of an iteration. How near it comes is printed
for every workload.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from coterie.clustering import Task
from coterie.planning import forecast
from coterie.planning.timing import CORES, Load, loads, sending_seconds
from coterie.transport import World
from coterie.transport.links import LINKS
from floor import Taken, bare
from frames import Iteration
from measure import Workload, lap, points, prepare, secure_fit

__all__ = ["print_constants"]

#: Iterations of the shorter run; the workloads, with iterations of the longer one.
SHORT = 3
WORKLOADS = {
    "onetime": [
        (Workload(400, 2, 4), 13),
        (Workload(10_000, 2, 4), 13),
        (Workload(10_000, 2, 4, parties=4), 9),
        (Workload(10_000, 2, 4, parties=8), 7),
        (Workload(100_000, 2, 4), 9),
        (Workload(100_000, 8, 8), 9),
        (Workload(1_000_000, 2, 4), 7),
    ],
    "securenn": [
        (Workload(400, 2, 4, protocol="securenn"), 9),
        (Workload(10_000, 2, 4, protocol="securenn"), 9),
        (Workload(10_000, 2, 4, protocol="securenn", counts="revealed"), 9),
        (Workload(2_000, 2, 4, parties=4, protocol="securenn"), 7),
    ],
}
#: Left out with --quick.
LARGE = 100_000
#: Bytes of the large message, and number of small ones, from which a byte and a round are measured.
BULK, SMALL = 16 << 20, 100


@dataclass(frozen=True)
class Seen:
    """What an iteration of a workload took, and the loads that the model goes by."""

    work: Workload
    loads: dict[int, Load]
    busy: dict[int, float]
    lap: float
    rounds: int
    sending: float


def bare_taken(rounds: int, size: int, mode: str) -> Taken:
    """What rounds take in which two processes send each other so many bytes, and expand as many."""
    both = Counter({(1, 2): size, (2, 1): size})
    iteration = Iteration([1, 2], [both] * rounds, Counter({1: size, 2: size}), None)  # type: ignore[arg-type]
    with bare(iteration) as processes:
        return processes.take(mode, 5)


def see(work: Workload, long: int, repeats: int) -> Seen:
    """The least of several runs: other work on the machine only adds to it."""
    x, start = points(work.n, work.d, work.k)
    task, world, _ = prepare(work, x, start, long)
    few, many, laps = [], [], []
    for _ in range(repeats):
        few.append(secure_fit(work, x, start, SHORT)[2].busy)
        _, reports, usage = secure_fit(work, x, start, long)
        many.append(usage.busy)
        laps.append(lap(reports))
    busy = (np.min(many, axis=0) - np.min(few, axis=0)) / (long - SHORT)
    return seen_of(work, task, world, dict(zip(world.ranks, busy.tolist(), strict=True)), min(laps))


def seen_of(work: Workload, task: Task, world: World, busy: dict[int, float], seconds: float) -> Seen:
    link = LINKS[work.link]
    expected = forecast(task, work.parties, 2, link, "max_iter")
    sent = [expected.bytes_per_iteration.get(name, 0) for name in world.names]
    taken = np.array([expected.rounds_per_iteration, *sent])
    load = loads(task, world, taken, expected.comparisons_per_iteration)
    return Seen(work, load, busy, seconds, expected.rounds_per_iteration, sending_seconds(world, taken, link))


def fit_work(seen: list[Seen], byte_ns: float) -> Load:
    """Nanoseconds of each kind of work in one family."""
    fixed = Load._fields.index("bytes")
    amounts, left = [], []
    for one in seen:
        for rank, load in one.loads.items():
            whole = 1e9 * max(one.busy[rank], 1e-6)
            row = np.array(load) / whole
            left.append(1 - byte_ns * row[fixed])
            row[fixed] = 0
            amounts.append(row)
    found, _ = nnls(np.array(amounts), np.array(left))
    found[fixed] = byte_ns
    return Load(*(float(f"{value:.3g}") for value in found))


def computing(one: Seen, work: Load) -> float:
    """Seconds of an iteration, as if no core ever waited."""
    busy = [1e-9 * float(np.dot(work, load)) for load in one.loads.values()]
    return max(*busy, sum(busy) / CORES)


def fit_waiting(seen: list[tuple[Seen, Load]]) -> tuple[float, float]:
    """How much of the cores is used, and seconds until a process wakes up."""
    amounts = [(computing(one, work) / one.lap, one.rounds / one.lap) for one, work in seen]
    known = [1 - one.rounds * LINKS[one.work.link].round_trip / 2 / one.lap for one, _ in seen]
    (slower, wake), _ = nnls(np.array(amounts), np.array(known))
    return 1 / max(slower, 1.0), wake


def predicted(one: Seen, work: Load, pace: float, wake: float) -> float:
    delay = one.rounds * (LINKS[one.work.link].round_trip / 2 + wake)
    return max(computing(one, work) / pace, one.sending) + delay


def print_constants(quick: bool = False, repeats: int = 3) -> None:
    """As they stand in `src/coterie/planning/timing.py`, and how near the model comes with them."""
    bulk, expansion, small = (
        bare_taken(1, BULK, "exchange"),
        bare_taken(1, BULK, "expansion"),
        bare_taken(SMALL, 64, "exchange"),
    )
    byte_ns = 1e9 * sum(bulk.busy) / (4 * BULK)  # two send it, two receive it
    print(f"# bare: {byte_ns:.2f} ns of a core for a byte at either end, ", end="")
    print(f"{1e9 * sum(expansion.busy) / (2 * BULK):.2f} to expand one, ", end="")
    print(f"{1e6 * small.median / SMALL:.0f} microseconds a round of small messages\n", flush=True)
    everything: list[tuple[Seen, Load]] = []
    print("NS = {")
    for family, works in WORKLOADS.items():
        seen = [see(work, long, repeats) for work, long in works if not (quick and work.n >= LARGE)]
        found = fit_work(seen, byte_ns)
        everything += [(one, found) for one in seen]
        print(f'    "{family}": Load({", ".join(f"{value:_g}" for value in found)}),', flush=True)
    pace, wake = fit_waiting(everything)
    print(f"}}\nCORES = {CORES}\nPACE = {pace:.2f}\nWAKE_SECONDS = {wake:.1e}\n")
    print(f"# {'measured, predicted':54}{'ms':>10}{'':>10}{'ratio':>7}{'helper CPU':>14}{'':>8}{'party CPU':>14}")
    for one, work in everything:
        said = predicted(one, work, pace, wake)
        name = f"{one.work.protocol}, {one.work.name}"
        print(f"# {name:54}{1000 * one.lap:10.1f}{1000 * said:10.1f}{said / one.lap:7.2f}", end="")
        for rank in (0, 1):
            print(f"{1000 * one.busy[rank]:14.1f}{1e-6 * float(np.dot(work, one.loads[rank])):8.1f}", end="")
        print()
