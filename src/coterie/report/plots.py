"""Plots of what a party knows: calm, and told apart by more than their colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coterie.report.palette import CARD, CLOSED, CLUSTERS, INK, LINE, SOFT, WAITING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "MARKERS",
    "bars",
    "calm",
    "colour",
    "curve",
    "histogram",
    "iterations",
    "marker",
    "new_figure",
    "principal_axes",
    "profile",
    "scatter",
    "verbatim",
]

Floats = NDArray[np.float64]
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def colour(cluster: int) -> str:
    return CLUSTERS[cluster % len(CLUSTERS)]


def marker(cluster: int) -> str:
    """With a marker for every turn through the colours, a hundred clusters look different."""
    return MARKERS[(cluster + cluster // len(CLUSTERS)) % len(MARKERS)]


def new_figure(width: float = 6.0, height: float = 4.0) -> Figure:
    """An empty figure, in inches; wide enough for a desk and legible on a phone at this size."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def calm(axes: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Two thin axes, soft ticks, a light grid behind."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.tick_params(colors=SOFT, labelsize=10, length=3, width=0.8)
    axes.grid(color=LINE, linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.set_title(verbatim(title), loc="left", fontsize=12, color=INK, pad=10)
    axes.set_xlabel(verbatim(x), fontsize=11, color=INK)
    axes.set_ylabel(verbatim(y), fontsize=11, color=INK)
    return axes


def verbatim(text: str) -> str:
    """A name as it is: a dollar sign in it starts no formula."""
    return text.replace("$", r"\$")


def shortened(name: str, most: int) -> str:
    """A name that leaves room for the plot."""
    return name if len(name) <= most else name[: most - 1] + "…"


def curve(values: dict[int, float], chosen: int, y: str) -> Figure:
    """A measure over numbers of clusters, the chosen one marked; NaN where it is not known."""
    figure = new_figure(6.0, 3.2)
    axes = calm(figure.add_subplot(), x="number of clusters", y=y)
    axes.plot(list(values), list(values.values()), color=SOFT, linewidth=1.4, marker="o", markersize=4)
    if not np.isnan(values[chosen]):
        axes.plot([chosen], [values[chosen]], color=CLUSTERS[0], marker="D", markersize=9, linestyle="none")
        last = chosen == max(values)
        place: dict[str, Any] = {"xytext": (-8 if last else 8, 6), "ha": "right" if last else "left"}
        axes.annotate("chosen", (chosen, values[chosen]), textcoords="offset points", color=INK, fontsize=10, **place)
    axes.margins(y=0.15)
    axes.set_xticks(list(values)[:: 1 + len(values) // 20])
    return figure


# -- clusters --------------------------------------------------------------------------------------------------------


def profile(
    centers: Floats, clusters: Sequence[int], names: Sequence[str], y: str = "position in the agreed range"
) -> Figure:
    """The centres (clusters x columns), each as a line over the columns; as a map of colours where there are many.

    Values are positions in the columns' ranges, 0 to 1; `y` is what they are called.
    """
    wide = min(max(6.0, 0.42 * len(names) + 1.5), 11.0)
    ticks = range(len(names))
    labels = [verbatim(shortened(name, 18)) for name in names]
    slant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if _crowded(labels, wide) else {}
    if len(clusters) > len(CLUSTERS) or len(names) > 24:
        figure = new_figure(wide, max(3.0, 0.28 * len(clusters) + 1.6))
        axes = figure.add_subplot()
        drawn = axes.imshow(centers, aspect="auto", cmap="cividis", interpolation="nearest")
        axes.set_yticks(range(len(clusters)), [str(c) for c in clusters])
        axes.tick_params(colors=SOFT, labelsize=10, length=0)
        axes.set_ylabel("cluster", fontsize=11, color=INK)
        bar = figure.colorbar(drawn, ax=axes, pad=0.02)
        bar.set_label(y, fontsize=10, color=SOFT)
        bar.ax.tick_params(colors=SOFT, labelsize=9)
    else:
        figure = new_figure(wide, 4.2)
        axes = calm(figure.add_subplot(), y=y)
        for row, cluster in zip(centers, clusters, strict=True):
            style: dict[str, Any] = {"color": colour(cluster), "marker": marker(cluster)}
            axes.plot(ticks, row, label=str(cluster), linewidth=1.8, markersize=6, **style)
        axes.margins(x=0.06, y=0.08)
        _legend(figure)
    shown = [l for l in ticks if len(names) <= 48 or l % (len(names) // 48 + 1) == 0]
    axes.set_xticks(shown, [labels[l] for l in shown], **slant)
    return figure


def _crowded(labels: Sequence[str], width: float) -> bool:
    return max(map(len, labels), default=0) * 0.1 > 0.8 * (width - 1) / max(len(labels), 1)


def scatter(
    points: Floats, labels: NDArray[Any], centers: Floats | None, clusters: Sequence[int], x: str, y: str
) -> Figure:
    """Rows (m x 2) coloured by cluster, grey where theirs is suppressed, and on top the centres that are known."""
    figure = new_figure(6.0, 4.6)
    axes = calm(figure.add_subplot(), x=shortened(x, 60), y=shortened(y, 40))
    side = float(np.clip(2500 / max(len(points), 1), 7, 26))
    if (labels < 0).any():
        axes.scatter(
            points[labels < 0, 0],
            points[labels < 0, 1],
            s=side,
            color=CLOSED,
            linewidths=0,
            label="closed",
        )
    for cluster in sorted({int(c) for c in np.unique(labels[labels >= 0])} | set(clusters)):
        axes.scatter(
            points[labels == cluster, 0],
            points[labels == cluster, 1],
            s=side,
            color=colour(cluster),
            marker=marker(cluster),
            alpha=0.65,
            linewidths=0,
            label=str(cluster),
        )
    if centers is not None:
        for (left, up), cluster in zip(centers, clusters, strict=True):
            for edge, width in ((CARD, 4.0), (INK, 1.2)):  # an outline of ink in one of paper, to stand out
                axes.scatter(
                    left,
                    up,
                    s=110,
                    color=colour(cluster),
                    marker=marker(cluster),
                    edgecolors=edge,
                    linewidths=width,
                    zorder=4,
                )
    _legend(figure)
    return figure


def histogram(
    values: Floats, labels: NDArray[Any], centers: Sequence[float], clusters: Sequence[int], x: str
) -> Figure:
    """One column's values, stacked by cluster, with the centres that are known as dashed lines."""
    figure = new_figure(6.0, 3.6)
    axes = calm(figure.add_subplot(), x=shortened(x, 60), y="own rows")
    found = [int(c) for c in np.unique(labels)]
    edges = np.histogram_bin_edges(values, bins=min(40, max(8, int(np.sqrt(len(values))))))
    axes.hist(
        [values[labels == c] for c in found],
        bins=edges.tolist(),
        stacked=True,
        color=[CLOSED if c < 0 else colour(c) for c in found],
        label=["closed" if c < 0 else str(c) for c in found],
        edgecolor=CARD,
        linewidth=0.4,
    )
    for center, cluster in zip(centers, clusters, strict=True):
        axes.axvline(center, color=colour(cluster), linestyle="--", linewidth=1.4)
    axes.grid(False, axis="x")
    _legend(figure)
    return figure


def _legend(figure: Figure, title: str = "cluster") -> None:
    axes = figure.axes[0]
    handles, names = axes.get_legend_handles_labels()
    if not 1 < len(names) <= 30:
        return
    legend = figure.legend(
        handles,
        names,
        title=title,
        loc="outside lower center",
        ncols=min(len(names), 10),
        frameon=False,
        fontsize=10,
        labelcolor=SOFT,
        handletextpad=0.3,
        columnspacing=1.2,
    )
    legend.get_title().set(color=SOFT, fontsize=10)
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([36])
            handle.set_alpha(1)


def principal_axes(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Of rows (m x d): their mean, the two directions (2 x d) in which they vary most, and the part of the whole
    variance that each explains. Signs are chosen so that the largest entry is positive: the same on every machine."""
    middle = values.mean(axis=0)
    _, strength, directions = np.linalg.svd(values - middle, full_matrices=False)
    chosen = directions[:2]
    chosen = chosen * np.sign(chosen[np.arange(len(chosen)), np.abs(chosen).argmax(axis=1)])[:, None]
    total = float((strength**2).sum())
    return middle, chosen, strength[:2] ** 2 / (total or 1.0)


# -- time and traffic ------------------------------------------------------------------------------------------------


def iterations(worked: Sequence[float], waited: Sequence[float], first: int = 1) -> Figure:
    """A bar for each iteration: the seconds of work, and on top those of waiting. `first`: the number of the first."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(6.0, 3.4)
    axes = calm(figure.add_subplot(), x="iteration", y="seconds")
    at = np.arange(first, first + len(worked))
    wide = 0.8 if len(worked) <= 60 else 1.0
    axes.bar(at, worked, width=wide, color=CLUSTERS[0], label="computing")
    axes.bar(at, waited, width=wide, bottom=worked, color=WAITING, label="waiting for others")
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0)
    axes.set_xlim(first - 0.6, first + len(worked) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, "")
    return figure


def bars(names: Sequence[str], values: Sequence[float], written: Sequence[str], x: str) -> Figure:
    """Named values as bars, from the top down, each with what is written beside it."""
    figure = new_figure(6.0, 0.36 * len(names) + 1.0)
    axes = calm(figure.add_subplot(), x=x)
    drawn = axes.barh([verbatim(shortened(name, 30)) for name in names], values, color=CLUSTERS[0], height=0.62)
    axes.bar_label(drawn, [verbatim(text) for text in written], padding=4, fontsize=9.5, color=SOFT)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.grid(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    return figure
