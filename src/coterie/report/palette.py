"""The colours of figures: each on light paper and on dark.

A figure is drawn in the light ones. `dark_rules` are the rules by which an SVG changes them where the reader prefers a
dark screen; a colour that is not listed here would stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = [
    "ALICE",
    "BOB",
    "CARD",
    "CENTER",
    "CLOSED",
    "CLUSTERS",
    "DARK",
    "INK",
    "LINE",
    "NOBODY",
    "SOFT",
    "WAITING",
    "dark_rules",
]

CARD, INK, SOFT, LINE = "#ffffff", "#22262b", "#5d646d", "#dcd9d0"
#: Rows of clusters that stay closed; what belongs to nobody in particular; time spent waiting.
CLOSED, NOBODY, WAITING = "#b5b5b5", "#8a9097", "#c9c5ba"
#: One per cluster, told apart by colour-blind readers too (Okabe and Ito, and three of Tol's).
CLUSTERS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#882255",
    "#999933",
    "#332288",
    "#5d646d",
)
#: The two parties of the paper's example, and its cyan centres.
ALICE, BOB, CENTER = "#1f6f78", "#c2542d", "#00d5e8"

#: What each becomes on a dark screen.
DARK = {
    CARD: "#1d2125",
    INK: "#e4e2dc",
    "#000000": "#e4e2dc",  # matplotlib's own
    SOFT: "#a0a6ad",
    LINE: "#3a4046",
    CLOSED: "#6d737a",
    NOBODY: "#7b8289",
    WAITING: "#5a6067",
    ALICE: "#74c3c6",
    BOB: "#f0936f",
    CENTER: "#00d5e8",
    "#0072b2": "#4aa3df",
    "#d55e00": "#f08a4b",
    "#009e73": "#35c295",
    "#cc79a7": "#e09ac1",
    "#e69f00": "#f0b73d",
    "#56b4e9": "#93d2f8",
    "#882255": "#d0709b",
    "#999933": "#c2c264",
    "#332288": "#9f92f2",
}


def dark_rules() -> Iterator[str]:
    """Rules of CSS that put a dark colour wherever an element's own style has the light one."""
    for light, dark in DARK.items():
        for what in ("fill", "stroke"):
            yield f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
