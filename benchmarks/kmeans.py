"""Time, bytes, rounds and memory of one secure fit, beside scikit-learn's time in the same run.

    python benchmarks/kmeans.py --protocol securenn [-n 10000] [-d 2] [-k 4] [--parties 2] [--iterations 10]
                                [--link loopback|lan|wan] [--partition ...] [--counts ...] [--labels ...]

Every role is a process of its own, over TLS on loopback, or through a relay that simulates a slower link.
Seconds are from the first connection to the last result, at the slowest role; starting Python and making keys
is reported apart. The time per iteration is the slope between a short and a long run, for Coterie and for
scikit-learn.
"""

from __future__ import annotations

import argparse

from measure import add_workload, measure, workload_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload(parser)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1, help="take the best slope of several runs")
    a = parser.parse_args()
    work = workload_of(a)
    m = measure(work, 2, a.iterations, a.repeats)
    traffic = m.traffic
    print(f"{a.protocol}: {work.name}, {m.iterations} iterations, TLS, {a.link}\n")
    print(f"seconds, first connection to result  {m.seconds:10.2f}   (start-up: {m.start_up:.1f})")
    print(f"milliseconds an iteration            {1000 * m.slope:10.1f}   (slope from 2 to {a.iterations} iterations)")
    busy = ", ".join(f"P{rank} {1000 * seconds:.1f}" for rank, seconds in enumerate(m.busy))
    print(f"processor ms an iteration            {1000 * sum(m.busy):10.1f}   ({busy})")
    print(f"scikit-learn, ms an iteration        {1000 * m.plain_slope:10.2f}   (ratio {m.ratio:,.0f})")
    print(f"rounds                               {traffic.rounds:10d}   ({traffic.rounds_per_iteration} an iteration)")
    dealing = traffic.rounds_with_dealing_per_iteration
    print(f"rounds with dealing                  {traffic.rounds_with_dealing:10d}   ({dealing} an iteration)")
    for rank, (name, sent) in enumerate(sorted(traffic.bytes_sent.items())):
        print(f"MB sent by {name:26}{sent / 1e6:10.1f}   (peak memory {m.peak[rank] / 2**20:,.0f} MiB)")
    print(f"largest error of a centre            {m.center_error:10.1e}")
    print(f"labels that differ from scikit-learn {m.label_differences:10d}   (of {a.n:,})")
    exact = m.forecast.bytes_sent == traffic.bytes_sent and m.forecast.rounds == traffic.rounds
    print(f"forecast, ms an iteration            {1000 * m.forecast.seconds_per_iteration:10.1f}   ", end="")
    print(f"(bytes and rounds {'as forecast' if exact else 'NOT as forecast'})")


if __name__ == "__main__":
    main()
