"""What the benchmarks share: data, a secure fit whose usage is kept, scikit-learn beside it, slopes."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from coterie import SecureKMeans
from coterie.clustering import Task
from coterie.data import gather, split
from coterie.parameters import check_parameters, prepare_fit
from coterie.planning import Forecast, forecast, planned
from coterie.protocols import FAMILIES
from coterie.runtime.job import Job, Report
from coterie.runtime.processes import Usage, run_processes
from coterie.transport import Traffic, World
from coterie.transport.links import LINKS

__all__ = [
    "Measured",
    "Workload",
    "add_workload",
    "lap",
    "measure",
    "plain_slope",
    "points",
    "prepare",
    "secure_fit",
    "workload_of",
]


@dataclass(frozen=True)
class Workload:
    """One row of a table."""

    n: int
    d: int
    k: int
    parties: int = 2
    protocol: str = "onetime"
    partition: str = "horizontal"
    counts: str = "secret"
    labels: str = "private"
    link: str = "loopback"
    plan: object = "auto"

    @property
    def name(self) -> str:
        options = [self.partition] if self.partition != "horizontal" else []
        options += [f"counts {self.counts}"] if self.counts != "secret" else []
        options += ["labels revealed"] if self.labels != "private" else []
        return f"{self.n:,} x {self.d}, k = {self.k}, p = {self.parties}" + "".join(f", {o}" for o in options)


@dataclass
class Measured:
    """What a workload took; times an iteration are slopes between a short and a long run."""

    seconds: float
    slope: float
    lap: float
    start_up: float
    iterations: int
    traffic: Traffic
    peak: list[int]
    busy: list[float]
    plain_slope: float
    center_error: float
    label_differences: int
    forecast: Forecast

    @property
    def ratio(self) -> float:
        return self.slope / self.plain_slope


def points(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points and, to start from, the k nearest to one corner: k-means goes on for long from there."""
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return x, x[np.argsort(x.sum(axis=1))[:k]]


def prepare(
    work: Workload, x: np.ndarray, start: np.ndarray | str, iterations: int, seed: int | None = None
) -> tuple[Task, World, list[Job]]:
    """A fit, ready to run: its task with a plan, who takes part, and everybody's job. `start`: the first centres, or
    "random", drawn with that seed."""
    model = SecureKMeans(
        work.k,
        protocol=work.protocol,
        n_parties=work.parties,
        partition=work.partition,
        counts=work.counts,
        labels=work.labels,
        init=start,
        n_init=1,
        random_state=seed,
        max_iter=iterations,
        tol=0,
        bounds=[(-1.0, 1.0)] * work.d,
    )
    check_parameters(model)
    names = [f"P{j}" for j in range(work.parties + 1)]
    table = gather(split(x, work.partition, work.parties), work.partition, names[1:])  # type: ignore[arg-type]
    task, blocks, *_ = prepare_fit(model, table)
    task = planned(task, work.parties, work.plan, LINKS[work.link])
    jobs = [Job(task), *(Job(task, block=block) for block in blocks)]
    return task, FAMILIES[work.protocol].world(names[1:]), jobs


def secure_fit(
    work: Workload, x: np.ndarray, start: np.ndarray | str, iterations: int, seed: int | None = None
) -> tuple[Task, list[Report], Usage]:
    """A fit over TLS between processes."""
    task, world, jobs = prepare(work, x, start, iterations, seed)
    usage, link = Usage(), None if work.link == "loopback" else LINKS[work.link]
    return task, run_processes(world, jobs, usage, link=link), usage


def lap(reports: Sequence[Report]) -> float:
    """Seconds of an iteration at P1, which waits for everybody: the median, without the first two and the last, which
    has no stop test. A slope between two runs says the same, with the noise of two starts."""
    return statistics.median(one.seconds for one in reports[1].iterations[2:-1])


def plain_fit(x: np.ndarray, start: np.ndarray, iterations: int) -> tuple[float, KMeans]:
    """scikit-learn: the best of several."""
    best, model = np.inf, KMeans(len(start), init=start, n_init=1, algorithm="lloyd", max_iter=iterations, tol=0)
    for _ in range(5 if x.size > 10**6 else 25):
        began = time.perf_counter()
        model.fit(x)
        best = min(best, time.perf_counter() - began)
    return best, model


def plain_slope(x: np.ndarray, start: np.ndarray, short: int, long: int) -> float:
    """scikit-learn's seconds an iteration."""
    few, _ = plain_fit(x, start, short)
    many, _ = plain_fit(x, start, long)
    return max(many - few, 1e-9) / (long - short)


def measure(work: Workload, short: int = 2, long: int = 12, repeats: int = 1) -> Measured:
    """Run a workload and scikit-learn beside it. With `repeats`, the slope is that between the best times."""
    x, start = points(work.n, work.d, work.k)
    _, plain = plain_fit(x, start, long)
    assert plain.n_iter_ == long, f"k-means converges after {plain.n_iter_} iterations: measure fewer"
    quick, slow = [], []
    for _ in range(repeats):
        _, _, few = secure_fit(work, x, start, short)
        began = time.perf_counter()
        task, reports, many = secure_fit(work, x, start, long)
        wall = time.perf_counter() - began
        quick.append(max(few.seconds))
        slow.append(max(many.seconds))
    traffic = Traffic.together([r.outcome.traffic for r in reports if r.outcome.traffic is not None])
    labels, centers = np.full(work.n, -1), np.zeros((work.k, work.d))
    for report in reports[1:]:
        out = report.outcome
        labels[out.rows] = out.labels
        centers[:, out.center_columns] = task.encoding.decode(out.centers, out.center_columns)
    return Measured(
        seconds=max(many.seconds),
        slope=(min(slow) - min(quick)) / (long - short),
        lap=lap(reports),
        start_up=wall - max(many.seconds),
        iterations=reports[1].outcome.n_iter,
        traffic=traffic,
        peak=many.peak,
        busy=[(b - a) / (long - short) for a, b in zip(few.busy, many.busy, strict=True)],
        plain_slope=plain_slope(x, start, short, long),
        center_error=float(np.abs(centers - plain.cluster_centers_).max()),
        label_differences=int((labels != plain.labels_).sum()),
        forecast=forecast(task, work.parties, long, LINKS[work.link], "max_iter"),
    )


def add_workload(parser: argparse.ArgumentParser) -> None:
    """The options that describe a workload."""
    parser.add_argument("--protocol", default="onetime", choices=["onetime", "securenn", "falcon"])
    parser.add_argument("-n", type=int, default=10_000)
    parser.add_argument("-d", type=int, default=2)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--counts", default="secret", choices=["secret", "revealed"])
    parser.add_argument("--labels", default="private", choices=["private", "revealed"])
    parser.add_argument("--partition", default="horizontal", choices=["horizontal", "vertical", "mixed"])
    parser.add_argument("--link", default="loopback", choices=list(LINKS))


def workload_of(a: argparse.Namespace) -> Workload:
    return Workload(a.n, a.d, a.k, a.parties, a.protocol, a.partition, a.counts, a.labels, a.link)
