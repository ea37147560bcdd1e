"""Which columns of a file a simulation takes."""

from __future__ import annotations

import pytest

from coterie.data.files import find_numeric_columns
from coterie.errors import DataError
from coterie.simulation.numeric_file import read_numeric_file


def test_parquet_columns_by_type(tmp_path):
    import duckdb

    path = tmp_path / "odd [1]*.parquet"
    duckdb.sql(
        "COPY (SELECT 1::UTINYINT AS a, 2.5::DECIMAL(5, 2) AS b, 'x' AS c, true AS e, DATE '2020-01-01' AS f, "
        f"3::HUGEINT AS g, 1.5::FLOAT AS h) TO '{path}' (FORMAT parquet)"
    )
    assert [name for name, numeric in find_numeric_columns(path).items() if numeric] == ["a", "b", "g", "h"]
    data = read_numeric_file(path, [], {})
    assert data.names == ["a", "b", "g", "h"]
    assert data.left_out == ["c", "e", "f"]
    assert data.values.tolist() == [[1, 2.5, 3, 1.5]]


def test_wanted_columns_come_in_the_order_asked_for(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("who,age,height,mass\nann,40,1.7,60.5\nbob,50,1.8,80.5\n")
    data = read_numeric_file(file, ["mass", "age"], {})
    assert data.names == ["mass", "age"]
    assert data.left_out == []
    with pytest.raises(DataError):
        read_numeric_file(file, ["mass"], {"mass": (100.0, 200.0)})
