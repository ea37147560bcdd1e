"""Reading data from files: what arrives, bit for bit, and that whatever is wrong is named without being quoted."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.data import Rows, Wanted, read_rows, sort_by_id, write_labels
from coterie.data.csv_file import CsvFile
from coterie.data.quoting import quote_name, quote_text
from coterie.data.relations import NUMBER_TYPES, SETTINGS
from coterie.errors import DataError, InputError

#: Planted wherever a value is wrong. No message may hold it.
SECRET = "713.90625"
SECRET_TEXT = "Zaphod"
HUGE = 1.7e308
KINDS = ("csv", "parquet", "duckdb")
#: What Python or DuckDB, of one kind or another, takes for a number.
NO_NUMBERS = ["1_000", "1e5_0", "1_0.5", "+-1", "0x10", "１２", "١"]


def column(name, low=-HUGE, high=HUGE):
    return Wanted(name, low, high)


AB = [column("a"), column("b")]


def read(source, columns=AB, id_column=None, **options):
    return read_rows(str(source), columns, id_column, **options)


def refused(source, columns=AB, id_column=None, *, kind=DataError, **options):
    """The message of the error, which is of exactly this kind and from which no value can be learnt."""
    with pytest.raises(kind) as caught:
        read(source, columns, id_column, **options)
    error = caught.value
    assert type(error) is kind
    assert error.__cause__ is None
    assert error.__context__ is None
    printed = "".join(traceback.format_exception(error))
    assert SECRET not in printed
    assert SECRET_TEXT not in printed
    return str(error)


def file(folder, name, content):
    path = Path(folder) / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def csv_file(folder, content, name="alice.csv"):
    return file(folder, name, content)


def parquet_file(folder, columns, name="alice.parquet"):
    """`columns`: pairs of name and Arrow array or list; names may repeat."""
    arrays = [values if isinstance(values, pyarrow.Array) else pyarrow.array(values) for _, values in columns]
    table = pyarrow.Table.from_arrays(arrays, names=[name for name, _ in columns])
    path = Path(folder) / name
    pyarrow.parquet.write_table(table, path, row_group_size=20_000)
    return path


def duckdb_file(folder, *statements, name="alice.duckdb"):
    path = Path(folder) / name
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def stored(kind, folder, names, values):
    """A table of doubles as a file of this kind."""
    path = Path(folder) / f"table.{kind}"
    if kind == "csv":
        lines = [",".join(quoted(name) for name in names)] + [
            ",".join(repr(float(value)) for value in row) for row in values
        ]
        return file(folder, path.name, "\n".join(lines) + "\n")
    columns = [(name, pyarrow.array(values[:, i])) for i, name in enumerate(names)]
    parquet = parquet_file(folder, columns, "table.parquet")
    if kind == "parquet":
        return parquet
    aliases = ", ".join(quote_name(name) for name in names)
    scan = f"read_parquet({quote_text(str(parquet))})"
    return duckdb_file(folder, f"CREATE TABLE t AS SELECT * FROM {scan} AS t({aliases})", name=path.name)


# --- What arrives ---


def test_csv_by_hand(tmp_path):
    path = csv_file(tmp_path, 'b,name,a\n1,x,0.1\n-2.5e3,"y, z",+7\n')
    rows = read(path)
    np.testing.assert_array_equal(rows.values, [[0.1, 1.0], [7.0, -2500.0]])
    assert rows.ids is None
    assert rows.source == str(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "a\tb\n1\t2\n"),
        ("x.CSV", "a,b\n1,2\n"),
        ("x.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)),
        ("x.tsv.gz", gzip.compress(b"a\tb\n1\t2\n", mtime=0)),
        ("mark.csv", b"\xef\xbb\xbfa,b\n1,2\n"),
        ("mark_and_quotes.csv", b'\xef\xbb\xbf"a","b"\n"1","2"\n'),
        ("windows.csv", "a,b\r\n1,2\r\n"),
        ("old_mac.csv", "a,b\r1,2\r"),
        ("no_last_line_end.csv", "a,b\n1,2"),
        ("blanks.csv", "a , b\n 1 , 2\n"),
        ("blank_lines.csv", "a,b\n\n1,2\n\n\n"),
        ("header_of_two_lines.csv", '"x\ny",a,b\nq,1,2\n'),
        ("unnamed_columns.csv", ",a,b,\nq,1,2,q\n"),
    ],
)
def test_dialects_of_csv(tmp_path, name, content):
    np.testing.assert_array_equal(read(file(tmp_path, name, content)).values, [[1.0, 2.0]])


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 4).flatmap(
        lambda d: st.lists(
            st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=d, max_size=d), min_size=1, max_size=20
        )
    ),
)
def test_doubles_arrive_bit_for_bit(kind, table):
    values = np.array(table)
    names = [f"x{i}" for i in range(values.shape[1])]
    with tempfile.TemporaryDirectory() as folder:
        rows = read(stored(kind, folder, names, values), [column(name, -math.inf, math.inf) for name in names])
    assert rows.values.dtype == np.float64
    np.testing.assert_array_equal(rows.values.view(np.uint64), values.view(np.uint64))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.decimals(Decimal("-1e300"), Decimal("1e300"), allow_nan=False), min_size=1))
def test_decimal_text_becomes_the_nearest_double(decimals):
    with tempfile.TemporaryDirectory() as folder:
        rows = read(csv_file(folder, "a\n" + "\n".join(str(one) for one in decimals)), [column("a")])
    np.testing.assert_array_equal(rows.values[:, 0], [float(one) for one in decimals])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.decimals(min_value=Decimal(-(10**24)), max_value=Decimal(10**24), places=9), min_size=1))
def test_wide_decimals_become_the_nearest_double(decimals):
    with tempfile.TemporaryDirectory() as folder:
        path = parquet_file(folder, [("a", pyarrow.array(decimals, pyarrow.decimal128(38, 9)))])
        rows = read(path, [column("a")])
    np.testing.assert_array_equal(rows.values[:, 0], [float(one) for one in decimals])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-(2**126), 2**126), min_size=1))
def test_wide_integers_become_the_nearest_double(integers):
    with tempfile.TemporaryDirectory() as folder:
        rowwise = ", ".join(f"({one}::HUGEINT)" for one in integers)
        rows = read(duckdb_file(folder, f"CREATE TABLE t AS FROM (VALUES {rowwise}) t(a)"), [column("a")])
    np.testing.assert_array_equal(rows.values[:, 0], [float(one) for one in integers])


@pytest.mark.parametrize("kind", [*sorted(NUMBER_TYPES - {"BIGNUM"}), "DECIMAL(5,2)", "DECIMAL(38,9)"])
def test_every_numeric_type_is_read(tmp_path, kind):
    path = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT 1::{kind} AS a, 0::{kind} AS b")
    np.testing.assert_array_equal(read(path).values, [[1.0, 0.0]])


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).map(str.strip).filter(bool)
AWKWARD = [
    "select",
    'a"b',
    "a'b",
    "two words",
    "Größe",
    "年齢",
    "c0",
    "v0",
    "id",
    "source",
    "a.b",
    "x;y",
    "A",
    "%s",
    "a,b",
]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(NAMES | st.sampled_from(AWKWARD), min_size=2, max_size=6, unique_by=str.casefold),
    st.randoms(use_true_random=False),
)
def test_any_name_will_do(kind, names, random):
    values = np.arange(2.0 * len(names)).reshape(2, -1)
    wanted = random.sample(range(len(names)), k=len(names) - 1)
    with tempfile.TemporaryDirectory() as folder:
        rows = read(stored(kind, folder, names, values), [column(names[i]) for i in wanted])
    np.testing.assert_array_equal(rows.values, values[:, wanted])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_may_differ_in_case_alone(tmp_path, kind):
    path = stored(kind, tmp_path, ["A", "a", "B"], np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(read(path, [column("B"), column("a"), column("A")]).values, [[3.0, 2.0, 1.0]])


def test_nested_columns_of_parquet_are_passed_over(tmp_path):
    nested = [("s", [{"a": 1, "t": {"b": 2}}]), ("l", [[1, 2]]), ("a", [3.0]), ("m", [{"b": [4]}]), ("b", [5.0])]
    np.testing.assert_array_equal(read(parquet_file(tmp_path, nested)).values, [[3.0, 5.0]])


def test_columns_that_are_not_wanted_are_not_looked_at(tmp_path):
    assert len(read(csv_file(tmp_path, b"a,junk,b\n1,\xff\xfe,2\n3,,4\n")).values) == 2
    assert len(read(parquet_file(tmp_path, [("a", [1.0]), ("b", [2.0]), ("junk", [None])])).values) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_keep_their_order_however_many(tmp_path, kind):
    values = np.random.RandomState(0).permutation(250_000).astype(float)[:, None]
    path = stored(kind, tmp_path, ["a"], values)
    np.testing.assert_array_equal(read(path, [column("a")]).values, values)


@pytest.mark.parametrize("text", ["one\ntwo, ", "7,x\n"])
def test_lines_within_quotes_are_no_rows_wherever_they_are(text):
    """DuckDB, left to itself, gives pieces of a large file to several threads, which may start within quotes."""
    n, text = 200_000, quoted(text * (250 // len(text)))
    with tempfile.TemporaryDirectory() as folder:
        path = csv_file(folder, "a,text\n" + "".join(f"{i},{text}\n" for i in range(n)))
        np.testing.assert_array_equal(read(path, [column("a")]).values[:, 0], np.arange(n))


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_a_query_decides_the_order(tmp_path, kind):
    values = np.random.RandomState(0).permutation(250_000).astype(float)[:, None]
    path = stored(kind, tmp_path, ["a"], values)
    table = "data" if kind == "parquet" else "t"
    rows = read(path, [column("a")], query=f"SELECT a FROM {table} WHERE a >= 10 ORDER BY a DESC -- largest first")
    np.testing.assert_array_equal(rows.values[:, 0], np.arange(249_999.0, 9.0, -1.0))


def test_a_query_on_csv_has_text_to_work_with(tmp_path):
    path = csv_file(tmp_path, "x,y\n1,2\n30,4\n")
    rows = read(path, query="SELECT x AS a, y::INTEGER * 2 AS b FROM data WHERE x::DOUBLE > 5")
    np.testing.assert_array_equal(rows.values, [[30.0, 8.0]])
    unclosed = csv_file(tmp_path, f'a,b\n1,2\n3,"{SECRET}', "unclosed.csv")
    assert "a quote is not closed" in refused(unclosed, query="FROM data")
    rows = read(
        csv_file(tmp_path, "a,b\n1,2\n?,3\n"), query="SELECT * FROM data WHERE TRY_CAST(a AS DOUBLE) IS NOT NULL"
    )
    np.testing.assert_array_equal(rows.values, [[1.0, 2.0]])


def test_rows_that_duckdb_would_lose_are_missed(tmp_path, monkeypatch):
    path = csv_file(tmp_path, "a,b\n1,2\n3,4\n")
    monkeypatch.setattr(CsvFile, "count", lambda self, width: 3)
    assert "3 rows of data are in the file, but 2 would be read" in refused(path)
    assert "3 rows of data are in the file, but 2 would be read" in refused(path, query="FROM data")


@pytest.mark.parametrize("name", ["a*.csv", "a?.csv", "[a]1.csv", "it's.csv", "{a,b}.csv", "~.csv", "a b.csv"])
def test_a_path_is_no_pattern(tmp_path, name):
    csv_file(tmp_path, "a,b\n8,8\n", "a1.csv")
    csv_file(tmp_path, "a,b\n9,9\n", "a2.csv")
    np.testing.assert_array_equal(read(csv_file(tmp_path, "a,b\n1,2\n", name)).values, [[1.0, 2.0]])


def test_a_path_adds_no_columns(tmp_path):
    (folder := tmp_path / "a=7").mkdir()
    np.testing.assert_array_equal(read(csv_file(folder, "a,b\n1,2\n")).values, [[1.0, 2.0]])
    np.testing.assert_array_equal(read(parquet_file(folder, [("a", [1]), ("b", [2])])).values, [[1.0, 2.0]])


def test_a_relative_path(tmp_path, monkeypatch):
    csv_file(tmp_path, "a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)
    assert read("alice.csv").source == "alice.csv"
    assert os.listdir() == ["alice.csv"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["1", "2", ",", ",", "\n", "\n", '"', '""', "\r", "\r\n", " ", "x", "-"]), max_size=14))
def test_whatever_the_text_is_it_is_read_right_or_refused(parts):
    text = "a,b\n1,2\n" + "".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = csv_file(folder, text)
        try:
            found = read(path).values
        except DataError:
            return
    records = [record for record in csv.reader(io.StringIO(text, newline=""), strict=True) if record]
    np.testing.assert_array_equal(found, np.array(records[1:], float))


# --- Values that are wrong ---


@pytest.mark.parametrize(
    "cell", [SECRET_TEXT, "1,5", "12 kg", "1.2.3", "0x10", "true", "NA", "1 000", "١", *NO_NUMBERS]
)
def test_text_in_a_column_of_numbers(tmp_path, cell):
    path = csv_file(tmp_path, f'a,b\n1,2\n3,"{cell}"\n5,6\n')
    assert f"{path}, data row 2 (line 3), column 'b': not a number" in refused(path)


@pytest.mark.parametrize("cell", ["", " ", '""', "nan", "NaN"])
def test_a_value_that_is_missing_in_csv(tmp_path, cell):
    path = csv_file(tmp_path, f"a,b\n1,2\n3,{cell}\n5,6\n")
    assert f"{path}, data row 2 (line 3), column 'b': the value is missing" in refused(path)


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_a_value_that_is_missing(tmp_path, kind, missing):
    path = parquet_file(tmp_path, [("a", [1.0, 2.0]), ("b", pyarrow.array([1.0, missing], from_pandas=False))])
    if kind == "duckdb":
        path = duckdb_file(tmp_path, f"CREATE TABLE t AS FROM {quote_text(str(path))}")
    assert f"{path}, row 2, column 'b': the value is missing" in refused(path)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999", "9" * 400])
def test_a_value_that_is_infinite(tmp_path, cell):
    path = csv_file(tmp_path, f"a,b\n{cell},2\n")
    said = refused(path, [column("a", -math.inf, math.inf)])
    assert "data row 1 (line 2), column 'a': the value is infinite or too large" in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_value_out_of_bounds(tmp_path, kind, sign):
    path = stored(kind, tmp_path, ["a", "b"], np.array([[0.0, 120.0], [120.0, sign * float(SECRET)]]))
    said = refused(path, [column("a", 0, 120), column("b", 0, 120)])
    assert "row 2" in said
    assert "column 'b': the value is outside the study's bounds, 0 to 120" in said


def test_bounds_belong_to_the_range(tmp_path):
    path = csv_file(tmp_path, "a,b\n0,-1\n120,1\n")
    assert len(read(path, [column("a", 0, 120), column("b", -1, 1)]).values) == 2


def test_all_that_is_wrong_is_named_by_column_and_kind(tmp_path):
    path = csv_file(tmp_path, f"a,b\n1,2\n3,\n{SECRET_TEXT},{SECRET_TEXT}\n4,\n")
    said = refused(path).splitlines()
    assert said[0] == f"{path}: 4 cells cannot be used"
    assert said[1].startswith("  - column 'a', 1 cell (data row 3 (line 4)): not a number; correct it")
    assert said[2].startswith(
        "  - column 'b', 2 cells (data row 2 (line 3), data row 4 (line 5)): the value is missing; fill it in"
    )
    assert said[3].startswith("  - column 'b', 1 cell (data row 3 (line 4)): not a number; correct it")
    assert "data row 3 (line 4), column 'a': not a number" in refused(path, [column("a")])


def test_of_many_rows_the_first_few_are_named(tmp_path):
    path = csv_file(tmp_path, "a\n" + f"1\n{SECRET_TEXT}\n" * 1_200)
    said = refused(path, [column("a")])
    assert "column 'a', 1,200 cells (data row 2 (line 3), data row 4 (line 5), data row 6 (line 7), " in said
    assert "data row 10 (line 11) and 1,195 more): not a number" in said


def test_a_wrong_value_far_down(tmp_path):
    path = csv_file(tmp_path, "a\n" + "1\n" * 300_000 + SECRET_TEXT + "\n" + "1\n" * 100)
    assert "data row 300001 (line 300002), column 'a': not a number" in refused(path, [column("a")])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.sampled_from('x",\n ')), max_size=8), st.integers(0, 3), st.sampled_from(["\n", "\r\n"]))
def test_the_line_is_right_among_quoted_line_ends_and_blank_lines(texts, blank, end):
    before = "".join([f"a,b,t{end}", *(f"1,2,{quoted(text)}{end}" for text in texts), end * blank])
    with tempfile.TemporaryDirectory() as folder:
        path = csv_file(folder, f"{before}5,{SECRET_TEXT},{end}")
        assert f"data row {len(texts) + 1} (line {before.count(chr(10)) + 1}), column 'b'" in refused(path)


def test_a_blank_line_is_a_row_where_there_is_one_column(tmp_path):
    path = csv_file(tmp_path, "a\n1\n\n3\n")
    assert "data row 2 (line 3), column 'a': the value is missing" in refused(path, [column("a")])


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (f"'{SECRET_TEXT}'::VARCHAR", "VARCHAR"),
        (f"'{SECRET_TEXT}'::ENUM('{SECRET_TEXT}')", "ENUM"),
        ("DATE '2020-01-01'", "DATE"),
        ("uuid()", "UUID"),
        ("[1.5::DECIMAL(5, 2)]", "DECIMAL[]"),
        ("{'a': 1}", "STRUCT"),
        ("'x'::BLOB", "BLOB"),
    ],
)
def test_types_that_are_no_numbers(tmp_path, kind, shown):
    path = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT 1 AS a, {kind} AS b")
    assert f"{path}: column 'b' is of type {shown}, which is not a number" in refused(path)


def test_text_is_no_number_in_parquet(tmp_path):
    path = parquet_file(tmp_path, [("a", [1.0]), ("b", [SECRET])])
    assert "column 'b' is of type VARCHAR" in refused(path)


# --- Columns ---


def test_a_column_that_is_absent(tmp_path):
    path = csv_file(tmp_path, "a,c\n1,2\n")
    assert f"{path} has no column 'b'; it has 'a', 'c'" in refused(path)
    assert "has no column 'who'" in refused(path, [column("a")], "who")
    assert "has no column 'b'" in refused(parquet_file(tmp_path, [("a", [1.0])]))


def test_names_are_the_same_only_if_they_are_in_the_same_case(tmp_path):
    path = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS A, 2 AS b")
    assert "has no column 'a'; it has 'A', 'b'" in refused(path)


def test_a_long_list_of_columns_is_cut_short(tmp_path):
    said = refused(csv_file(tmp_path, "a," + ",".join(f"x{i}" for i in range(1, 500)) + "\n"))
    assert "'x19' and 480 more" in said
    assert "'x20'" not in said


def test_columns_of_the_same_name(tmp_path):
    assert "columns 1 and 3 are both called 'a'" in refused(csv_file(tmp_path, "a,b, a\n1,2,3\n"))
    assert "columns 2 and 3 are both called 'z'" in refused(csv_file(tmp_path, "a,z,z,b\n1,2,3,4\n"))
    assert "columns 1 and 3 have the same name" in refused(csv_file(tmp_path, "a,b,a\n1,2,3\n"), query="FROM data")
    path = parquet_file(tmp_path, [("a", [1]), ("b", [2]), ("a", [3])])
    assert "columns 1 and 3 are both called 'a'" in refused(path)
    assert "columns 1 and 3 have the same name" in refused(path, query="FROM data")
    path = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    assert "columns 1 and 3 are both called 'a'" in refused(path, query="SELECT a, b, a FROM t")


@pytest.mark.parametrize(
    "first",
    [f"{SECRET_TEXT},{SECRET},4", f"{SECRET},{SECRET}", f"{SECRET_TEXT},Trillian", f"{SECRET_TEXT},", f"{SECRET_TEXT}"],
    ids=["a number among texts", "numbers", "texts", "a text and nothing", "one text"],
)
@pytest.mark.parametrize("query", [None, "FROM data"])
def test_a_file_without_a_header_is_not_quoted(tmp_path, first, query):
    """The first row of data stands where names should: whatever it looks like, it is not shown."""
    said = refused(csv_file(tmp_path, f"{first}\n{first}\n"), query=query)
    assert "Trillian" not in said
    assert "no header line" in said or "columns 1 and 2 have the same name" in said


@pytest.mark.parametrize("query", [None, "FROM data"])
def test_a_value_that_comes_twice_in_a_file_without_a_header_is_not_quoted(tmp_path, query):
    said = refused(csv_file(tmp_path, f"{SECRET_TEXT},{SECRET_TEXT},x\n5,6,x\n"), query=query)
    assert "columns 1 and 2 have the same name" in said


def test_tables_made_from_a_file_without_a_header_are_not_quoted(tmp_path):
    """Programs that convert files take the first line for names, too."""
    assert "no header line" in refused(parquet_file(tmp_path, [(SECRET_TEXT, [1.0]), ("x", [2.0])]))
    path = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT 1 AS {SECRET_TEXT}, 2 AS x")
    assert "no header line" in refused(path)
    assert "no header line" in refused(path, query="FROM t")


def test_another_delimiter(tmp_path):
    assert "say so with --delimiter" in refused(csv_file(tmp_path, f"a;b\n1;{SECRET}\n"))


@pytest.mark.parametrize(
    ("columns", "id_column", "words"),
    [([], None, "at least one"), ([column("a")] * 2, None, "'a' is asked for twice"), (AB, "a", "both the id and")],
)
def test_columns_that_no_source_could_have(tmp_path, columns, id_column, words):
    assert words in refused(csv_file(tmp_path, "a,b\n1,2\n"), columns, id_column, kind=InputError)


# --- Files that are wrong ---


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"a,b\n1,2\n{SECRET}\n", "data row 2 (line 3): 1 values where the header names 2 columns"),
        (f"a,b\n1,2\n3,4,{SECRET}\n", "data row 2 (line 3): 3 values where the header names 2 columns"),
        (f'a,b\n1,2\n3,"{SECRET}\n4,5\n', "after line 2: a quote is not closed"),
        (f'a,b\n1,2\n3,"{SECRET}"{SECRET_TEXT}\n', "after line 2: a quote is not closed"),
        (f"a,b\n1,2\n3,{SECRET_TEXT}\xe9\n".encode("latin-1"), "data row 2 (line 3): not UTF-8 text"),
        (f"a,b\n1,{SECRET}\n".encode("utf-16"), "the header is not UTF-8 text"),
        (f"a,b\r\n1,{SECRET}\r\n3,{SECRET}\n5,{SECRET}\r\n", "this is not CSV; save it again, with one kind of line"),
        (f'a,b\n1,2\n3,"{SECRET}', "after line 2: a quote is not closed"),
        (f"a,b\n1,2\n{SECRET},4,\n", "data row 2 (line 3): 3 values where the header names 2 columns"),
        (f"a,b\n1,2\n3,{'x' * 140_000}{SECRET_TEXT}\n", "longer than 131072 letters"),
        ("", "the file is empty"),
        ("\n\na,b\n1,2\n", "the first line is blank"),
        ("a,b\n", "has no rows"),
        ("a,b", "has no rows"),
        ("a,b\n\n\n", "has no rows"),
        (b"\x00" * 200_000, "not a CSV header"),
    ],
)
def test_csv_that_is_broken(tmp_path, content, words):
    path = csv_file(tmp_path, content)
    said = refused(path)
    assert str(path) in said
    assert words in said


def test_a_broken_row_far_down(tmp_path):
    path = csv_file(tmp_path, "a,b\n" + "1,2\n" * 300_000 + f"{SECRET}\n" + "1,2\n" * 10)
    assert "data row 300001 (line 300002): 1 values" in refused(path)
    assert "data row 300001 (line 300002): 1 values" in refused(path, [column("b")])


def test_csv_that_is_not_compressed_as_its_name_says(tmp_path):
    whole = gzip.compress(f"a,b\n1,2\n{SECRET},{SECRET}\n".encode() + os.urandom(100_000).hex().encode())
    assert "cannot be decompressed" in refused(file(tmp_path, "plain.csv.gz", f"a,b\n1,{SECRET}\n"))
    assert "cannot be decompressed" in refused(file(tmp_path, "cut.csv.gz", whole[:-4000]))
    assert "cannot be decompressed" in refused(file(tmp_path, "start.csv.gz", whole[:12]))


def test_parquet_that_is_broken(tmp_path):
    assert "not a Parquet file, or it is damaged" in refused(file(tmp_path, "x.parquet", f"PAR1 {SECRET}" * 9))
    assert "not a Parquet file, or it is damaged" in refused(file(tmp_path, "y.parquet", ""))
    whole = parquet_file(tmp_path, [("a", [float(SECRET)] * 1000), ("b", [1.0] * 1000)]).read_bytes()
    spoilt = whole[:4] + bytes(200) + whole[204:]
    assert "not a Parquet file, or it is damaged" in refused(file(tmp_path, "z.parquet", spoilt))


def test_parquet_and_duckdb_without_rows(tmp_path):
    assert "has no rows" in refused(
        parquet_file(tmp_path, [("a", pyarrow.array([], "float64")), ("b", pyarrow.array([], "int8"))])
    )
    assert "has no rows" in refused(duckdb_file(tmp_path, "CREATE TABLE t(a DOUBLE, b INTEGER)"))


@pytest.mark.parametrize("name", ["x.duckdb", "x.db", "x.ddb"])
def test_duckdb_that_is_broken(tmp_path, name):
    assert "this is not a DuckDB file" in refused(file(tmp_path, name, SECRET * 5000))


def test_a_sqlite_file_is_not_opened_by_fetching_an_extension(tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "lite.db") as connection:
        connection.execute("CREATE TABLE t(a, b)")
    assert "this is not a DuckDB file" in refused(tmp_path / "lite.db")


def test_files_that_are_not_there(tmp_path):
    for ending in ("csv", "parquet", "duckdb"):
        assert "there is no such file" in refused(tmp_path / f"x.{ending}")
        (tmp_path / f"folder.{ending}").mkdir()
        assert "this is a folder" in refused(tmp_path / f"folder.{ending}")
    assert "cannot be opened" in refused("a\0b.csv")
    assert os.listdir(tmp_path / "folder.csv") == []


@contextmanager
def unprivileged():
    """Root may read anything; anybody else may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read(tmp_path):
    path = csv_file(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    with unprivileged():
        assert "may not be read by this user" in refused(path)


# --- What goes together ---


def test_kinds_of_data_that_are_not_read(tmp_path):
    assert "not a kind of data that can be read" in refused(file(tmp_path, "x.json", ""), kind=InputError)
    assert "save the sheet as CSV UTF-8" in refused(file(tmp_path, "x.xlsx", ""), kind=InputError)
    for ending in ("sas7bdat", "xpt", "dta", "sav"):
        assert "to_parquet" in refused(file(tmp_path, f"x.{ending}", ""), kind=InputError)
    said = refused(f"mysql://me:{SECRET_TEXT}@host/x.csv", kind=InputError)
    assert "only postgresql:// is a source" in said


def test_table_and_query_must_suit_the_source(tmp_path):
    csv, parquet = csv_file(tmp_path, "a,b\n1,2\n"), parquet_file(tmp_path, [("a", [1]), ("b", [2])])
    base = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    assert "--table is for DuckDB files" in refused(csv, kind=InputError, table="t")
    assert "--table is for DuckDB files" in refused(parquet, kind=InputError, table="t")
    assert "not both" in refused(base, kind=InputError, table="t", query="FROM t")
    assert "the query is empty" in refused(base, kind=InputError, query=" ; ")
    for options in ({}, {"table": "t"}, {"table": "t", "query": "SELECT 1"}):
        assert "give --query, and no --table" in refused("postgresql://host/x", kind=InputError, **options)


def test_the_table_of_a_duckdb_file(tmp_path):
    base = duckdb_file(
        tmp_path,
        'CREATE TABLE "my ""own"" table" AS SELECT 1 AS a, 2 AS b',
        "CREATE SCHEMA other",
        "CREATE TABLE other.t AS SELECT 3 AS a, 4 AS b",
        "CREATE VIEW seen AS SELECT b AS a, a AS b FROM other.t",
    )
    for table, row in [('my "own" table', [1, 2]), ("other.t", [3, 4]), ("seen", [4, 3]), ("main.seen", [4, 3])]:
        np.testing.assert_array_equal(read(base, table=table).values, [row])
    assert "holds 3 tables: 'my \"own\" table', 'seen', 'other.t'; name one" in refused(base, kind=InputError)
    assert "has no table 't'; it has" in refused(base, table="t")
    assert "holds no tables" in refused(duckdb_file(tmp_path, name="empty.duckdb"))


def test_a_duckdb_file_is_left_as_it_is(tmp_path):
    base = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    before, others = base.read_bytes(), sorted(os.listdir(tmp_path))
    for query in (
        "DELETE FROM t",
        "DROP TABLE t",
        "FROM t; DROP TABLE t",
        f"COPY t TO '{tmp_path}/x.csv'",
        "SET threads=1",
    ):
        assert "must be one SELECT" in refused(base, kind=InputError, query=query)
    read(base)
    assert base.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == others


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELCT a FROM t", "syntax error"),
        ("SELECT a FROM t) --", "syntax error"),
        ("SELECT a FROM nowhere", "a table or a function that is not there"),
        ("SELECT nothing FROM t", "a column that is not there"),
        ("SELECT a, s::DOUBLE AS b FROM t", "a value cannot be converted"),
        ("SELECT a, CASE WHEN a = 1 THEN error(s) ELSE 1 END AS b FROM t", "DuckDB cannot carry it out"),
        ("SELECT a, b FROM 'https://127.0.0.1:9/x.parquet'", "the query failed"),
    ],
)
def test_queries_that_fail(tmp_path, query, words):
    base = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT 1 AS a, 2 AS b, '{SECRET_TEXT}' AS s")
    assert words in refused(base, query=query)


