"""`coterie simulate`: a study between several parties on one machine, on one's own file, beside scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli.console import Console
from coterie.cli.folders import check_folder, write_mark
from coterie.cli.parsing import in_terms_of_options, parse_clusters, parse_file_bounds, parse_numbers
from coterie.cli.working import show_working
from coterie.errors import InputError
from coterie.study.drafts import folder_for
from coterie.study.policy import LEAST

if TYPE_CHECKING:
    from coterie.ideal import Roles
    from coterie.simulation.comparison import Comparison
    from coterie.simulation.run import Simulation

__all__ = ["simulate"]

#: The file that marks a folder as written by this command, and what it says of that.
MARK, MAKER = "simulation.json", "coterie simulate"
#: What a generator of public random numbers takes.
MOST_SEED = 2**32 - 1


def simulate(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="CSV or Parquet, with the names of the columns.")],
    clusters: str = typer.Option(..., "--clusters", "-k", help="How many clusters; or 2:10, to choose from."),
    parties: int = typer.Option(2, "--parties", "-p", help="Over how many parties the file is split."),
    partition: Literal["horizontal", "vertical", "mixed"] = typer.Option(
        "horizontal", help="Each party gets rows, columns, or a patchwork of cells."
    ),
    columns: str = typer.Option("", help="The columns to cluster by, such as age,income. Default: all numeric ones."),
    bounds: str = typer.Option("", help="Public ranges, such as age=0:120,income=0:5e5. Default: from the data."),
    scale: Literal["standard", "bounds", "none"] = typer.Option(
        "standard", help="standard: columns weigh alike, by their spread; bounds: by their ranges."
    ),
    protocol: Literal["onetime", "securenn", "falcon"] = typer.Option(
        "onetime", help="securenn is the paper's; falcon has no dealer."
    ),
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
    init: Literal["k-means++", "random"] = typer.Option("k-means++", help="How the rows to start from are drawn."),
    seed: int = typer.Option(0, min=0, max=MOST_SEED, help="For the public random numbers that draw them."),
    choose: Literal["calinski-harabasz", "silhouette"] = typer.Option(
        "calinski-harabasz", help="By what the best of several numbers of clusters is chosen."
    ),
    n_init: int = typer.Option(1, "--n-init", min=1, help="Starts, of which the best is opened."),
    max_iter: int = typer.Option(300, "--max-iter", min=1, help="Iterations at most."),
    tol: float = typer.Option(1e-4, help="Stop when the centres move less than this part of the columns' variance."),
    link: Literal["loopback", "lan", "wan"] = typer.Option("loopback", help="The network to simulate."),
    out: Annotated[Path, typer.Option(help="The folder for the reports.")] = Path("coterie-simulation"),
) -> None:
    """Try a study on your own file: split over parties, clustered in secret, compared with scikit-learn.

    Every party and the helper run as processes of their own on this machine, over TLS, under the output rules of a
    study with default policies. Writes an overview and the report that each party would have.
    """
    console: Console = context.obj
    target = check_folder(out, MARK, MAKER)
    ranges, steps = parse_file_bounds(bounds), parse_numbers("--resolution", resolution, "STEP")
    _check_options(least, counts, labels, sizes)
    from coterie.simulation.comparison import compare_with_sklearn
    from coterie.simulation.numeric_file import find_misfits, read_numeric_file
    from coterie.simulation.pages import summarise, write_pages
    from coterie.simulation.run import run_simulation

    with show_working(console, f"reading {file}"):
        data = read_numeric_file(file, [name.strip() for name in columns.split(",") if name.strip()], ranges)
    if data.left_out:
        console.say(f"left out: {', '.join(data.left_out)} (not numbers)", "left out", columns=data.left_out)
    for name, why in find_misfits(data).items():
        console.say(f"column {name} {why}; leave it out with --columns", "misfit", column=name, why=why)
    arguments: dict[str, Any] = {
        "partition": partition,
        "n_parties": parties,
        "protocol": protocol,
        "counts": counts,
        "labels": labels,
        "scale": None if scale == "none" else scale,
        "init": init,
        "choose": choose,
        "random_state": seed,
        "n_init": n_init,
        "max_iter": max_iter,
        "tol": tol,
        "least_cluster_size": least,
        "contribution": contribution,
        "resolution": steps or None,
        "sizes": sizes,
    }
    wanted, (rows, width) = parse_clusters(clusters), data.values.shape
    _check_sizes(wanted if isinstance(wanted, int) else wanted[-1], parties, rows, width, partition)
    doing = f"clustering {rows:,} rows between {parties} parties and a helper"
    with show_working(console, doing), in_terms_of_options():
        run = run_simulation(data, wanted, arguments, ranges, link)
    with show_working(console, "clustering the pooled data with scikit-learn"):
        beside = compare_with_sklearn(run)
    with show_working(console, "writing the reports"), folder_for(target) as folder:
        write_pages(folder, run, beside)
        files = sorted(path.name for path in folder.iterdir())
        write_mark(folder / MARK, MAKER, {"files": files, **summarise(run, beside)})
    _show(console, run, beside, out)


def _check_options(least: int, counts: str, labels: str, sizes: str) -> None:
    """A study with default policies would refuse these together, too."""
    for option, value in (("--counts", counts), ("--labels", labels)):
        if least > 1 and value == "revealed":
            raise InputError(
                f"{option} revealed would tell what a least cluster size of {least} keeps back; a study that reveals "
                "them needs policies that switch it off: add --least-cluster-size 1"
            )
    if least == 1 and sizes == "rounded":
        raise InputError("--sizes rounded are multiples of the least cluster size, which must be above 1")


def _check_sizes(clusters: int, parties: int, rows: int, columns: int, partition: str) -> None:
    """Every cluster and every party needs something of the file."""
    if clusters > rows:
        raise InputError(f"--clusters {clusters}: the file has {rows:,} rows; use fewer clusters")
    most, what = (columns, "columns") if partition == "vertical" else (rows, "rows")
    if not 2 <= parties <= most:
        raise InputError(
            f"--parties {parties}: the file has {most:,} {what}, which can be split over 2 to {most:,} parties"
        )


def _show(console: Console, run: Simulation, beside: Comparison, out: Path) -> None:
    """Say what was computed, what it cost, what was disclosed, and how it agrees."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from coterie.report.formats import format_bytes, format_duration
    from coterie.report.log import describe_log
    from coterie.simulation.pages import summarise

    layout, traffic = run.task.layout, run.whole.traffic
    assert traffic is not None
    page = out / "index.html"
    if console.json:
        console.say(f"report: {page}", "simulated", report=str(page), **summarise(run, beside))
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
    if run.choices:
        line("chosen", _describe_choice(run))
    others = _describe_others(run.roles)
    line("between", f"{', '.join(run.roles.owners)} ({layout.partition}){others}, by {run.task.protocol}")
    line("output rules", _describe_rules(run))
    line("took", f"{format_duration(max(run.usage.seconds))}, {run.whole.n_iter} iterations ({ending})")
    line("sent", ", ".join(f"{name} {format_bytes(count)}" for name, count in traffic.bytes_sent.items()))
    line("rounds", f"{traffic.rounds:,}, {traffic.rounds_per_iteration} per iteration")
    line("quality", _describe_quality(run))
    peaks = zip(run.names, run.usage.peak, strict=True)
    line("memory", ", ".join(f"{name} {format_bytes(peak)}" for name, peak in peaks))
    for i, entry in enumerate(describe_log(run.whole.disclosures, run.roles)):
        often = "" if entry.times == 1 else f", {entry.times:,} times"
        line("" if i else "disclosed", f"{entry.sentence.rstrip('.')} ({entry.when}{often})")
    words = beside.describe(run, np.ones(layout.n, np.bool_), range(layout.d))
    for i, (name, text) in enumerate(words.items()):
        line("" if i else "scikit-learn", f"{name}: {text}")
    line("report", str(page))
    if console.live:
        console.show(rows, "simulated")


