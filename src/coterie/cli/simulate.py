"""`coterie simulate`: a study between several parties on one machine, on one's own file, beside scikit-learn."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from coterie.cli.console import Console
from coterie.cli.folders import check_folder
from coterie.errors import DataError, InputError
from coterie.study.drafts import folder_for
from coterie.study.policy import LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coterie.clustering import Outcome, Task
    from coterie.local.processes import Usage
    from coterie.report.facts import Facts
    from coterie.sharing import Disclosure

    Floats = NDArray[np.float64]

__all__ = ["simulate"]

#: What marks a folder as one that this command has written and may write again.
MARK, MAKER = "simulation.json", "coterie simulate"
HELPER = "P0"


def simulate(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="CSV or Parquet, with the names of the columns.")],
    clusters: int = typer.Option(..., "--clusters", "-k", help="How many clusters."),
    parties: int = typer.Option(2, "--parties", "-p", help="Over how many parties the file is split."),
    partition: Literal["horizontal", "vertical", "mixed"] = typer.Option(
        "horizontal", help="Each party gets rows, columns, or a patchwork of cells."
    ),
    columns: str = typer.Option("", help="The columns to cluster by, such as age,income. Default: all numeric ones."),
    bounds: str = typer.Option("", help="Public ranges, such as age=0:120,income=0:5e5. Default: from the data."),
    scale: Literal["none", "bounds"] = typer.Option("none", help="bounds: columns weigh alike, by their ranges."),
    protocol: Literal["onetime", "securenn"] = typer.Option("onetime", help="securenn is the paper's."),
    counts: Literal["secret", "revealed"] = typer.Option("secret", help="Whether parties learn the clusters' sizes."),
    labels: Literal["private", "revealed"] = typer.Option("private", help="revealed: SVK-means, vertical only."),
    least: int = typer.Option(
        LEAST, "--least-cluster-size", min=1, help="Smaller clusters stay closed, as in a study; 1: all are opened."
    ),
    contribution: Literal["least", "none-or-least", "off"] = typer.Option(
        "least", help="What others than any one party must contribute to a cluster that is opened."
    ),
    resolution: str = typer.Option("", help="Steps of columns, so that opened means are rounded: age=1,income=100."),
    sizes: Literal["secret", "rounded"] = typer.Option(
        "secret", help="rounded: parties learn sizes of open clusters, in multiples of the least size."
    ),
    seed: int = typer.Option(0, help="For the public choice of the rows to start from."),
    n_init: int = typer.Option(1, "--n-init", help="Starts, of which the best is opened."),
    max_iter: int = typer.Option(300, "--max-iter", help="Iterations at most."),
    tol: float = typer.Option(1e-4, help="Stop when the centres' total squared movement is at most this."),
    link: Literal["loopback", "lan", "wan"] = typer.Option("loopback", help="The network to simulate."),
    out: Annotated[Path, typer.Option(help="The folder for the reports.")] = Path("coterie-simulation"),
) -> None:
    """Try a study on your own file: split over parties, clustered in secret, compared with scikit-learn.

    Every party and the helper run as processes of their own on this machine, over TLS, under the output rules of a
    study with default policies. Writes an overview and the report that each party would have.
    """
    from coterie.cli.study import read_resolution

    console: Console = context.obj
    target = check_folder(out, MARK, MAKER)
    ranges, steps = read_bounds(bounds), read_resolution(resolution)
    check_options(least, counts, labels, sizes)
    with working(console, f"reading {file}"):
        data = read(file, [name.strip() for name in columns.split(",") if name.strip()], ranges)
    if data.left_out:
        console.say(f"left out: {', '.join(data.left_out)} (not numbers)", "left out", columns=data.left_out)
    arguments: dict[str, Any] = {
        "partition": partition,
        "n_parties": parties,
        "protocol": protocol,
        "counts": counts,
        "labels": labels,
        "scale": None if scale == "none" else scale,
        "random_state": seed,
        "n_init": n_init,
        "max_iter": max_iter,
        "tol": tol,
        "least_cluster_size": least,
        "contribution": contribution,
        "resolution": steps or None,
        "sizes": sizes,
    }
    with working(console, f"clustering {len(data.values):,} rows between {parties} parties and a helper"):
        run = Simulation(data, clusters, arguments, ranges, link)
    with working(console, "clustering the pooled data with scikit-learn"):
        beside = compare(run)
    with working(console, "writing the reports"):
        write(target, run, beside)
    summarise(console, run, beside, out)


def check_options(least: int, counts: str, labels: str, sizes: str) -> None:
    """A study with default policies would refuse these together, too."""
    for option, value in (("--counts", counts), ("--labels", labels)):
        if least > 1 and value == "revealed":
            raise InputError(
                f"{option} revealed would tell what a least cluster size of {least} keeps back; a study that reveals "
                "them needs policies that switch it off: add --least-cluster-size 1"
            )
    if least == 1 and sizes == "rounded":
        raise InputError("--sizes rounded are multiples of the least cluster size, which must be above 1")


# -- what goes in ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Data:
    """The numeric columns of a file (n x d), and the names of the others."""

    file: Path
    names: list[str]
    values: Floats
    left_out: list[str]


def read(file: Path, wanted: Sequence[str], ranges: dict[str, tuple[float, float]]) -> Data:
    """The wanted columns of a CSV or Parquet file, or all that hold numbers; within their ranges, where given."""
    from coterie.data import Column, read_rows
    from coterie.data.files import find_numeric_columns

    kinds = {} if wanted else find_numeric_columns(file)
    names = list(wanted) or [name for name, numeric in kinds.items() if numeric]
    if not names:
        raise DataError(f"{file}: no column holds numbers only; name the columns to cluster by with --columns")
    for name in ranges:
        if name not in names:
            raise InputError(f"--bounds names {name!r}, which is not among the columns to cluster by")
    anything = (-math.inf, math.inf)
    rows = read_rows(str(file), [Column(name, *ranges.get(name, anything)) for name in names])
    return Data(file, names, rows.values, [name for name, numeric in kinds.items() if not numeric])


def read_bounds(text: str) -> dict[str, tuple[float, float]]:
    """Ranges such as age=0:120,income=0:5e5."""
    from coterie.data.numbers import parse_number

    ranges = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, ends = part.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            if not (name and colon):
                raise ValueError
            ranges[name] = parse_number(low), parse_number(high)
        except ValueError:
            raise InputError(f"--bounds: {part!r} is not of the form name=low:high") from None
    return ranges


# -- the run ---------------------------------------------------------------------------------------------------------


class Simulation:
    """A fit between processes, role by role: what the estimator does, and what it cost."""

    def __init__(
        self,
        data: Data,
        clusters: int,
        arguments: dict[str, Any],
        ranges: dict[str, tuple[float, float]],
        link: str,
    ) -> None:
        from coterie.data import gather, split
        from coterie.estimator import SecureKMeans
        from coterie.local.job import Job
        from coterie.local.processes import Usage, run_processes
        from coterie.planning import planned
        from coterie.transport.links import LINKS

        p = arguments["n_parties"]
        if p < 2:
            raise InputError(f"--parties must be at least 2, not {p}")
        self.data, self.link = data, link
        self.names = [HELPER, *(f"P{j}" for j in range(1, p + 1))]
        pairs, disclosed = self._bounds(ranges)
        self.model = SecureKMeans(clusters, bounds=pairs, **arguments)
        self.model._check_parameters()
        self.table = gather(split(data.values, arguments["partition"], p), arguments["partition"], self.names[1:])
        task, automatic, _ = self.model._task(self.table, data.names)
        self.task: Task = planned(task, p, "auto", LINKS[link])
        jobs = [Job(self.task), *(Job(self.task, block=b) for b in self.model._encoded(self.task, self.table))]
        self.usage: Usage = Usage()
        reports = run_processes(self.names, jobs, self.usage, link=None if link == "loopback" else LINKS[link])
        self.outcomes: list[Outcome] = [report.outcome for report in reports]
        self.iterations = [report.iterations for report in reports]
        before: list[Disclosure] = automatic or disclosed
        for outcome in self.outcomes:
            outcome.disclosures = before + outcome.disclosures
        self.whole: Outcome = self._together()

    def _bounds(self, given: dict[str, tuple[float, float]]) -> tuple[Any, list[Disclosure]]:
        """Ranges for all columns: as given, and for the rest from the data, which discloses them."""
        from coterie.ring import widen
        from coterie.sharing import Disclosure

        rest = [name for name in self.data.names if name not in given]
        if not given:
            return "auto", []
        low, high = widen(self.data.values.min(axis=0), self.data.values.max(axis=0))
        found = dict(zip(self.data.names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
        reason = "no bounds were given for these: they come from the data, widened twofold"
        entry = Disclosure("bounds", tuple(self.names), reason, None, ", ".join(rest))
        return {**found, **given}, [entry] if rest else []

    def _together(self) -> Outcome:
        """What all roles together know."""
        import numpy as np

        from coterie.clustering import Outcome
        from coterie.transport import Traffic

        layout, first = self.task.layout, self.outcomes[1]
        labels = np.full(layout.n, -1, np.int64)
        centers = np.zeros((self.task.clusters, layout.d), np.int64)
        for one in self.outcomes[1:]:
            if one.rows is not None and one.labels is not None:
                labels[one.rows] = one.labels
            if one.centers is not None:
                centers[:, one.center_columns] = one.centers
        return Outcome(
            n_iter=first.n_iter,
            center_columns=list(range(layout.d)),
            centers=centers,
            rows=np.ones(layout.n, np.bool_),
            labels=labels,
            counts=first.counts,
            inertia=first.inertia,
            suppressed=first.suppressed,
            sizes=first.sizes,
            disclosures=first.disclosures,
            traffic=Traffic.together([one.traffic for one in self.outcomes if one.traffic is not None]),
        )

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which clusters are open."""
        import numpy as np

        closed = self.whole.suppressed
        return np.ones(self.task.clusters, np.bool_) if closed is None else ~closed


