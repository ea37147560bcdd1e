"""What DuckDB reads: a table, a scan of a file, or the result of a query.

Its error texts may quote data. None of that gets out: messages go by the kind of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coterie.data.decimals import NUMBER_OR_WORD
from coterie.data.quoting import quote_text
from coterie.data.schema import Field
from coterie.errors import DataError, InputError

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "NUMBER_TYPES",
    "QUERY_FAILED",
    "SETTINGS",
    "Relation",
    "check_all_read",
    "connect",
    "describe_fields",
    "explain_query",
    "name_row",
    "name_row_of_result",
    "select",
]

Floats = NDArray[np.float64]
#: DuckDB works alone and stays small: nothing is downloaded, nothing of the data is spilled to disk.
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": 2,
    "memory_limit": "4GB",
    "temp_directory": "",
}
BLANKS = " \t\r\n"
INTEGER_TYPES = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
INTEGER_TYPES |= {"INTEGER", "UINTEGER"}
#: DuckDB rounds these twice on the way to DOUBLE; by way of text they become the nearest one.
ROUNDED_TWICE = {"DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM"}
NUMBER_TYPES = INTEGER_TYPES | ROUNDED_TWICE | {"FLOAT", "DOUBLE", "BOOLEAN"}
QUERY_FAILED = "the query failed: DuckDB cannot carry it out"


class Relation:
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
            check_all_read(len(values), count, self.name)
        for i in range(len(positions)):
            values[:, i] = np.ma.filled(found.pop(f"v{i}"), np.nan)
        return values, [] if identity is None else found["id"].tolist()

    def _double(self, position: int) -> str:
        kind = self.fields[position].type
        if kind == "VARCHAR":
            # DuckDB 2.0 hands a cast of the column itself to its CSV reader, which then raises (duckdb issue 23818).
            text = self._bare(position)
            return (
                f"CASE WHEN regexp_full_match({text}, {quote_text(NUMBER_OR_WORD)}) THEN TRY_CAST({text} AS DOUBLE) END"
            )
        if kind in ROUNDED_TWICE:
            return f"CAST(CAST(c{position} AS VARCHAR) AS DOUBLE)"
        return f"CAST(c{position} AS DOUBLE)"

    @staticmethod
    def _bare(position: int) -> str:
        return f"trim(c{position}, {quote_text(BLANKS)})"

    def is_text(self, row: int, position: int) -> bool:
        if self.fields[position].type != "VARCHAR":
            return False
        cell = f"SELECT {self._bare(position)} <> '' AND {self._double(position)} IS NULL"
        answer = self._connection.execute(f"{cell} FROM {self._from} LIMIT 1 OFFSET {row}").fetchone()
        return answer is not None and bool(answer[0])


@contextmanager
def connect(
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


def select(connection: duckdb.DuckDBPyConnection, name: str, query: str, *, text_is_number: bool = False) -> Relation:
    import duckdb

    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise InputError(f"{name}: the query must be one SELECT and nothing else")
    fields = describe_fields(connection, query, text_is_number=text_is_number)
    return Relation(connection, name, f"({query}\n)", fields, name_row_of_result)


def describe_fields(connection: duckdb.DuckDBPyConnection, query: str, *, text_is_number: bool = False) -> list[Field]:
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    return [_field(str(name), str(kind), text_is_number) for name, kind, *_ in described]


def _field(name: str, described: str, text_is_number: bool) -> Field:
    kind = re.sub(r"\(.*\)", "", described, flags=re.DOTALL)  # in the brackets of an ENUM are its values
    text = kind == "VARCHAR"
    return Field(
        name, kind, is_number=kind in NUMBER_TYPES or (text and text_is_number), is_id=text or kind in INTEGER_TYPES
    )


def explain_query(error: duckdb.Error) -> str | None:
    """What is wrong with a query, going by the kind of error alone."""
    faults = {
        "ParserException": "there is a syntax error in it",
        "CatalogException": "it names a table or a function that is not there",
        "BinderException": "it names a column that is not there, or uses one in a way that its type does not allow",
        "ConversionException": "a value cannot be converted to the type that it asks for",
    }
    fault = faults.get(type(error).__name__)
    return None if fault is None else f"the query failed: {fault}"


def check_all_read(read: int, count: int, name: str) -> None:
    if read != count:
        raise DataError(
            f"{name}: {count} rows of data are in the file, but {read} would be read; save it again, as plain CSV"
        )


def name_row(row: int) -> str:
    return f"row {row + 1}"


def name_row_of_result(row: int) -> str:
    return f"row {row + 1} of the query's result"