def test_memory_that_does_not_suffice(tmp_path, monkeypatch):
    monkeypatch.setitem(SETTINGS, "memory_limit", "20MB")
    base = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    said = refused(base, query="SELECT i AS a, random() AS b FROM range(9000000) AS r(i) ORDER BY b")
    assert "more than 20MB of memory is needed" in said
    assert sorted(os.listdir(tmp_path)) == [base.name]


def test_queries_that_fail_on_files(tmp_path):
    csv = csv_file(tmp_path, f"a,b\n1,2\n3,{SECRET_TEXT}\n")
    said = refused(csv, query="SELECT a, b::DOUBLE AS b FROM data")
    assert "the query failed: a value cannot be converted" in said
    assert "row 2 of the query's result, column 'b': not a number" in refused(csv, query="FROM data")
    ragged = csv_file(tmp_path, f"a,b\n1,2\n{SECRET}\n", "ragged.csv")
    assert "data row 2 (line 3): 1 values" in refused(ragged, query="FROM data")
    parquet = parquet_file(tmp_path, [("a", [1]), ("b", [SECRET_TEXT])])
    assert "the query failed" in refused(parquet, query="SELECT a, b::DOUBLE AS b FROM data")
    assert "column 'b' is of type VARCHAR" in refused(parquet, query="FROM data")


