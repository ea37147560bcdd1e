"""What a page is made of, without a tag. How each block is shown, `templates/blocks.html` says.

All text here is plain text: the templates escape it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from coterie.report.pictures import read_size

__all__ = [
    "Beside",
    "Block",
    "Bullets",
    "Code",
    "Grid",
    "Heading",
    "Image",
    "Link",
    "Pairs",
    "Paragraph",
    "Section",
    "Tiles",
    "Verdict",
]

#: Characters from which on a cell of a table needs room to be read.
LONG = 40
#: Texts of a column that are no longer than this stay on one line.
BRIEF = 16
#: Letters that fit beside each other: on a screen of any size only less, and so on; and those that padding takes.
ROOMS = {"always": 112, "desk": 95, "tablet": 68, "phone": 46}
PADDING = 4


class Paragraph(Struct, frozen=True):
    text: str


class Heading(Struct, frozen=True):
    text: str


class Bullets(Struct, frozen=True):
    sentences: Sequence[str]


class Code(Struct, frozen=True):
    """A value to be set as code, in a grid or among pairs."""

    text: str


class Link(Struct, frozen=True):
    """A cell that leads to another page."""

    target: str
    text: str


class Verdict(Struct, frozen=True):
    """A cell in the colour of what is well, or of what is not."""

    text: str
    good: bool


class Pairs(Struct, frozen=True):
    """Names and what they stand for."""

    pairs: Mapping[str, object]


class Tiles(Struct, frozen=True):
    """The key figures: what it is, the value, and a word on it (which may be empty)."""

    figures: Sequence[tuple[str, object, str]]


class Grid(Struct, frozen=True):
    """A table that scrolls by itself where the page is narrow, and says so. `numeric`: the columns set flush right.

    The head may be left empty. The first column names the row, and stays in sight where all others are numbers. None
    is shown as a dash.
    """

    head: Sequence[object]
    rows: Sequence[Sequence[object]]
    numeric: Collection[int] = ()
    caption: str = ""

    @property
    def style(self) -> str:
        return "scroll figures" if all(at in self.numeric for at in range(1, len(self.head))) else "scroll"

    @property
    def room(self) -> str:
        """The screen on which it needs to be scrolled: a phone, a tablet, a desk, any; empty where it is narrow."""
        needed = sum(_least_width(style, column) for style, column in zip(self.styles, self._columns, strict=True))
        return next((name for name, room in ROOMS.items() if needed > room), "")

    @property
    def _columns(self) -> list[list[object]]:
        every = [self.head, *self.rows]
        return [[row[at] for row in every if at < len(row)] for at in range(len(self.styles))]

    @property
    def styles(self) -> list[str]:
        """The style of each column."""
        width = max([len(self.head), *map(len, self.rows)])
        long = {at for row in self.rows for at, value in enumerate(row) if _is_long(value)}
        wordy = {at for row in self.rows for at, value in enumerate(row) if not _is_brief(value)}
        return [
            "number" if at in self.numeric else "words" if at in long else "" if at in wordy else "brief"
            for at in range(width)
        ]


def _least_width(style: str, cells: Sequence[object]) -> int:
    """How many letters wide a column must be: as its head, its numbers and brief texts, its longest word."""
    head, *values = map(_text_of, cells)
    words = [value if style in ("number", "brief") else max(value.split(), key=len, default="") for value in values]
    return PADDING + max([len(head), *map(len, words), *([LONG // 2] if style == "words" else [])])


def _text_of(value: object) -> str:
    if isinstance(value, Code):
        return ""  # it is broken anywhere
    return value.text if isinstance(value, Link | Verdict) else str(value)


def _is_brief(value: object) -> bool:
    return not isinstance(value, Code) and len(_text_of(value)) <= BRIEF


def _is_long(value: object) -> bool:
    return not isinstance(value, Code | Link | Verdict) and len(str(value)) > LONG


class Image(Struct, frozen=True):
    """A picture, inside the page: an SVG, in light and in dark colours. `alt` says in words what it shows."""

    svg: bytes
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a picture needs an alternative text")

    @property
    def data(self) -> str:
        return base64.b64encode(self.svg).decode()

    @property
    def width(self) -> int:
        return read_size(self.svg)[0]

    @property
    def height(self) -> int:
        return read_size(self.svg)[1]


class Beside(Struct, frozen=True):
    """Pictures side by side, as far as the page is wide enough."""

    images: Sequence[Image]


Block = Paragraph | Heading | Bullets | Pairs | Tiles | Grid | Image | Beside


class Section(Struct, frozen=True):
    """A part of the page: where it is, what it is called, and what it holds."""

    anchor: str
    name: str
    blocks: Sequence[Block]
