from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import coterie.report
from coterie.report.blocks import Beside, Code, Grid, Image, Tiles
from coterie.report.page import render, render_block
from coterie.report.palette import ALICE, BOB, CARD, CENTER, CLUSTERS, DARK, INK, SOFT
from coterie.report.pictures import draw_png, draw_svg
from coterie.report.plots import calm, new_figure
from tests.report.examples import Page, assert_stands_alone

SVG = b'<svg width="144pt" height="72pt"></svg>'


def test_base_page_stands_alone_and_escapes():
    html = render("base.html", title="<b>bold</b>", lede="a & b", contents=[("x", "<i>")], footer="end")
    page = assert_stands_alone(html)
    assert not page.all("b")
    assert not page.all("i")
    assert "<b>bold</b>" in page.text
    assert "a & b" in page.text


def test_page_is_for_light_dark_phone_and_paper():
    html = render("base.html", title="t")
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "width=device-width" in html
    assert "default-src 'none'" in html


def test_image_needs_an_alternative_text():
    with pytest.raises(ValueError, match="alternative text"):
        Image(SVG, "  ")


def test_image_by_hand():
    page = Page(render_block(Image(SVG, 'two "quotes"', "<caption>")))
    (attributes,) = page.all("img")
    assert attributes["alt"] == 'two "quotes"'
    assert (attributes["width"], attributes["height"]) == ("192", "96")
    assert page.text == "<caption>"


@pytest.mark.parametrize(("draw", "start"), [(draw_svg, b"<svg "), (draw_png, b"\x89PNG")])
def test_a_picture_is_deterministic_and_needs_no_pyplot(draw, start):
    def drawn() -> bytes:
        figure = new_figure(2, 2)
        calm(figure.add_subplot(), "a $title", "x", "y").plot([1, 2], [2, 1])
        return draw(figure)

    first = drawn()
    assert first == drawn()
    assert first.startswith(start)
    assert b"matplotlib.org" not in first
    assert b"Matplotlib v" not in first
    assert "matplotlib.pyplot" not in sys.modules


def test_a_name_in_a_foreign_script_is_drawn_without_a_warning(recwarn):
    figure = new_figure(2, 2)
    calm(figure.add_subplot(), "年齢 🙂")
    draw_svg(figure)
    assert not list(recwarn)


def test_table_by_hand():
    html = render_block(Grid(["name", "n"], [["<x>", 1], [Code("<y>"), None]], numeric={1}, caption="A & B"))
    assert '<th scope="col" class="number">n</th>' in html
    assert '<th scope="row">&lt;x&gt;</th><td class="number">1</td>' in html
    assert '<th scope="row"><span class="code">&lt;y&gt;</span></th><td class="number">–</td>' in html
    assert "A &amp; B" in html
    assert 'tabindex="0"' in html
    assert "figures" in html


WIDE = Grid(["a", *(f"column {at}" for at in range(20))], [["x", *["1,234.5"] * 20]], numeric=range(1, 21))


def test_a_wide_table_scrolls_by_itself_and_says_so():
    for grid, style in ((WIDE, "wide-always"), (Grid(["name", "what it is", "when"], [["x", "y" * 50, "z"]]), "wide-")):
        html = render_block(grid)
        page = Page(html)
        classes = [one.get("class") or "" for one in page.all("div")]
        assert style in classes[0]
        assert "hint" in classes
        assert "Scroll sideways" in page.text
        assert html.index('class="scroll') < html.index("<table")
    assert "Scroll sideways" not in render_block(Grid(["a", "b"], [["x", "1"]]))


def test_every_table_of_a_page_is_in_a_region_that_scrolls():
    template = (Path(coterie.report.__file__).parent / "templates" / "blocks.html").read_text(encoding="utf-8")
    assert template.count("<table") == 1  # there is no other way to a table
    assert re.search(r'tabindex="0" role="region" aria-label="\{\{ name \}\}"><table', template)


def test_the_colours_of_figures_are_readable_on_their_ground():
    """3:1, as graphics need, between what is drawn and its card, in the dark; ink and soft text 4.5:1 in both."""
    for ground, inks in ((CARD, (INK, SOFT)), (DARK[CARD], (DARK[INK], DARK[SOFT]))):
        assert all(contrast(ground, ink) >= 4.5 for ink in inks)
    for light in (*CLUSTERS, ALICE, BOB, CENTER):
        assert contrast(DARK[CARD], DARK[light]) >= 3, light


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines have it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_table_without_a_head():
    assert "thead" not in render_block(Grid(["", ""], [["a", "b"]]))


def test_tiles_and_pictures_side_by_side_escape():
    assert "&lt;a&gt;" in render_block(Tiles([("<a>", 1, ""), ("b", 2, "note")]))
    assert "<q>" not in render_block(Beside([Image(SVG, "<q>", "<q>"), Image(SVG, "two")]))


def test_nothing_is_marked_safe():
    """Escaping is left to the templates: no text is taken for HTML, in no module and in no template."""
    for path in Path(coterie.report.__file__).parent.rglob("*.*"):
        if path.suffix in (".py", ".html"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bMarkup\b|\|\s*safe\b|autoescape\s*(=\s*)?[Ff]alse", text), path


def test_heavy_modules_are_loaded_when_needed():
    code = (
        "import sys, coterie.report.page, coterie.report.log, coterie.report.write, coterie.report.overview, "
        "coterie.cli.simulate; "
        "sys.exit(sum(m in sys.modules for m in ('matplotlib', 'jinja2', 'sklearn', 'duckdb')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