# --- Ids ---

A = [column("a")]


def test_ids_read_the_same_wherever_they_come_from(tmp_path):
    csv = csv_file(tmp_path, 'who,a\n7, 1\n 007 ,2\n-12,3\n"x, y",4\n')
    assert read(csv, A, "who").ids == ["7", "007", "-12", "x, y"]
    large = 2**63 - 1
    whole = parquet_file(tmp_path, [("who", [7, -12, large]), ("a", [1, 2, 3])])
    assert read(whole, A, "who").ids == ["7", "-12", str(large)]
    text = parquet_file(tmp_path, [("who", [" 7", "007\t"]), ("a", [1, 2])])
    assert read(text, A, "who").ids == ["7", "007"]
    base = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT 7::UHUGEINT AS who, 1 AS a")
    assert read(base, A, "who").ids == ["7"]


@pytest.mark.parametrize("missing", ["", " ", '""', '" "'])
def test_an_id_that_is_missing(tmp_path, missing):
    path = csv_file(tmp_path, f"who,a\n{SECRET},1\n{missing},2\n")
    assert f"{path}, data row 2 (line 3), column 'who': the id is missing" in refused(path, A, "who")
    path = parquet_file(tmp_path, [("who", ["x", missing.strip('" ') or None]), ("a", [1, 2])])
    assert f"{path}, row 2, column 'who': the id is missing" in refused(path, A, "who")


