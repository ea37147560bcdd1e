"""Reading data from a real PostgreSQL: what arrives, and that no error gives away a password or a value."""

from __future__ import annotations

import math
import sys
import traceback
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.data import Wanted, read_rows, sort_by_id
from coterie.errors import DataError, InputError

pytest_plugins = ("tests.postgres",)

PASSWORD = "correct-horse-battery"
SECRET = "713.90625"
SECRET_TEXT = "Zaphod"
HUGE = 1.7e308
A = [Wanted("a", -HUGE, HUGE)]
AB = [*A, Wanted("b", -HUGE, HUGE)]


def refused(url, query, columns=A, id_column=None, *, kind=DataError):
    """The message of the error, which is of exactly this kind and gives away neither a value nor a password."""
    with pytest.raises(kind) as caught:
        read_rows(url, columns, id_column, query=query)
    error = caught.value
    assert type(error) is kind
    assert error.__cause__ is None
    assert error.__context__ is None
    printed = "".join(traceback.format_exception(error))
    for secret in (PASSWORD, SECRET, SECRET_TEXT):
        assert secret not in printed
    return str(error)


@pytest.fixture(scope="module")
def url(postgres_url):
    """A database with a table of two rows, of which the second has gaps."""
    from adbc_driver_postgresql import dbapi

    assert PASSWORD in postgres_url
    with dbapi.connect(postgres_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TYPE mood AS ENUM ('Zaphod')")
        cursor.execute("CREATE DOMAIN age AS numeric CHECK (VALUE >= 0)")
        cursor.execute("CREATE TABLE t(who int, a float8, b numeric, s text, secret mood)")
        cursor.execute(
            f"INSERT INTO t VALUES (7, 0.1, 2.50, ' {SECRET_TEXT} ', 'Zaphod'), (8, {SECRET}, NULL, '', NULL)"
        )
        connection.commit()
    return postgres_url


def test_by_hand(url):
    rows = read_rows(url, [Wanted("b", 0, 9), Wanted("a", 0, 9)], "who", query="SELECT * FROM t WHERE who = 7;")
    np.testing.assert_array_equal(rows.values, [[2.5, 0.1]])
    assert rows.values.dtype == np.float64
    assert rows.ids == ["7"]
    assert rows.source == "PostgreSQL database 'postgres' at 127.0.0.1"
    assert repr(rows) == "Rows(1 rows of 2 columns from PostgreSQL database 'postgres' at 127.0.0.1)"


@pytest.mark.parametrize(
    "kind", ["int2", "int4", "int8", "float4", "float8", "numeric", "numeric(9, 3)", "bool", "age"]
)
def test_every_numeric_type_is_read(url, kind):
    one = f"(1::int)::{kind}"
    np.testing.assert_array_equal(read_rows(url, A, query=f"SELECT {one} AS a").values, [[1.0]])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_doubles_arrive_bit_for_bit(url, values):
    given_rows = ", ".join(f"('{value!r}'::float8)" for value in values)
    rows = read_rows(url, [Wanted("a", -math.inf, math.inf)], query=f"SELECT a FROM (VALUES {given_rows}) AS v(a)")
    np.testing.assert_array_equal(rows.values[:, 0].view(np.uint64), np.array(values).view(np.uint64))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.decimals(Decimal("-1e60"), Decimal("1e60"), places=20) | st.decimals(-1, 1, places=40), min_size=1))
def test_decimals_become_the_nearest_double(url, decimals):
    given_rows = ", ".join(f"({one:f}::numeric)" for one in decimals)
    rows = read_rows(url, A, query=f"SELECT a FROM (VALUES {given_rows}) AS v(a)")
    np.testing.assert_array_equal(rows.values[:, 0], [float(one) for one in decimals])


def test_rows_keep_their_order_however_many(url):
    query = "SELECT i AS a, -i AS b, i AS who FROM generate_series(1, 250000) AS i ORDER BY (i * 7919) % 250007"
    rows = read_rows(url, AB, "who", query=query)
    i = np.arange(1, 250_001)
    expected = i[np.argsort(i * 7919 % 250_007)]
    np.testing.assert_array_equal(rows.values, np.column_stack([expected, -expected]))
    assert rows.ids == [str(one) for one in expected]


