"""The documentation holds: its code runs, its tables are those of the code, its links lead somewhere, it builds."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import numpy as np
import pytest
import typer
from benchmarks import quality

from coterie import errors
from coterie.cli.app import app
from coterie.protocols.falcon.bits import SLICED, select, to_words
from coterie.protocols.falcon.comparing import signs
from coterie.protocols.falcon.servers import reshare
from coterie.protocols.onetime.sign import tree_of
from coterie.protocols.securenn.sign import compute_msb, drelu, share_convert
from coterie.protocols.words import elementwise_product, square
from coterie.ring import OddWords, Words
from coterie.ring.packing import wire_size
from coterie.transport import HEADER_BYTES
from tests.docs.pages import DOCS, ROOT, blocks, links, name_of, pages, table
from tests.protocols.trio import run_trio
from tests.protocols.trio import split as share_out
from tests.support import given, run, splits

PAGES = pages()
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))
CITED = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


# -- code ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_code_blocks_run(path, tmp_path, monkeypatch):
    """All of a page's blocks, in order, in one namespace and an empty folder; but what needs a study and others runs in
    test_taking_part.py."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in blocks(path, "python"):
        if block.note.startswith("study: "):
            continue
        code = "\n" * (block.line - 1) + block.body  # so that a traceback shows the page's own lines
        exec(compile(code, str(path), "exec"), namespace)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_gallery_scripts_run_and_become_pages(script):
    page = notebook().page(script)
    assert page.startswith("# ")
    assert page.count("```python") >= 2
    assert "```text" in page, "it prints nothing"
    assert re.search(r'<img src="data:image/svg\+xml;base64,[^"]+" alt="[^"]{40,}"', page), "it draws nothing"


def test_the_gallery_lists_every_script():
    listed = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8").splitlines()
    for script in SCRIPTS:
        assert script.stem in listed
        assert script.with_suffix(".md").exists(), "the page that the script is put into"


def test_every_command_has_a_page_with_all_its_options(tmp_path):
    """As far as they are not hidden; whoever adds a command adds its page."""
    made = script("command_pages")
    made.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} > {"index.md", "run.md", "study-create.md"}
    listed = (tmp_path / "index.md").read_text(encoding="utf-8")
    found = list(made.commands(typer.main.get_command(app)))
    assert len(found) == len(list(tmp_path.iterdir())) - 1
    for words, command in found:
        name = "-".join(words[1:])
        page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert f"# {' '.join(words)}\n" in page
        assert f"({name}.md)" in listed
        for option in command.params:
            shown = option.opts[0] if option.opts[0].startswith("-") else f"`{option.name}"
            assert (shown in page) == (not option.hidden), f"{words}: {shown}"


def test_hidden_commands_and_options_have_no_page(tmp_path):
    made, hides = script("command_pages"), typer.Typer()

    @hides.callback()
    def root() -> None: ...

    @hides.command("secret", hidden=True)
    def secret() -> None: ...

    @hides.command("open")
    def opened(shown: str = "", inner: Annotated[str, typer.Option(hidden=True)] = "") -> None: ...

    pages = made.pages(typer.main.get_command(hides))
    assert list(pages) == ["index.md", "open.md"]
    assert "--shown" in pages["open.md"]
    assert "--inner" not in pages["open.md"]


def test_pages_of_commands_that_are_gone_are_removed(tmp_path):
    (tmp_path / "old.md").write_text("old")
    script("command_pages").write(tmp_path)
    assert not (tmp_path / "old.md").exists()


def notebook():
    return script("notebook")


