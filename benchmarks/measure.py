"""What the benchmarks share: data, a secure fit whose usage is kept, scikit-learn beside it, slopes."""

from __future__ import annotations

import time
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
from coterie.transport import Traffic
from coterie.transport.links import LINKS

__all__ = ["Measured", "Workload", "measure", "plain_slope", "points"]


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
    start_up: float
    iterations: int
    traffic: Traffic
    peak: list[int]
    busy: list[float]
    plain_slope: float
    center_error: float
    label_differences: int
    forecast: Forecast | None

    @property
    def ratio(self) -> float:
        return self.slope / self.plain_slope


def points(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points and, to start from, the k nearest to one corner: k-means goes on for long from there."""
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return x, x[np.argsort(x.sum(axis=1))[:k]]


def secure_fit(work: Workload, x: np.ndarray, start: np.ndarray, iterations: int) -> tuple[Task, list[Report], Usage]:
    """A fit over TLS between processes."""
    model = SecureKMeans(
        work.k,
        protocol=work.protocol,
        n_parties=work.parties,
        partition=work.partition,
        counts=work.counts,
        labels=work.labels,
        init=start,
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
    usage = Usage()
    link = None if work.link == "loopback" else LINKS[work.link]
    return task, run_processes(FAMILIES[work.protocol].world(names[1:]), jobs, usage, link=link), usage


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
    expected = None
    if work.protocol == "onetime" and work.labels == "private":
        expected = forecast(task, work.parties, long, LINKS[work.link], "max_iter")
    return Measured(
        seconds=max(many.seconds),
        slope=(min(slow) - min(quick)) / (long - short),
        start_up=wall - max(many.seconds),
        iterations=reports[1].outcome.n_iter,
        traffic=traffic,
        peak=many.peak,
        busy=[(b - a) / (long - short) for a, b in zip(few.busy, many.busy, strict=True)],
        plain_slope=plain_slope(x, start, short, long),
        center_error=float(np.abs(centers - plain.cluster_centers_).max()),
        label_differences=int((labels != plain.labels_).sum()),
        forecast=expected,
    )
