"""The documentation as text: pages, fenced blocks and what a comment before a block says about it, tables, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Folders of pages that are made when the documentation is built.
MADE = {"_build", "commands"}
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>[\w{}-]*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block. `note` is the comment right before it."""

    language: str
    body: str
    note: str
    line: int


def pages() -> list[Path]:
    """README and its companions, and every page of the documentation."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return top + sorted(path for path in DOCS.rglob("*.md") if not MADE & set(path.parts))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def all_blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(match["language"], match["body"], match["note"] or "", text.count("\n", 0, match.start("body")) + 1)
        for match in FENCE.finditer(text)
    ]


def blocks(path: Path, language: str) -> list[Block]:
    return [block for block in all_blocks(path) if block.language == language]


def links(path: Path) -> list[str]:
    """Where links that are no web addresses point to."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    prose = re.sub(r"`[^`\n]*`", "", prose)
    return [match["target"] for match in LINK.finditer(prose) if "://" not in match["target"]]


def table(path: Path, before: str) -> Iterator[list[str]]:
    """The cells of the rows of the first table after a line that starts so; without its head."""
    text = path.read_text(encoding="utf-8")
    start = re.search(rf"^{re.escape(before)}", text, re.MULTILINE)
    assert start is not None, f"{name_of(path)} has no line {before!r}"
    rows = re.search(r"(?:^\|.*\|\n)+", text[start.start() :], re.MULTILINE)
    assert rows is not None
    for row in rows[0].splitlines()[2:]:
        yield [cell.strip().strip("`") for cell in row.strip().strip("|").split("|")]
