"""`coterie simulate`, on small files: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from coterie.cli.app import main
from coterie.cli.folders import check_folder
from coterie.cli.parsing import parse_file_bounds
from coterie.cli.simulate import MAKER, MARK
from coterie.errors import InputError
from tests.report.examples import assert_stands_alone

RANDOM = np.random.RandomState(3)
BLOBS = np.concatenate([RANDOM.normal(m, 0.5, (30, 3)) for m in [(0, 0, 0), (6, 0, 9), (0, 7, -9)]])


#: Without output rules; and what that allows.
OFF = ["--least-cluster-size", 1]
SVK = ["--labels", "revealed", *OFF]


def write_csv(path, x, names, people=True):
    lines = [",".join([*(["who"] if people else []), *names])]
    for i, row in enumerate(x):
        lines.append(",".join([*([f"person {i}"] if people else []), *(repr(float(v)) for v in row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path):
    return write_csv(tmp_path / "blobs.csv", BLOBS[np.random.RandomState(3).permutation(90)], ["age", "height", "mass"])


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


# -- the whole command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parties", "between", "pages"), [
    (2, "P1, P2 (horizontal) and P0, which owns no data; P0, P1, P2 hold the shares and compute", "P0 P1 P2"),
    (4, "P1, P2, P3, P4 (horizontal); P1, P2, P3 hold the shares and compute, by falcon", "P1 P2 P3 P4"),
])  # fmt: skip
def test_without_a_helper(file, tmp_path, capsys, parties, between, pages):
    out = tmp_path / "out"
    options = ("--protocol", "falcon", "--parties", parties, "--seed", 1)
    assert run("simulate", file, "-k", 3, *options, "--out", out) == 0
    said = capsys.readouterr().out
    assert between in " ".join(said.split())
    assert "all 90 identical" in said
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == pages.split()
    roles = json.loads((out / "simulation.json").read_text())
    assert (roles["parties"], list(roles["peak_bytes"])) == (parties, pages.split())
    assert "the helper" not in assert_stands_alone((out / "index.html").read_text()).text


def test_from_file_to_reports(file, tmp_path, capsys):
    out = tmp_path / "results" / "out"
    assert run("simulate", file, "-k", 3, "--parties", 3, "--seed", 1, "--out", out) == 0
    said = capsys.readouterr().out
    assert "left out: who (not numbers)" in said
    assert "3 clusters of 90 rows x 3 columns" in said
    assert "least cluster size 10; contribution least" in said
    assert "no cluster stays closed" in said
    assert "all 90 identical" in said
    assert "Everybody, the helper included, learnt one bit" in said
    assert str(out / "index.html") in said
    assert "\x1b" not in said  # piped: no colours, nothing drawn over
    written = ["P0", "P1", "P2", "P3", "centers.csv", "index.html", "labels.parquet", "simulation.json"]
    assert sorted(p.name for p in out.iterdir()) == written
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    overview = assert_stands_alone((out / "index.html").read_text())
    assert [one["id"] for one in overview.all("h2")][:3] == ["clusters", "comparison", "roles"]
    links = [a["href"] for a in overview.all("a") if not a["href"].startswith("#")]
    assert links == [f"P{j}/report.html" for j in range(4)]
    for link in links:
        page = assert_stands_alone((out / link).read_text())
        assert ("clusters" in [a["id"] for a in page.all("h2")]) == (link[1] != "0")
    summary = json.loads((out / "simulation.json").read_text())
    assert (summary["labels_that_differ"], summary["labels_compared"], summary["closed"]) == (0, 90, [])
    assert summary["least_cluster_size"] == 10
    assert summary["largest_centre_difference"] < 1e-3
    assert summary["columns"] == ["age", "height", "mass"]


def test_vertical_reports_keep_columns_apart_and_machines_get_json(file, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--partition", "vertical", "--parties", 3, "--columns", "age,height,mass", "--out", out]
    bounds = ["--bounds", "age=-20:20,height=-20:20,mass=-20:20"]
    assert run("--json", "simulate", file, "-k", 3, "--seed", 1, "--n-init", 4, *SVK, *options, *bounds) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["simulated"]
    assert events[0]["labels_that_differ"] == 0
    assert set(events[0]["bytes_sent"]) == {"P0", "P1", "P2", "P3"}
    pages = [assert_stands_alone((out / f"P{j}" / "report.html").read_text()) for j in (1, 2, 3)]
    shown = [re.findall(r"(?<= )-?\d+\.\d\d(?= (?!s |ms |kB |MB ))", page.text) for page in pages]
    for mine, others in ((0, (1, 2)), (1, (0, 2)), (2, (0, 1))):
        assert len(shown[mine]) >= 3
        large = {v for v in shown[mine] if abs(float(v)) > 4}  # centres of a column, which no other column shares
        assert large
        assert not any(large & set(shown[other]) for other in others)


@pytest.mark.slow
def test_hostile_names_and_a_quiet_run(tmp_path, capsys):
    names = ["<script>alert(1)</script>", "$a$", "[bold]b"]
    file = write_csv(tmp_path / "x.csv", BLOBS, names, people=False)
    options = [
        "--partition",
        "mixed",
        "--bounds",
        "$a$=-30:30",
        "--scale",
        "bounds",
        "--n-init",
        2,
        "--counts",
        "revealed",
        *OFF,
    ]
    assert run("--quiet", "simulate", file, "-k", 3, "--out", tmp_path / "out", *options) == 0
    assert capsys.readouterr().out == ""
    for path in (tmp_path / "out").rglob("*.html"):
        page = assert_stands_alone(path.read_text())
        assert "<script>alert(1)</script>" in page.text
    assert "no bounds were given for these" in page.text


# -- output rules ----------------------------------------------------------------------------------------------------


@pytest.fixture
def one_small(tmp_path):
    """Two groups of forty, and one of twelve, of which each of two parties holds six: too few of others than either."""
    sizes, middles = (20, 20, 6), [(0, 0), (9, 0), (0, 9)]
    half = [np.concatenate([np.rint(RANDOM.normal(m, 1, (s, 2))) for s, m in zip(sizes, middles, strict=True)])] * 2
    return write_csv(tmp_path / "small.csv", np.concatenate(half), ["age", "mass"], people=False)


@pytest.mark.slow
def test_a_page_shows_what_a_party_would_have(one_small, tmp_path, capsys):
    """The attack: an overview that shows a small cluster's centre, as a party of a real study would never have it."""
    out = tmp_path / "out"
    assert run("simulate", one_small, "-k", 3, "--n-init", 5, "--out", out) == 0
    said = capsys.readouterr().out
    summary = json.loads((out / "simulation.json").read_text())
    (closed,) = summary["closed"]
    assert (summary["labels_compared"], summary["labels_that_differ"]) == (80, 0)
    assert f"closed: cluster {closed}" in said
    assert "12 rows that scikit-learn puts into closed clusters are left out" in said
    assert "P1 and P2 learnt one bit a cluster" in said
    for page in ("index.html", "P1/report.html", "P2/report.html"):
        text = assert_stands_alone((out / page).read_text()).text
        assert f"Cluster {closed}, 1 of 3, stays closed" in text
        assert re.search(rf"{closed} \(closed\) – – –", text)
    assert run("simulate", one_small, "-k", 3, "--n-init", 5, "--out", out, *OFF) == 0
    assert json.loads((out / "simulation.json").read_text())["closed"] == []


