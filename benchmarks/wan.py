"""A whole study over a simulated WAN (100 Mbit/s, 40 ms): seconds and bytes from the first connection to the result.

    python benchmarks/wan.py [-n 100000] [-d 2] [-k 5] [--partition vertical] [--iterations 10] [--runs 3] [--link wan]

Rows are drawn to start from (`init="random"`), with a seed from which k-means goes on for ten iterations.
"""

from __future__ import annotations

import argparse
import statistics

from coterie.planning import forecast
from coterie.transport import Traffic
from coterie.transport.links import LINKS
from measure import add_workload, points, secure_fit, workload_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload(parser)
    parser.set_defaults(n=100_000, k=5, partition="vertical", link="wan")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the rows to start from")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    work, link = workload_of(asked), LINKS[asked.link]
    x, _ = points(work.n, work.d, work.k)
    taken = []
    print(f"{work.protocol}: {work.name}, {asked.iterations} iterations, {asked.link}", flush=True)
    for _ in range(asked.runs):
        task, reports, usage = secure_fit(work, x, "random", asked.iterations, asked.seed)
        done = reports[1].outcome.n_iter
        if done != asked.iterations:
            raise SystemExit(f"k-means converges after {done} iterations; try another --seed")
        taken.append(max(usage.seconds))
        print(f"  {taken[-1]:.2f} s, processor {sum(usage.busy):.2f} s", flush=True)
    traffic = Traffic.together([one.outcome.traffic for one in reports if one.outcome.traffic is not None])
    expected = forecast(task, work.parties, asked.iterations, link, "max_iter")
    print(f"median {statistics.median(taken):.2f} s (forecast {expected.seconds:.2f}), {traffic.rounds} rounds")
    sent = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sorted(traffic.bytes_sent.items()))
    print(f"{sum(traffic.bytes_sent.values()) / 1e6:.1f} MB in all ({sent})")
    if expected.bytes_sent != traffic.bytes_sent or expected.rounds != traffic.rounds:
        print("bytes or rounds are NOT as forecast")


if __name__ == "__main__":
    main()
