"""The paper's example and its page: the points, what somebody alone concludes of them, and whether secure runs agree
with k-means on all of them.

Nothing here runs a protocol: the command `coterie demo` does, and fills in an `Example`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.report import paper_figures as figures
from coterie.report.page import image, picture, render, table, tiles
from coterie.report.words import Told, duration, enumerated, size, told

if TYPE_CHECKING:
    from markupsafe import Markup

    from coterie.sharing import Disclosure
    from coterie.transport import Traffic

__all__ = [
    "ALGORITHMS",
    "Agreement",
    "Counted",
    "Example",
    "Found",
    "Pooled",
    "SecureRun",
    "agreement",
    "alone",
    "disclosed",
    "example",
    "matched",
    "page",
    "paper_points",
    "pooled",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEANS = ((5.0, 3.0), (5.0, -5.0), (-5.0, 5.0), (-3.0, -5.0))
K = len(MEANS)
#: How many of the 100 points of each blob are Alice's; the others are Bob's. Of the last one she has none.
ALICES = (96, 84, 20, 0)
#: What the columns' agreed ranges are: every point lies inside.
BOUNDS = ((-10.0, 10.0), (-10.0, 10.0))
#: Centres count as the same where no coordinate differs by more: a thousandth of a blob's standard deviation.
TOLERANCE = 1e-3
NAMES = {"P0": "P0", "P1": "Alice", "P2": "Bob"}


class Algorithm(NamedTuple):
    """A row of the paper's table of rounds, and the options that run it here (none: a part of the others)."""

    name: str
    formula: str
    rounds: Callable[[int], int]
    options: dict[str, str]


#: The paper's table "Communication rounds for each protocol"; the last three are rounds an iteration.
ALGORITHMS = {
    "ElementWiseMatMul": Algorithm("ElementWiseMatMul", "2", lambda _: 2, {}),
    "MatDist": Algorithm("MatDist", "2", lambda _: 2, {}),
    "LabelSamples": Algorithm("LabelSamples", "2k + 8", lambda k: 2 * k + 8, {}),
    "SHK secret": Algorithm("SHK-means, sizes secret", "2k + 150", lambda k: 2 * k + 150, {"counts": "secret"}),
    "SHK revealed": Algorithm("SHK-means, sizes revealed", "2k + 20", lambda k: 2 * k + 20, {"counts": "revealed"}),
    "SVK": Algorithm("SVK-means", "9k", lambda k: 9 * k, {"partition": "vertical", "labels": "revealed"}),
}
ITERATED = ("SHK secret", "SHK revealed", "SVK")


@dataclass(frozen=True)
class Found:
    """The cluster of every point, and the centres (one column where only one was looked at)."""

    labels: Ints
    centers: Floats


@dataclass(frozen=True)
class Pooled(Found):
    """k-means on all points in one place, by scikit-learn."""

    iterations: int


@dataclass(frozen=True)
class SecureRun:
    """One secure run between processes, and what it took. `disclosures` is its log, as it was written."""

    algorithm: str
    protocol: str
    partition: str
    found: Found
    iterations: int
    seconds: float
    traffic: Traffic
    disclosures: list[Disclosure]

    @property
    def sent(self) -> int:
        return sum(self.traffic.bytes_sent.values())


class Counted(NamedTuple):
    """Rounds as counted at the channel, both ways."""

    algorithm: str
    protocol: str
    k: int
    with_dealing: int
    rounds: int


class Agreement(NamedTuple):
    """How a result compares with the centralised one: points of the same label, of how many; and the largest
    difference of a centre's coordinate."""

    same: int
    points: int
    off: float

    @property
    def holds(self) -> bool:
        return self.same == self.points and self.off <= TOLERANCE


@dataclass
class Example:
    """Everything that the page shows."""

    points: Floats
    blob: Ints
    bobs: NDArray[np.bool_]
    pooled: Pooled
    by_rows: Found
    by_columns: Found
    tested_by_bob: Ints
    start: Sequence[int]
    runs: list[SecureRun] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def agreements(self) -> list[Agreement]:
        return [agreement(run.found, self.pooled) for run in self.runs]

    @property
    def holds(self) -> bool:
        """Did every secure run give the centralised result?"""
        return bool(self.runs) and all(one.holds for one in self.agreements)

    @property
    def sent(self) -> dict[str, int]:
        """Bytes by name, over all secure runs."""
        return {name: sum(run.traffic.bytes_sent.get(rank, 0) for run in self.runs) for rank, name in NAMES.items()}