def test_an_id_that_comes_twice(tmp_path):
    path = csv_file(tmp_path, f"who,a\nx,1\n{SECRET_TEXT},2\ny,3\n {SECRET_TEXT},4\n")
    said = refused(path, A, "who")
    assert f"{path}, data row 2 (line 3) and data row 4 (line 5), column 'who': the same id twice" in said


def test_all_rows_whose_ids_are_in_the_way_are_counted(tmp_path):
    path = str(tmp_path / "data.csv")
    Path(path).write_text("who,a\nx,1\n,2\nx,3\n ,4\n")
    assert "data row 2 (line 3), column 'who': the id is missing, and in 1 more rows" in refused(path, A, "who")
    Path(path).write_text("who,a\nx,1\ny,2\nx,3\nx,4\ny,5\n")
    said = refused(path, A, "who")
    assert "data row 1 (line 2) and data row 3 (line 4), column 'who': the same id twice; 3 rows have an id" in said


@pytest.mark.parametrize("kind", ["DOUBLE", "DECIMAL(9, 0)", "BOOLEAN"])
def test_types_that_are_no_ids(tmp_path, kind):
    path = duckdb_file(tmp_path, f"CREATE TABLE t AS SELECT 1::{kind} AS who, 1 AS a")
    assert "the id column 'who' is of type" in (said := refused(path, A, "who"))
    assert "cast it to text" in said


