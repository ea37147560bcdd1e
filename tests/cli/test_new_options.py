"""`coterie simulate` and its options on scales and numbers of clusters: what it says and writes, as a user sees it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from coterie.cli.parsing import parse_clusters, parse_numbers
from coterie.errors import InputError
from tests.cli.test_simulate import run
from tests.report.examples import assert_stands_alone
from tests.study.walk import read_parquet

RANDOM = np.random.RandomState(6)
GROUPS = np.concatenate(
    [
        np.column_stack([RANDOM.normal(a, 3, 30), RANDOM.uniform(20_000, 90_000, 30), RANDOM.normal(s, 1, 30)])
        for a, s in ((25, 3), (50, 14), (75, 5))
    ]
)[RANDOM.permutation(90)]


@pytest.fixture
def file(tmp_path):
    """With an id and a class, which are not meant to be clustered by."""
    path = tmp_path / "people.csv"
    rows = [f"{i + 100},{a!r},{m!r},{s!r},{i % 3}" for i, (a, m, s) in enumerate(GROUPS.tolist())]
    path.write_text("\n".join(["id,age,income,stay,class", *rows]) + "\n")
    return path


@pytest.mark.slow
def test_a_simulation_that_chooses(file, tmp_path, capsys):
    """From file to pages: standardised, two to four clusters."""
    out = tmp_path / "out"
    assert run("simulate", file, "--columns", "age,income,stay", "-k", "2:4", "--seed", 1, "--out", out) == 0
    said = capsys.readouterr().out
    summary = json.loads((out / "simulation.json").read_text())
    chosen, measures = summary["clusters"], summary["measures"]
    assert summary["tried"] == [2, 3, 4]
    known = {k: measure for k, measure in measures.items() if measure is not None}
    assert known[str(chosen)] == max(known.values())
    told = ", ".join(f"{measure:.4g} for {k}" for k, measure in known.items())
    assert f"{chosen} of 2, 3 or 4 clusters, by the Calinski-Harabasz index: {told}" in said
    assert f"{chosen} clusters of 90 rows x 3 columns" in said
    assert f"silhouette {summary['silhouette']:.4g}" in said
    assert "all 90 identical, from the same start" in said
    assert "with its defaults: inertia" in said
    assert "with its defaults, standardised: inertia" in said
    assert "over all numbers of clusters" in said
    assert "looks like" not in said
    assert set(summary["as_users_call_it"]) == {"its defaults", "its defaults, standardised"}
    labels = read_parquet(out / "labels.parquet")["label"]
    assert len(labels) == 90
    assert set(labels) == set(range(chosen))
    lines = (out / "centers.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["cluster", *map(str, range(chosen))]
    assert lines[0] == "cluster,age,income,stay"
    for page in ("index.html", "P1/report.html", "P2/report.html"):
        shown = assert_stands_alone((out / page).read_text())
        assert f"{chosen} clusters were chosen, of 2, 3 or 4." in shown.text
        assert any("over the number of clusters" in (image["alt"] or "") for image in shown.all("img"))
        assert "standard deviation" in shown.text
    helper = assert_stands_alone((out / "P0" / "report.html").read_text())
    assert not any("over the number of clusters" in (image["alt"] or "") for image in helper.all("img"))


def test_columns_that_are_not_meant_are_pointed_out(file, tmp_path, capsys):
    assert run("--json", "simulate", file, "-k", 2, "--partition", "vertical", "--out", tmp_path / "out") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {event["column"]: event["text"] for event in events if event["event"] == "misfit"}
    assert set(found) == {"id", "class"}
    assert found["id"] == "column id looks like an id: every row has another whole number; leave it out with --columns"
    assert found["class"].endswith("and its name says so; leave it out with --columns")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "4:2"], "--clusters 4:2"),
        (["-k", "3:3"], "--clusters 3:3"),
        (["-k", "1:3"], "--clusters 1:3"),
        (["-k", "a:b"], "--clusters 'a:b'"),
        (["-k", "2:91"], "--clusters 91"),
        (["-k", "2:3", "--choose", "elbow"], "--choose"),
        (["-k", "2", "--scale", "unit"], "--scale"),
        (["-k", "2", "--init", "first"], "--init"),
    ],
)
def test_bad_arguments_are_named(file, tmp_path, capsys, arguments, words):
    assert run("simulate", file, "--out", tmp_path / "out", "--columns", "age,stay", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_numbers_of_clusters_by_hand():
    assert parse_clusters("4") == 4
    assert parse_clusters("2:4") == range(2, 5)
    for wrong in ("", "x", "2:", ":3", "2:3:4", "4:2", "3:3", "1:4", "2.5"):
        with pytest.raises(InputError, match="--clusters"):
            parse_clusters(wrong)


def test_numbers_of_columns_by_hand():
    assert parse_numbers("--column-weights", "age=2, income=0.5,", "WEIGHT") == {"age": 2, "income": 0.5}
    with pytest.raises(InputError, match="--column-weights: age=x is not age=WEIGHT"):
        parse_numbers("--column-weights", "age=x", "WEIGHT")