# -- the points, and what can be concluded without the others ---------------------------------------------------------


def paper_points(seed: int = 0) -> tuple[Floats, Ints, NDArray[np.bool_]]:
    """400 points, the blob of each, and which are Bob's: Alice's 200 first, either's in random order."""
    random = np.random.RandomState(seed)
    blobs = [random.normal(mean, 1.0, (100, 2)) for mean in MEANS]
    alices = np.concatenate([blob[:count] for blob, count in zip(blobs, ALICES, strict=True)])
    bobs = np.concatenate([blob[count:] for blob, count in zip(blobs, ALICES, strict=True)])
    blob = np.concatenate([np.repeat(np.arange(K), ALICES), np.repeat(np.arange(K), 100 - np.array(ALICES))])
    split = len(alices)
    order = np.concatenate([random.permutation(split), split + random.permutation(len(bobs))])
    points = np.concatenate([alices, bobs])[order]
    return points, blob[order], np.arange(len(points)) >= split


def pooled(points: Floats, start: Sequence[int]) -> Pooled:
    """k-means by scikit-learn with all points in one place, from the rows that the secure runs start from."""
    from sklearn.cluster import KMeans

    rows = points[list(start)]
    model = KMeans(len(rows), init=rows, n_init=1, algorithm="lloyd", tol=0).fit(points)
    return Pooled(model.labels_.astype(np.int64), model.cluster_centers_, int(model.n_iter_))


def alone(own: Floats, others: Floats) -> tuple[Found, Ints]:
    """The best of ten starts of k-means on one's own rows, and where the others' rows land in it."""
    from sklearn.cluster import KMeans

    model = KMeans(K, n_init=10, random_state=0).fit(own)
    return Found(model.labels_.astype(np.int64), model.cluster_centers_), model.predict(others).astype(np.int64)


def agreement(found: Found, reference: Found) -> Agreement:
    """Compare label by label and centre by centre; no renaming of clusters."""
    same = int((found.labels == reference.labels).sum())
    return Agreement(same, len(reference.labels), float(np.abs(found.centers - reference.centers).max()))


def matched(labels: Ints, blob: Ints) -> Ints:
    """The blob that each cluster stands for, in the naming of clusters that gets most points right."""
    hits = np.array([[((labels == c) & (blob == b)).sum() for b in range(K)] for c in range(K)])
    return np.array(max(permutations(range(K)), key=lambda named: int(hits[range(K), named].sum())))


def example(points: Floats, blob: Ints, bobs: NDArray[np.bool_], start: Sequence[int]) -> Example:
    """All that needs no secure run."""
    own, landed = alone(points[~bobs], points[bobs])
    by_rows = Found(np.concatenate([own.labels, landed]), own.centers)  # Alice's rows come first
    by_columns, tested = alone(points[:, :1], points[:, 1:])
    return Example(points, blob, bobs, pooled(points, start), by_rows, by_columns, tested, start)


# -- the page ---------------------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    """A figure of the page: its file, what it shows in words, and what to read below it."""

    file: str
    png: bytes
    alt: str
    caption: str

    @property
    def html(self) -> Markup:
        return image(self.png, self.alt, self.caption)


def page(example: Example) -> tuple[str, dict[str, bytes]]:
    """The page, and the pictures in it as PNG files by name."""
    right = _Right(example)
    drawn = _pictures(example, right)
    shown = {key: one.html for key, one in drawn.items()}
    ks = sorted({one.k for one in example.counted if one.algorithm in ITERATED})
    html = render(
        "paper.html",
        title="The paper's example, run",
        eyebrow="Coterie demo",
        lede="Four blobs of 100 points, held by Alice and Bob. What each concludes alone, what k-means finds with all "
        "points in one place, and what secure k-means finds while nobody's points leave home.",
        contents=[
            ("whole", "All data in one place"),
            ("rows", "Split by rows"),
            ("columns", "Split by columns"),
            ("runs", "Every secure run"),
            ("told", "Who learnt what"),
            ("rounds", "Rounds"),
        ],
        footer=_footer(example),
        holds=example.holds,
        tolerance=f"{TOLERANCE:g}",
        key_figures=_key_figures(example),
        shown=shown,
        right=right,
        example=example,
        first=_first(example, "horizontal"),
        second=_first(example, "vertical"),
        alices=ALICES,
        runs=_runs_table(example),
        log=disclosed(example),
        alike=len(disclosed(example)) == len({run.algorithm for run in example.runs}),
        centers=_centers_table(example),
        paper_table=_paper_table(example),
        rounds_table=_rounds_table(example, ks),
        sent=enumerated([f"{name} sent {size(count)}" for name, count in example.sent.items()]),
        ks=enumerated([str(k) for k in ks]),
        fewest=_fewest(example),
        dealing_costs_nothing=all(
            one.rounds == one.with_dealing
            for one in example.counted
            if one.algorithm in ITERATED and one.protocol == "onetime"
        ),
    )
    return html, {one.file: one.png for one in drawn.values()}


