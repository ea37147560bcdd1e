"""PostgreSQL, by way of ADBC.

Its error texts may quote data. None of that gets out: messages go by the SQLSTATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from coterie.columns import Kind
from coterie.data.features import Cells
from coterie.data.relations import name_row_of_result
from coterie.data.schema import Field
from coterie.errors import DataError, InputError

__all__ = ["QueryResult", "open_postgres"]

Floats = NDArray[np.float64]
NUMBER_TYPES = {"int2", "int4", "int8", "float4", "float8", "numeric", "bool"}
TEXT_TYPES = {"text", "varchar", "bpchar", "name"}
INTEGER_TYPES = {"int2", "int4", "int8"}
ID_TYPES = INTEGER_TYPES | TEXT_TYPES
#: How many parts of a day a number of a date or time is in.
PER_DAY = {"date": 1, "timestamp": 86_400_000_000, "timestamptz": 86_400_000_000}
SERVES: dict[Kind, set[str]] = {
    "number": NUMBER_TYPES,
    "date": {*PER_DAY, *TEXT_TYPES},
    "boolean": INTEGER_TYPES | TEXT_TYPES | {"bool"},
    "category": INTEGER_TYPES | TEXT_TYPES | {"bool"},
}
#: Seconds, unless the URL names a limit of its own.
CONNECT_TIMEOUT = 10
INSTALL_POSTGRES = 'pip install --upgrade "coterie[postgres]"'


class QueryResult:
    """What a query returns, once it is fetched; its columns are known before."""

    from_file = False
    where = staticmethod(name_row_of_result)

    def __init__(self, cursor: Any, name: str, query: str) -> None:
        self._cursor, self.name, self._query = cursor, name, query
        self.fields = [self._field(field) for field in cursor.adbc_execute_schema(query)]
        if not self.fields:
            raise InputError(f"{name}: the query returns no columns; it must be one SELECT and nothing else")

    @staticmethod
    def _field(field: Any) -> Field:
        kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if not kind:  # without the type's name, money would be read as whole cents
            raise InputError(f"the installed adbc-driver-postgresql is too old to tell types; {INSTALL_POSTGRES}")
        serves = frozenset(one for one, types in SERVES.items() if kind in types)
        return Field(field.name, kind, serves, is_id=kind in ID_TYPES)

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        return {row: self.where(row) for row in rows}

    def fetch(self, wanted: Sequence[tuple[int, Kind]], identity: int | None) -> tuple[list[Cells], list[str | None]]:
        self._cursor.execute(self._query)
        table = self._cursor.fetch_arrow_table()
        cells = [self._cells(table.column(at).combine_chunks(), self.fields[at].type, kind) for at, kind in wanted]
        return cells, [] if identity is None else self._texts(table.column(identity)).tolist()

    def _cells(self, column: Any, called: str, kind: Kind) -> Cells:
        if kind == "category" or (kind != "number" and called in TEXT_TYPES):
            return Cells(texts=self._texts(column))
        if called in PER_DAY:
            parts = column.cast("int32").cast("int64") if called == "date" else column.cast("int64")
            return Cells(self._doubles(parts) / PER_DAY[called])
        return Cells(self._doubles(column))

    @staticmethod
    def _texts(column: Any) -> NDArray[np.object_]:
        """As Python writes them, true and false as SQL does."""
        found = [str(one).lower() if isinstance(one, bool) else one for one in column.to_pylist()]
        return np.array([*(None if one is None else str(one) for one in found), None], object)[:-1]

    @staticmethod
    def _doubles(column: Any) -> Floats:
        """NUMERIC comes as text, in full; it and all others become the nearest double."""
        return getattr(column, "storage", column).cast("float64", safe=False).to_numpy(zero_copy_only=False)


@contextmanager
def open_postgres(url: str, query: str) -> Iterator[QueryResult]:
    try:
        import pyarrow
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise InputError(f"PostgreSQL needs a package that is not installed; {INSTALL_POSTGRES}") from None

    name = _name_database(url)
    with closing(_connect(dbapi, url, name)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SET TRANSACTION READ ONLY")
            yield QueryResult(cursor, name, query)
        except (dbapi.Error, pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{name}: the query failed: {_explain(error)}") from None


def _connect(dbapi: Any, url: str, name: str) -> Any:
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


def _explain(error: Exception) -> str:
    """What is wrong, going by the SQLSTATE."""
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


def _name_database(url: str) -> str:
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
