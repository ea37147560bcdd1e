"""`coterie demo`: what it computes, the folder it writes, what it says and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from coterie.cli import demo as command
from coterie.cli.app import main
from coterie.errors import InputError
from coterie.report import paper
from coterie.simulation import demo
from tests.report.paper_example import broken, drawn, filled


def ended(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    return exit_.value.code


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """The command without its computing, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def with_example(make):
        def computed(step):
            step("nothing")
            return make()

        monkeypatch.setattr(demo, "compute_example", computed)
        monkeypatch.setattr(paper, "make_page", lambda example: drawn(example.holds))

    with_example(filled)
    return with_example


# -- the command ------------------------------------------------------------------------------------------------------


def test_it_writes_a_folder_and_says_what_was_done(quick, tmp_path, capsys):
    assert ended("demo") == 0
    out = capsys.readouterr().out
    folder = tmp_path / "coterie-demo"
    assert (folder / "index.html").read_text().startswith("<!doctype html>")
    assert len(list(folder.glob("figure-*.svg"))) == 13
    assert f"The page: {folder / 'index.html'}" in out
    assert "2 of 2 secure runs give the same labels and centres" in out
    assert "400/400" in out
    assert out.index("SHK-means: Secure Horizontal k-means") < out.index("SVK-means: Secure Vertical k-means")
    assert out.index("SVK-means") < out.index("secure run")  # explained before they are used
    assert "Alice learnt the cluster of each row of which it holds values: 200 rows. (at the end)" in out
    assert "Sent in all secure runs: P0 12 kB, Alice 2 kB and Bob 2 kB" in out
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines() if "SHK" in line and "/" in line) <= 80


def test_it_ends_with_an_error_if_a_result_differs_and_the_page_shows_it(quick, tmp_path, capsys):
    quick(broken)
    assert ended("demo", "--out", "here") == 70
    said = capsys.readouterr()
    assert "1 of 2 secure runs" in said.out
    assert "differs from the centralised one" in said.err
    assert "A secure result differs" in (tmp_path / "here" / "index.html").read_text()


def test_machines_get_one_object_a_line(quick, capsys):
    assert ended("--json", "demo") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_name = {event["event"]: event for event in events}
    (first, second) = by_name["runs"]["runs"]
    assert (first["equal_labels"], first["points"], first["same"]) == (400, 400, True)
    assert second["bytes_sent"] == {"P0": 6000, "Alice": 1000, "Bob": 1000}
    assert by_name["comparison"]["same"] == by_name["comparison"]["of"] == 2
    assert by_name["page"]["path"].endswith("index.html")
    assert by_name["progress"]["of"] > 0


def test_quiet_says_nothing(quick, capsys):
    assert ended("--quiet", "demo") == 0
    assert capsys.readouterr() == ("", "")


# -- the folder -------------------------------------------------------------------------------------------------------


def test_a_folder_of_an_earlier_demo_is_replaced(quick, tmp_path, capsys):
    assert ended("demo") == 0
    command.write_folder(tmp_path / "coterie-demo", {"old.png": b"old"})
    assert ended("demo") == 0
    assert not (tmp_path / "coterie-demo" / "old.png").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["coterie-demo"], "nothing is left beside it"


@pytest.mark.parametrize("what", ["foreign", "added", "file", "current", "other manifest"])
def test_what_no_demo_wrote_is_left_alone(quick, tmp_path, capsys, what):
    target = tmp_path / "there"
    if what == "foreign":
        target.mkdir()
        (target / "thesis.txt").write_text("mine")
    elif what == "added":
        command.write_folder(target, {"index.html": b""})
        (target / "thesis.txt").write_text("mine")
    elif what == "file":
        target.write_text("mine")
    elif what == "other manifest":
        target.mkdir()
        (target / "manifest.json").write_text('{"made_by": "somebody", "files": {}}')
    else:
        target = tmp_path
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert ended("demo", "--out", str(target)) == 2
    assert "--out" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        command.write_folder(tmp_path / "new", {"index.html": b"", "no/such/folder.png": b""})
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_has_the_hash_of_every_file(tmp_path):
    command.write_folder(tmp_path / "new", {"index.html": b"abc"})
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert manifest["files"] == {
        "index.html": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", as in FIPS 180
    }


def test_the_command_line_imports_nothing_heavy():
    code = (
        "import sys, coterie.cli.demo, coterie.cli.forecast; "
        "sys.exit(', '.join({'sklearn', 'matplotlib', 'numba', 'jinja2'} & set(sys.modules)) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
