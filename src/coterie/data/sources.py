"""An organisation's own data: CSV, Parquet and DuckDB files through DuckDB, PostgreSQL through ADBC.

A source is opened as a *reader*, which knows the columns there are, fetches the wanted ones in the order of the source,
and can say where a row is. All else - names, types, bounds, ids - is decided in `schema`, in one way for every source.

DuckDB and PostgreSQL quote data in their error texts. None of that gets out: they are asked what kind of error it is,
and the words are Coterie's own.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from coterie.data.numbers import NUMBER_OR_WORD
from coterie.data.schema import (
    Column,
    Field,
    Rows,
    check_ids,
    check_names,
    check_values,
    check_wanted,
    find_columns,
    listed,
    sorted_by_id,
)
from coterie.errors import CoterieError, DataError, InputError

if TYPE_CHECKING:
    import duckdb

__all__ = ["SETTINGS", "Column", "Rows", "identifier", "literal", "read_rows", "sorted_by_id"]

Floats = NDArray[np.float64]
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
DUCKDB_FILES = (".duckdb", ".ddb", ".db")
POSTGRES_URLS = ("postgresql://", "postgres://")

#: DuckDB works alone and stays small: nothing is downloaded, nothing of the data is spilled to disk.
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": 2,
    "memory_limit": "4GB",
    "temp_directory": "",
}
BLANKS = " \t\r\n"
INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
INTEGERS |= {"INTEGER", "UINTEGER"}
#: DuckDB rounds these twice on the way to DOUBLE; by way of text they become the nearest one.
ROUNDED_TWICE = {"DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM"}
NUMBERS = INTEGERS | ROUNDED_TWICE | {"FLOAT", "DOUBLE", "BOOLEAN"}

POSTGRES_NUMBERS = {"int2", "int4", "int8", "float4", "float8", "numeric", "bool"}
POSTGRES_IDS = {"int2", "int4", "int8", "text", "varchar", "bpchar", "name"}
#: Seconds; for a URL that does not say otherwise.
CONNECT_TIMEOUT = 10
QUERY_FAILED = "the query failed: DuckDB cannot carry it out"
INSTALL_POSTGRES = 'pip install --upgrade "coterie[postgres]"'


def read_rows(
    source: str,
    columns: Sequence[Column],
    id_column: str | None = None,
    *,
    table: str | None = None,
    query: str | None = None,
) -> Rows:
    """Read and check the wanted columns; other columns are not looked at.

    `source` is a .csv, .tsv (also .gz) or .parquet file, a DuckDB file (.duckdb, .ddb, .db) with `table` or `query`, or
    a PostgreSQL URL with `query`. In a query on CSV or Parquet the file is called `data`. Rows keep the order of the
    source. With `id_column`, text or integers, every row has an id, as text without blanks around it.
    """
    check_wanted(columns, id_column)
    try:
        with _open(source, table, query) as reader:
            positions, identity = find_columns(
                reader.fields, columns, id_column, reader.name, from_file=reader.from_file
            )
            values, found = reader.fetch(positions, identity)
            check_values(values, columns, reader.name, reader.where, lambda row, at: reader.is_text(row, positions[at]))
            ids = None if id_column is None else check_ids(found, id_column, reader.name, reader.where)
            return Rows(values, ids, reader.name)
    except CoterieError as error:
        error.__context__ = None  # what a database said about the data goes no further, not even unprinted
        raise


class _Reader(Protocol):
    """An opened source."""

    name: str
    fields: list[Field]
    from_file: bool

    def fetch(self, positions: list[int], identity: int | None) -> tuple[Floats, list[str | None]]:
        """The numbers at `positions`, NaN where there is none, and the texts of the id column, if there is one."""

    def where(self, row: int) -> str:
        """A row, counted from 0, in words."""

    def is_text(self, row: int, position: int) -> bool:
        """Whether a cell that has no number has something else."""


def _open(source: str, table: str | None, query: str | None) -> AbstractContextManager[_Reader]:
    """Find out what kind of source this is, and whether `table` and `query` suit it."""
    if query is not None:
        query = query.strip().rstrip("; \t\n")
        if not query:
            raise InputError("the query is empty; leave it out, or write a SELECT")
    lower = source.lower()
    if lower.startswith(POSTGRES_URLS):
        if query is None or table is not None:
            raise InputError("a PostgreSQL source is read by a query alone; give --query, and no --table")
        return _postgres(source, query)
    if "://" in source:
        raise InputError("of URLs, only postgresql:// is a source; other data is read from files")
    _must_be_readable(source)
    if lower.endswith(DUCKDB_FILES):
        if table is not None and query is not None:
            raise InputError(f"{source}: give --table or --query, not both")
        return _duckdb_file(source, table, query)
    if table is not None:
        raise InputError(f"{source}: --table is for DuckDB files; this file is one table")
    if lower.endswith(".parquet"):
        return _parquet(source, query)
    for ending, delimiter in DELIMITERS.items():
        if lower.endswith(ending):
            return _csv(_CsvFile(source, delimiter), query)
    raise InputError(
        f"{source}: not a kind of data that can be read; use .csv, .tsv, .parquet, .duckdb, or a postgresql:// URL"
    )


def _must_be_readable(path: str) -> None:
    try:
        with open(path, "rb"):
            return
    except FileNotFoundError:
        fault = "there is no such file"
    except IsADirectoryError:
        fault = "this is a folder; name a file in it"
    except PermissionError:
        fault = "the file may not be read by this user"
    except (OSError, ValueError):
        fault = "the file cannot be opened"
    raise DataError(f"{path}: {fault}")


# --- Files, by way of DuckDB ---


class _Relation:
    """What DuckDB reads. Its columns are called c0, c1, ... here, so that no names of the source can clash."""

    from_file = True

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        sql: str,
        fields: list[Field],
        where: Callable[[int], str],
        count: Callable[[], int] | None = None,
    ) -> None:
        aliases = ", ".join(f"c{i}" for i in range(len(fields)))
        self._connection, self._from = connection, f"{sql} AS source({aliases})"
        self.name, self.fields, self.where, self._count = name, fields, where, count

    def fetch(self, positions: list[int], identity: int | None) -> tuple[Floats, list[str | None]]:
        count = self._count() if self._count is not None else None
        parts = [f"{self._double(position)} AS v{i}" for i, position in enumerate(positions)]
        if identity is not None:
            parts.append(f"CAST(c{identity} AS VARCHAR) AS id")
        found = self._connection.execute(f"SELECT {', '.join(parts)} FROM {self._from}").fetchnumpy()
        values = np.empty((len(found["v0"]), len(positions)))
        if count is not None:
            _must_be_all(len(values), count, self.name)
        for i in range(len(positions)):
            values[:, i] = np.ma.filled(found.pop(f"v{i}"), np.nan)
        return values, [] if identity is None else found["id"].tolist()

    def _double(self, position: int) -> str:
        kind = self.fields[position].type
        if kind == "VARCHAR":
            # Not of the bare column: DuckDB 2.0 hands that to its CSV reader, which then raises (duckdb issue 23818).
            text = self._bare(position)
            return f"CASE WHEN regexp_full_match({text}, {literal(NUMBER_OR_WORD)}) THEN TRY_CAST({text} AS DOUBLE) END"
        if kind in ROUNDED_TWICE:
            return f"CAST(CAST(c{position} AS VARCHAR) AS DOUBLE)"
        return f"CAST(c{position} AS DOUBLE)"

    @staticmethod
    def _bare(position: int) -> str:
        return f"trim(c{position}, {literal(BLANKS)})"

    def is_text(self, row: int, position: int) -> bool:
        if self.fields[position].type != "VARCHAR":
            return False
        cell = f"SELECT {self._bare(position)} <> '' AND {self._double(position)} IS NULL"
        answer = self._connection.execute(f"{cell} FROM {self._from} LIMIT 1 OFFSET {row}").fetchone()
        return answer is not None and bool(answer[0])


@contextmanager
def _duckdb(
    database: str, name: str, explain: Callable[[duckdb.Error], DataError]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose errors are put by `explain` into words that quote no data."""
    import duckdb

    try:
        with duckdb.connect(database, read_only=database != ":memory:", config=SETTINGS) as connection:
            yield connection
    except duckdb.OutOfMemoryException:
        limit = SETTINGS["memory_limit"]
        raise DataError(f"{name}: more than {limit} of memory is needed; have fewer rows or a simpler query") from None
    except duckdb.Error as error:
        raise explain(error) from None


