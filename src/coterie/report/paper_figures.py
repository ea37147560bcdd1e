"""The paper's figures, drawn again from a run: every function gives one matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coterie.report.palette import ALICE, BOB, CARD, CENTER, CLOSED, CLUSTERS, INK, LINE, NOBODY, SOFT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["column", "holders", "partitions", "plane", "rounds", "views"]

Floats = NDArray[np.float64]
Ints = NDArray[Any]

COLOURS = (CLUSTERS[4], CLUSTERS[0], CLUSTERS[2], CLUSTERS[3])
LIMITS = (-9.0, 9.0)
SIZE = (3.6, 3.5)


def plane(points: Floats, colour: Ints, centers: Floats | None = None, bobs: NDArray[np.bool_] | None = None) -> Figure:
    """Points in the plane by colour number, and centres. `bobs`: these are triangles, the others circles."""
    figure, axes = _panel()
    _scatter(axes, points, colour, bobs)
    if centers is not None:
        _centers(axes, centers[:, 0], centers[:, 1])
    shapes = [("o", "points")] if bobs is None else [("o", "Alice's points"), ("^", "Bob's points")]
    _legend(axes, [(marker, NOBODY, name) for marker, name in shapes], centers is not None)
    return figure


def holders(points: Floats, bobs: NDArray[np.bool_]) -> Figure:
    """Who holds which points."""
    figure, axes = _panel()
    for own, colour, marker in ((~bobs, ALICE, "o"), (bobs, BOB, "^")):
        axes.scatter(points[own, 0], points[own, 1], s=16, c=colour, marker=marker, alpha=0.75, linewidths=0)
    _legend(axes, [("o", ALICE, "Alice"), ("^", BOB, "Bob")], False)
    return figure


def views(points: Floats) -> Figure:
    """The points that nobody sees, and beside the axes the line that each party sees of them."""
    figure = _figure()
    grid = figure.add_gridspec(2, 2, width_ratios=(6, 1), height_ratios=(6, 1), wspace=0.08, hspace=0.08)
    axes = figure.add_subplot(grid[0, 0])
    below, right = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[0, 1])
    axes.scatter(points[:, 0], points[:, 1], s=12, c=CLOSED, linewidths=0)
    axes.set(xlim=LIMITS, ylim=LIMITS, xticks=[])
    axes.set_ylabel("second column", fontsize=8)
    below.plot(points[:, 0], np.zeros(len(points)), "|", color=ALICE, markersize=11, alpha=0.5, markeredgewidth=0.8)
    below.set(xlim=LIMITS, yticks=[])
    below.set_xlabel("first column: Alice's view", fontsize=8, color=ALICE)
    right.plot(np.zeros(len(points)), points[:, 1], "_", color=BOB, markersize=11, alpha=0.5, markeredgewidth=0.8)
    right.set(ylim=LIMITS, xticks=[], yticks=[])
    right.yaxis.set_label_position("right")
    right.set_ylabel("Bob's view", fontsize=8, color=BOB)
    for one in (axes, below, right):
        _plain(one)
    return figure


def column(values: Floats, colour: Ints, centers: Floats, name: str) -> Figure:
    """How many of one column's values lie where, by colour number; the centres are balls on the line."""
    figure, axes = _panel()
    edges = np.linspace(*LIMITS, 37)
    below = np.zeros(len(edges) - 1)
    for c, ink in enumerate(COLOURS):
        counts = np.histogram(values[colour == c], edges)[0]
        axes.bar(edges[:-1], counts, np.diff(edges), below, align="edge", color=ink, linewidth=0)
        below += counts
    top = float(below.max())
    axes.set_ylim(-0.09 * top, 1.08 * top)
    axes.axhline(0, color=INK, linewidth=0.8)
    _centers(axes, centers, np.full(len(centers), -0.035 * top))
    axes.set_xlabel(name, fontsize=8)
    axes.set_ylabel("points", fontsize=8)
    _legend(axes, [], True)
    return figure


