"""Figures as files: SVG that follows the reader's light or dark screen, and PNG for those who want one.

An SVG of a page is shown by `<img>`: nothing in it can run or load anything, and no text of it becomes a part of the
page. It paints its own ground, so that it can be read wherever it is shown.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coterie.report.palette import CARD, DARK, INK, dark_rules

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_png", "draw_svg", "read_size"]

#: Dots per inch of a PNG.
DPI = 160
#: matplotlib's settings are global: one figure at a time.
ONE_AT_A_TIME = threading.Lock()
#: A marker of a plot, as matplotlib writes it: one a line.
MARKER = re.compile(r'\s*<use xlink:href="(#\w+)" x="([\d.e-]+)" y="([\d.e-]+)" style="([^"]*)"/>')
POINTS, PIXELS = 72, 96


def draw_svg(figure: Figure, title: str = "") -> bytes:
    """A matplotlib figure as an SVG in light and in dark colours. `title`: what it shows, for those who do not see."""
    with _drawing(figure) as stream:
        figure.savefig(stream, format="svg", facecolor=CARD, metadata={"Date": None, "Creator": None, "Title": title})
    text = stream.getvalue().decode()
    text = text[text.index("<svg") :]  # neither an XML declaration nor a document type that names an address
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    style = "\n".join(
        [
            f"svg {{ fill: {INK} }}",
            "@media screen and (prefers-color-scheme: dark) {",
            f"svg {{ fill: {DARK[INK]} }}",
            *dark_rules(),
            "}",
        ]
    )
    text = text.replace("</style>", f"\n{style}\n</style>", 1)
    return "\n".join(_gather_markers(text.splitlines())).encode()


def draw_png(figure: Figure) -> bytes:
    """A matplotlib figure as a PNG, on white."""
    with _drawing(figure) as stream:
        figure.savefig(stream, format="png", dpi=DPI, facecolor=CARD, metadata={"Software": None})
    return stream.getvalue()


def read_size(svg: bytes) -> tuple[int, int]:
    """The width and the height of an SVG that was drawn here, in the pixels of a page."""
    sides = {}
    head = svg[: svg.index(b">")]
    for side in (b"width", b"height"):
        found = re.search(rb' %s="([\d.]+)pt"' % side, head)
        if found is None:
            raise ValueError("this SVG does not say how large it is")
        sides[side] = round(float(found[1]) * PIXELS / POINTS)
    return sides[b"width"], sides[b"height"]


@contextmanager
def _drawing(figure: Figure) -> Iterator[io.BytesIO]:
    """A stream to draw into, without pyplot's global state. The same figure gives the same bytes; letters are drawn as
    shapes, so that no font is missed."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with (
        ONE_AT_A_TIME,
        matplotlib.rc_context({"svg.hashsalt": "coterie", "svg.fonttype": "path"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # a name in a script that the font lacks
        FigureCanvasAgg(figure)
        yield io.BytesIO()


def _gather_markers(lines: list[str]) -> Iterator[str]:
    """Markers of one style in a group that has it: thousands of rows would say it each by itself."""
    style = ""
    for line in lines:
        marker = MARKER.fullmatch(line)
        if style and (marker is None or marker[4] != style):
            yield "</g>"
            style = ""
        if marker is None:
            yield line
            continue
        if not style:
            style = marker[4]
            yield f'<g style="{style}">'
        yield f'<use xlink:href="{marker[1]}" x="{float(marker[2]):.1f}" y="{float(marker[3]):.1f}"/>'
    if style:
        yield "</g>"
