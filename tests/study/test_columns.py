"""Tables with words, dates and gaps go through a study as scikit-learn would cluster them once they were prepared by
hand, and as the oracle does bit for bit."""

from __future__ import annotations

import csv
import datetime

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.errors import DataError, StudyError
from coterie.study.voice import Voice
from tests.study.patients import (
    APART,
    FEATURES,
    HOLDERS,
    OPTIONS,
    check_against_oracle,
    features,
    give,
    make_patients,
    prepared,
    scaled,
    start_of,
)
from tests.study.walk import Cast, coterie

PATIENTS = make_patients()
BY_ID = sorted(PATIENTS, key=lambda one: one.id)
NAMES = ("alice", "bob", "carol")


def by_columns(parties):
    holds = ",".join(f"{name}={','.join(held)}" for name, held in HOLDERS[parties].items())
    return ("--partition", "vertical", "--id", "id", "--holds", holds, "--matching", "shared")


def fit_by_hand(x, scale):
    """scikit-learn from the same start."""
    own = scaled(x, scale)
    return KMeans(3, init=start_of(own), n_init=1, tol=1e-4).fit(own)


def labels_by_hand(x, scale, closed):
    """By scikit-learn's centres; those of closed clusters attract no row."""
    distances = fit_by_hand(x, scale).transform(scaled(x, scale))
    distances[:, closed] = np.inf
    return distances.argmin(axis=1)


WAYS = [
    pytest.param(2, True, "standard", id="2-rows-standard"),
    pytest.param(3, False, "standard", id="3-columns-standard"),
    *(
        pytest.param(p, rows, scale, marks=pytest.mark.slow, id=f"{p}-{'rows' if rows else 'columns'}-{scale}")
        for p in (2, 3)
        for rows in (True, False)
        for scale in ("standard", "bounds", "none")
        if (p, rows, scale) not in ((2, True, "standard"), (3, False, "standard"))
    ),
]


class Listening(Voice):
    def __init__(self):
        self.heard = []

    def note(self, text):
        self.heard.append(text)


@pytest.mark.parametrize(("parties", "horizontal", "scale"), WAYS)
def test_a_table_as_it_is(tmp_path, no_pictures, parties, horizontal, scale):
    with Cast(tmp_path, NAMES[:parties]) as cast:
        cast.agree(*OPTIONS, "--scale", scale, *(() if horizontal else by_columns(parties)))
        rows = give(cast, PATIENTS, horizontal, bob="data.parquet")
        voices = {name: Listening() for name in cast.names}
        cast.run(voices=voices)
        pool = PATIENTS if horizontal else BY_ID
        _, oracle = check_against_oracle(cast, pool)
        x = features(pool)
        labels = labels_by_hand(x, scale, oracle.suppressed)
        kept = [one for one in pool if prepared(one)]
        np.testing.assert_array_equal(oracle.labels, labels)
        expected = dict(zip([one.id for one in kept], labels.tolist(), strict=True))
        for name in cast.parties:
            found = cast.labels(name)
            mine = {one.id for one in rows[name] if prepared(one)}
            if not horizontal:
                assert dict(zip(found["id"], found["label"], strict=True)) == expected
            else:
                assert found["label"] == [expected[one.id] for one in rows[name] if one.id in mine]
                assert found["row"] == [1 + i for i, one in enumerate(rows[name]) if one.id in mine]
        check_what_was_told(cast, voices, rows)


