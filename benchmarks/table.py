"""One table: Coterie's families and scikit-learn, workload by workload, in one run.

    python benchmarks/table.py [--quick] [--large] [--peers]

Written to benchmarks/results/table.md as well. `--large` adds a million rows. `--peers` adds other frameworks
(see peers/), each in a virtual environment of its own. `x floor`: how many times as long as the bare exchange and
expansion of the same bytes take (`floor.py`), in time and in processor time of all roles.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path

from floor import Floor, measure_floor
from measure import Measured, Workload, measure

RESULTS = Path(__file__).parent / "results"
HEAD = [
    "workload",
    "protocol",
    "link",
    "ms / iteration",
    "x floor: time, processor",
    "scikit-learn",
    "ratio",
    "rounds",
    "MB / iteration: each party, helper",
    "peak MiB: party, helper",
    "largest centre error",
    "labels off",
    "forecast ms (of measured)",
]


def row(work: Workload, m: Measured, floor: Floor, long: int) -> list[str]:
    times = m.slope / floor.together.least, sum(m.busy) / sum(floor.together.busy)
    expected = m.forecast.seconds_per_iteration
    sent = [m.traffic.bytes_sent[f"P{j}"] / (long + 1) / 1e6 for j in range(work.parties + 1)]
    return [
        work.name,
        work.protocol,
        work.link,
        f"{1000 * m.slope:.1f}",
        f"{times[0]:.1f}, {times[1]:.1f}",
        f"{1000 * m.plain_slope:.2f}",
        f"{m.ratio:,.0f}",
        f"{m.traffic.rounds_per_iteration}",
        f"{max(sent[1:]):.2f}, {sent[0]:.2f}",
        f"{max(m.peak[1:]) / 2**20:.0f}, {m.peak[0] / 2**20:.0f}",
        f"{m.center_error:.0e}",
        f"{m.label_differences}",
        f"{1000 * expected:.1f} ({expected / m.slope:.0%})",
    ]


def workloads(quick: bool, large: bool) -> list[tuple[Workload, int]]:
    """Each with the number of iterations of its longer run."""
    chosen = [
        (Workload(400, 2, 4), 13),
        (Workload(10_000, 2, 4, protocol="securenn"), 12),
        (Workload(10_000, 2, 4, protocol="securenn", counts="revealed"), 12),
        (Workload(10_000, 2, 4), 22),
        (Workload(10_000, 2, 4, counts="revealed"), 22),
        (Workload(10_000, 2, 4, parties=3), 22),
        (Workload(10_000, 2, 4, parties=8), 12),
        (Workload(100_000, 8, 8), 22),
    ]
    if not quick:
        chosen += [
            (Workload(10_000, 2, 4, link="lan"), 22),
            (Workload(100_000, 2, 4), 22),
            (Workload(100_000, 2, 5, partition="vertical", link="wan"), 10),
            (Workload(100_000, 2, 5, partition="vertical", labels="revealed", link="wan"), 10),
        ]
    if large:
        chosen.append((Workload(1_000_000, 2, 4), 7))
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="loopback only")
    parser.add_argument("--large", action="store_true", help="a million rows, too")
    parser.add_argument("--peers", action="store_true", help="other frameworks, each in its own environment")
    arguments = parser.parse_args()
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    print("\n".join(lines), flush=True)
    for work, long in workloads(arguments.quick, arguments.large):
        floor = measure_floor(work)
        lines.append("| " + " | ".join(row(work, measure(work, 2, long, repeats=3), floor, long)) + " |")
        print(lines[-1], flush=True)
    if arguments.peers:
        peers = Path(__file__).parent / "peers" / "run.py"
        done = subprocess.run([sys.executable, str(peers)], stdout=subprocess.PIPE, text=True, check=True)
        lines += ["", done.stdout]
        print(done.stdout)
    RESULTS.mkdir(exist_ok=True)
    note = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, TLS between processes."
    (RESULTS / "table.md").write_text("\n".join([*lines, "", note, ""]))


if __name__ == "__main__":
    main()
