"""A page that stands alone: one HTML file, styles and pictures inside, that asks the network for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.report.blocks import Block, Section

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render", "render_block", "render_page", "write_page"]


@cache
def _environment() -> Environment:
    """The templates of this package. Everything is escaped; nothing is left out in silence."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("coterie.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["kind"] = lambda block: type(block).__name__.lower()
    return made


def render(template: str, **context: Any) -> str:
    """A template of this package, filled in.

    Pages that extend `base.html` may pass, beside their own: `title`, `eyebrow` (a line above it), `lede` (a
    paragraph below it), `contents` (pairs of an anchor and a name) and `footer`.
    """
    common = {"eyebrow": "", "lede": "", "contents": (), "footer": ""}
    return _environment().get_template(template).render(**common | context) + "\n"


def render_block(block: Block) -> str:
    """A block by itself."""
    shown: str = _environment().get_template("blocks.html").module.show(block)  # type: ignore[attr-defined]
    return shown


def render_page(sections: Sequence[Section], **context: Any) -> str:
    """A page of sections, with its contents above them; for `context`, see `render`."""
    contents = [(section.anchor, section.name) for section in sections]
    return render("report.html", contents=contents, sections=sections, **context)


def write_page(path: Path, sections: Sequence[Section], **context: Any) -> None:
    """Write what `render_page` makes."""
    Path(path).write_text(render_page(sections, **context), encoding="utf-8")