# -- beside scikit-learn ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Comparison:
    """scikit-learn's centres in data units, its labels, inertia and iterations, and how long it took."""

    centers: Floats
    labels: NDArray[Any]
    inertia: float
    n_iter: int
    seconds: float

    def words(self, run: Simulation, rows: NDArray[Any], columns: Sequence[int]) -> dict[str, str]:
        """How far these rows' labels and these columns' centres agree with the secure ones, in open clusters."""
        import numpy as np

        iterations = f"{run.whole.n_iter} here, {self.n_iter} there"
        if not run.open.any():
            return {"labels and centres": "nothing to compare: all clusters are closed", "iterations": iterations}
        differ, count = self.differing(run, rows)
        off, l = self.largest(run, columns)
        encoding = run.task.encoding
        span = np.subtract(encoding.high, encoding.low)[l]
        why = " (borders, where rounding to fixed point decides; a slow run may also stop a little apart)"
        if run.task.grid:
            why = " (borders, where rounding decides)"
        labels = f"all {count:,} identical" if not differ else f"{differ:,} of {count:,} differ{why}"
        center = f"{off:.2g}, in column {encoding.names[l]} (range {span:,.4g})"
        inertia = f"{run.whole.inertia:.8g} here, {self.inertia:.8g} there"
        if not run.open.all():
            labels += f"; {int(rows.sum()) - count:,} rows that scikit-learn puts into closed clusters are left out"
            center += ", of open clusters"
            inertia += " (here all rows count to the nearest open centre)"
        if run.task.grid:
            center += "; opened centres are rounded"
        return {
            "labels": labels,
            "largest difference of a centre": center,
            "inertia": inertia,
            "iterations": iterations,
        }

    def differing(self, run: Simulation, rows: NDArray[Any]) -> tuple[int, int]:
        """Of these rows, those that scikit-learn puts into an open cluster: how many labels differ, of how many."""
        assert run.whole.labels is not None
        compared = rows & run.open[self.labels]
        return int((run.whole.labels != self.labels)[compared].sum()), int(compared.sum())

    def largest(self, run: Simulation, columns: Sequence[int]) -> tuple[float, int]:
        """The largest difference between open centres relative to the column's range: how much, and the column."""
        import numpy as np

        encoding = run.task.encoding
        assert run.whole.centers is not None
        off = np.abs(encoding.decode(run.whole.centers) - self.centers)[run.open].max(axis=0, initial=0.0)
        span = np.subtract(encoding.high, encoding.low)
        l = columns[int(np.argmax((off / np.where(span > 0, span, 1.0))[list(columns)]))]
        return float(off[l]), l