@pytest.mark.parametrize("name", ["two words", 'a""b', "select", "Größe", "a'b", "A"])
def test_awkward_names(url, name):
    rows = read_rows(url, [Wanted(name.replace('""', '"'), 0, 9)], query=f'SELECT 1 AS "{name}", 2 AS a')
    np.testing.assert_array_equal(rows.values, [[1.0]])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("NULL::float8", "the value is missing"),
        ("NULL::numeric", "the value is missing"),
        ("'NaN'::float8", "the value is missing"),
        ("'NaN'::numeric", "the value is missing"),
        ("'-Infinity'::float8", "the value is infinite"),
        ("'Infinity'::numeric", "the value is infinite"),
        (f"{SECRET}::numeric", "outside the study's bounds, 0 to 120"),
        (f"-{SECRET}::float8", "outside the study's bounds, 0 to 120"),
    ],
)
def test_values_that_are_wrong(url, value, words):
    query = f"SELECT 1 AS b, {value} AS a UNION ALL SELECT 2, 3 ORDER BY b DESC"
    said = refused(url, query, [Wanted("b", 0, 9), Wanted("a", 0, 120)])
    assert "PostgreSQL database 'postgres' at 127.0.0.1, row 2 of the query's result, column 'a'" in said
    assert words in said


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (f"'{SECRET}'::text", "text"),
        ("now()", "timestamptz"),
        (f"{SECRET}::numeric::money", "money"),
        ("'Zaphod'::mood", "mood"),
        ("gen_random_uuid()", "uuid"),
        ("'{1}'::int[]", "_int4"),
    ],
)
def test_types_that_are_no_numbers(url, value, kind):
    assert f"column 'a' is of type {kind}, which is not a number" in refused(url, f"SELECT {value} AS a")


def test_columns(url):
    assert "has no column 'a'; it has 'b', 's'" in refused(url, "SELECT b, s FROM t")
    assert "columns 1 and 3 are both called 'a'" in refused(url, "SELECT a, b, a FROM t")
    assert "has no rows" in refused(url, "SELECT a FROM t WHERE false")


@pytest.mark.parametrize("kind", ["int2", "int4", "int8", "text", "varchar(9)", "char(9)"])
def test_types_that_are_ids(url, kind):
    assert read_rows(url, A, "who", query=f"SELECT 1 AS a, '007'::{kind} AS who").ids in (["7"], ["007"])


def test_ids(url):
    rows = read_rows(url, A, "who", query="SELECT a, who FROM t ORDER BY who DESC")
    assert rows.ids == ["8", "7"]
    assert sort_by_id(rows)[0].ids == ["7", "8"]
    assert read_rows(url, A, "s", query="SELECT a, s FROM t WHERE who = 7").ids == [SECRET_TEXT]
    assert "row 2 of the query's result, column 's': the id is missing" in refused(url, "SELECT a, s FROM t", A, "s")
    twice = f"SELECT 1 AS a, '{SECRET_TEXT}' AS s FROM generate_series(1, 2)"
    assert "row 1 of the query's result and row 2 of the query's result" in refused(url, twice, A, "s")
    assert "'who' is of type float8; ids are text or integers" in refused(
        url, "SELECT 1 AS a, 7::float8 AS who", A, "who"
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELCT a FROM t", "there is a syntax error in it, or it is not one SELECT (SQLSTATE 42601)"),
        ("SELECT 1 AS a; SELECT 2 AS a", "not one SELECT (SQLSTATE 42601)"),
        ("SELECT a FROM nowhere", "a table that is not there (SQLSTATE 42P01)"),
        ("SELECT nothing FROM t", "a column that is not there (SQLSTATE 42703)"),
        (
            "SELECT s::int AS a FROM t",
            "a value does not fit the type or the calculation that it asks for (SQLSTATE 22P02)",
        ),
        ("SELECT 1 / (who - 7) AS a FROM t", "(SQLSTATE 22012)"),
        ("SELECT 1 / (300000 - i) AS a FROM generate_series(1, 400000) AS i", "(SQLSTATE 22012)"),
        ("INSERT INTO t(who) VALUES (1) RETURNING a", "it tries to write; only reading is allowed (SQLSTATE 25006)"),
        ("WITH w AS (DELETE FROM t RETURNING a) SELECT a FROM w", "only reading is allowed (SQLSTATE 25006)"),
        ("SELECT length(set_config('transaction_read_only', 'off', false)) AS a", "(SQLSTATE 25001)"),
    ],
)
def test_queries_that_fail(url, query, words):
    said = refused(url, query)
    assert "PostgreSQL database 'postgres' at 127.0.0.1: the query failed: " in said
    assert words in said
    assert len(read_rows(url, A, query="SELECT a FROM t").values) == 2


@pytest.mark.parametrize(
    "query", ["DROP TABLE t", "INSERT INTO t(who) VALUES (1)", "COMMIT", "SET TRANSACTION READ WRITE"]
)
def test_commands_that_return_nothing(url, query):
    assert "the query returns no columns" in refused(url, query, kind=InputError)
    assert len(read_rows(url, A, query="SELECT a FROM t").values) == 2


