"""Cells become features: every kind of column, everything that can be wrong, and what is done about it."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest

from coterie.columns import Column, features_of, parse_date
from coterie.data.features import Cells, make_features, read_cells
from coterie.data.problems import FINE, INFINITE, MISSING, UNREADABLE
from coterie.errors import DataError

SECRET = "hunter2"
AGE = Column("age", 0, 120)


def numbers(*values: float) -> Cells:
    return Cells(np.array(values, float))


def texts(*values: str | None) -> Cells:
    return Cells(texts=np.array(values, object))


def made(columns, cells):
    return make_features(columns, cells, "t.csv", lambda rows: {row: f"row {row + 1}" for row in rows})


def refused(columns, cells) -> str:
    with pytest.raises(DataError) as caught:
        made(columns, cells)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_numbers_stay_as_they_are():
    values, kept, handled = made([AGE, Column("b", -1, 1)], [numbers(0, 120, 33.5), numbers(-1, 1, 0)])
    np.testing.assert_array_equal(values, [[0, -1], [120, 1], [33.5, 0]])
    np.testing.assert_array_equal(kept, [0, 1, 2])
    assert handled.describe() == []


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_category_is_one_column_for_each_value(size):
    names = tuple(f"v{i}" for i in range(size))
    column = Column("c", kind="category", categories=names)
    values = made([column], [texts(*names, f" {names[0]} ")]).values
    np.testing.assert_array_equal(values, np.vstack([np.eye(size), np.eye(size)[0]]))


def test_dates_and_booleans_as_text_and_as_numbers():
    seen = Column("seen", "2020-01-01", "2020-12-31", kind="date")
    yes = Column("yes", kind="boolean")
    day = parse_date("2020-02-03")
    as_text = [texts("2020-02-03", "2020-02-03T12:00"), texts("Yes", "f")]
    for cells in (as_text, [numbers(day, day + 0.5), numbers(1, 0)]):
        np.testing.assert_array_equal(made([seen, yes], cells).values, [[day, 1], [day + 0.5, 0]])


@pytest.mark.parametrize(("transform", "function"), [("log", np.log), ("log1p", np.log1p)])
def test_logarithms_stay_within_the_bounds(transform, function):
    random = np.random.RandomState(0)
    for low, high in random.uniform(0.1, 1000, (200, 2)).cumsum(axis=1):
        column = Column("a", low, high, transform=transform)
        values = made([column], [numbers(low, high, (low + high) / 2)]).values[:, 0]
        (one,) = features_of(column)
        assert one.low <= values[0] == pytest.approx(one.low)
        assert one.high >= values[1] == pytest.approx(one.high)
        assert values[2] == pytest.approx(function((low + high) / 2))


def test_clipping_sets_values_to_the_bounds_and_counts_them():
    values, _, handled = made([Column("a", 0, 10, clip=True)], [numbers(-5, 0, 10, 10.5, 3)])
    np.testing.assert_array_equal(values[:, 0], [0, 0, 10, 10, 3])
    assert handled.clipped == {"a": 2}
    assert handled.describe() == ["values clipped to the bounds: column 'a' (2)"]


def test_clipping_comes_before_the_logarithm():
    values = made([Column("a", 1, 100, clip=True, transform="log")], [numbers(-5, 1e9)]).values
    np.testing.assert_array_equal(values[:, 0], [0, math.log(100)])


def test_infinity_is_not_clipped():
    assert "infinite" in refused([Column("a", 0, 10, clip=True)], [numbers(math.inf)])


KINDS = {
    "number": (Column("a", 0, 9), numbers(1, math.nan, 3), 2.0, [[1], [2], [3]]),
    "category": (
        Column("a", kind="category", categories=("x", "y")),
        texts("x", None, "y"),
        "y",
        [[1, 0], [0, 1], [0, 1]],
    ),
    "date": (
        Column("a", "1970-01-01", "1970-01-09", kind="date"),
        texts("1970-01-02", "", "1970-01-04"),
        "1970-01-03",
        [[1], [2], [3]],
    ),
    "boolean": (Column("a", kind="boolean"), texts("no", " ", "yes"), True, [[0], [1], [1]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["error", "drop", "fill"])
def test_missing_values_of_every_kind(kind, way):
    column, cells, fill, filled = KINDS[kind]
    column = msgspec.structs.replace(column, missing=fill if way == "fill" else way)
    if way == "error":
        assert "t.csv, row 2, column 'a': the value is missing; fill it in" in refused([column], [cells])
        return
    values, kept, handled = made([column], [cells])
    if way == "fill":
        np.testing.assert_array_equal(values, filled)
        assert handled.filled == {"a": 1}
        assert handled.dropped == 0
    else:
        np.testing.assert_array_equal(values, [filled[0], filled[2]])
        np.testing.assert_array_equal(kept, [0, 2])
        assert (handled.read, handled.dropped, handled.missing) == (3, 1, {"a": 1})
        assert handled.describe() == ["1 of 3 rows are left out, for missing values in column 'a' (1)"]


def test_a_row_that_is_dropped_is_looked_at_no_further():
    columns = [
        Column("a", 0, 9, missing="drop"),
        Column("b", 0, 9),
        Column("c", 0, 9, missing=5.0),
        Column("d", 0, 9, clip=True),
    ]
    values, kept, handled = made(
        columns, [numbers(1, math.nan, 3), numbers(1, 99, 3), numbers(1, math.nan, math.nan), numbers(1, 99, 99)]
    )
    np.testing.assert_array_equal(values, [[1, 1, 1, 1], [3, 3, 5, 9]])
    np.testing.assert_array_equal(kept, [0, 2])
    assert (handled.filled, handled.clipped) == ({"c": 1}, {"d": 1})


def test_nothing_left_is_an_error():
    columns = [Column("a", 0, 9, missing="drop"), Column("b", 0, 9, missing="drop")]
    said = refused(columns, [numbers(math.nan, 1), numbers(1, math.nan)])
    assert "each of its 2 rows lacks a value in column 'a' (1), column 'b' (1)" in said
    assert "has no rows" in refused([AGE], [numbers()])


def test_all_problems_of_all_columns_in_one_message():
    columns = [
        Column("a", 0, 9),
        Column("b", kind="category", categories=("x", "y")),
        Column("c", "2020-01-01", "2020-12-31", kind="date"),
        Column("d", kind="boolean"),
    ]
    cells = [
        Cells(np.array([math.nan, math.nan, math.inf, 11]), present=np.array([True, False, False, False])),
        texts("X", SECRET, None, "x"),
        texts(SECRET, "2021-01-01", "2020-01-01", ""),
        texts(SECRET, "2", "yes", "no"),
    ]
    lines = refused(columns, cells).splitlines()
    assert lines[0] == "t.csv: 12 cells cannot be used"
    heads = [line.split(";")[0] for line in lines[1:]]
    assert heads == [
        "  - column 'a', 1 cell (row 2): the value is missing",
        "  - column 'a', 1 cell (row 1): not a number",
        "  - column 'a', 1 cell (row 3): the value is infinite or too large",
        "  - column 'a', 1 cell (row 4): the value is outside the study's bounds, 0 to 9",
        "  - column 'b', 1 cell (row 3): the value is missing",
        "  - column 'b', 2 cells (row 1, row 2): none of the agreed categories",
        "  - column 'c', 1 cell (row 4): the value is missing",
        "  - column 'c', 1 cell (row 1): not a date",
        "  - column 'c', 1 cell (row 2): the value is outside the study's bounds, 2020-01-01 to 2020-12-31",
        "  - column 'd', 2 cells (row 1, row 2): neither yes nor no",
    ]


@pytest.mark.parametrize("value", [0.5, 2, -1])
def test_a_number_that_is_no_boolean(value):
    assert "neither yes nor no" in refused([Column("a", kind="boolean")], [numbers(value)])


def test_every_cell_is_read_as_what_it_is():
    """All triples of what a cell of a number can be."""
    kinds = [
        (1.0, False, FINE),
        (math.nan, False, MISSING),
        (math.nan, True, UNREADABLE),
        (math.inf, False, INFINITE),
    ]
    for chosen in itertools.product(kinds, repeat=3):
        cells = Cells(np.array([one[0] for one in chosen]), present=np.array([one[1] for one in chosen]))
        _, faults = read_cells(Column("a", -math.inf, math.inf), cells)
        assert faults.tolist() == [one[2] for one in chosen]


def test_cells_do_not_show_what_is_in_them():
    assert repr(texts(SECRET)) == "<Cells: 1>"
