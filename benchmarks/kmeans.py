"""Time, bytes, rounds and memory of a secure fit, beside scikit-learn's time in the same run.

    python benchmarks/kmeans.py --protocol securenn [-n 10000] [-d 2] [-k 4] [--parties 2] [--iterations 10]

Every role is a process of its own, over TLS on loopback. Seconds are from the first connection to the
last result, at the slowest role; starting Python and making keys is reported apart. The time per
iteration is the slope between a short and a long run, for Coterie and for scikit-learn.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.cluster import KMeans

from coterie import SecureKMeans
from coterie.data import gather, split
from coterie.local.job import Job, Report
from coterie.local.processes import Usage, run_processes
from coterie.transport import Traffic


def points(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points, on which k-means goes on for long, and k of them to start from."""
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return x, x[np.linspace(0, n - 1, k).astype(int)]


def secure_fit(
    x: np.ndarray, parties: int, usage: Usage, **options: object
) -> tuple[SecureKMeans, list[Report], Traffic]:
    """A fit over TLS whose usage is kept, and what the roles reported."""
    model = SecureKMeans(n_parties=parties, tol=0, transport="tls", **options)  # type: ignore[arg-type]
    model._check_parameters()
    names = [f"P{j}" for j in range(parties + 1)]
    table = gather(split(x, model.partition, parties), model.partition, names[1:])  # type: ignore[arg-type]
    task, _, _ = model._task(table, None)
    jobs = [Job(task), *(Job(task, block=block) for block in model._encoded(task, table))]
    reports = run_processes(names, jobs, usage)
    traffic = Traffic.together([r.outcome.traffic for r in reports if r.outcome.traffic is not None])
    return model, reports, traffic


def plain_seconds(x: np.ndarray, start: np.ndarray, iterations: int) -> tuple[float, KMeans]:
    """The best of five fits by scikit-learn."""
    best, model = np.inf, None
    for _ in range(5):
        model = KMeans(len(start), init=start, n_init=1, algorithm="lloyd", max_iter=iterations, tol=0)
        began = time.perf_counter()
        model.fit(x)
        best = min(best, time.perf_counter() - began)
    assert model is not None
    return best, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="securenn")
    parser.add_argument("-n", type=int, default=10_000)
    parser.add_argument("-d", type=int, default=2)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--counts", default="secret", choices=["secret", "revealed"])
    parser.add_argument("--labels", default="private", choices=["private", "revealed"])
    parser.add_argument("--partition", default="horizontal", choices=["horizontal", "vertical", "mixed"])
    a = parser.parse_args()
    x, start = points(a.n, a.d, a.k)
    options = {
        "n_clusters": a.k,
        "protocol": a.protocol,
        "counts": a.counts,
        "labels": a.labels,
        "partition": a.partition,
        "init": start,
    }
    short = 2
    short_usage, usage = Usage(), Usage()
    secure_fit(x, a.parties, short_usage, max_iter=short, **options)
    began = time.perf_counter()
    _, reports, traffic = secure_fit(x, a.parties, usage, max_iter=a.iterations, **options)
    wall = time.perf_counter() - began
    slope = (max(usage.seconds) - max(short_usage.seconds)) / (a.iterations - short)
    plain_short, _ = plain_seconds(x, start, short)
    plain_long, plain = plain_seconds(x, start, a.iterations)
    plain_slope = max(plain_long - plain_short, 1e-9) / (a.iterations - short)

    labels = np.full(a.n, -1)
    for report in reports[1:]:
        labels[report.outcome.rows] = report.outcome.labels
    print(f"{a.protocol}: n = {a.n:,}, d = {a.d}, k = {a.k}, {a.parties} parties, {a.partition}, counts {a.counts}, ")
    print(f"labels {a.labels}, {reports[1].outcome.n_iter} iterations, TLS on loopback\n")
    print(
        f"seconds, first connection to result  {max(usage.seconds):10.2f}   (start-up: {wall - max(usage.seconds):.1f})"
    )
    print(
        f"milliseconds an iteration            {1000 * slope:10.1f}   (slope from {short} to {a.iterations} iterations)"
    )
    print(f"scikit-learn, ms an iteration        {1000 * plain_slope:10.2f}   (ratio {slope / plain_slope:,.0f})")
    print(f"rounds                               {traffic.rounds:10d}   ({traffic.rounds_per_iteration} an iteration)")
    dealing = traffic.rounds_with_dealing_per_iteration
    print(f"rounds with dealing                  {traffic.rounds_with_dealing:10d}   ({dealing} an iteration)")
    for rank, (name, sent) in enumerate(sorted(traffic.bytes_sent.items())):
        print(f"MB sent by {name:26}{sent / 1e6:10.1f}   (peak memory {usage.peak[rank] / 2**20:,.0f} MiB)")
    differing = int((labels != plain.labels_).sum())
    print(f"labels that differ from scikit-learn {differing:10d}   (of {a.n:,}, both after {a.iterations} iterations)")


if __name__ == "__main__":
    main()
