"""An organisation's own data: CSV, Parquet and DuckDB files through DuckDB, PostgreSQL through ADBC.

A source is opened as a *reader*, which knows the columns there are, fetches the wanted ones in the order of the source,
and can say where a row is. All else - names, types, bounds, ids - is decided in `schema`, in one way for every source.

DuckDB and PostgreSQL quote data in their error texts. None of that gets out: messages go by the kind of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.data.csv_file import DELIMITERS, CsvFile
from coterie.data.files import open_csv, open_duckdb_file, open_parquet
from coterie.data.postgres import open_postgres
from coterie.data.schema import Field, Rows, Wanted, check_ids, check_values, check_wanted, find_columns
from coterie.errors import CoterieError, DataError, InputError

__all__ = ["read_rows"]

Floats = NDArray[np.float64]
DUCKDB_FILES = (".duckdb", ".ddb", ".db")
POSTGRES_URLS = ("postgresql://", "postgres://")


def read_rows(
    source: str,
    columns: Sequence[Wanted],
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
        with _open_source(source, table, query) as reader:
            positions, identity = find_columns(
                reader.fields, columns, id_column, reader.name, from_file=reader.from_file
            )
            values, found = reader.fetch(positions, identity)
            check_values(values, columns, reader.name, reader.where, lambda row, at: reader.is_text(row, positions[at]))
            ids = None if id_column is None else check_ids(found, id_column, reader.name, reader.where)
            return Rows(values, ids, reader.name)
    except CoterieError as error:
        error.__context__ = None  # the database's own error may quote data
        raise


class Reader(Protocol):
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


def _open_source(source: str, table: str | None, query: str | None) -> AbstractContextManager[Reader]:
    """Find out what kind of source this is, and whether `table` and `query` suit it."""
    if query is not None:
        query = query.strip().rstrip("; \t\n")
        if not query:
            raise InputError("the query is empty; leave it out, or write a SELECT")
    lower = source.lower()
    if lower.startswith(POSTGRES_URLS):
        if query is None or table is not None:
            raise InputError("a PostgreSQL source is read by a query alone; give --query, and no --table")
        return open_postgres(source, query)
    if "://" in source:
        raise InputError("of URLs, only postgresql:// is a source; other data is read from files")
    _check_readable(source)
    if lower.endswith(DUCKDB_FILES):
        if table is not None and query is not None:
            raise InputError(f"{source}: give --table or --query, not both")
        return open_duckdb_file(source, table, query)
    if table is not None:
        raise InputError(f"{source}: --table is for DuckDB files; this file is one table")
    if lower.endswith(".parquet"):
        return open_parquet(source, query)
    for ending, delimiter in DELIMITERS.items():
        if lower.endswith(ending):
            return open_csv(CsvFile(source, delimiter), query)
    raise InputError(
        f"{source}: not a kind of data that can be read; use .csv, .tsv, .parquet, .duckdb, or a postgresql:// URL"
    )


def _check_readable(path: str) -> None:
    """Refuse a file that cannot be opened, and say why."""
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