def compare(run: Simulation) -> Comparison:
    """Cluster the pooled data with scikit-learn, from the same start and with the same rule for stopping."""
    import time
    import warnings

    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    task = run.task
    x = run.data.values / task.encoding.unit
    spread = float(x.var(axis=0).mean())  # scikit-learn's tolerance is relative to this
    tol = task.tol / spread if spread > 0 else 0.0
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            KMeans(
                task.clusters, init=x[list(start)], n_init=1, max_iter=task.max_iter, tol=tol, algorithm="lloyd"
            ).fit(x)
            for start in task.starts
        ]
    seconds = time.perf_counter() - started
    best = min(fits, key=lambda fit: fit.inertia_)
    most = max(fit.n_iter_ for fit in fits)
    centers = np.asarray(best.cluster_centers_) * task.encoding.unit
    return Comparison(centers, best.labels_, float(best.inertia_), int(most), seconds)


# -- what comes out --------------------------------------------------------------------------------------------------


def write(target: Path, run: Simulation, beside: Comparison) -> None:
    """All reports, whole or not at all."""
    with folder_for(target) as folder:
        _write_pages(folder, run, beside)


def _write_pages(folder: Path, run: Simulation, beside: Comparison) -> None:
    import hashlib
    from datetime import datetime

    import numpy as np

    from coterie.report.facts import Participant, facts_of, rows_per_cluster, versions
    from coterie.report.simulation import Role, write_overview
    from coterie.report.write import write_report

    task, layout = run.task, run.task.layout
    participants = [Participant(name, "data party" if j else "helper") for j, name in enumerate(run.names)]
    common: dict[str, Any] = {
        "when": datetime.now().astimezone().isoformat(" ", "seconds"),
        "versions": versions("scikit-learn"),
        "forecast": _forecast(run),
    }
    title = f"k-means of {run.data.file.name}"
    roles = []
    for rank, (name, outcome) in enumerate(zip(run.names, run.outcomes, strict=True)):
        facts: Facts = facts_of(
            task,
            outcome,
            rank,
            participants,
            {"link": run.link},
            title=title,
            seconds={"from the first connection to the end": run.usage.seconds[rank]},
            seconds_per_iteration=run.iterations[rank],
            memory=run.usage.peak[rank],
            **common,
        )
        values = None
        if rank:
            held, columns = layout.own_rows(rank), layout.own_columns(rank)
            facts.comparison = beside.words(run, held, columns)
            values = np.where(layout.own_cells(rank), run.data.values, np.nan)[held][:, columns]
        (folder / name).mkdir()
        write_report(folder / name / "report.html", facts, values, outcome.labels)
        sent = sum(facts.traffic.bytes_sent.values())
        roles.append(
            Role(
                name,
                facts.role,
                run.usage.seconds[rank],
                run.usage.busy[rank],
                run.usage.peak[rank],
                sent,
                f"{name}/report.html",
            )
        )
    whole = facts_of(task, run.whole, 1, participants, {"link": run.link}, title=title, **common)
    whole.party = "all parties together"
    with open(run.data.file, "rb") as file:
        whole.hashes = {run.data.file.name: hashlib.file_digest(file, "sha256").hexdigest()}
    whole.comparison = beside.words(run, np.ones(layout.n, np.bool_), range(layout.d))
    whole.comparison["time"] = f"{max(run.usage.seconds):.3g} s here, {beside.seconds:.3g} s there"
    assert run.whole.labels is not None
    whole.own_rows = None
    if run.whole.sizes is None:
        counted = rows_per_cluster(run.whole.labels, task.clusters)
        whole.sizes = [None if whole.closed(j) else count for j, count in enumerate(counted)]
    write_overview(folder / "index.html", whole, roles, run.data.values, run.whole.labels)
    files = sorted(path.name for path in folder.iterdir())
    summary = {"made_by": MAKER, "files": files, **_summary(run, beside)}
    (folder / MARK).write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")


