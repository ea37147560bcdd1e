"""Processor time of two versions of the code, side by side: alternating pairs of runs, medians and their ratio.

    git worktree add ../before SOME-COMMIT
    python benchmarks/pairs.py ../before .

All roles together, over TLS on loopback, from the first connection to the end. A version is a folder with `src` and
`benchmarks`; both run with this Python.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

#: Name, and the arguments of `measure.Workload` with the number of iterations.
WORKLOADS = {
    "onetime, 400 x 2, k = 4": ("Workload(400, 2, 4)", 12),
    "onetime, 10,000 x 2, k = 4": ("Workload(10_000, 2, 4)", 12),
    "onetime, 100,000 x 8, k = 8": ("Workload(100_000, 8, 8)", 4),
    "onetime, 10,000 x 2, k = 4, columns": ("Workload(10_000, 2, 4, partition='vertical')", 12),
    "onetime, 10,000 x 2, k = 4, p = 4": ("Workload(10_000, 2, 4, parties=4)", 6),
    "securenn, 2,000 x 2, k = 4": ("Workload(2_000, 2, 4, protocol='securenn')", 4),
    "securenn, 2,000 x 2, k = 4, counts revealed": ("Workload(2_000, 2, 4, protocol='securenn', counts='revealed')", 4),
    "securenn, 5,000 x 2, k = 4, SVK-means": (
        "Workload(5_000, 2, 4, protocol='securenn', partition='vertical', labels='revealed')",
        4,
    ),
}
ONE = """
from measure import Workload, points, secure_fit
work = {work}
print(sum(secure_fit(work, *points(work.n, work.d, work.k), {iterations})[2].busy))
"""


def busy(version: Path, work: str, iterations: int) -> float:
    """Seconds of processor time of one run."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(version / name) for name in ("src", "benchmarks"))}
    code = ONE.format(work=work, iterations=iterations)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    arguments = parser.parse_args()
    versions = [arguments.before.resolve(), arguments.after.resolve()]
    print(f"{'seconds of processor time, median':46}{'before':>9}{'after':>9}{'ratio':>8}", flush=True)
    for name, (work, iterations) in WORKLOADS.items():
        for version in versions:
            busy(version, work, iterations)  # compiles, and warms up
        taken: list[list[float]] = [[], []]
        for pair in range(arguments.pairs):
            for which in (0, 1) if pair % 2 else (1, 0):
                taken[which].append(busy(versions[which], work, iterations))
        before, after = map(statistics.median, taken)
        print(f"{name:46}{before:9.3f}{after:9.3f}{after / before:8.3f}", flush=True)


if __name__ == "__main__":
    main()
