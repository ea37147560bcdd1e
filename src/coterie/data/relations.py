"""What DuckDB reads: a table, a scan of a file, or the result of a query.

Its error texts may quote data. None of that gets out: messages go by the kind of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.columns import Kind
from coterie.data.decimals import NUMBER_OR_WORD
from coterie.data.features import Cells
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
    "kinds_of",
    "name_row",
    "name_row_of_result",
    "select",
]

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
FLOAT_TYPES = {"FLOAT", "DOUBLE"}
NUMBER_TYPES = INTEGER_TYPES | ROUNDED_TWICE | FLOAT_TYPES | {"BOOLEAN"}
DATE_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
TEXT_TYPES = {"VARCHAR", "ENUM"}
#: What a column of a type can serve as; text in a CSV file also as numbers.
SERVES: dict[Kind, set[str]] = {
    "number": NUMBER_TYPES,
    "date": DATE_TYPES | {"VARCHAR"},
    "boolean": INTEGER_TYPES | FLOAT_TYPES | TEXT_TYPES | {"BOOLEAN"},
    "category": INTEGER_TYPES | FLOAT_TYPES | TEXT_TYPES | {"BOOLEAN"},
}
#: Whole numbers that a double holds exactly, and that are written without a point.
WHOLE = f"{2**53}"
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
        decimal: str = ".",
    ) -> None:
        aliases = ", ".join(f"c{i}" for i in range(len(fields)))
        self._connection, self._from = connection, f"{sql} AS source({aliases})"
        self.name, self.fields, self.where, self._count, self._decimal = name, fields, where, count, decimal

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        return {row: self.where(row) for row in rows}

    def fetch(self, wanted: Sequence[tuple[int, Kind]], identity: int | None) -> tuple[list[Cells], list[str | None]]:
        count = self._count() if self._count is not None else None
        parts = [part for i, (position, kind) in enumerate(wanted) for part in self._parts(i, position, kind)]
        if identity is not None:
            parts.append(f"CAST(c{identity} AS VARCHAR) AS id")
        found = self._connection.execute(f"SELECT {', '.join(parts)} FROM {self._from}").fetchnumpy()
        if count is not None:
            check_all_read(len(found["v0"]), count, self.name)
        cells = [self._cells(found, i, position, kind) for i, (position, kind) in enumerate(wanted)]
        return cells, [] if identity is None else found["id"].tolist()

    def _parts(self, i: int, position: int, kind: Kind) -> list[str]:
        """What to select for a column: its numbers or texts; for numbers that stand as text, also where something
        else stands."""
        if self._is_text(position, kind):
            return [f"{self._text(position)} AS v{i}"]
        if self.fields[position].type in DATE_TYPES:
            return [f"epoch(c{position}) / 86400 AS v{i}"]
        double = self._double(position)
        is_varchar = self.fields[position].type == "VARCHAR"
        present = [f"{self._bare(position)} <> '' AND {double} IS NULL AS p{i}"] if is_varchar else []
        return [f"{double} AS v{i}", *present]

    def _is_text(self, position: int, kind: Kind) -> bool:
        return kind == "category" or (kind != "number" and self.fields[position].type in TEXT_TYPES)

    def _cells(self, found: dict[str, Any], i: int, position: int, kind: Kind) -> Cells:
        values = found.pop(f"v{i}")
        if self._is_text(position, kind):
            return Cells(texts=np.array([*values.tolist(), None], object)[:-1])
        present = np.ma.filled(found.pop(f"p{i}"), False) if f"p{i}" in found else None
        return Cells(np.ma.filled(values.astype(np.float64), np.nan), None, present)

    def _double(self, position: int) -> str:
        kind = self.fields[position].type
        if kind == "VARCHAR":
            # DuckDB 2.0 hands a cast of the column itself to its CSV reader, which then raises (duckdb issue 23818).
            text, mark = self._bare(position), re.escape(self._decimal)
            number = NUMBER_OR_WORD.replace(r"\.", mark)
            as_number = f"replace({text}, {quote_text(self._decimal)}, '.')"
            return f"CASE WHEN regexp_full_match({text}, {quote_text(number)}) THEN TRY_CAST({as_number} AS DOUBLE) END"
        if kind in ROUNDED_TWICE:
            return f"CAST(CAST(c{position} AS VARCHAR) AS DOUBLE)"
        return f"CAST(c{position} AS DOUBLE)"

    def _text(self, position: int) -> str:
        """As text; a whole number without a point, as it was before a missing value beside it made it a double."""
        if self.fields[position].type not in FLOAT_TYPES:
            return f"CAST(c{position} AS VARCHAR)"
        one = f"c{position}"
        whole = f"WHEN {one} = trunc({one}) AND abs({one}) < {WHOLE} THEN CAST(CAST({one} AS BIGINT) AS VARCHAR)"
        return f"CASE WHEN isnan({one}) THEN NULL {whole} ELSE CAST({one} AS VARCHAR) END"

    @staticmethod
    def _bare(position: int) -> str:
        return f"trim(c{position}, {quote_text(BLANKS)})"


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


def select(
    connection: duckdb.DuckDBPyConnection, name: str, query: str, *, text_is_number: bool = False, decimal: str = "."
) -> Relation:
    import duckdb

    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise InputError(f"{name}: the query must be one SELECT and nothing else")
    fields = describe_fields(connection, query, text_is_number=text_is_number)
    return Relation(connection, name, f"({query}\n)", fields, name_row_of_result, decimal=decimal)


def describe_fields(connection: duckdb.DuckDBPyConnection, query: str, *, text_is_number: bool = False) -> list[Field]:
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    return [_field(str(name), str(kind), text_is_number) for name, kind, *_ in described]


def _field(name: str, described: str, text_is_number: bool) -> Field:
    kind = re.sub(r"\(.*\)", "", described, flags=re.DOTALL)  # in the brackets of an ENUM are its values
    return Field(name, kind, kinds_of(kind, text_is_number), is_id=kind == "VARCHAR" or kind in INTEGER_TYPES)


def kinds_of(kind: str, text_is_number: bool) -> frozenset[Kind]:
    """What a column of this type can serve as."""
    number: list[Kind] = ["number"] if kind == "VARCHAR" and text_is_number else []
    return frozenset([*number, *(one for one, types in SERVES.items() if kind in types)])


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
