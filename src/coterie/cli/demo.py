"""`coterie demo`: the paper's example between real processes, compared with scikit-learn, as a page to look at."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from coterie.cli.console import Console
from coterie.cli.folders import check_folder
from coterie.errors import CoterieError, ProtocolError
from coterie.study.drafts import folder_for

if TYPE_CHECKING:
    from coterie.report.paper import Counted, Example, SecureRun
    from coterie.sharing import Party, Shared

__all__ = ["demo", "write_folder"]

#: What is clustered securely: a name, and the options. With both families.
WAYS: tuple[tuple[str, dict[str, str]], ...] = (
    ("SHK-means by rows", {"partition": "horizontal"}),
    ("SHK-means by rows, sizes revealed", {"partition": "horizontal", "counts": "revealed"}),
    ("SHK-means by columns", {"partition": "vertical"}),
    ("SVK-means by columns", {"partition": "vertical", "labels": "revealed"}),
)
FAMILIES = ("onetime", "securenn")
CLUSTERS = (2, 3, 4, 8, 16)
#: For the public choice of starting rows: from these, k-means finds the four blobs.
SEED = 3
OUT = Path("coterie-demo")
MANIFEST, MAKER = "manifest.json", "coterie demo"

#: One's own conclusions, the secure runs, the counts of rounds (three algorithms), the page.
STEPS = 1 + len(WAYS) * len(FAMILIES) + 3 * len(FAMILIES) * len(CLUSTERS) + 1

#: Tells how far it is: what is being done now.
Progress = Callable[[str], None]


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
    with _progress(console, STEPS) as step:
        example = computed(step)
        example.seconds = time.monotonic() - began
        step("drawing the page")
        from coterie.report.paper import page

        html, pictures = page(example)
        write_folder(target, {"index.html": html.encode(), **pictures})
    _summary(console, example, target / "index.html", time.monotonic() - began)
    if not example.holds:
        raise CoterieError(
            f"a secure result differs from the centralised one; {target / 'index.html'} says which. Please report it"
        )


# -- computing --------------------------------------------------------------------------------------------------------


def computed(
    step: Progress,
    ways: Sequence[tuple[str, dict[str, str]]] = WAYS,
    families: Sequence[str] = FAMILIES,
    clusters: Sequence[int] = CLUSTERS,
) -> Example:
    """Everything that the page shows."""
    import numpy as np

    from coterie.clustering import distinct_rows
    from coterie.report import paper

    step("what Alice concludes alone")
    points, blob, bobs = paper.paper_points()
    start = distinct_rows(np.random.RandomState(SEED), len(points), paper.K)
    example = paper.example(points, blob, bobs, start)
    for family in families:
        for name, options in ways:
            step(f"{name}, {family}, three processes over TLS")
            example.runs.append(_secure_run(example, name, family, options))
    example.counted = list(counted_rounds(step, clusters))
    return example


def _secure_run(example: Example, name: str, family: str, options: dict[str, str]) -> SecureRun:
    from coterie.estimator import SecureKMeans
    from coterie.report import paper

    points, bobs = example.points, example.bobs
    by_rows = options["partition"] == "horizontal"
    blocks = [points[~bobs], points[bobs]] if by_rows else [points[:, :1], points[:, 1:]]
    fixed: dict[str, Any] = {"transport": "tls", "random_state": SEED, "tol": 0, "bounds": paper.BOUNDS, **options}
    model = SecureKMeans(paper.K, protocol=family, **fixed)
    began = time.monotonic()
    model.fit_parties(blocks)
    seconds = time.monotonic() - began
    if tuple(model.init_rows_) != tuple(example.start):
        raise ProtocolError("the runs of the demo did not start from the same rows")
    found = paper.Found(model.labels_.astype("int64"), model.cluster_centers_)
    return paper.SecureRun(
        name,
        family,
        options["partition"],
        found,
        model.n_iter_,
        seconds,
        model.traffic_,
        model.disclosures_,
    )


def counted_rounds(step: Progress, clusters: Sequence[int] = CLUSTERS) -> Iterator[Counted]:
    """Rounds an iteration of the paper's three algorithms with both families, in this process, on small tables; and
    those of its parts, at k = 4."""
    from coterie.report import paper

    tournament = {"schedule": "tournament"}
    for family in FAMILIES:
        for k in clusters:
            for key in paper.ITERATED:
                step(f"counting rounds: {paper.ALGORITHMS[key].name}, {family}, k = {k}")
                plan = tournament if family == "onetime" else "auto"
                yield paper.Counted(key, family, k, *_iteration(family, k, plan, paper.ALGORITHMS[key].options))
    for k in (k for k in clusters if k in (4, 16)):
        options = paper.ALGORITHMS["SHK secret"].options
        counts = _iteration("onetime", k, {"schedule": "all_pairs"}, options)
        yield paper.Counted("SHK secret", "onetime, all pairs", k, *counts)
    for key, family, counts in _parts(4):
        yield paper.Counted(key, family, 4, *counts)


def _iteration(family: str, k: int, plan: Any, options: dict[str, str]) -> tuple[int, int]:
    """Rounds an iteration, with and without dealing."""
    import numpy as np

    from coterie.estimator import SecureKMeans

    table = np.random.RandomState(0).uniform(-1, 1, (12 * k, 2))
    model = SecureKMeans(k, protocol=family, plan=plan, max_iter=3, tol=0, random_state=0, **options)  # type: ignore[arg-type]
    traffic = model.fit(table).traffic_
    return traffic.rounds_with_dealing_per_iteration, traffic.rounds_per_iteration


def _parts(k: int) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """What the paper's table calls protocols of their own, each alone on shares of zeros."""
    import numpy as np

    from coterie.clustering import Layout
    from coterie.protocols import OneTime, Problem, SecureNN

    problem = Problem(9, k, (1000, 1000))

    def labels(me: Party) -> None:
        family = OneTime(me, problem)
        own = None if me.deals else np.zeros((9, 2), np.int64)
        rows = family.table(own, Layout("vertical", 9, 2, columns=((0,), (1,))))
        centers = family.public(np.zeros((k, 2), np.int64))
        me.channel.mark_iteration()
        family.label(rows, centers).settle()
        me.channel.mark_iteration()

    def product(me: Party) -> None:
        SecureNN(me, problem).product(*_zeros(me, (9,), (9,)))

    def distances(me: Party) -> None:
        SecureNN(me, problem).mat_dist(*_zeros(me, (9, 2), (k, 2)))

    def samples(me: Party) -> None:
        SecureNN(me, problem).label_samples(*_zeros(me, (9, 2), (k, 2)))

    yield "ElementWiseMatMul", "securenn", _alone(product)
    yield "MatDist", "securenn", _alone(distances)
    yield "LabelSamples", "securenn", _alone(samples)
    yield "LabelSamples", "onetime", _alone(labels, marked=True)