def check_what_was_told(cast, voices, rows):
    """Each owner hears of its own gaps, and nobody of another's."""
    study = cast.study
    for rank, name in enumerate(cast.parties, start=1):
        held = {column.name for column in study.own_declared(rank)}
        ages = sum(not one.age for one in rows[name]) if "age" in held else 0
        told = cast.document(name, "manifest.json")["rows"]
        assert told["read"] == len(rows[name])
        assert told["dropped"] == ages
        assert told["missing"] == ({"age": ages} if ages else {})
        kept = [one for one in rows[name] if one.age or "age" not in held]
        filled = {c: sum(not getattr(one, c) for one in kept) for c in ("sex", "smoker", "bmi") if c in held}
        assert told["filled"] == {c: count for c, count in filled.items() if count}
        clipped = sum(float(one.income) < 100 for one in kept) if "income" in held else 0
        assert told["clipped"] == ({"income": clipped} if clipped else {})
        assert any("rows are left out" in text for text in voices[name].heard) == bool(ages)
    assert "rows" not in cast.document("helper", "manifest.json")


NEW = make_patients(45)


@pytest.mark.parametrize("horizontal", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("centers", ["revealed", pytest.param("shared", marks=pytest.mark.slow)])
def test_a_prediction_takes_the_same_rules(tmp_path, no_pictures, horizontal, centers):
    with Cast(tmp_path) as cast:
        cast.agree(*OPTIONS, "--centers", centers, *(() if horizontal else by_columns(2)))
        give(cast, PATIENTS, horizontal)
        cast.run()
        x = features(PATIENTS)
        fit = fit_by_hand(x, "standard") if horizontal else fit_by_hand(features(BY_ID), "standard")
        kept = [one for one in NEW if prepared(one)]
        spread = x.std(axis=0)
        spread[1:4] = np.sqrt(2) / APART
        expected = dict(zip([one.id for one in kept], fit.predict(features(NEW) / spread).tolist(), strict=True))
        held = [None] * 2 if horizontal else list(HOLDERS[2].values())
        each = {}
        for name, columns in zip(cast.parties, held, strict=True):
            columns = ("id", *(columns or PATIENTS[0]._fields[1:]))
            path = cast.write(name, "new.csv", **{c: [getattr(one, c) for one in NEW] for c in columns})
            each[name] = {"data": str(path)}
        if not horizontal or centers == "shared":
            each["helper"] = {}
        cast.predict(each)
        for name in cast.parties:
            found = cast.labels(name, "predictions")
            assert found["row"] == [1 + i for i, one in enumerate(NEW) if prepared(one)]
            assert found["label"] == [expected[one.id] for one in kept]


def test_rounded_categories(tmp_path, no_pictures):
    """Centres of a category are multiples of a step of 2 over the least size, but for the last, which is the rest."""
    with Cast(tmp_path) as cast:
        cast.agree(*OPTIONS, "--resolution", "sex=1,smoker=1")
        give(cast, PATIENTS, horizontal=True)
        cast.run()
        task, _ = check_against_oracle(cast, PATIENTS)
        assert [bool(shift) for shift in task.grid] == [False, True, True, False, False, True, False, False]
        for row in cast.centers("alice"):
            shares = [float(row[name]) for name in FEATURES[1:4]]
            assert sum(shares) == pytest.approx(1.0, abs=1e-12)
            step = float(task.encoding.unit[1]) * 2.0 ** (task.grid[1] - task.encoding.f)
            assert 2 / 10 <= step < 4 / 10
            for share in shares[:2]:
                assert (share - 0.5) / step == pytest.approx(round((share - 0.5) / step), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--categories", "sex=f"), "column 'sex': there must be 2 to 100 categories"),
        (("--categories", "sex=f|m"), 'missing must be "error", "drop" or one of the categories'),
        (("--distance", "sex=3"), "categories are 0.1 to 2.8 apart"),
        (("--distance", "age=1.5"), "column 'age': a distance is for categories"),
        (("--transform", "age=log"), "column 'age': a logarithm needs a lower bound above 0"),
        (("--transform", "age=sqrt"), "transform"),
        (("--kinds", "admitted=time,smoker=boolean"), "--kinds: 'time' is none of boolean, category, date, number"),
        (("--kinds", "smoker=boolean"), "column 'admitted': the bounds must be numbers"),
        (("--missing", "age=many"), "--missing: age=many is not age=drop or age=NUMBER"),
        (("--missing", "age=130"), "column 'age': what a missing value counts as must lie within the bounds"),
        (("--missing", "height=drop"), "--missing names column 'height', which is not among --columns"),
        (("--clip", "sex"), "column 'sex': bounds, clip and transform are not for a category"),
        (("--resolution", "sex=2"), "the resolution of column 'sex' must be 1"),
        (("--resolution", "income=1"), "column 'income': logarithms lie on no grid"),
        (by_columns(2)[:6], "column 'age': missing = \"drop\" leaves out rows that others do not"),
    ],
)
def test_what_cannot_be_declared(cast, options, said):
    given = list(OPTIONS)
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option in given:
            given[given.index(option) + 1] = value
        else:
            given += [option, value]
    made = cast.create(*given)
    assert made.code == 2, made.out
    assert said in made.err


