"""`coterie demo`: the paper's example between real processes, compared with scikit-learn, as a page to look at."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.console import Console
from coterie.cli.folders import check_folder, write_mark
from coterie.cli.working import show_steps
from coterie.errors import CoterieError
from coterie.study.drafts import folder_for

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.report.example import Example

__all__ = ["demo", "write_folder"]

OUT = Path("coterie-demo")
MANIFEST, MAKER = "manifest.json", "coterie demo"


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write, whole or not at all.")] = OUT,
) -> None:
    """The paper's example, run between real processes over TLS, as a page with its figures; about a minute.

    Four blobs of points, split between Alice and Bob by rows and by columns: what each concludes alone, what secure
    k-means finds, whether that is what scikit-learn finds with all points in one place, and how many rounds it takes.
    """
    console: Console = context.obj
    target = check_folder(out, MANIFEST, MAKER)
    began = time.monotonic()
    from coterie.report.paper import make_page
    from coterie.simulation.demo import STEPS, compute_example

    _introduce(console)
    with show_steps(console, STEPS) as step:
        example = compute_example(step)
        example.seconds = time.monotonic() - began
        step("drawing the page")
        html, pictures = make_page(example)
        write_folder(target, {"index.html": html.encode(), **pictures})
    _show(console, example, target / "index.html", time.monotonic() - began)
    if not example.holds:
        raise CoterieError(
            f"a secure result differs from the centralised one; {target / 'index.html'} says which. Please report it"
        )


def _introduce(console: Console) -> None:
    """What is going to run, before anything is called by its name."""
    from coterie.report.example import MEANINGS

    console.say("The paper's example: 400 points of Alice and Bob, a helper (P0), every role a process, over TLS.\n")
    for name, meaning in MEANINGS.items():
        console.say(f"{name}: {meaning}\n", "algorithm", name=name, meaning=meaning)


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files and a manifest with their hashes, all or nothing."""
    from importlib.metadata import version

    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    with folder_for(target) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        write_mark(folder / MANIFEST, MAKER, {"version": version("coterie"), "files": hashes})


def _show(console: Console, example: Example, index: Path, seconds: float) -> None:
    """What was computed, how long it took, what was sent, what was disclosed to whom, and where the page is."""
    from coterie.report.example import TOLERANCE
    from coterie.report.formats import format_bytes, format_duration, join_names
    from coterie.report.paper import describe_runs
    from coterie.simulation.rounds import CLUSTERS

    console.show(_list_runs(example), "runs", runs=_record_runs(example))
    agreeing = sum(one.holds for one in example.agreements)
    compared = (
        "\nCompared with scikit-learn on all points in one place, from the same start: how many labels are equal, and "
        f"by how much centres are off at most.\n{agreeing} of {len(example.runs)} secure runs give the same labels and "
        f"centres (within {TOLERANCE:g})."
    )
    console.say(compared, "comparison", same=agreeing, of=len(example.runs))
    console.say("\nWhat was disclosed, and to whom:")
    for name, lines in describe_runs(example):
        console.say(f"  {name}:", "disclosed to", run=name)
        for line in lines:
            console.say(f"    {line.sentence} ({line.when})", "disclosed", run=name, what=line.what, to=line.to)
    sent = join_names([f"{name} {format_bytes(count)}" for name, count in example.sent.items()])
    console.say(
        f"\nTook {format_duration(seconds)}. Sent in all secure runs: {sent}. Rounds were counted for k = "
        f"{join_names([str(k) for k in CLUSTERS])}.",
        "total",
        seconds=seconds,
        bytes_sent=example.sent,
    )
    console.say(f"The page: {index}", "page", path=str(index), same=example.holds)


def _list_runs(example: Example) -> Table:
    from rich.table import Table

    from coterie.report.formats import format_bytes, format_duration

    runs = Table(box=None, pad_edge=False, header_style="bold")
    runs.add_column("secure run", no_wrap=True)
    for name in ("time", "rounds", "sent", "labels", "off by"):
        runs.add_column(name, justify="right", no_wrap=True)
    protocol = ""
    for run, match in zip(example.runs, example.agreements, strict=True):
        if run.protocol != protocol:
            protocol = run.protocol
            runs.add_row(protocol, style="bold")
        cost = format_duration(run.seconds), str(run.traffic.rounds), format_bytes(run.sent)
        runs.add_row(f" {run.algorithm}", *cost, f"{match.same}/{match.points}", f"{match.off:.1e}")
    return runs


def _record_runs(example: Example) -> list[dict[str, Any]]:
    """The runs for machines."""
    from coterie.report.example import NAMES

    return [
        {
            "run": run.algorithm,
            "protocol": run.protocol,
            "partition": run.partition,
            "seconds": run.seconds,
            "iterations": run.iterations,
            "rounds": run.traffic.rounds,
            "rounds_with_dealing": run.traffic.rounds_with_dealing,
            "bytes_sent": {NAMES.get(rank, rank): sent for rank, sent in run.traffic.bytes_sent.items()},
            "equal_labels": match.same,
            "points": match.points,
            "centers_apart": match.off,
            "same": match.holds,
            "disclosures": run.disclosures,
        }
        for run, match in zip(example.runs, example.agreements, strict=True)
    ]
