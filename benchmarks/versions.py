"""Two versions of the code side by side: alternating runs, medians, and how many times as fast the later one is.

    git worktree add ../before SOME-COMMIT
    python benchmarks/versions.py ../before . [--python-before PATH] [--runs 3] [WORKLOAD ...]

A version is a folder with `src` and `benchmarks`, run by its own Python where one is given. In each run a version fits
twice, a few iterations and more of them, all roles as processes over TLS on loopback:

lap         an iteration at P1, as the roles report it: the median of the longer fit, without the first two and the last
slope       (the longer fit - the shorter one) / iterations between them, from the first connection to the end
processor   the same of the processor time of all roles

Medians are over the runs. The ratio of a run is that of two fits one after the other; what is printed is their median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

#: What is measured of an iteration, in this order.
MEASURES = ("lap", "slope", "processor")


class Compared(NamedTuple):
    """The arguments of `measure.Workload`, how many iterations both fits take, and the seed of the points: one from
    which k-means goes on for so long."""

    work: str
    short: int
    long: int
    seed: int = 0


WORKLOADS = {
    "400": Compared("400, 2, 4", 10, 30, seed=227),
    "10k": Compared("10_000, 2, 4", 4, 20),
    "100k": Compared("100_000, 8, 8", 4, 14),
    "1m": Compared("1_000_000, 2, 4", 2, 7),
    "p8": Compared("10_000, 2, 4, parties=8", 4, 14),
    "securenn": Compared("10_000, 2, 4, protocol='securenn'", 3, 9),
    "columns": Compared("10_000, 2, 4, partition='vertical'", 4, 20),
    "p4": Compared("10_000, 2, 4, parties=4", 4, 14),
    "svk": Compared("5_000, 2, 4, protocol='securenn', partition='vertical', labels='revealed'", 3, 9),
}
#: Those that are run if none is named.
USUAL = ("400", "10k", "100k", "1m", "p8", "securenn")
#: Run in the version's own folders, so it uses only what every version has.
FITS = """
import json, statistics
from measure import Workload, points, secure_fit
work = Workload({work})
x, start = points(work.n, work.d, work.k, {seed})
found = []
for iterations in ({short}, {long}):
    _, reports, usage = secure_fit(work, x, start, iterations)
    done = reports[1].outcome.n_iter
    if done != iterations:
        raise SystemExit(f"k-means converges after {{done}} iterations, not {{iterations}}")
    found.append((max(usage.seconds), sum(usage.busy)))
laps = [one.seconds for one in reports[1].iterations]
(few, few_busy), (many, many_busy) = found
between = {long} - {short}
print(json.dumps([statistics.median(laps[2:-1]), (many - few) / between, (many_busy - few_busy) / between]))
"""


class Version(NamedTuple):
    folder: Path
    python: str

    def run(self, compared: Compared) -> list[float]:
        """Seconds of an iteration, by measure."""
        path = os.pathsep.join(str(self.folder / name) for name in ("src", "benchmarks"))
        code = FITS.format(**compared._asdict())
        done = subprocess.run(
            [self.python, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found


def compare(name: str, compared: Compared, versions: list[Version], runs: int) -> None:
    """One line a measure; the last columns have the ratio of every run."""
    taken: list[list[list[float]]] = [[], []]  # by version, run and measure
    for run in range(runs):
        for which in (0, 1) if run % 2 else (1, 0):
            taken[which].append(versions[which].run(compared))
    for at, measure in enumerate(MEASURES):
        before, after = ([one[at] for one in version] for version in taken)
        ratios = [a / b for a, b in zip(before, after, strict=True)]
        print(
            f"{name if at == 0 else '':10}{measure:>10}{1000 * statistics.median(before):12.2f}"
            f"{1000 * statistics.median(after):12.2f}{statistics.median(ratios):10.2f}   "
            + " ".join(f"{ratio:.2f}" for ratio in ratios),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--python-before", default=sys.executable)
    parser.add_argument("--python-after", default=sys.executable)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    unknown = set(asked.workloads) - set(WORKLOADS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not known; there are {', '.join(WORKLOADS)}")
    versions = [
        Version(asked.before.resolve(), asked.python_before),
        Version(asked.after.resolve(), asked.python_after),
    ]
    print(f"{'':10}{'ms':>10}{'before':>12}{'after':>12}{'ratio':>10}   of each run")
    for name in asked.workloads or USUAL:
        print(f"# {WORKLOADS[name].work}, {WORKLOADS[name].short} and {WORKLOADS[name].long} iterations")
        quick = WORKLOADS[name]._replace(short=3, long=4)
        for version in versions:
            version.run(quick)  # compiles, and warms up
        compare(name, WORKLOADS[name], versions, asked.runs)


if __name__ == "__main__":
    main()
