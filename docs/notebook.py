"""Scripts in cells (`# %%`, the percent format of notebooks) as Markdown pages, with what they print and draw.

A cell that leaves a matplotlib `figure` shows it; the figure's label says in words what it shows.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from coterie.report.pictures import draw_svg, read_size

__all__ = ["cells", "page"]

MARK = re.compile(r"^# %%(?P<kind> \[markdown\])?\s*$", re.MULTILINE)


def cells(text: str) -> Iterator[tuple[bool, str]]:
    """Each cell: is it text, and what it says. What stands before the first mark is no cell."""
    marks = list(MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        body = text[mark.end() : end].strip("\n")
        is_text = mark["kind"] is not None
        yield is_text, re.sub(r"^# ?", "", body, flags=re.MULTILINE) if is_text else body


def page(script: Path) -> str:
    """The script as Markdown: text, code, and the output of running it, cell by cell."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts = []
    for is_text, body in cells(script.read_text(encoding="utf-8")):
        if is_text:
            parts.append(body)
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(body, str(script), "exec"), namespace)
        parts.append(f"```python\n{body}\n```")
        if printed.getvalue().strip():
            parts.append(f"prints\n\n```text\n{printed.getvalue().rstrip()}\n```")
        figure = namespace.pop("figure", None)
        if figure is not None:
            parts.append(_picture(figure, script))
    return "\n\n".join(parts) + f"\n\nThe script: `docs/gallery/{script.name}`.\n"


def _picture(figure: Any, script: Path) -> str:
    """The figure inside the page, on light and on dark screens."""
    says = figure.get_label()
    if not says:
        raise ValueError(f"{script.name}: say what the figure shows, by figure.set_label")
    svg = draw_svg(figure, says)
    width, height = read_size(svg)
    data = base64.b64encode(svg).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(says)}" width="{width}" height="{height}">'