@pytest.mark.slow
def test_rounded_centres_and_sizes(one_small, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--resolution", "age=1,mass=1", "--sizes", "rounded", "--contribution", "off"]
    assert run("simulate", one_small, "-k", 3, "--n-init", 5, "--out", out, *options) == 0
    said = capsys.readouterr().out
    assert "opened centres are rounded" in said
    assert "the sizes of the open clusters, to the nearest multiple of the least size" in said
    text = assert_stands_alone((out / "P1" / "report.html").read_text()).text
    assert "rows in all, rounded" in text
    assert "centres rounded to" in text


def test_all_closed(one_small, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("simulate", one_small, "-k", 3, "--n-init", 5, "--out", out, "--least-cluster-size", 44) == 0
    said = capsys.readouterr().out
    assert "ALL clusters stay closed" in said
    assert "nothing to compare" in said
    summary = json.loads((out / "simulation.json").read_text())
    assert (summary["closed"], summary["inertia"], summary["largest_centre_difference"]) == ([0, 1, 2], None, None)
    assert "All 3 clusters stay closed" in assert_stands_alone((out / "index.html").read_text()).text


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-k", 3, "--columns", "age,weight"], 3, "'weight'"),
        (["-k", 3, "--columns", "who"], 3, "column 'who'"),
        (["-k", 3, "--bounds", "age=0"], 2, "age=0"),
        (["-k", 3, "--bounds", "weight=0:1"], 2, "'weight'"),
        (["-k", 3, "--bounds", "age=100:200"], 3, "column 'age'"),
        (["-k", 3, "--parties", 1], 2, "--parties"),
        (["-k", 3, "--parties", 4, "--partition", "vertical"], 2, "--parties 4"),
        (["-k", 91], 2, "--clusters 91"),
        (["-k", 0], 2, "--clusters must be at least 1"),
        (["-k", 3, "--labels", "revealed", *OFF], 2, "vertical"),
        (["-k", 3, "--labels", "revealed"], 2, "--least-cluster-size 1"),
        (["-k", 3, "--counts", "revealed"], 2, "--least-cluster-size 1"),
        (["-k", 3, "--sizes", "rounded", *OFF], 2, "least cluster size"),
        (["-k", 3, "--least-cluster-size", 46], 2, "every cluster would stay closed"),
        (["-k", 3, "--least-cluster-size", 0], 2, "--least-cluster-size"),
        (["-k", 3, "--resolution", "age=1_000"], 2, "age=1_000"),
        (["-k", 3, "--resolution", "weight=1"], 2, "'weight'"),
        (["-k", 3, "--resolution", "age=1", "--partition", "vertical"], 2, "resolution"),
        (["-k", 3, "--tol", -1], 2, "tol"),
        (["-k", 3, "--link", "pigeon"], 2, "pigeon"),
        ([], 2, "-k"),
    ],
)
def test_bad_arguments_are_named(file, tmp_path, capsys, arguments, code, words):
    assert run("simulate", file, "--out", tmp_path / "out", *arguments) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.csv", None, "there is no such file"),
        ("empty.csv", "", "empty.csv"),
        ("words.csv", "a,b\nx,y\nz,w\n", "no column holds numbers"),
        ("hole.csv", "a,b\n1,2\n,4\n5,6\n", "column 'a'"),
        ("infinite.csv", "a,b\n1,2\ninf,4\n5,6\n", "column 'a'"),
        ("broken.parquet", "not parquet", "broken.parquet"),
        ("sheet.xlsx", "x", ".parquet"),
    ],
)
def test_bad_files_are_named(tmp_path, capsys, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert run("simulate", tmp_path / name, "-k", 2, "--out", tmp_path / "out") in (2, 3)
    assert words in capsys.readouterr().err


def test_a_folder_of_somebody_else_is_left_alone(file, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("ten years")
    assert run("simulate", file, "-k", 2, "--out", out) == 2
    assert "thesis" not in capsys.readouterr().err
    assert (out / "thesis.tex").read_text() == "ten years"


def test_which_folders_may_be_written(tmp_path, monkeypatch):
    out = tmp_path / "out"
    check_folder(out, MARK, MAKER)
    out.mkdir()
    check_folder(out, MARK, MAKER)
    (out / "index.html").write_text("")
    with pytest.raises(InputError, match="did not write"):
        check_folder(out, MARK, MAKER)
    (out / "simulation.json").write_text('{"made_by": "coterie simulate", "files": ["index.html"]}')
    check_folder(out, MARK, MAKER)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="did not write"):
        check_folder(out, MARK, MAKER)
    with pytest.raises(InputError, match="is a file"):
        check_folder(out / "notes.txt", MARK, MAKER)
    monkeypatch.chdir(out)
    with pytest.raises(InputError, match="that you are in"):
        check_folder(out, MARK, MAKER)


# -- options ---------------------------------------------------------------------------------------------------------


def test_bounds_by_hand():
    assert parse_file_bounds("age=0:120, a=b=-1:1e3,") == {"age": (0, 120), "a=b": (-1, 1000)}
    assert parse_file_bounds("") == {}
