"""Words, dates and booleans, as every source has them; and CSV files that are written in another way."""

from __future__ import annotations

import gzip

import duckdb
import numpy as np
import pytest

from coterie.columns import Column, parse_date
from coterie.data import CsvFormat, read_rows
from coterie.errors import DataError, InputError

SECRET = "hunter2"
COLUMNS = [
    Column("age", 0, 120, missing=40.0),
    Column("sex", kind="category", categories=("f", "m"), missing="drop"),
    Column("ward", kind="category", categories=("1", "2", "10")),
    Column("seen", "2020-01-01", "2020-12-31", kind="date"),
    Column("smoker", kind="boolean", missing=False),
]
ROWS = """
    (30, 'f', 1, DATE '2020-02-01', true),
    (NULL, 'm', 2, DATE '2020-02-29', false),
    (50, NULL, 10, DATE '2020-03-01', true),
    (60.5, ' m ', 10, DATE '2020-12-31', NULL)
"""
DAYS = [parse_date(day) for day in ("2020-02-01", "2020-02-29", "2020-12-31")]
MADE = [
    [30, 1, 0, 1, 0, 0, DAYS[0], 1],
    [40, 0, 1, 0, 1, 0, DAYS[1], 0],
    [60.5, 0, 1, 0, 0, 1, DAYS[2], 0],
]


def write(path, types: str = "") -> str:
    """The table as a file of this kind; `types` replaces those of columns."""
    source = f"(VALUES {ROWS}) AS t(age, sex, ward, seen, smoker)"
    select = f"SELECT * {types} FROM {source}"
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t AS {select}")
    else:
        options = "FORMAT parquet" if path.suffix == ".parquet" else "FORMAT csv, HEADER"
        duckdb.sql(f"COPY ({select}) TO '{path}' ({options})")
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "duckdb"])
def test_every_kind_of_column_from_every_kind_of_file(tmp_path, ending):
    rows = read_rows(write(tmp_path / f"t.{ending}"), COLUMNS)
    np.testing.assert_array_equal(rows.values, MADE)
    np.testing.assert_array_equal(rows.places, [0, 1, 3])
    assert rows.handled.describe() == [
        "1 of 4 rows are left out, for missing values in column 'sex' (1)",
        "values filled in as agreed: column 'age' (1), column 'smoker' (1)",
    ]


@pytest.mark.parametrize(
    "types",
    [
        "REPLACE (seen::TIMESTAMP AS seen)",
        "REPLACE (seen::TIMESTAMP_NS AS seen)",
        "REPLACE (seen::TIMESTAMP_S AS seen)",
        "REPLACE (seen::VARCHAR AS seen)",
        "REPLACE (ward::VARCHAR AS ward)",
        "REPLACE (ward::DOUBLE AS ward)",
        "REPLACE (ward::TINYINT AS ward)",
        "REPLACE (smoker::INTEGER AS smoker)",
        "REPLACE (smoker::DOUBLE AS smoker)",
        "REPLACE (if(smoker, 'Yes', 'no') AS smoker)",
    ],
)
def test_other_types_of_the_same_values(tmp_path, types):
    np.testing.assert_array_equal(read_rows(write(tmp_path / "t.parquet", types), COLUMNS).values, MADE)


def test_a_time_of_day_is_a_part_of_a_day(tmp_path):
    types = "REPLACE (seen::TIMESTAMP + INTERVAL 6 HOUR AS seen)"
    columns = [Column("seen", "2020-01-01", "2021-12-31", kind="date")]
    values = read_rows(write(tmp_path / "t.parquet", types), columns).values
    assert (values[:, 0] % 1 == 0.25).all()


@pytest.mark.parametrize("kind", ["number", "date", "boolean", "category"])
def test_types_that_do_not_serve(tmp_path, kind):
    path = tmp_path / "t.parquet"
    duckdb.sql(f"COPY (SELECT [1, 2] AS a) TO '{path}' (FORMAT parquet)")
    fields = {"categories": ("a", "b")} if kind == "category" else {}
    with pytest.raises(DataError, match=rf"column 'a' is of type INTEGER\[\], which is not a {kind}"):
        read_rows(str(path), [Column("a", kind=kind, **fields)])


def test_ids_go_with_the_rows_that_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a\nx,1\ny,\nz,3\n")
    rows = read_rows(str(path), [Column("a", 0, 9, missing="drop")], "id")
    assert rows.ids == ["x", "z"]
    np.testing.assert_array_equal(rows.take(np.array([1, 0])).places, [2, 0])


# -- how a CSV file is written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252", "latin-1"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_german_file(tmp_path, encoding, compressed):
    text = 'Größe;Ort;n\n1,75;"Köln; Süd";3\n1,8;Bonn;4\n'
    path = tmp_path / ("t.csv.gz" if compressed else "t.csv")
    raw = text.encode(encoding)
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    columns = [
        Column("Größe", 0, 3),
        Column("Ort", kind="category", categories=("Köln; Süd", "Bonn")),
        Column("n", 0, 9),
    ]
    rows = read_rows(str(path), columns, csv=CsvFormat(";", ",", encoding))
    np.testing.assert_array_equal(rows.values, [[1.75, 1, 0, 3], [1.8, 0, 1, 4]])
    rows = read_rows(
        str(path), columns, csv=CsvFormat(";", ",", encoding), query="SELECT * FROM data WHERE \"Ort\" = 'Bonn'"
    )
    np.testing.assert_array_equal(rows.values, [[1.8, 0, 1, 4]])


def test_a_point_is_no_decimal_mark_where_a_comma_is(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a;b\n1.5;2\n1,5;{SECRET}\n")
    with pytest.raises(DataError) as caught:
        read_rows(str(path), [Column("a", 0, 9), Column("b", 0, 9)], csv=CsvFormat(";", ","))
    assert "column 'a', 1 cell (data row 1 (line 2)): not a number" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_another_encoding_than_that_of_the_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,ä\n1,2\n".encode("windows-1252"))
    with pytest.raises(DataError, match=r"the header is not UTF-8 text; save the file as UTF-8, or say .* --encoding"):
        read_rows(str(path), [Column("a", 0, 9)])
    with pytest.raises(DataError, match="this is not text in the encoding utf-16; give another --encoding"):
        read_rows(str(path), [Column("a", 0, 9)], csv=CsvFormat(encoding="utf-16"))


@pytest.mark.parametrize(
    "written", [CsvFormat(";"), CsvFormat(decimal=",", delimiter=";"), CsvFormat(encoding="latin-1")]
)
def test_only_csv_is_written_in_ways_of_its_own(tmp_path, written):
    with pytest.raises(InputError, match="are for CSV files"):
        read_rows(write(tmp_path / "t.parquet"), COLUMNS, csv=written)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delimiter": ";;"}, "--delimiter"),
        ({"delimiter": ""}, "--delimiter"),
        ({"delimiter": "a"}, "--delimiter"),
        ({"delimiter": '"'}, "--delimiter"),
        ({"decimal": "'"}, "--decimal"),
        ({"decimal": ",", "delimiter": ","}, "are the same mark"),
        ({"encoding": "klingon"}, "--encoding 'klingon' is not known"),
    ],
)
def test_ways_that_are_none(given, said):
    with pytest.raises(InputError, match=said):
        CsvFormat(**given)