def test_a_moment_is_no_id(tmp_path):
    path = duckdb_file(tmp_path, "CREATE TABLE t AS SELECT TIMESTAMP '2020-02-02 02:02:02' AS who, 1 AS a")
    assert "is of type TIMESTAMP; ids are text or integers" in refused(path, A, "who")
    assert read(path, A, "who", query="SELECT who::VARCHAR AS who, a FROM t").ids == ["2020-02-02 02:02:02"]


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))), min_size=1, unique=True))
def test_the_common_order_is_that_of_the_bytes(ids):
    values = np.arange(float(len(ids)))[:, None]
    rows, order = sort_by_id(Rows(values, ids, "here"))
    assert rows.ids == sorted(ids, key=lambda text: text.encode())
    assert order.dtype == np.intp
    np.testing.assert_array_equal(rows.values, values[order])
    assert [ids[i] for i in order] == rows.ids
    assert rows.source == "here"


def test_two_parties_agree_on_the_order(tmp_path):
    csv = csv_file(tmp_path, "who,a\n10,1\n9,2\nÄ,3\nz,4\n")
    parquet = parquet_file(tmp_path, [("a", [4, 2, 3, 1]), ("who", ["z", "9", "Ä", "10"])])
    first, second = (sort_by_id(read(path, A, "who"))[0] for path in (csv, parquet))
    assert first.ids == second.ids == ["10", "9", "z", "Ä"]
    np.testing.assert_array_equal(first.values, second.values)


