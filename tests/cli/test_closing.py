"""How a run ends on the screen: a table of what is in centers.csv and nothing else, cut to the screen."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console as Rich

from coterie.cli.closing import MOST_LINES, show_end
from coterie.cli.console import Console
from coterie.study.identity import Identity
from coterie.study.study_file import create_study
from coterie.transport.certificates import create_credentials, fingerprint


@pytest.fixture(scope="module")
def people():
    made = {name: create_credentials(name).certificate for name in ("alice", "bob", "helper")}
    return [Identity(name, f"{name}:1", fingerprint(text), text) for name, text in made.items()]


def study_of(people, columns, **options):
    *parties, helper = people
    return create_study(
        "s", parties, helper, clusters=3, partition="horizontal", columns=list(columns), bounds=dict(columns), **options
    )


def shown(study, folder, text, width=80, json=False, terminal=False):
    """What is said of a centers.csv with this text."""
    if text is not None:
        (folder / "centers.csv").write_text(text, encoding="utf-8")
    console = Console(json=json)
    stream = io.StringIO()
    console.rich = Rich(file=stream, width=width, soft_wrap=True, highlight=False, force_terminal=terminal)
    show_end(console, folder, study)
    return stream.getvalue()


def test_open_and_closed_clusters(people, tmp_path):
    study = study_of(people, {"age": (0, 120), "income": (0, 500_000)})
    text = "cluster,age,income\n0,44.9512,60190.25\n1,,\n2,30.125,29000.0\n"
    lines = shown(study, tmp_path, text).splitlines()
    assert [line.split() for line in lines[:5]] == [
        ["The", "centres,", "in", "data", "units:"],
        ["cluster", "age", "income"],
        ["0", "45.0", "60,190"],
        ["1", "(closed)"],
        ["2", "30.1", "29,000"],
    ]
    assert lines[5].startswith("(closed: does not pass the output rules")
    assert lines[6] == f"done: results are in {tmp_path}; to read: {tmp_path / 'report.html'}"
    assert len(lines) == 7


def test_no_colour_codes_where_there_is_no_terminal(people, tmp_path):
    study = study_of(people, {"age": (0, 120)})
    text = "cluster,age\n0,1.0\n1,2.0\n2,3.0\n"
    assert "\x1b" not in shown(study, tmp_path, text)
    assert "\x1b[1m" in shown(study, tmp_path, text, terminal=True)


def test_sizes_and_dates_and_columns_of_that_name(people, tmp_path):
    columns = {"size": (0, 120), "born": ("1900-01-01", "2020-01-01")}
    study = study_of(people, columns, kinds={"born": "date"}, sizes="rounded")
    text = "cluster,size,size,born\n0,40,3.25,1980-02-01T18:00:00\n1,30,5.0,1990-01-01T00:00:00\n2,10,,\n"
    found = [line.split() for line in shown(study, tmp_path, text).splitlines()[1:5]]
    assert found == [
        ["cluster", "size", "size", "born"],
        ["0", "40", "3.2", "1980-02-02"],
        ["1", "30", "5.0", "1990-01-01"],
        ["2", "(closed)"],
    ]
    secret = study_of(people, {"size": (0, 120)})
    found = [line.split() for line in shown(secret, tmp_path, "cluster,size\n0,1.0\n1,2.0\n2,\n").splitlines()[1:5]]
    assert found == [["cluster", "size"], ["0", "1.0"], ["1", "2.0"], ["2", "(closed)"]]


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 6), (3, 40), (40, 3), (60, 60)])
def test_every_table_fits_the_screen_and_says_what_is_left_out(people, tmp_path, width, k, d):
    names = [f"c{l}" for l in range(d)]
    study = study_of(people, dict.fromkeys(names, (0, 100)))
    rows = [",".join([str(j), *(f"{l}.5" for l in range(d))]) for j in range(k)]
    said = shown(study, tmp_path, "\n".join([",".join(["cluster", *names]), *rows]) + "\n", width).splitlines()
    head = next(i for i, line in enumerate(said) if line.startswith(("cluster ", "column ")))
    table = [line for line in said[head:] if not line.startswith(("and ", "done"))]
    assert max(map(cell_len, table)) <= width
    assert len(table) <= MOST_LINES + 1
    down, across = len(table) - 1, len(table[0].replace("cluster ", "cluster").split()) - 1
    if said[head].startswith("column"):
        assert across == k  # turned only if so all clusters fit
        missing = {"column": d - down, "cluster": 0}
    else:
        across = len(table[0].split()) - 1
        missing = {"column": d - across, "cluster": k - down}
    left_out = next((line for line in said if line.startswith("and ")), "")
    for noun, count in missing.items():
        assert (f"{count} more {noun}" in left_out) == (count > 0)
    assert ("centers.csv" in left_out) == any(missing.values())


def test_names_of_columns_do_nothing_to_the_terminal(people, tmp_path):
    name = "[red]x[/red]" + "y" * 40
    study = study_of(people, {name: (0, 1), "b": (0, 1)})
    said = shown(study, tmp_path, f"cluster,{name},b\n0,0.5,0.25\n1,0.5,0.25\n2,0.5,0.25\n", terminal=True)
    assert "[red]x[/red]yyyyyyyyyyy…" in said


def test_the_helper_has_no_table(people, tmp_path):
    said = shown(study_of(people, {"age": (0, 120)}), tmp_path, None)
    assert said == f"done: results are in {tmp_path}; to read: {tmp_path / 'report.html'}\n"


def test_machines_get_what_the_file_holds(people, tmp_path, capsys):
    study = study_of(people, {"age": (0, 120)}, sizes="rounded")
    shown(study, tmp_path, "cluster,size,age\n0,40,44.9512\n1,10,\n", json=True)
    first = msgspec.json.decode(capsys.readouterr().out.splitlines()[0])
    assert first == {
        "event": "centers",
        "columns": ["age"],
        "clusters": [
            {"cluster": 0, "closed": False, "size": 40, "center": ["44.9512"]},
            {"cluster": 1, "closed": True, "center": None},
        ],
    }