class _Right:
    """How many points are grouped as the blobs are, in the best naming of clusters, and that naming."""

    def __init__(self, example: Example) -> None:
        blob, bobs = example.blob, example.bobs
        self.points = len(blob)
        self.pooled_names = matched(example.pooled.labels, blob)
        self.pooled = int((self.pooled_names[example.pooled.labels] == blob).sum())
        self.rows_names = matched(example.by_rows.labels, blob)
        hit = self.rows_names[example.by_rows.labels] == blob
        self.rows, self.alices, self.bobs = int(hit.sum()), int(hit[~bobs].sum()), int(hit[bobs].sum())
        middle = example.points[blob == K - 1].mean(axis=0)
        self.missed = float(np.linalg.norm(example.by_rows.centers - middle, axis=1).min())
        self.columns_names = matched(example.by_columns.labels, blob)
        self.columns = int((self.columns_names[example.by_columns.labels] == blob).sum())
        self.tested = int((matched(example.tested_by_bob, blob)[example.tested_by_bob] == blob).sum())


def _pictures(example: Example, right: _Right) -> dict[str, Picture]:
    points, bobs, of = example.points, example.bobs, right.points
    centers = example.pooled.centers
    own, on_line = example.by_rows.centers, example.by_columns.centers[:, 0]
    line = enumerated([f"{v:.1f}" for v in np.sort(on_line)])
    trained, tested = right.columns_names[example.by_columns.labels], right.columns_names[example.tested_by_bob]
    drawn = {
        "1": Picture(
            "figure-1-partitions.png",
            picture(figures.partitions()),
            "Three drawings of one table: held whole by one party; cut between Alice and Bob by rows; cut by columns.",
            "Figure 1 of the paper: the same table in one place, split by rows, split by columns.",
        ),
        "2a": Picture(
            "figure-2a-ground-truth.png",
            picture(figures.plane(points, example.blob)),
            f"Scatter plot of {of} points in four separate round blobs, each in a colour of its own.",
            "Figure 2a, ground truth: each colour is the blob that a point was drawn from.",
        ),
        "2b": Picture(
            "figure-2b-centralised.png",
            picture(figures.plane(points, right.pooled_names[example.pooled.labels], centers)),
            f"The same points coloured by k-means on all of them; one centre in each blob, at {_places(centers)}.",
            f"Figure 2b, centralised k-means: {right.pooled} of {of} points are grouped as they were drawn.",
        ),
        "3a": Picture(
            "figure-3a-split-by-rows.png",
            picture(figures.holders(points, bobs)),
            "The same points by holder. Alice's circles fill the two blobs on the right and are few at the top left; "
            "Bob's triangles fill the two blobs on the left and are few on the right.",
            f"Figure 3a: {int((~bobs).sum())} points are Alice's, {int(bobs.sum())} are Bob's.",
        ),
        "3b": Picture(
            "figure-3b-alice-alone.png",
            picture(figures.plane(points, right.rows_names[example.by_rows.labels], own, bobs)),
            f"The points coloured by the four centres that Alice finds in her own: "
            f"{_places(own)}. The nearest of them to the blob at the bottom left is {right.missed:.1f} away from its "
            "middle.",
            f"Figure 3b, Alice alone: she trains, Bob applies her centres. Grouped as drawn: {right.alices} of her "
            f"points and {right.bobs} of Bob's.",
        ),
        "4a": Picture(
            "figure-4a-split-by-columns.png",
            picture(figures.views(points)),
            "The points in grey, with two lines of ticks: below, their first coordinates, as Alice sees them; on the "
            "right, their second coordinates, as Bob sees them. On either line, blobs lie on top of each other.",
            "Figure 4a: Alice has the first column of every point, Bob the second. Either sees a line.",
        ),
        "4b": Picture(
            "figure-4b-alice-trains.png",
            picture(figures.column(points[:, 0], trained, on_line, "first column: Alice's values")),
            f"Histogram of Alice's column in two heaps, each cut in two by her clusters; centres at {line}.",
            f"Figure 4b, Alice trains on her column: {right.columns} of {of} points are grouped as drawn.",
        ),
        "4c": Picture(
            "figure-4c-bob-tests.png",
            picture(figures.column(points[:, 1], tested, on_line, "second column: Bob's values")),
            f"Histogram of Bob's column, coloured by the nearest of Alice's centres at {line}, which have nothing to "
            "do with where his values lie.",
            f"Figure 4c, Bob tests with Alice's centres: {right.tested} of {of} points are grouped as drawn.",
        ),
    }
    for key, partition, number in (("3c", "horizontal", "3"), ("4d", "vertical", "4")):
        run = _first(example, partition)
        if run is not None:
            verdict = agreement(run.found, example.pooled)
            drawn[key] = Picture(
                f"figure-{key}-secure.png",
                picture(figures.plane(points, right.pooled_names[run.found.labels], run.found.centers)),
                f"The points coloured by the clusters of {run.algorithm}, with its centres: {_compared(verdict)}.",
                f"Beside Figure {number}, {run.algorithm} with {run.protocol}: {_compared(verdict)}.",
            )
    if example.counted:
        drawn |= {key: _rounds_picture(example, key) for key in ITERATED}
    return drawn