def test_names_of_features_must_differ(cast):
    options = ("--clusters", 3, "--columns", "log(a),a", "--bounds", "log(a)=0:1,a=1:2", "--transform", "a=log")
    assert "'log(a)' would be clustered by twice" in cast.create(*options).err


def test_explain_says_what_is_made_of_columns(cast):
    cast.agree(*OPTIONS)
    said = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    for part in (
        "age: between 0 and 120; rows without a value are left out",
        "sex: one of f, m and x, any two 1.5 apart in distances between rows; a missing value counts as x",
        "admitted: a date between 2020-01-01 and 2024-12-31",
        "smoker: true or false, as 1 or 0; a missing value counts as no",
        "income: between 100 and 1e+06, others set to the nearer of these; its logarithm counts",
        "bmi: between 10 and 60; a missing value counts as 25.5",
    ):
        assert part in said


def test_other_categories_are_another_study(cast):
    first = cast.agree(*OPTIONS)
    text = cast.study_file("bob").read_text()
    assert '"f"' in text
    cast.study_file("bob").write_text(text.replace('"f"', '"w"').replace("sex=f", "sex=w"))
    give(cast, PATIENTS, horizontal=True)
    ended = cast.take_part(names=["bob"], wait=0.0)
    assert isinstance(ended["bob"], StudyError), ended
    assert first.data.columns[1].categories == ("f", "m", "x")


def test_unknown_words_are_counted_and_never_shown(cast):
    cast.agree(*OPTIONS)
    secret = "hunter2"
    rows = [one._replace(sex=secret) if i in (3, 8) else one for i, one in enumerate(PATIENTS)]
    rows = [one._replace(admitted=secret, smoker=secret) if i == 9 else one for i, one in enumerate(rows)]
    give(cast, rows, horizontal=True)
    ended = cast.take_part(names=["alice"], wait=0.0)
    assert isinstance(ended["alice"], DataError)
    said = str(ended["alice"])
    assert secret not in said
    assert "column 'sex', 2 cells (data row 4 (line 5), data row 9 (line 10)): none of the agreed categories" in said
    assert "column 'admitted', 1 cell (data row 10 (line 11)): not a date" in said
    assert "column 'smoker', 1 cell (data row 10 (line 11)): neither yes nor no" in said


def test_a_mean_date_is_a_date(tmp_path):
    """In the report and in centers.csv, where a number of days would say nothing to a reader."""
    with Cast(tmp_path) as cast:
        cast.agree(*OPTIONS)
        give(cast, PATIENTS, True)
        cast.run()
        with cast.at("alice", "results", "centers.csv").open(newline="") as file:
            head, *rows = csv.reader(file)
        days = [datetime.datetime.fromisoformat(row[head.index("admitted")]) for row in rows]
        assert all(2020 <= day.year <= 2024 for day in days)
        report = cast.at("alice", "results", "report.html").read_text()
        assert all(f">{(day + datetime.timedelta(hours=12)).date()}<" in report for day in days)
