"""Many rows: time in proportion to them, and peak memory of each role beside its forecast.

    python benchmarks/large.py [--rows 100000 1000000 10000000] [-d 2] [-k 4] [--parties 2] [--iterations 4]

`ms / 10^6 rows`: an iteration, in proportion; the same in every line if time is linear in n. Ten million rows take some
minutes, and more than a gigabyte a role.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from coterie.planning import forecast
from coterie.transport.links import LINKS
from measure import add_workload, lap, points, secure_fit, workload_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload(parser)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--iterations", type=int, default=4)
    asked = parser.parse_args()
    link = LINKS[asked.link]
    print(
        f"{'rows':>12}{'ms / iteration':>16}{'ms / 10^6 rows':>16}{'in all, s':>11}   peak MiB (forecast, difference)"
    )
    for n in asked.rows:
        work = replace(workload_of(asked), n=n)
        task, reports, usage = secure_fit(work, *points(n, work.d, work.k), asked.iterations)
        seconds = lap(reports)
        expected = forecast(task, work.parties, asked.iterations, link, "max_iter").memory
        peaks = [
            f"{name} {peak / 2**20:,.0f} ({expected[name] / 2**20:,.0f}, {expected[name] / peak - 1:+.0%})"
            for name, peak in zip(expected, usage.peak, strict=True)
        ]
        print(
            f"{n:12,}{1000 * seconds:16.1f}{1e9 * seconds / n:16.1f}{max(usage.seconds):11.1f}   {', '.join(peaks)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