def _rounds_picture(example: Example, key: str) -> Picture:
    row = ALGORITHMS[key]
    own = sorted((one for one in example.counted if one.algorithm == key), key=_k)
    every = range(own[0].k, own[-1].k + 1)
    lines: list[tuple[str, Sequence[int], Sequence[int]]] = [("paper", every, [row.rounds(k) for k in every])]
    for protocol in ("securenn", "onetime"):
        part = [one for one in own if one.protocol == protocol]
        ks = [one.k for one in part]
        lines.append((f"{protocol}, with dealing", ks, [one.with_dealing for one in part]))
        lines.append((protocol, ks, [one.rounds for one in part]))
    ends = "; ".join(f"{name} from {counted[0]} to {counted[-1]}" for name, _, counted in lines)
    return Picture(
        f"figure-6-rounds-{key.lower().replace(' ', '-')}.png",
        picture(figures.rounds(f"{row.name} (paper: {row.formula})", lines)),
        f"Line chart of the rounds an iteration of {row.name} over k, from k = {every[0]} to {every[-1]}: {ends}.",
        f"Figure 6, {row.name}: rounds an iteration over the number of clusters.",
    )


def _places(centers: Floats) -> str:
    return enumerated([f"({x:.1f}, {y:.1f})" for x, y in centers])


def _k(one: Counted) -> int:
    return one.k


def _first(example: Example, partition: str) -> SecureRun | None:
    """The run that stands beside the paper's figure: SHK-means by rows, SVK-means by columns."""
    wanted = [run for run in example.runs if run.partition == partition]
    return next((run for run in wanted if partition == "horizontal" or run.algorithm.startswith("SVK")), None)


def disclosed(example: Example) -> list[tuple[str, list[Told]]]:
    """What was opened, in words: by algorithm, and by family too where they disclosed different things."""
    told_by: dict[str, dict[str, list[Told]]] = {}
    for run in example.runs:
        told_by.setdefault(run.algorithm, {})[run.protocol] = _sentences(run)
    found = []
    for algorithm, families in told_by.items():
        lines = list(families.values())
        if all(one == lines[0] for one in lines):
            found.append((algorithm, lines[0]))
        else:
            found += [(f"{algorithm}, {family}", own) for family, own in families.items()]
    return found


def _compared(verdict: Agreement) -> str:
    return f"{verdict.same} of {verdict.points} labels equal, centres at most {verdict.off:.1e} apart"


def _sentences(run: SecureRun) -> list[Told]:
    entries = [msgspec.structs.replace(e, to=tuple(NAMES.get(name, name) for name in e.to)) for e in run.disclosures]
    return told(entries, "P0", ("Alice", "Bob"))


