"""The pictures of the paper's example, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.report import paper_figures as figures
from coterie.report.blocks import Image
from coterie.report.example import ALGORITHMS, ITERATED, Example, Floats, K, SecureRun, compare, match_clusters
from coterie.report.formats import join_names
from coterie.report.pictures import draw_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Grouped", "Picture", "draw_pictures", "find_run"]


class Picture(NamedTuple):
    """A figure of the page: its file, what it shows in words, and what to read below it."""

    file: str
    svg: bytes
    alt: str
    caption: str

    @property
    def image(self) -> Image:
        return Image(self.svg, self.alt, self.caption)


def _picture(file: str, figure: Figure, alt: str, caption: str) -> Picture:
    return Picture(file, draw_svg(figure, alt), alt, caption)


class Grouped:
    """How many points are grouped as the blobs are, in the best naming of clusters, and that naming."""

    def __init__(self, example: Example) -> None:
        blob, bobs = example.blob, example.bobs
        self.points = len(blob)
        self.pooled_names = match_clusters(example.pooled.labels, blob)
        self.pooled = int((self.pooled_names[example.pooled.labels] == blob).sum())
        self.rows_names = match_clusters(example.by_rows.labels, blob)
        hit = self.rows_names[example.by_rows.labels] == blob
        self.rows, self.alices, self.bobs = int(hit.sum()), int(hit[~bobs].sum()), int(hit[bobs].sum())
        middle = example.points[blob == K - 1].mean(axis=0)
        self.missed = float(np.linalg.norm(example.by_rows.centers - middle, axis=1).min())
        self.columns_names = match_clusters(example.by_columns.labels, blob)
        self.columns = int((self.columns_names[example.by_columns.labels] == blob).sum())
        self.tested = int((match_clusters(example.tested_by_bob, blob)[example.tested_by_bob] == blob).sum())


def draw_pictures(example: Example, grouped: Grouped) -> dict[str, Picture]:
    """All pictures, by the numbers of the paper's figures; those of rounds by algorithm."""
    drawn = _draw_whole(example, grouped) | _draw_by_rows(example, grouped) | _draw_by_columns(example, grouped)
    for key, partition in (("3c", "horizontal"), ("4d", "vertical")):
        run = find_run(example, partition)
        if run is not None:
            drawn[key] = _draw_run(example, grouped, key, run)
    if example.counted:
        drawn |= {key: _draw_rounds(example, key) for key in ITERATED}
    return drawn


def _draw_whole(example: Example, grouped: Grouped) -> dict[str, Picture]:
    points, centers, of = example.points, example.pooled.centers, grouped.points
    return {
        "1": _picture(
            "figure-1-partitions.svg",
            figures.partitions(),
            "Three drawings of one table: held whole by one party; cut between Alice and Bob by rows; cut by columns.",
            "Figure 1 of the paper: the same table in one place, split by rows, split by columns.",
        ),
        "2a": _picture(
            "figure-2a-ground-truth.svg",
            figures.plane(points, example.blob),
            f"Scatter plot of {of} points in four separate round blobs, each in a colour of its own.",
            "Figure 2a, ground truth: each colour is the blob that a point was drawn from.",
        ),
        "2b": _picture(
            "figure-2b-centralised.svg",
            figures.plane(points, grouped.pooled_names[example.pooled.labels], centers),
            f"The same points coloured by k-means on all of them; one centre in each blob, at {_places(centers)}.",
            f"Figure 2b, centralised k-means: {grouped.pooled} of {of} points are grouped as they were drawn.",
        ),
    }


def _draw_by_rows(example: Example, grouped: Grouped) -> dict[str, Picture]:
    points, bobs, own = example.points, example.bobs, example.by_rows.centers
    return {
        "3a": _picture(
            "figure-3a-split-by-rows.svg",
            figures.holders(points, bobs),
            "The same points by holder. Alice's circles fill the two blobs on the right and are few at the top left; "
            "Bob's triangles fill the two blobs on the left and are few on the right.",
            f"Figure 3a: {int((~bobs).sum())} points are Alice's, {int(bobs.sum())} are Bob's.",
        ),
        "3b": _picture(
            "figure-3b-alice-alone.svg",
            figures.plane(points, grouped.rows_names[example.by_rows.labels], own, bobs),
            f"The points coloured by the four centres that Alice finds in her own: {_places(own)}. The nearest of them "
            f"to the blob at the bottom left is {grouped.missed:.1f} away from its middle.",
            f"Figure 3b, Alice alone: she trains, Bob applies her centres. Grouped as drawn: {grouped.alices} of her "
            f"points and {grouped.bobs} of Bob's.",
        ),
    }


