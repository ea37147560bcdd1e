"""The floor under an iteration: what the machine at hand takes for its bytes alone. `docs/performance.md` reads it.

    python benchmarks/floor.py [--protocol securenn] [-n 10000] [-d 2] [-k 4] [--parties 2] [--link wan] ...
    python benchmarks/floor.py --constants [--quick]     (fresh values for src/coterie/planning/timing.py)

The frames of an iteration and the AES streams that each role expands in it are taken from a real fit (`frames.py`). As
many bare processes as there are roles then exchange as many bytes in as many rounds over mutual TLS 1.3, without
anything of Coterie (`exchange.py`), expand as many bytes, and do both. A fit beside it gives the ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.transport.certificates import create_credentials
from coterie.transport.links import LINKS, Relay
from frames import Iteration, steady_iteration
from measure import Workload, add_workload, lap, points, secure_fit, workload_of

__all__ = ["Floor", "Taken", "bare", "measure_floor"]

EXCHANGE = Path(__file__).with_name("exchange.py")
#: What bare processes do: whether they exchange, and whether they expand.
MODES = {"exchange": (True, False), "expansion": (False, True), "together": (True, True)}
#: A batch of iterations takes about so many seconds, and holds at most so many.
BATCH_SECONDS, MOST = 0.25, 500


@dataclass(frozen=True)
class Taken:
    """Of an iteration: seconds of each batch, at the slowest role; processor seconds of the median batch, by role."""

    batches: list[float]
    busy: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.batches)

    @property
    def least(self) -> float:
        return min(self.batches)


@dataclass(frozen=True)
class Floor:
    """What an iteration's bytes take: their exchange, their expansion (side by side at all roles), and both, where each
    role expands a part before each round."""

    iteration: Iteration
    exchange: Taken
    expansion: Taken
    together: Taken


class Bare:
    """The processes of one bare exchange."""

    def __init__(self, roles: Sequence[subprocess.Popen[str]]) -> None:
        self.roles = roles

    def tell(self, *orders: Any) -> list[Any]:
        """Give everybody its orders, then read the answers."""
        for role, order in zip(self.roles, orders, strict=True):
            role.stdin.write(json.dumps(order) + "\n")
            role.stdin.flush()
        answers = [role.stdout.readline() for role in self.roles]
        if not all(answers):
            raise RuntimeError("a bare process has ended: see its error above")
        return [json.loads(answer) for answer in answers]

    def run(self, count: int, mode: str) -> tuple[float, list[float]]:
        found = self.tell(*[[count, *MODES[mode]]] * len(self.roles))
        return max(one["seconds"] for one in found), [one["busy"] for one in found]

    def take(self, mode: str, batches: int) -> Taken:
        """So many batches, each of as many iterations as fit into its time."""
        once = min(self.run(1, mode)[0] for _ in range(3))
        count = max(1, min(MOST, round(BATCH_SECONDS / max(once, 1e-6))))
        found = sorted(self.run(count, mode) for _ in range(batches))
        return Taken([seconds for seconds, _ in found], found[len(found) // 2][1])


@contextmanager
def bare(iteration: Iteration, link: str = "loopback") -> Iterator[Bare]:
    """Processes that are connected, and know the rounds of that iteration."""
    ranks = list(iteration.ranks)
    keys = {rank: create_credentials(f"P{rank}") for rank in ranks}
    trusted = "".join(one.certificate for one in keys.values())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        orders = []
        for rank in ranks:
            chain = folder / f"{rank}.pem"
            chain.write_text(keys[rank].key + keys[rank].certificate)
            rounds = [
                (
                    [(b, size) for (a, b), size in one.items() if a == rank],
                    [(a, size) for (a, b), size in one.items() if b == rank],
                )
                for one in iteration.rounds
            ]
            known = {"rank": rank, "chain": str(chain), "trusted": trusted}
            orders.append({**known, "rounds": rounds, "expanded": iteration.expanded[rank]})
        roles = [stack.enter_context(_started()) for _ in ranks]
        processes = Bare(roles)
        addresses = dict(zip(ranks, processes.tell(*orders), strict=True))

        def reached(other: int) -> tuple[str, int]:
            if link == "loopback":
                return addresses[other]
            relay = Relay(*addresses[other], LINKS[link])
            stack.callback(relay.close)
            return relay.host, relay.port

        processes.tell(*[{other: reached(other) for other in ranks if other != rank} for rank in ranks])
        yield processes


@contextmanager
def _started() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(EXCHANGE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def measure_floor(work: Workload, batches: int = 5) -> Floor:
    """The floor under an iteration of this workload, on this machine, now."""
    iteration = steady_iteration(work)
    with bare(iteration, work.link) as processes:
        return Floor(iteration, *(processes.take(mode, batches) for mode in MODES))


def show(work: Workload, floor: Floor, measured: float, busy: float) -> None:
    one = floor.iteration
    expanded = ", ".join(f"P{rank} {one.expanded[rank] / 1e6:.2f}" for rank in one.ranks)
    print(f"{work.protocol}: {work.name}, {work.link}; {len(one.rounds)} rounds, {one.sent / 1e6:.2f} MB sent")
    print(f"MB expanded: {expanded}\n")
    print(f"{'ms an iteration':24}{'median':>10}{'least':>10}{'processor, all roles':>24}")
    for mode in MODES:
        taken: Taken = getattr(floor, mode)
        print(f"{mode:24}{1000 * taken.median:10.2f}{1000 * taken.least:10.2f}{1000 * sum(taken.busy):24.2f}")
    print(f"{'the fit':24}{1000 * measured:10.2f}{'':10}{1000 * busy:24.2f}")
    together = sum(floor.together.busy)
    print(f"{'x floor':24}{measured / floor.together.median:10.1f}{'':10}{busy / together:24.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload(parser)
    parser.add_argument("--iterations", type=int, default=12, help="of the fit beside it")
    parser.add_argument("--batches", type=int, default=5, help="how often the floor is measured")
    parser.add_argument("--constants", action="store_true", help="print what src/coterie/planning/timing.py holds")
    parser.add_argument("--repeats", type=int, default=3, help="with --constants: runs, of which the least counts")
    parser.add_argument("--quick", action="store_true", help="with --constants: fewer than 100,000 rows only")
    asked = parser.parse_args()
    if asked.constants:
        from constants import print_constants

        print_constants(asked.quick, asked.repeats)
        return
    work = workload_of(asked)
    floor = measure_floor(work, asked.batches)
    x, start = points(work.n, work.d, work.k)
    _, _, few = secure_fit(work, x, start, 2)
    _, reports, many = secure_fit(work, x, start, asked.iterations)
    busy = (sum(many.busy) - sum(few.busy)) / (asked.iterations - 2)
    show(work, floor, lap(reports), busy)


if __name__ == "__main__":
    main()
