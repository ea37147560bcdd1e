"""A page that stands alone: one HTML file, styles and pictures inside, that asks the network for nothing."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DPI", "beside", "image", "picture", "render", "table", "tiles"]

#: Dots per inch of a picture; it is shown at 96, so that it stays sharp on fine screens and on paper.
DPI = 160
#: Characters from which on a cell of a table needs room to be read.
LONG = 40


def render(template: str, **context: Any) -> str:
    """A template of this package, filled in. Whatever is not Markup is escaped.

    Pages that extend `base.html` may pass, beside their own: `title`, `eyebrow` (a line above it), `lede` (a
    paragraph below it), `contents` (pairs of an anchor and a name) and `footer`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("coterie.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    common = {"eyebrow": "", "lede": "", "contents": (), "footer": ""}
    return environment.get_template(template).render(**common | context) + "\n"


def picture(figure: Figure) -> bytes:
    """A matplotlib figure as a PNG; the same figure gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = io.BytesIO()
    FigureCanvasAgg(figure)  # attaches itself; pyplot and its global state stay out of it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # a name in a script that the font lacks
        figure.savefig(drawn, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return drawn.getvalue()


def image(png: bytes, alt: str, caption: str = "") -> Markup:
    """A picture, inside the page, on a white card. `alt` says in words what it shows."""
    if not alt.strip():
        raise ValueError("a picture needs an alternative text")
    width, height = (
        round(int.from_bytes(png[at : at + 4], "big") * 96 / DPI)
        for at in (16, 20)  # the size stands in the PNG's first chunk
    )
    below = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup('<figure><img src="data:image/png;base64,{}" alt="{}" width="{}" height="{}">{}</figure>').format(
        base64.b64encode(png).decode(), alt, width, height, below
    )


def beside(images: Iterable[Markup]) -> Markup:
    """Pictures side by side, as far as the page is wide enough."""
    return Markup('<div class="beside">{}</div>').format(Markup("").join(images))


def tiles(figures: Iterable[tuple[str, object, str]]) -> Markup:
    """The key figures: what it is, the value, and a word on it (which may be empty)."""
    return Markup('<dl class="tiles">{}</dl>').format(
        Markup("").join(
            Markup("<div><dt>{}</dt><dd>{}{}</dd></div>").format(
                name, value, Markup("<small>{}</small>").format(note) if note else ""
            )
            for name, value, note in figures
        )
    )


def table(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    numeric: Collection[int] = (),
    caption: str = "",
) -> Markup:
    """A table that scrolls by itself where the page is narrow. `numeric`: the columns set flush right.

    The head may be left empty. The first column names the row, and stays in sight where all others are numbers. None
    is shown as a dash; whatever is not Markup is escaped.
    """
    rows = [list(row) for row in rows]
    long = {
        at for row in rows for at, value in enumerate(row) if len(str(value)) > LONG and not hasattr(value, "__html__")
    }

    def cell(tag: str, at: int, value: object, more: str = "") -> Markup:
        kind = Markup(' class="number"') if at in numeric else Markup(' class="words"') if at in long else ""
        return Markup("<{0}{1}{2}>{3}</{0}>").format(Markup(tag), Markup(more), kind, "–" if value is None else value)

    top = Markup("").join(cell("th", at, name, ' scope="col"') for at, name in enumerate(head))
    top = Markup("<thead><tr>{}</tr></thead>").format(top) if any(head) else Markup("")
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                cell("th", at, value, ' scope="row"') if at == 0 else cell("td", at, value)
                for at, value in enumerate(row)
            )
        )
        for row in rows
    )
    kind = "scroll figures" if all(at in numeric for at in range(1, len(head))) else "scroll"
    above = Markup('<div class="caption">{}</div>').format(caption) if caption else ""
    return Markup(
        '<div class="sheet">{}<div class="{}" tabindex="0" role="region" aria-label="{}">'
        '<table aria-label="{}">{}<tbody>{}</tbody></table></div></div>'
    ).format(above, kind, caption or "table", caption or "table", top, body)