def _forecast(run: Simulation) -> dict[str, str] | None:
    """What the cost model says of this run, where it covers it."""
    from coterie.planning.costs import forecast
    from coterie.report.words import duration, size, whole
    from coterie.transport.links import LINKS

    task = run.task
    if task.protocol != "onetime" or task.labels != "private" or len(task.starts) > 1:
        return None
    ended: Literal["stop", "max_iter"] = "stop" if run.whole.n_iter < task.max_iter else "max_iter"
    cost = forecast(task, len(run.names) - 1, run.whole.n_iter, LINKS[run.link], ended)
    sent = {f"sent by {name}": size(count) for name, count in zip(run.names, cost.bytes_sent.values(), strict=True)}
    return {"rounds": whole(cost.rounds), **sent, "time": duration(cost.seconds)}


def _summary(run: Simulation, beside: Comparison) -> dict[str, Any]:
    """What machines get: of `--json`, and in the folder."""
    import numpy as np

    assert run.whole.labels is not None
    assert run.whole.traffic is not None
    off, l = beside.largest(run, range(run.task.layout.d))
    differ, compared = beside.differing(run, np.ones(run.task.layout.n, np.bool_))
    return {
        "file": str(run.data.file),
        "rows": run.task.layout.n,
        "columns": list(run.task.encoding.names),
        "clusters": run.task.clusters,
        "parties": len(run.names) - 1,
        "partition": run.task.layout.partition,
        "protocol": run.task.protocol,
        "iterations": run.whole.n_iter,
        "inertia": run.whole.inertia,
        "seconds": max(run.usage.seconds),
        "peak_bytes": dict(zip(run.names, run.usage.peak, strict=True)),
        "bytes_sent": run.whole.traffic.bytes_sent,
        "rounds": run.whole.traffic.rounds,
        "least_cluster_size": run.task.least,
        "contribution": run.task.contribution,
        "closed": [j for j, opened in enumerate(run.open.tolist()) if not opened],
        "labels_compared": compared,
        "labels_that_differ": differ,
        "largest_centre_difference": off if run.open.any() else None,
        "column_of_it": run.task.encoding.names[l] if run.open.any() else None,
    }


