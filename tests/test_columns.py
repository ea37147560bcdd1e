"""Columns as they are declared, and the features that follow."""

from __future__ import annotations

import math

import pytest

from coterie.columns import (
    Column,
    bounds_of,
    features_of,
    fill_of,
    find_fault,
    list_features,
    parse_boolean,
    parse_date,
)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", 1),
        ("1969-12-31", -1),
        ("2000-03-01", 11_017),
        ("2024-02-29", 19_782),
        ("1970-01-01 12:00", 0.5),
        ("1970-01-01T06:00:00", 0.25),
        (" 1970-01-02 ", 1),
        ("1970-01-02T00:00:00Z", 1),
        ("1970-01-01T23:00-01:00", 1),
        ("1970-01-02 01:00:00+01:00", 1),
    ],
)
def test_dates_are_days(text, days):
    assert parse_date(text) == days


@pytest.mark.parametrize("text", ["", "1.2.2020", "2023-02-29", "01/02/2020", "yesterday", "2020-13-01", "18000"])
def test_what_is_no_date(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_date(text)


@pytest.mark.parametrize("text", ["true", "TRUE", "Yes", "y", "t", "1", " true "])
def test_yes(text):
    assert parse_boolean(text) == 1.0


@pytest.mark.parametrize("text", ["false", "No", "n", "F", "0"])
def test_no(text):
    assert parse_boolean(text) == 0.0


@pytest.mark.parametrize("text", ["", "2", "maybe", "1.0", "on"])
def test_neither(text):
    with pytest.raises(ValueError, match="neither"):
        parse_boolean(text)


AGE = Column("age", 0, 120)
SEX = Column("sex", kind="category", categories=("f", "m"), distance=1.5)
SEEN = Column("seen", "2020-01-01", "2020-01-31", kind="date")
SMOKER = Column("smoker", kind="boolean")
INCOME = Column("income", 1, math.e**10, transform="log")


def test_features_of_each_kind():
    found = list_features([AGE, SEX, SEEN, SMOKER, INCOME, Column("n", 0, math.e - 1, transform="log1p")])
    assert [one.name for one in found] == ["age", "sex=f", "sex=m", "seen", "smoker", "log(income)", "log1p(n)"]
    assert [one.column for one in found] == ["age", "sex", "sex", "seen", "smoker", "income", "n"]
    bounds = [(one.low, one.high) for one in found]
    assert bounds[:5] == [(0, 120), (0, 1), (0, 1), (18_262, 18_292), (0, 1)]
    assert bounds[5] == pytest.approx((0, 10))
    assert bounds[6] == pytest.approx((0, 1))
    assert [one.distance for one in found] == [0, 1.5, 1.5, 0, 0, 0, 0]


def test_room_for_rounded_centres():
    assert [one.room for one in features_of(SEX)] == [0, 0]
    assert [one.room for one in features_of(SEX, rounded=True)] == [0.25, 0.25]
    assert features_of(AGE, rounded=True)[0].room == 0


@pytest.mark.parametrize(
    ("column", "fill"),
    [
        (AGE, None),
        (Column("a", 0, 9, missing="drop"), None),
        (Column("a", 0, 9, missing=4), 4),
        (Column("a", 0, 9, missing=4.5), 4.5),
        (Column("a", kind="category", categories=("x", "y"), missing="y"), 1),
        (Column("a", "2020-01-01", "2020-02-01", kind="date", missing="2020-01-02"), 18_263),
        (Column("a", kind="boolean", missing=True), 1),
        (Column("a", kind="boolean", missing="no"), 0),
        (Column("a", kind="boolean", missing=0.0), 0),
    ],
)
def test_what_a_missing_value_counts_as(column, fill):
    assert fill_of(column) == fill
    assert find_fault(column) == ""


@pytest.mark.parametrize("column", [AGE, SEX, SEEN, SMOKER, INCOME, Column("a", 0, 9, clip=True)])
def test_columns_that_are_fine(column):
    assert find_fault(column) == ""
    low, high = bounds_of(column)
    assert low < high


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"low": 3.0, "high": 3.0}, "low before high"),
        ({"low": 0.0, "high": math.inf}, "finite"),
        ({"low": "2020-01-01", "high": "2021-01-01"}, "must be numbers"),
        ({"kind": "date"}, "must be ISO dates"),
        ({"kind": "date", "low": "x", "high": "2021-01-01"}, "must be ISO dates"),
        ({"kind": "date", "low": "2021-01-01", "high": "2020-01-01"}, "low before high"),
        ({"categories": ("a", "b")}, "kind category"),
        ({"kind": "category"}, "needs them"),
        ({"kind": "category", "categories": ("a",)}, "2 to 100"),
        ({"kind": "category", "categories": ("a", "a")}, "each once"),
        ({"kind": "category", "categories": ("a", " b")}, "no blanks around"),
        ({"kind": "category", "categories": ("a", "")}, "printable"),
        ({"kind": "category", "categories": ("a", "b\n")}, "printable"),
        ({"kind": "category", "categories": ("a", "b"), "distance": 0.0}, "above 0"),
        ({"kind": "category", "categories": ("a", "b"), "distance": math.nan}, "above 0"),
        ({"kind": "category", "categories": ("a", "b"), "low": 0.5}, "not for a category"),
        ({"kind": "category", "categories": ("a", "b"), "clip": True}, "not for a category"),
        ({"kind": "category", "categories": ("a", "b"), "missing": "c"}, "one of the categories"),
        ({"kind": "category", "categories": ("a", "b"), "missing": 1.0}, "one of the categories"),
        ({"kind": "boolean", "high": 2.0}, "not for a boolean"),
        ({"kind": "boolean", "transform": "log"}, "not for a boolean"),
        ({"kind": "boolean", "missing": 2.0}, "true or false"),
        ({"kind": "boolean", "missing": "maybe"}, "true or false"),
        ({"distance": 2.0}, "for categories"),
        ({"low": 0.0, "high": 9.0, "transform": "log"}, "above 0"),
        ({"low": -0.5, "high": 9.0, "transform": "log1p"}, "at least 0"),
        ({"kind": "date", "low": "2020-01-01", "high": "2021-01-01", "transform": "log"}, "for numbers"),
        ({"missing": "mean"}, "a number"),
        ({"missing": True}, "a number"),
        ({"missing": 7.0}, "within the bounds"),
        ({"missing": math.nan}, "within the bounds"),
        ({"kind": "date", "low": "2020-01-01", "high": "2021-01-01", "missing": "2022-01-01"}, "within the bounds"),
        ({"kind": "date", "low": "2020-01-01", "high": "2021-01-01", "missing": 3.0}, "an ISO date"),
    ],
)
def test_columns_that_are_not(fields, said):
    assert said in find_fault(Column("a", **fields))