def partitions() -> Figure:
    """The paper's Figure 1: one table, whole, cut by rows, cut by columns."""
    from matplotlib.patches import Rectangle

    figure = _figure((5.4, 2.1))
    titles = ("all in one place", "by rows", "by columns")
    for at, title in enumerate(titles):
        axes = figure.add_subplot(1, 3, at + 1)
        for row in range(6):
            for place in range(4):
                alices = at == 0 or (row < 3 if at == 1 else place < 2)
                fill = NOBODY if at == 0 else ALICE if alices else BOB
                gap_y = 0.35 if at == 1 and row >= 3 else 0.0
                gap_x = 0.35 if at == 2 and place >= 2 else 0.0
                axes.add_patch(Rectangle((place + gap_x, -row - gap_y), 0.9, 0.9, color=fill, alpha=0.75, linewidth=0))
        if at == 1:
            axes.text(4.2, -1.0, "Alice", color=ALICE, fontsize=9, va="center")
            axes.text(4.2, -4.4, "Bob", color=BOB, fontsize=9, va="center")
        if at == 2:
            axes.text(1.0, 1.15, "Alice", color=ALICE, fontsize=9, ha="center")
            axes.text(3.3, 1.15, "Bob", color=BOB, fontsize=9, ha="center")
        axes.set(xlim=(-0.3, 5.6), ylim=(-5.8, 1.9))
        axes.set_title(title, fontsize=10, color=INK)
        axes.axis("off")
    return figure


def rounds(title: str, lines: Sequence[tuple[str, Sequence[int], Sequence[int]]]) -> Figure:
    """Rounds an iteration over k; each line is a name, the k and the rounds."""
    from matplotlib.ticker import MaxNLocator

    styles: dict[str, dict[str, Any]] = {
        "paper": {"color": INK, "linestyle": ":", "marker": ""},
        "securenn, with dealing": {"color": COLOURS[1], "marker": "s"},
        "securenn": {"color": COLOURS[1], "linestyle": "--", "marker": "s", "markerfacecolor": CARD},
        "onetime, with dealing": {"color": COLOURS[0], "marker": "o"},
        "onetime": {"color": COLOURS[0], "linestyle": "--", "marker": "o", "markerfacecolor": CARD},
    }
    figure = _figure((3.6, 3.9))
    axes = figure.add_subplot()
    for name, k, counted in lines:
        axes.plot(k, counted, markersize=4.5, linewidth=1.4, label=name, **styles[name])
    axes.set_xlabel("clusters (k)", fontsize=8)
    axes.set_ylabel("rounds an iteration", fontsize=8)
    axes.set_ylim(0, 1.08 * max(max(counted) for _, _, counted in lines))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color=LINE, linewidth=0.7)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False, columnspacing=1.2)
    axes.set_title(title, fontsize=9, color=INK)
    _plain(axes)
    return figure


def _figure(size: tuple[float, float] = SIZE) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def _panel() -> tuple[Figure, Axes]:
    figure = _figure()
    axes = figure.add_subplot()
    axes.set(xlim=LIMITS, ylim=LIMITS)
    _plain(axes)
    return figure, axes


def _plain(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(CLOSED)
    axes.tick_params(labelsize=8, colors=SOFT, length=3)


def _scatter(axes: Axes, points: Floats, colour: Ints, bobs: NDArray[np.bool_] | None) -> None:
    inks = np.array(COLOURS)[colour]
    for own, marker in ((np.ones(len(points), bool), "o"),) if bobs is None else ((~bobs, "o"), (bobs, "^")):
        axes.scatter(points[own, 0], points[own, 1], s=16, c=inks[own], marker=marker, alpha=0.75, linewidths=0)


def _centers(axes: Axes, x: Floats, y: Floats) -> None:
    axes.scatter(x, y, s=62, c=CENTER, edgecolors=INK, linewidths=1.1, zorder=5, clip_on=False)


def _legend(axes: Axes, entries: Sequence[tuple[str, str, str]], centers: bool) -> None:
    from matplotlib.lines import Line2D

    shown = [(Line2D([], [], linestyle="", marker=m, color=c, markersize=5), name) for m, c, name in entries]
    if centers:
        ball = Line2D([], [], linestyle="", marker="o", markersize=7, markerfacecolor=CENTER, markeredgecolor=INK)
        shown.append((ball, "centres"))
    handles, names = zip(*shown, strict=True)
    axes.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False,
                handletextpad=0.2, columnspacing=1.2)  # fmt: skip