def summarise(console: Console, run: Simulation, beside: Comparison, out: Path) -> None:
    """Say what was computed, what it cost, what was disclosed, and how it agrees."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from coterie.report.words import duration, size, told

    layout, traffic = run.task.layout, run.whole.traffic
    assert traffic is not None
    machine = _summary(run, beside)
    page = out / "index.html"
    if console.json:
        console.say(f"report: {page}", "simulated", report=str(page), **machine)
        return
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)

    def line(name: str, text: str) -> None:
        if console.live:
            rows.add_row(Text(name), Text(text))
        else:
            console.say(f"{name:14}{text}")

    ending = "the centres rested" if run.whole.n_iter < run.task.max_iter else "the most allowed"
    line("computed", f"{run.task.clusters} clusters of {layout.n:,} rows x {layout.d} columns of {run.data.file}")
    line("between", f"{', '.join(run.names[1:])} ({layout.partition}) and the helper {HELPER}, by {run.task.protocol}")
    line("output rules", _rules(run))
    line("took", f"{duration(max(run.usage.seconds))}, {run.whole.n_iter} iterations ({ending})")
    line("sent", ", ".join(f"{name} {size(count)}" for name, count in traffic.bytes_sent.items()))
    line("rounds", f"{traffic.rounds:,}, {traffic.rounds_per_iteration} per iteration")
    line("memory", ", ".join(f"{name} {size(peak)}" for name, peak in zip(run.names, run.usage.peak, strict=True)))
    for i, entry in enumerate(told(run.whole.disclosures, HELPER, run.names[1:])):
        often = "" if entry.times == 1 else f", {entry.times:,} times"
        line("" if i else "disclosed", f"{entry.sentence.rstrip('.')} ({entry.when}{often})")
    words = beside.words(run, np.ones(layout.n, np.bool_), range(layout.d))
    for i, (name, text) in enumerate(words.items()):
        line("" if i else "scikit-learn", f"{name}: {text}")
    line("report", str(page))
    if console.live:
        console.show(rows, "simulated")


def _rules(run: Simulation) -> str:
    """Which output rules held, and what stays closed."""
    from coterie.report.words import enumerated, meaning

    task, closed = run.task, [str(j) for j in range(run.task.clusters) if not run.open[j]]
    if task.least <= 1:
        return "none: all clusters are opened"
    rules = f"least cluster size {task.least}"
    if task.layout.partition != "vertical":
        rules += f"; contribution {task.contribution} ({meaning('contribution', task.contribution)})"
    if not closed:
        return f"{rules}; no cluster stays closed"
    if len(closed) == task.clusters:
        return f"{rules}; ALL clusters stay closed, so that nothing is learnt: try fewer clusters, or more rows"
    return f"{rules}; closed: {'cluster' if len(closed) == 1 else 'clusters'} {enumerated(closed)}"


@contextlib.contextmanager
def working(console: Console, text: str) -> Iterator[None]:
    """A spinner and the time that has passed, on a terminal; elsewhere nothing."""
    if not console.live:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console.rich,
        transient=True,
    )
    with shown:
        shown.add_task(text, total=None)
        yield