def _describe_others(roles: Roles) -> str:
    """Who takes part beside those who own data, and who computes, if not all of them and no others do."""
    if roles.dealer is not None:
        return f" and the helper {roles.dealer}"
    others = [name for name in roles.servers if name not in roles.owners]
    joined = f" and {others[0]}, which owns no data" if others else ""
    return f"{joined}; {', '.join(roles.servers)} hold the shares and compute"


def _describe_choice(run: Simulation) -> str:
    """From which numbers of clusters one was chosen, and what each comes to."""
    from coterie.report.views import READING, describe_measures

    tried = ", ".join(map(str, run.choices[:-1])) + f" or {run.choices[-1]}"
    told = describe_measures(run.whole.k_measures)
    return f"{run.task.clusters} of {tried} clusters, by the {READING[run.task.choose][0]}: {told}"


def _describe_quality(run: Simulation) -> str:
    """How good the clusters are, as the parties are told."""
    index = run.whole.calinski_harabasz(run.task.layout.n, int(run.open.sum()))
    told = {"inertia": run.whole.inertia, "silhouette": run.whole.silhouette, "Calinski-Harabasz index": index}
    known = [f"{name} {value:.4g}" for name, value in told.items() if value is not None]
    return ", ".join(known) or "nothing is told, since clusters stay closed"


def _describe_rules(run: Simulation) -> str:
    """Which output rules held, and what stays closed."""
    from coterie.report.formats import join_names
    from coterie.report.glossary import explain_option

    task, closed = run.task, [str(j) for j in range(run.task.clusters) if not run.open[j]]
    if task.least <= 1:
        return "none: all clusters are opened"
    rules = f"least cluster size {task.least}"
    if task.layout.partition != "vertical":
        rules += f"; contribution {task.contribution} ({explain_option('contribution', task.contribution)})"
    if not closed:
        return f"{rules}; no cluster stays closed"
    if len(closed) == task.clusters:
        return f"{rules}; ALL clusters stay closed, so that nothing is learnt: try fewer clusters, or more rows"
    return f"{rules}; closed: {'cluster' if len(closed) == 1 else 'clusters'} {join_names(closed)}"