def test_a_server_that_refuses(url):
    wrong = url.replace(PASSWORD, SECRET_TEXT)
    assert (
        "cannot connect to PostgreSQL database 'postgres' at 127.0.0.1: the user or the password is wrong"
        in refused(wrong, "SELECT 1 AS a")
    )
    nowhere = url.removesuffix("postgres") + "nowhere"
    assert "database 'nowhere' at 127.0.0.1: there is no such database" in refused(nowhere, "SELECT 1 AS a")
    assert "do not agree on TLS" in refused(f"{url}?sslmode=require", "SELECT 1 AS a")
    assert "check every part of the URL" in refused(f"{url}?nonsense=1", "SELECT 1 AS a")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            f"postgresql://me:{SECRET_TEXT}@127.0.0.1:1/base",
            "PostgreSQL database 'base' at 127.0.0.1: no server answers",
        ),
        (f"postgres://me:{SECRET_TEXT}@127.0.0.1:1", "PostgreSQL at 127.0.0.1: no server answers"),
        (f"postgresql://127.0.0.1:1/base?user=me&password={SECRET_TEXT}", "'base' at 127.0.0.1: no server answers"),
        (f"postgresql:///base?host=127.0.0.1&port=1&password={SECRET_TEXT}", "'base' at 127.0.0.1: no server answers"),
        (f"postgresql://me:{SECRET_TEXT}@[::1]:1/base", "PostgreSQL database 'base' at [::1]: "),
        (f"postgresql://me:{SECRET_TEXT}@127.0.0.1:1,127.0.0.2:1/base", "'base' at 127.0.0.1: no server answers"),
        (f"postgresql://me:x@{SECRET_TEXT}@127.0.0.1:1/base", "at 127.0.0.1: "),
        (f"postgresql://me:x/{SECRET_TEXT}@127.0.0.1:1/base", "cannot connect to the PostgreSQL database: "),
        (f"postgresql://me:x?{SECRET_TEXT}@127.0.0.1:1/base", "cannot connect to the PostgreSQL database: "),
        (f"postgresql://me:x#{SECRET_TEXT}@127.0.0.1:1/base", "cannot connect to the PostgreSQL database: "),
        (f"postgresql://me:[{SECRET_TEXT}@127.0.0.1:1/base", "cannot connect to the PostgreSQL database: "),
        (f"postgresql://me:\u2100{SECRET_TEXT}@127.0.0.1:1/base", "cannot connect to the PostgreSQL database: "),
        (f"postgresql://me:{SECRET_TEXT}", "cannot connect to PostgreSQL at me: "),
        (f"postgresql://me:1:{SECRET_TEXT}/x", "cannot connect to PostgreSQL database 'x' at me: "),
    ],
)
def test_no_part_of_a_password_is_shown(address, shown):
    pytest.importorskip("adbc_driver_postgresql")
    assert shown in refused(address, "SELECT 1 AS a")


def test_the_extra_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    said = refused("postgresql://me@host/base", "SELECT 1 AS a", kind=InputError)
    assert 'pip install --upgrade "coterie[postgres]"' in said


def test_a_driver_that_cannot_tell_types(url, monkeypatch):
    from adbc_driver_postgresql import dbapi

    told = dbapi.Cursor.adbc_execute_schema
    silent = lambda *given: [field.remove_metadata() for field in told(*given)]  # noqa: E731
    monkeypatch.setattr(dbapi.Cursor, "adbc_execute_schema", silent)
    assert "too old to tell types" in refused(url, "SELECT 1.5::money AS a", kind=InputError)


# -- columns that are no numbers -----------------------------------------------------------------------------------


COLUMNS = [
    Wanted("sex", kind="category", categories=("f", "m"), missing="drop"),
    Wanted("ward", kind="category", categories=("1", "10")),
    Wanted("seen", "2020-01-01", "2020-12-31", kind="date"),
    Wanted("smoker", kind="boolean", missing=True),
]


@pytest.mark.parametrize("sex", ["text", "varchar(9)", "char(3)"])
@pytest.mark.parametrize("seen", ["date", "timestamp", "timestamptz", "text"])
@pytest.mark.parametrize("smoker", ["bool", "text", "int2"])
def test_columns_that_are_no_numbers(url, sex, seen, smoker):
    yes = "true" if smoker != "int2" else "1"
    rows = [f"('f', 1, '2020-02-01', '{yes}')", "(NULL, 10, '2020-03-01', NULL)", "('m', 10, '2020-12-31', NULL)"]
    casts = f"sex::{sex} AS sex, ward, seen::{seen} AS seen, smoker::{smoker} AS smoker"
    query = f"SELECT {casts} FROM (VALUES {', '.join(rows)}) AS v(sex, ward, seen, smoker)"
    found = read_rows(f"{url}?options=-c%20timezone%3DUTC", COLUMNS, query=query)
    np.testing.assert_array_equal(found.values, [[1, 0, 1, 0, 18_293, 1], [0, 1, 0, 1, 18_627, 1]])
    np.testing.assert_array_equal(found.places, [0, 2])
    assert (found.handled.missing, found.handled.filled) == ({"sex": 1}, {"smoker": 1})


def test_booleans_as_categories(url):
    column = Wanted("a", kind="category", categories=("true", "false"))
    found = read_rows(url, [column], query="SELECT a FROM (VALUES (true), (false)) AS v(a)")
    np.testing.assert_array_equal(found.values, [[1, 0], [0, 1]])


def test_words_that_were_not_agreed_on_are_counted(url):
    query = f"SELECT '{SECRET_TEXT}' AS sex FROM generate_series(1, 3)"
    said = refused(url, query, COLUMNS[:1])
    assert "column 'sex', 3 cells (row 1 of the query's result, row 2 of the query's result" in said