def test_rows_without_ids_have_no_common_order(tmp_path):
    with pytest.raises(InputError, match="without an id column"):
        sort_by_id(read(csv_file(tmp_path, "a,b\n1,2\n")))


# --- Besides ---


def test_rows_do_not_show_their_values(tmp_path):
    rows = read(path := csv_file(tmp_path, f"who,a\n{SECRET_TEXT},{SECRET}\n"), A, "who")
    assert repr(rows) == str(rows) == f"Rows(1 rows of 1 columns from {path})"


def test_heavy_imports_wait_until_they_are_needed():
    code = (
        "import sys, coterie.data; sys.exit(bool({'duckdb', 'pyarrow', 'adbc_driver_postgresql'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_files_are_read_without_pyarrow(tmp_path):
    parquet_file(tmp_path, [("a", [1.0]), ("b", [2.0])])
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from coterie.data import Wanted, read_rows, write_labels\n"
        "from pathlib import Path; import numpy as np\n"
        "rows = read_rows('alice.parquet', [Wanted('a', 0, 9)])\n"
        "write_labels(Path('labels.parquet'), np.zeros(1, np.int64), ['x'], 'who')\n"
        "sys.exit(int(rows.values[0, 0] != 1.0))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def labels_in(path):
    table = pyarrow.parquet.read_table(path)
    return table.schema.names, [str(field.type) for field in table.schema], table.to_pydict()


def test_labels(tmp_path):
    path = tmp_path / "it's labels.parquet"
    write_labels(path, np.array([2, 0, -1]), None, None)
    assert labels_in(path) == (["row", "label"], ["int64", "int32"], {"row": [1, 2, 3], "label": [2, 0, -1]})
    write_labels(path, np.array([2, 0, -1]), ["007", "ü", 'a"'], 'patient "id"')
    names, types, values = labels_in(path)
    assert names == ["row", 'patient "id"', "label"]
    assert types == ["int64", "string", "int32"]
    assert values['patient "id"'] == ["007", "ü", 'a"']
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["row", "Label"])
def test_labels_by_an_id_of_a_name_that_is_taken(tmp_path, name):
    write_labels(tmp_path / "x.parquet", np.array([1]), ["me"], name)
    assert labels_in(tmp_path / "x.parquet")[0] == ["row", f"id_{name}", "label"]


def test_labels_of_many_rows_keep_their_order(tmp_path):
    labels = np.random.RandomState(0).randint(0, 50, 300_000)
    write_labels(tmp_path / "x.parquet", labels, [str(i) for i in range(len(labels))], "who")
    found = labels_in(tmp_path / "x.parquet")[2]
    np.testing.assert_array_equal(found["row"], np.arange(1, len(labels) + 1))
    np.testing.assert_array_equal(found["label"], labels)
    assert found["who"] == [str(i) for i in range(len(labels))]


def test_labels_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_labels(tmp_path / "nowhere" / "x.parquet", np.array([1]), None, None)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_labels(tmp_path / "folder", np.array([1]), None, None)
    assert os.listdir(tmp_path) == ["folder"]