@contextmanager
def _csv(file: _CsvFile, query: str | None) -> Iterator[_Reader]:
    """A CSV file. DuckDB reads it, on one thread: a second one would start in the middle of the file and take lines
    within quotes for rows. Even so it drops a last row whose quote is not closed; so the rows are counted besides."""
    names = file.header()
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    scan = (
        f"read_csv({_pattern(file.path)}, columns = {{{columns}}}, delim = {literal(file.delimiter)}, quote = '\"', "
        "escape = '\"', header = true, auto_detect = false, strict_mode = true, parallel = false, "
        f"compression = '{file.compression}', hive_partitioning = false)"
    )

    def explain(error: duckdb.Error) -> DataError:
        if query is not None and (fault := _sql_fault(error)) is not None:
            return DataError(f"{file.path}: {fault}")
        if (where := file.undecoded()) is not None:
            return DataError(f"{file.path}, {where}: not UTF-8 text; save the file as UTF-8")
        if query is not None:
            return DataError(f"{file.path}: {QUERY_FAILED}")
        return DataError(f"{file.path}: this is not CSV; save it again, with one kind of line end")

    with _duckdb(":memory:", file.path, explain) as connection:
        if query is None:
            fields = [Field(name, "VARCHAR", is_number=True, is_id=True) for name in names]
            yield _Relation(connection, file.path, scan, fields, file.where, lambda: file.count(len(names)))
        else:
            check_names(names, file.path)
            count = file.count(len(names))
            called = ", ".join(identifier(name or f"column {i + 1}") for i, name in enumerate(names))
            connection.execute(f"CREATE TEMP TABLE data AS SELECT * FROM {scan} AS source({called})")
            _must_be_all(connection.execute("SELECT count(*) FROM data").fetchall()[0][0], count, file.path)
            yield _result(connection, file.path, query, text_is_number=True)