def _zeros(me: Party, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Shared, Shared]:
    from coterie.ring import Words

    words = Words(64)
    if me.deals:
        return me.hollow(words, first), me.hollow(words, second)
    return me.shared(words, words.zeros(first)), me.shared(words, words.zeros(second))


def _alone(role: Callable[[Party], None], marked: bool = False) -> tuple[int, int]:
    """Rounds of a function of every role, with and without dealing; `marked`: between its two marks."""
    from coterie.local.threads import run_threads
    from coterie.transport import Traffic, World

    def counted(me: Party) -> Traffic:
        role(me)
        return me.channel.traffic()

    whole = Traffic.together(run_threads(World(("P0", "P1", "P2")), counted))
    if marked:
        return whole.rounds_with_dealing_per_iteration, whole.rounds_per_iteration
    return whole.rounds_with_dealing, whole.rounds


# -- the folder -------------------------------------------------------------------------------------------------------


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files and a manifest with their hashes, all or nothing."""
    from importlib.metadata import version

    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    manifest = {"made_by": MAKER, "version": version("coterie"), "files": hashes}
    with folder_for(target) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


# -- what it says -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _progress(console: Console, steps: int) -> Iterator[Progress]:
    """A bar on a terminal; events for machines; otherwise nothing."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}")
    with Bar(*columns, console=console.rich, transient=True, disable=not console.live) as bar:
        task, done = bar.add_task("", total=steps), 0

        def step(doing: str) -> None:
            nonlocal done
            bar.update(task, completed=done, description=doing)
            if console.json:
                console.say(doing, "progress", done=done, of=steps)
            done += 1

        yield step


def _summary(console: Console, example: Example, index: Path, seconds: float) -> None:
    """What was computed, how long it took, what was sent, what was disclosed to whom, and where the page is."""
    from rich.table import Table

    from coterie.report import paper
    from coterie.report.words import duration, enumerated, size

    runs = Table(box=None, pad_edge=False, header_style="bold")
    runs.add_column("secure run", no_wrap=True)
    for name in ("time", "rounds", "sent", "labels", "off by"):
        runs.add_column(name, justify="right", no_wrap=True)
    records, protocol = [], ""
    for run, verdict in zip(example.runs, example.agreements, strict=True):
        if run.protocol != protocol:
            protocol = run.protocol
            runs.add_row(protocol, style="bold")
        cells = (duration(run.seconds), str(run.traffic.rounds), size(run.sent), f"{verdict.same}/{verdict.points}")
        runs.add_row(f" {run.algorithm}", *cells, f"{verdict.off:.1e}")
        records.append(
            {
                "run": run.algorithm,
                "protocol": run.protocol,
                "partition": run.partition,
                "seconds": run.seconds,
                "iterations": run.iterations,
                "rounds": run.traffic.rounds,
                "rounds_with_dealing": run.traffic.rounds_with_dealing,
                "bytes_sent": {paper.NAMES.get(rank, rank): sent for rank, sent in run.traffic.bytes_sent.items()},
                "equal_labels": verdict.same,
                "points": verdict.points,
                "centers_apart": verdict.off,
                "same": verdict.holds,
                "disclosures": run.disclosures,
            }
        )
    console.say("The paper's example: 400 points of Alice and Bob, a helper (P0), every role a process, over TLS.\n")
    console.show(runs, "runs", runs=records)
    agreeing = sum(one.holds for one in example.agreements)
    compared = (
        "\nCompared with scikit-learn on all points in one place, from the same start: how many labels are equal, and "
        f"by how much centres are off at most.\n{agreeing} of {len(example.runs)} secure runs give the same labels and "
        f"centres (within {paper.TOLERANCE:g})."
    )
    console.say(compared, "comparison", same=agreeing, of=len(example.runs))
    console.say("\nWhat was disclosed, and to whom:")
    for name, lines in paper.disclosed(example):
        console.say(f"  {name}:", "disclosed to", run=name)
        for line in lines:
            console.say(f"    {line.sentence} ({line.when})", "disclosed", run=name, what=line.what, to=line.to)
    sent = enumerated([f"{name} {size(count)}" for name, count in example.sent.items()])
    console.say(
        f"\nTook {duration(seconds)}. Sent in all secure runs: {sent}. Rounds were counted for k = "
        f"{enumerated([str(k) for k in CLUSTERS])}.",
        "total",
        seconds=seconds,
        bytes_sent=example.sent,
    )
    console.say(f"The page: {index}", "page", path=str(index), same=example.holds)
