"""Columns as they are: gaps stay gaps, values lie where they lie, and what is no number is refused without a word of
it."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from coterie.data import CsvFormat, Wanted
from coterie.data.lenient import read_with_gaps
from coterie.errors import DataError, InputError

COLUMNS = [Wanted("x", 0.0, 1.0), Wanted("y", 0.0, 1.0)]
NAN = float("nan")
EXPECTED = np.array([[0.5, NAN], [NAN, -7.0], [300.0, 0.25]])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_gaps_and_values_out_of_bounds(tmp_path, kind):
    path = tmp_path / f"data.{kind}"
    if kind == "csv":
        path.write_text("name,x,y\na,0.5,\nb,  ,-7\nc,300,0.25\n")
    else:
        rows = "(values ('a', 0.5, null), ('b', 'nan'::double, -7), ('c', 300, 0.25)) t(name, x, y)"
        duckdb.sql(f"copy (select name, x::double as x, y::double as y from {rows}) to '{path}' (format parquet)")
    found = read_with_gaps(str(path), COLUMNS)
    np.testing.assert_array_equal(found.values, EXPECTED)
    assert found.ids is None
    assert found.values[np.isnan(found.values)].tobytes() == np.full(2, np.nan).tobytes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n1,2\n1,seven\n", "data row 2 (line 3), column 'y': not a number"),
        ("x,y\n1,2\n-inf,3\n", "data row 2 (line 3), column 'x': the value is infinite or too large"),
        ("x,y\n", "has no rows"),
        ("x,z\n1,2\n", "has no column 'y'"),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        read_with_gaps(str(tmp_path / "data.csv"), COLUMNS)
    assert words in str(caught.value)
    assert "seven" not in str(caught.value)


def test_columns_must_be_asked_for(tmp_path):
    with pytest.raises(InputError, match="no columns"):
        read_with_gaps(str(tmp_path / "data.csv"), [])


def test_a_file_written_in_another_way(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("name;x;y\nä;0,5;\nb; ;-7\nc;300;0,25\n", encoding="windows-1252")
    found = read_with_gaps(str(path), COLUMNS, csv=CsvFormat(";", ",", "windows-1252"))
    np.testing.assert_array_equal(found.values, EXPECTED)