@contextmanager
def _parquet(path: str, query: str | None) -> Iterator[_Reader]:
    scan = f"read_parquet({_pattern(path)}, hive_partitioning = false)"

    def explain(error: duckdb.Error) -> DataError:
        if query is None:
            return DataError(f"{path}: this is not a Parquet file, or it is damaged; write it again")
        return DataError(f"{path}: {_sql_fault(error) or QUERY_FAILED}")

    with _duckdb(":memory:", path, explain) as connection:
        names = _parquet_names(connection, path)
        if query is None:
            fields = _fields(connection, f"SELECT * FROM {scan}")
            fields = [field._replace(name=name) for field, name in zip(fields, names, strict=True)]
            yield _Relation(connection, path, scan, fields, _row)
        else:
            check_names(names, path)
            connection.execute(f"CREATE TEMP VIEW data AS SELECT * FROM {scan}")
            yield _result(connection, path, query)


@contextmanager
def _duckdb_file(path: str, table: str | None, query: str | None) -> Iterator[_Reader]:
    def explain(error: duckdb.Error) -> DataError:
        if opening:
            return DataError(f"{path}: this is not a DuckDB file, or another program is writing to it")
        if query is None:
            return DataError(f"{path}: the table cannot be read; the file may be damaged, or a view no longer fit")
        return DataError(f"{path}: {_sql_fault(error) or QUERY_FAILED}")

    opening = True
    with _duckdb(os.path.abspath(path), path, explain) as connection:
        opening = False
        if query is not None:
            yield _result(connection, path, query)
        else:
            sql = _table(connection, path, table)
            yield _Relation(connection, path, sql, _fields(connection, f"SELECT * FROM {sql}"), _row)


def _table(connection: duckdb.DuckDBPyConnection, path: str, table: str | None) -> str:
    """The quoted name of the table that is asked for, or of the only one."""
    listing = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database()"
    found = [(str(schema), str(name)) for schema, name in connection.execute(f"{listing} ORDER BY ALL").fetchall()]
    names = [name if schema == "main" else f"{schema}.{name}" for schema, name in found]
    if not found:
        raise DataError(f"{path} holds no tables")
    if table is None and len(found) > 1:
        raise InputError(f"{path} holds {len(found)} tables: {listed(names)}; name one with --table, or give --query")
    for pair, name in zip(found, names, strict=True):
        if table in (None, name, f"main.{name}"):
            return ".".join(identifier(part) for part in pair)
    raise DataError(f"{path} has no table {table!r}; it has {listed(names)}")


def _result(connection: duckdb.DuckDBPyConnection, name: str, query: str, *, text_is_number: bool = False) -> _Relation:
    import duckdb

    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise InputError(f"{name}: the query must be one SELECT and nothing else")
    fields = _fields(connection, query, text_is_number=text_is_number)
    return _Relation(connection, name, f"({query}\n)", fields, _row_of_result)


def _fields(connection: duckdb.DuckDBPyConnection, query: str, *, text_is_number: bool = False) -> list[Field]:
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    return [_field(str(name), str(kind), text_is_number) for name, kind, *_ in described]


def _field(name: str, described: str, text_is_number: bool) -> Field:
    kind = re.sub(r"\(.*\)", "", described, flags=re.DOTALL)  # what an ENUM lists in brackets are values
    text = kind == "VARCHAR"
    return Field(name, kind, is_number=kind in NUMBERS or (text and text_is_number), is_id=text or kind in INTEGERS)


