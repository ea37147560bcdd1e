"""Pictures of clusters: centres as profiles, and rows in two dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.report import plots
from coterie.report.agreed import MOST_COLUMNS
from coterie.report.blocks import Beside, Block, Image
from coterie.report.facts import Facts
from coterie.report.formats import join_names
from coterie.report.pictures import draw_svg

__all__ = ["READING", "describe_measures", "draw_measures", "draw_profile", "draw_rows"]

Floats = NDArray[np.float64]
#: Rows drawn at most.
MOST_POINTS = 2_000


#: What a number of clusters was chosen by: its name, and how a curve of it is read.
READING = {
    "calinski-harabasz": (
        "Calinski-Harabasz index",
        "It is high where clusters are narrow and lie far apart. A clear peak says that the data fall into that many "
        "groups; a curve that only falls from two on says that they hardly fall into groups at all.",
    ),
    "silhouette": (
        "mean silhouette",
        "It is 1 where rows lie on their centres and 0 where another centre is as close. Above 0.5 clusters stand well "
        "apart; where several numbers come to about the same, the smaller is easier to explain.",
    ),
}


def draw_measures(facts: Facts) -> Image:
    """What each number of clusters that was tried comes to."""
    name, reading = READING[facts.options["choose"]]
    told = {k: value for k, value in facts.k_measures.items() if not math.isnan(value)}
    closed = [str(k) for k in facts.k_measures if k not in told]
    untold = f" It is not told for {join_names(closed)}: a cluster does not pass the output rules." if closed else ""
    return Image(
        draw_svg(plots.curve(facts.k_measures, facts.k, name)),
        f"The {name} over the number of clusters: {describe_measures(told)}. Chosen: {facts.k}.{untold}",
        f"The {name} of each number of clusters that was tried. {reading}{untold}",
    )


def describe_measures(measures: Mapping[int, float]) -> str:
    """What each number of clusters comes to, as far as that is told."""
    told = ", ".join(f"{value:.4g} for {k}" for k, value in measures.items() if not math.isnan(value))
    return told or "nothing is told, since clusters do not pass the output rules"


def draw_profile(facts: Facts, clusters: list[int]) -> Image:
    """The centres of these clusters, each as a line over the columns."""
    if facts.centers is None:
        raise ValueError("a profile needs centres")
    names = facts.center_columns[:MOST_COLUMNS]
    ranges = {column.name: (column.low, column.high) for column in facts.columns}
    low, high = np.array([ranges[name] for name in names]).T
    centers = np.array(facts.centers)[clusters][:, : len(names)]
    where = (centers - low) / np.where(high > low, high - low, 1.0)
    drawn = plots.profile(where, clusters, names, f"position in the {facts.range_name}")
    return Image(
        draw_svg(drawn),
        f"Profile of {_name_clusters(clusters)} over {_name_columns(names)}: for each cluster, where its "
        f"centre lies in the {facts.range_name} of each column. The numbers are in the table above.",
        f"The centres as profiles: where each lies in the {facts.range_name} of a column, from 0 (the low end) to 1.",
    )


def draw_rows(facts: Facts, own_values: Floats, own_labels: NDArray[Any], whose: str) -> Block:
    """Two-dimensional views of rows: by the two columns in which they spread most, and by their principal axes."""
    names = facts.center_columns or [c.name for c in facts.columns if c.holder in (None, facts.party)]
    held, values, labels = _largest_block(own_values, own_labels)
    names = [names[l] for l in held]
    partial = len(values) < len(own_values)
    values, labels = _sample(values, labels)
    of_all = "" if len(values) == len(own_values) else f" ({len(values):,} of {len(own_values):,})"
    if partial:
        of_all = f"{of_all[:-1]}, of which it holds {_name_columns(names)})"
    ranges = {column.name: column.high - column.low for column in facts.columns}
    span = np.array([ranges[name] or 1.0 for name in names])
    clusters = [j for j in range(facts.k) if not facts.closed(j)] if facts.centers is not None else []
    centers = np.array(facts.centers)[clusters][:, held] if clusters else None
    rows = _Drawn(
        values, labels, centers, clusters, names, f"{len(values):,} {whose}", f"The {whose}{of_all}", facts.range_name
    )
    if len(names) == 1:
        return _draw_histogram(rows)
    if len(names) == 2 or len(values) <= 2:
        return _draw_widest(rows, span)
    unit = np.ones(len(names))
    if facts.options.get("scale") == "bounds":
        unit = span / 2
    elif facts.options.get("scale") == "standard":
        deviations = values.std(axis=0)
        unit = np.where(deviations > 0, deviations, 1.0)
    return Beside([_draw_widest(rows, span), _draw_axes(rows, unit)])


class _Drawn(NamedTuple):
    """Rows and centres to draw, the names of their columns, and what to call the rows: in a text, and below it."""

    values: Floats
    labels: NDArray[Any]
    centers: Floats | None
    clusters: list[int]
    names: list[str]
    rows: str
    below: str
    ranges: str


def _draw_histogram(of: _Drawn) -> Image:
    known = of.centers[:, 0].tolist() if of.centers is not None else []
    name = of.names[0]
    return Image(
        draw_svg(plots.histogram(of.values[:, 0], of.labels, known, of.clusters, name)),
        f"Histogram of {name} for {of.rows}, stacked by cluster.",
        f"{of.below} by {name}; dashed lines are centres.",
    )


def _draw_widest(of: _Drawn, span: Floats) -> Image:
    """The rows by the two columns in which they spread most."""
    widest = np.sort(np.argsort(-(of.values.std(axis=0) / span), kind="stable")[:2])
    x, y = (of.names[l] for l in widest)
    centers = None if of.centers is None else of.centers[:, widest]
    return Image(
        draw_svg(plots.scatter(of.values[:, widest], of.labels, centers, of.clusters, x, y)),
        f"Scatter plot of {of.rows} by {x} and {y}, coloured by cluster"
        + (", with the centres marked." if of.clusters else "."),
        f"{of.below} by the two columns in which they spread most within the {of.ranges}"
        + ("; outlined markers are centres." if of.clusters else "."),
    )


def _draw_axes(of: _Drawn, unit: Floats) -> Image:
    """The rows along their two principal axes, in these units."""
    middle, axes, explained = plots.principal_axes(of.values / unit)
    turned = (of.values / unit - middle) @ axes.T
    centers = None if of.centers is None else (of.centers / unit - middle) @ axes.T
    x, y = f"first principal axis ({explained[0]:.0%} of the variance)", f"second ({explained[1]:.0%})"
    return Image(
        draw_svg(plots.scatter(turned, of.labels, centers, of.clusters, x, y)),
        f"Scatter plot of {of.rows} along their first two principal axes, which explain {explained.sum():.0%} of their "
        "variance, coloured by cluster.",
        f"{of.below} along their two principal axes, fitted on these rows alone.",
    )


def _largest_block(values: Floats, labels: NDArray[Any]) -> tuple[list[int], Floats, NDArray[Any]]:
    """Of a patchwork of cells, the rows of which the same columns are held, where these are the most cells."""
    present = ~np.isnan(values)
    if present.all():
        return list(range(values.shape[1])), values, labels
    kinds, kind_of, many = np.unique(present, axis=0, return_inverse=True, return_counts=True)
    best = int(np.argmax(many * kinds.sum(axis=1)))
    rows, columns = kind_of.reshape(-1) == best, np.flatnonzero(kinds[best])
    return [int(l) for l in columns], values[rows][:, columns], labels[rows]


def _sample(values: Floats, labels: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """As many rows as can be drawn, the same ones every time."""
    if len(values) <= MOST_POINTS:
        return values, labels
    chosen = np.sort(np.random.RandomState(0).choice(len(values), MOST_POINTS, replace=False))
    return values[chosen], labels[chosen]


def _name_clusters(clusters: list[int]) -> str:
    return f"cluster {clusters[0]}" if len(clusters) == 1 else f"{len(clusters)} clusters"


def _name_columns(names: list[str]) -> str:
    return join_names(names) if len(names) <= 8 else f"{len(names)} columns"