def _key_figures(example: Example) -> Markup:
    agreements = example.agreements
    off = max((one.off for one in agreements), default=0.0)
    agreeing = f"{sum(one.holds for one in agreements)} of {len(agreements)}"
    return tiles(
        [
            ("secure runs that agree", agreeing, "labels and centres as the centralised ones"),
            ("labels that differ", sum(one.points - one.same for one in agreements), "over all secure runs"),
            ("centres apart", f"{off:.1e}", "the largest difference of any coordinate"),
            ("sent", size(sum(example.sent.values())), "over all secure runs, by all roles"),
            ("computing took", duration(example.seconds), "everything on this page"),
        ]
    )


def _runs_table(example: Example) -> Markup:
    from markupsafe import Markup

    head = ["run", "protocol", "time", "iterations", "rounds", "sent", "equal labels", "centres apart", "verdict"]
    rows = []
    for run, verdict in zip(example.runs, example.agreements, strict=True):
        word = Markup('<span class="good">same</span>') if verdict.holds else Markup('<span class="bad">differs</span>')
        equal = f"{verdict.same} of {verdict.points}"
        rounds = run.traffic.rounds
        cells = [duration(run.seconds), run.iterations, rounds, size(run.sent), equal, f"{verdict.off:.1e}", word]
        rows.append([run.algorithm, run.protocol, *cells])
    return table(head, rows, numeric=range(2, 8), caption="Each run against centralised k-means from the same start.")


def _centers_table(example: Example) -> Markup:
    """The centres of the first secure run of either partition, beside the centralised ones."""
    shown = [run for run in (_first(example, "horizontal"), _first(example, "vertical")) if run is not None]
    head = ["centre", "centralised", *(f"{run.algorithm}, {run.protocol}" for run in shown)]

    def place(center: Any) -> str:
        return f"({center[0]:.5f}, {center[1]:.5f})"

    rows = [
        [f"{c + 1}", place(example.pooled.centers[c]), *(place(run.found.centers[c]) for run in shown)]
        for c in range(len(example.pooled.centers))
    ]
    return table(head, rows, numeric=range(1, len(head)), caption="Centres, to five places.")


def _paper_table(example: Example) -> Markup:
    """The paper's table at one k, with every protocol in it."""
    parts = {one.k for one in example.counted if one.algorithm not in ITERATED}
    k = min(parts or {one.k for one in example.counted})
    rows = []
    for key, row in ALGORITHMS.items():
        name = f"{row.name}, an iteration" if key in ITERATED else row.name
        rows.append([name, row.formula, row.rounds(k), *_both_ways(example, key, k)])
    caption = f"The paper's table of rounds, and what was counted at k = {k}."
    return table(["protocol", "paper", f"paper, k = {k}", *BOTH_WAYS], rows, numeric=range(1, 7), caption=caption)


def _rounds_table(example: Example, ks: Sequence[int]) -> Markup:
    counted = [(ALGORITHMS[key], k, _both_ways(example, key, k)) for key in ITERATED for k in ks]
    rows = [[row.name, k, row.rounds(k), *both] for row, k, both in counted]
    caption = "Rounds an iteration: the paper's formula, and as counted."
    return table(["an iteration of", "k", "paper", *BOTH_WAYS], rows, numeric=range(1, 7), caption=caption)


BOTH_WAYS = ("securenn, with dealing", "securenn", "onetime, with dealing", "onetime")


def _both_ways(example: Example, algorithm: str, k: int) -> list[int | None]:
    cells: list[int | None] = []
    for protocol in ("securenn", "onetime"):
        own = [one for one in example.counted if (one.algorithm, one.protocol, one.k) == (algorithm, protocol, k)]
        cells += [own[0].with_dealing, own[0].rounds] if own else [None, None]
    return cells


def _fewest(example: Example) -> str:
    """What comparing all pairs at once makes of the rounds, where it was counted."""
    found = [one for one in example.counted if one.protocol == "onetime, all pairs"]
    return enumerated([f"{one.rounds} rounds at k = {one.k}" for one in sorted(found, key=_k)]) if found else ""


def _footer(example: Example) -> str:
    from importlib.metadata import version

    named = ", ".join(f"{name} {version(name)}" for name in ("coterie", "scikit-learn", "numpy"))
    return (
        f"Made by coterie demo with {named} and Python {platform.python_version()} on {platform.machine()}, in "
        f"{duration(example.seconds)}. After: Hurtado Ramírez and Auñón, Privacy Preserving k-means clustering: A "
        "secure multi-party computation approach (arXiv 2009.10453)."
    )