def _parquet_names(connection: duckdb.DuckDBPyConnection, path: str) -> list[str]:
    """The names of the columns as they stand in the file; DuckDB renames those that differ in case alone."""
    schema = connection.execute(f"SELECT name, num_children FROM parquet_schema({_pattern(path)})").fetchall()
    nodes = iter(schema[1:])

    def skip(children: int | None) -> None:
        for _ in range(children or 0):
            skip(next(nodes)[1])

    names = []
    for name, children in nodes:
        names.append(str(name))
        skip(children)
    return names


def _sql_fault(error: duckdb.Error) -> str | None:
    """What is wrong with a query, going by the kind of error alone."""
    faults = {
        "ParserException": "there is a syntax error in it",
        "CatalogException": "it names a table or a function that is not there",
        "BinderException": "it names a column that is not there, or uses one in a way that its type does not allow",
        "ConversionException": "a value cannot be converted to the type that it asks for",
    }
    fault = faults.get(type(error).__name__)
    return None if fault is None else f"the query failed: {fault}"


def _must_be_all(read: int, count: int, name: str) -> None:
    if read != count:
        raise DataError(
            f"{name}: {count} rows of data are in the file, but {read} would be read; save it again, as plain CSV"
        )


def _row(row: int) -> str:
    return f"row {row + 1}"


def _row_of_result(row: int) -> str:
    return f"row {row + 1} of the query's result"