def script(name):
    """A module beside the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- tables ----------------------------------------------------------------------------------------------


def exit_codes() -> dict[str, int]:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    return {kind.__name__: kind.exit_code for kind in classes if issubclass(kind, Exception)}


def test_the_table_of_exceptions_is_that_of_the_classes():
    listed = {name: int(code) for name, code, _ in table(DOCS / "errors.md", "| exception |")}
    assert listed == exit_codes()


def test_the_table_of_exit_codes_has_all_of_them():
    listed = {int(code) for code, *_ in table(DOCS / "errors.md", "| code |")}
    assert listed == {0, *exit_codes().values()}


def test_the_reference_documents_every_exception():
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in errors.__all__:
        assert f"autoexception:: coterie.errors.{name}\n" in reference


def test_the_costs_of_a_sign_are_those_of_the_tree():
    for w, digits, rounds, dealt, opened in table(DOCS / "protocols" / "onetime.md", "<!-- table: sign -->"):
        levels = tree_of(int(w) // 4)
        assert int(digits) == int(w) // 4
        assert int(rounds) == 1 + len(levels)
        assert float(dealt) == 2 * int(digits) + 1 / 8 + sum(level.terms.monomials for level in levels) / 8
        assert float(opened) == wire_size(int(w)) + sum(level.terms.variables for level in levels) / 8


FALCON = {
    "product": (lambda t, x: reshare(t, x.ring, x.shape, None if t.role is None else x.share), 64, 3 * 64),
    "sign, w = 36": (signs, 36, 209),
    "sign, w = 44": (signs, 44, 261),
    "sign, w = 64": (signs, 64, 391),
    "bit to word": (lambda t, _: to_words(t, t.public(np.zeros((1, 1), np.uint64), SLICED), Words(64)), 64, 3 * 64),
    "selection": (lambda t, x: select(t, t.public(np.zeros((1, 1), np.uint64), SLICED), x), 64, 4 * 64),
}


def test_the_costs_of_falcon_are_those_counted():
    rows = list(table(DOCS / "protocols" / "falcon.md", "<!-- table: falcon -->"))
    assert [name for name, *_ in rows] == list(FALCON)
    for name, rounds, sent in rows:
        work, width, bits = FALCON[name]
        count, unit = sent.split()
        assert bits == int(count) * {"bits": 1, "words": width}[unit]
        ran = run_trio(work, share_out(width, np.arange(64)))
        assert ran.traffic.rounds == int(rounds)
        assert sum(frame.array.nbytes for one in ran.recordings for frame in one.sent) == 8 * bits


SECURENN = {
    "ElementWiseMatMul": (elementwise_product, 2, Words(64)),
    "Square": (square, 1, Words(64)),
    "ShareConvert": (share_convert, 1, Words(64)),
    "ComputeMSB": (compute_msb, 1, OddWords(64)),
    "DReLU": (drelu, 1, Words(64)),
}


@pytest.mark.parametrize("p", [2, 3])
def test_the_costs_of_securenn_are_those_counted(p):
    m = 40
    rows = list(table(DOCS / "protocols" / "securenn.md", "<!-- table: securenn -->"))
    assert [name for name, *_ in rows] == list(SECURENN)
    for name, rounds, *cells in rows:
        protocol, inputs, ring = SECURENN[name]
        to_helper, to_other, by_helper = (m * int(cell.removesuffix(" m")) for cell in cells)
        shares = [splits(ring, np.arange(m) * 3 + i, p, i) for i in range(inputs)]
        ran = run(p, lambda me: protocol(me, *(given(me, ring, s) for s in shares)))
        assert ran.traffic.by_protocol[name].rounds == int(rounds)
        helper, *parties = ran.recordings
        assert sum(frame.array.nbytes for frame in helper.sent) == by_helper
        for party in parties:
            assert sum(frame.array.nbytes for frame in party.sent if frame.receiver == 0) == to_helper
            assert sum(frame.array.nbytes for frame in party.sent if frame.receiver) == to_other * (p - 1)


def test_the_table_of_quality_is_what_the_benchmark_has_kept():
    page = quality.PAGE.read_text(encoding="utf-8")
    assert page == quality.renew(page, json.loads(quality.RESULT.read_text(encoding="utf-8")))
    assert page.count("**worse**") == sum(one["worse"] for one in json.loads(quality.RESULT.read_text()).values())


def test_the_layout_of_a_frame_adds_up():
    sizes = [cell for cell, _ in table(DOCS / "transport.md", "| bytes | field |")]
    assert sum(int(size) for cell in sizes for size in cell.split(",")) == HEADER_BYTES


# -- links and the build -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_relative_links_lead_to_files(path):
    for target in links(path):
        file = target.partition("#")[0]
        assert not file or (path.parent / file).exists(), f"{target} in {name_of(path)}"


def cited() -> list[tuple[str, str]]:
    """What code and documents cite: the file, and what it says."""
    files = [path for folder in ("src", "tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = []
    for path in [*files, *PAGES]:
        found += [(name_of(path), cite) for cite in CITED.findall(path.read_text(encoding="utf-8"))]
    return found


def test_what_is_cited_is_there():
    """A page, and a section of it where one is named."""
    for where, cite in cited():
        page, _, section = cite.partition("#")
        assert (ROOT / page).exists(), f"{where} cites {cite}"
        text = (ROOT / page).read_text(encoding="utf-8")
        titles = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}
        assert not section or f"({section})=" in text or section in titles, f"{where} cites {cite}"


def test_pages_name_no_machine():
    for path in [*PAGES, *SCRIPTS, DOCS / "conf.py"]:
        text = path.read_text(encoding="utf-8")
        for place in (Path.home(), Path(gettempdir()), ROOT):
            assert f"{place}/" not in text, name_of(path)


def test_it_builds_without_a_warning_and_needs_no_network(tmp_path):
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[docs]'")
    out = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(DOCS), str(out)], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for needs in ('src="http', 'rel="stylesheet" type="text/css" href="http', "@import url(http"):
            assert needs not in text, f"{page.name} loads something from elsewhere"
