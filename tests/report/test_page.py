from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import coterie.report
from coterie.report.blocks import Beside, Code, Grid, Image, Tiles
from coterie.report.page import picture, render, render_block
from coterie.report.plots import calm, new_figure
from tests.report.examples import Page, assert_stands_alone

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (320).to_bytes(4, "big") + (160).to_bytes(4, "big")


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
        Image(PNG, "  ")


def test_image_by_hand():
    page = Page(render_block(Image(PNG, 'two "quotes"', "<caption>")))
    (attributes,) = page.all("img")
    assert attributes["alt"] == 'two "quotes"'
    assert (attributes["width"], attributes["height"]) == ("192", "96")
    assert page.text == "<caption>"


def test_picture_is_deterministic_and_needs_no_pyplot():
    def drawn() -> bytes:
        figure = new_figure(2, 2)
        calm(figure.add_subplot(), "a $title", "x", "y").plot([1, 2], [2, 1])
        return picture(figure)

    first = drawn()
    assert first == drawn()
    assert first.startswith(b"\x89PNG")
    assert b"matplotlib" not in first.lower()


def test_a_name_in_a_foreign_script_is_drawn_without_a_warning(recwarn):
    figure = new_figure(2, 2)
    calm(figure.add_subplot(), "年齢 🙂")
    picture(figure)
    assert not list(recwarn)


def test_table_by_hand():
    html = render_block(Grid(["name", "n"], [["<x>", 1], [Code("<y>"), None]], numeric={1}, caption="A & B"))
    assert '<th scope="col" class="number">n</th>' in html
    assert '<th scope="row">&lt;x&gt;</th><td class="number">1</td>' in html
    assert '<th scope="row"><span class="code">&lt;y&gt;</span></th><td class="number">–</td>' in html
    assert "A &amp; B" in html
    assert 'tabindex="0"' in html
    assert "figures" in html


def test_table_without_a_head():
    assert "thead" not in render_block(Grid(["", ""], [["a", "b"]]))


def test_tiles_and_pictures_side_by_side_escape():
    assert "&lt;a&gt;" in render_block(Tiles([("<a>", 1, ""), ("b", 2, "note")]))
    assert "<q>" not in render_block(Beside([Image(PNG, "<q>", "<q>"), Image(PNG, "two")]))


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