def _draw_by_columns(example: Example, grouped: Grouped) -> dict[str, Picture]:
    points, of, on_line = example.points, grouped.points, example.by_columns.centers[:, 0]
    line = join_names([f"{v:.1f}" for v in np.sort(on_line)])
    trained, tested = grouped.columns_names[example.by_columns.labels], grouped.columns_names[example.tested_by_bob]
    return {
        "4a": _picture(
            "figure-4a-split-by-columns.svg",
            figures.views(points),
            "The points in grey, with two lines of ticks: below, their first coordinates, as Alice sees them; on the "
            "right, their second coordinates, as Bob sees them. On either line, blobs lie on top of each other.",
            "Figure 4a: Alice has the first column of every point, Bob the second. Either sees a line.",
        ),
        "4b": _picture(
            "figure-4b-alice-trains.svg",
            figures.column(points[:, 0], trained, on_line, "first column: Alice's values"),
            f"Histogram of Alice's column in two heaps, each cut in two by her clusters; centres at {line}.",
            f"Figure 4b, Alice trains on her column: {grouped.columns} of {of} points are grouped as drawn.",
        ),
        "4c": _picture(
            "figure-4c-bob-tests.svg",
            figures.column(points[:, 1], tested, on_line, "second column: Bob's values"),
            f"Histogram of Bob's column, coloured by the nearest of Alice's centres at {line}, which have nothing to "
            "do with where his values lie.",
            f"Figure 4c, Bob tests with Alice's centres: {grouped.tested} of {of} points are grouped as drawn.",
        ),
    }


def _draw_run(example: Example, grouped: Grouped, key: str, run: SecureRun) -> Picture:
    match = compare(run.found, example.pooled)
    equal = f"{match.same} of {match.points} labels equal, centres at most {match.off:.1e} apart"
    return _picture(
        f"figure-{key}-secure.svg",
        figures.plane(example.points, grouped.pooled_names[run.found.labels], run.found.centers),
        f"The points coloured by the clusters of {run.algorithm}, with its centres: {equal}.",
        f"Beside Figure {key[0]}, {run.algorithm} with {run.protocol}: {equal}.",
    )


def _draw_rounds(example: Example, key: str) -> Picture:
    row = ALGORITHMS[key]
    own = sorted((one for one in example.counted if one.algorithm == key), key=lambda one: one.k)
    every = range(own[0].k, own[-1].k + 1)
    lines: list[tuple[str, Sequence[int], Sequence[int]]] = [("paper", every, [row.rounds(k) for k in every])]
    for protocol in ("securenn", "onetime"):
        part = [one for one in own if one.protocol == protocol]
        ks = [one.k for one in part]
        lines.append((f"{protocol}, with dealing", ks, [one.with_dealing for one in part]))
        lines.append((protocol, ks, [one.rounds for one in part]))
    ends = "; ".join(f"{name} from {counted[0]} to {counted[-1]}" for name, _, counted in lines)
    return _picture(
        f"figure-6-rounds-{key.lower().replace(' ', '-')}.svg",
        figures.rounds(f"{row.name} (paper: {row.formula})", lines),
        f"Line chart of the rounds an iteration of {row.name} over k, from k = {every[0]} to {every[-1]}: {ends}.",
        f"Figure 6, {row.name}: rounds an iteration over the number of clusters.",
    )


def _places(centers: Floats) -> str:
    return join_names([f"({x:.1f}, {y:.1f})" for x, y in centers])


def find_run(example: Example, partition: str) -> SecureRun | None:
    """The run that stands beside the paper's figure: SHK-means by rows, SVK-means by columns."""
    wanted = [run for run in example.runs if run.partition == partition]
    return next((run for run in wanted if partition == "horizontal" or run.algorithm.startswith("SVK")), None)