def identifier(name: str) -> str:
    """A name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text, quoted for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _pattern(path: str) -> str:
    """The literal by which DuckDB, which takes paths for patterns, finds this file and no other."""
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", os.path.abspath(path)))


@dataclass(frozen=True)
class _CsvFile:
    """The text of a CSV file: its header, and where a row is. RFC 4180, in UTF-8, with or without a mark at the start.

    DuckDB reads the rows; the text is gone through here to count them, and to say in which line something is wrong.
    """

    path: str
    delimiter: str

    @property
    def compression(self) -> str:
        return "gzip" if self.path.lower().endswith(".gz") else "none"

    def header(self) -> list[str]:
        """The names in the first line, without blanks around them."""
        try:
            first = next(self._records(), None)
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.path}: the file cannot be decompressed; it is damaged, or not gzip") from None
        except csv.Error:
            raise DataError(f"{self.path}: the first line is not a CSV header; is this a CSV file?") from None
        if first is None:
            raise DataError(f"{self.path}: the file is empty")
        names = [name.strip() for name in first[1]]
        if not any(names):
            raise DataError(f"{self.path}: the first line is blank; the names of the columns must stand there")
        if any(map(_undecoded, names)):
            raise DataError(f"{self.path}: the header is not UTF-8 text; save the file as UTF-8")
        return names

    def count(self, width: int) -> int:
        """The number of rows of data, each of which must have `width` values."""
        row, line = -1, 1
        try:
            for row, line, record in self._rows():
                if len(record) != width:
                    raise DataError(
                        f"{self.path}, data row {row + 1} (line {line}): {len(record)} values where the header names "
                        f"{width} columns; add what is missing, or put quotes around a value with commas"
                    )
        except csv.Error:
            raise DataError(
                f"{self.path}, after line {line}: a quote is not closed or has text after it, or a value is longer "
                f"than {csv.field_size_limit()} letters"
            ) from None
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.path}: the file cannot be decompressed to its end; it is damaged") from None
        return row + 1

    def where(self, row: int) -> str:
        """A row, counted from 0, as its number among the rows of data and as a line of the file."""
        line = next(line for i, line, _ in self._rows() if i == row)
        return f"data row {row + 1} (line {line})"

    def undecoded(self) -> str | None:
        """Where there is the first row that is not UTF-8, if there is one."""
        return next((self.where(row) for row, _, record in self._rows() if any(map(_undecoded, record))), None)

    def _rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """The rows of data, counted from 0, the lines at which they begin, and what is in them. As in DuckDB, a blank
        line is no row, unless there is but one column."""
        records = self._records()
        _, header = next(records)
        rows = (record for record in records if record[1] or len(header) == 1)
        for row, (line, record) in enumerate(rows):
            yield row, line, record or [""]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """All records, and the lines at which they begin. A byte that is not UTF-8 becomes half a surrogate pair."""
        opened: Callable[..., IO[Any]] = gzip.open if self.compression == "gzip" else open
        with opened(self.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter, strict=True)
            line = 1
            for record in reader:
                yield line, record
                line = reader.line_num + 1


def _undecoded(text: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in text)


# --- PostgreSQL, by way of ADBC ---


class _Result:
    """What a query returns, once it is fetched; its columns are known before."""

    from_file = False
    where = staticmethod(_row_of_result)

    def __init__(self, cursor: Any, name: str, query: str) -> None:
        self._cursor, self.name, self._query = cursor, name, query
        self.fields = [self._field(field) for field in cursor.adbc_execute_schema(query)]
        if not self.fields:
            raise InputError(f"{name}: the query returns no columns; it must be one SELECT and nothing else")

    @staticmethod
    def _field(field: Any) -> Field:
        kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if not kind:  # without it, money would pass for a whole number of cents
            raise InputError(f"the installed adbc-driver-postgresql is too old to tell types; {INSTALL_POSTGRES}")
        return Field(field.name, kind, is_number=kind in POSTGRES_NUMBERS, is_id=kind in POSTGRES_IDS)

    def fetch(self, positions: list[int], identity: int | None) -> tuple[Floats, list[str | None]]:
        self._cursor.execute(self._query)
        table = self._cursor.fetch_arrow_table()
        values = np.empty((table.num_rows, len(positions)))
        for i, position in enumerate(positions):
            values[:, i] = self._doubles(table.column(position).combine_chunks())
        ids = [] if identity is None else table.column(identity).to_pylist()
        return values, [None if one is None else str(one) for one in ids]

    @staticmethod
    def _doubles(column: Any) -> Floats:
        """NUMERIC comes as text, in full; it and all others become the nearest double."""
        return getattr(column, "storage", column).cast("float64", safe=False).to_numpy(zero_copy_only=False)

    def is_text(self, row: int, position: int) -> bool:  # noqa: ARG002
        return False


@contextmanager
def _postgres(url: str, query: str) -> Iterator[_Reader]:
    try:
        import pyarrow
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise InputError(f"PostgreSQL needs a package that is not installed; {INSTALL_POSTGRES}") from None

    name = _postgres_name(url)
    with closing(_connected(dbapi, url, name)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SET TRANSACTION READ ONLY")
            yield _Result(cursor, name, query)
        except (dbapi.Error, pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{name}: the query failed: {_postgres_fault(error)}") from None


def _connected(dbapi: Any, url: str, name: str) -> Any:
    if "connect_timeout=" not in url:
        url += f"{'&' if '?' in url else '?'}connect_timeout={CONNECT_TIMEOUT}"
    try:
        return dbapi.connect(url)
    except dbapi.Error as error:
        said = str(error)
    faults = {
        "authentication failed": "the user or the password is wrong",
        "no password supplied": "a password is needed",
        "does not exist": "there is no such database or user",
        "refused": "no server answers there; is it running, and the port right?",
        "translate host name": "there is no such host",
        "timeout": "the server does not answer; is there a firewall between?",
        "SSL": "the server and the URL do not agree on TLS; see sslmode",
    }
    fault = next((words for sign, words in faults.items() if sign in said), "check every part of the URL")
    raise DataError(f"cannot connect to {name}: {fault}")


def _postgres_fault(error: Exception) -> str:
    """What is wrong, going by the SQLSTATE: the text of the error may quote data."""
    state = getattr(error, "sqlstate", None)
    faults = {
        "42601": "there is a syntax error in it, or it is not one SELECT",
        "42P01": "it names a table that is not there",
        "42703": "it names a column that is not there",
        "42501": "the user has no permission to read this",
        "25006": "it tries to write; only reading is allowed",
        "57014": "it was cancelled",
        "22": "a value does not fit the type or the calculation that it asks for",
        "42": "it names something that is not there, or uses it in a way that its type does not allow",
        "53": "the server is out of memory, disk or connections",
    }
    if not state:
        return "the connection broke, or the server sent something that cannot be read; try again"
    fault = faults.get(state) or faults.get(state[:2]) or "see the server's log"
    return f"{fault} (SQLSTATE {state})"


def _postgres_name(url: str) -> str:
    """What to call a database: the (first) host and its name, nothing else of the URL. If a stray mark leaves open
    where a password ends, no part of the URL is shown."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the PostgreSQL database"
    if "@" in parts.path + parts.query + parts.fragment:
        return "the PostgreSQL database"
    options = parse_qs(parts.query)
    address = parts.netloc.rpartition("@")[2] or options.get("host", ["localhost"])[0]
    host = re.split(r"[:,](?![^\[]*\])", address)[0]
    database = unquote(parts.path.lstrip("/")) or options.get("dbname", [""])[0]
    return f"PostgreSQL database {database!r} at {host}" if database else f"PostgreSQL at {host}"
