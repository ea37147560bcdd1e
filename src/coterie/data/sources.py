"""An organisation's own data: CSV, Parquet and DuckDB files through DuckDB, PostgreSQL through ADBC.

A source is opened as a *reader*, which knows the columns there are, fetches the wanted ones in the order of the source,
and can say where a row is. All else - names, types, bounds, ids - is decided in `schema`, in one way for every source.

DuckDB and PostgreSQL quote data in their error texts. None of that gets out: messages go by the kind of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from coterie.columns import Kind
from coterie.data.csv_file import DELIMITERS, UTF8, CsvFile, CsvFormat
from coterie.data.features import Cells, make_features
from coterie.data.files import open_csv, open_duckdb_file, open_parquet
from coterie.data.postgres import open_postgres
from coterie.data.schema import Field, Rows, Wanted, check_ids, check_wanted, find_columns
from coterie.data.tables import Table, open_table
from coterie.errors import CoterieError, DataError, InputError

__all__ = ["open_source", "read_rows"]

DUCKDB_FILES = (".duckdb", ".ddb", ".db")
POSTGRES_URLS = ("postgresql://", "postgres://")
#: Kinds of files that are not read, and how to make one that is.
CONVERT = {
    (".toml", ".key"): "this is a file of Coterie's own, not data; name the table with your rows",
    (".xlsx", ".xls", ".ods"): "a workbook has cells of many kinds, and is not read; save the sheet as CSV UTF-8 (Save "
    "as, CSV UTF-8), with the names of the columns in the first line",
    (".sas7bdat", ".xpt"): "SAS files are not read; write Parquet from it: pandas.read_sas(FILE).to_parquet(FILE)",
    (".dta",): "Stata files are not read; write CSV from it (export delimited), or Parquet: "
    "pandas.read_stata(FILE).to_parquet(FILE)",
    (".sav", ".zsav"): "SPSS files are not read; write CSV from it (Save as, CSV), or Parquet: "
    "pandas.read_spss(FILE).to_parquet(FILE)",
}


def read_rows(
    source: str | Table,
    columns: Sequence[Wanted],
    id_column: str | None = None,
    *,
    table: str | None = None,
    query: str | None = None,
    csv: CsvFormat = UTF8,
) -> Rows:
    """Read and check the wanted columns, and make features of them; other columns are not looked at.

    `source` is a .csv, .tsv (also .gz) or .parquet file, a DuckDB file (.duckdb, .ddb, .db) with `table` or `query`,
    a PostgreSQL URL with `query`, or a data frame. In a query, a CSV or Parquet file or a data frame is called `data`.
    Rows keep the order of the source; those with a missing value are left out where their column says so. With
    `id_column`, text or integers, every row has an id, as text without blanks around it. `csv`: how a CSV file is
    written.
    """
    check_wanted(columns, id_column)
    try:
        with open_source(source, table, query, csv) as reader:
            positions, identity = find_columns(
                reader.fields, columns, id_column, reader.name, from_file=reader.from_file
            )
            kinds = [column.kind for column in columns]
            cells, found = reader.fetch(list(zip(positions, kinds, strict=True)), identity)
            values, kept, handled = make_features(columns, cells, reader.name, reader.name_rows)
            ids = None if id_column is None else check_ids(found, id_column, reader.name, reader.where)
            if ids is not None and handled.dropped:
                ids = [ids[i] for i in kept.tolist()]
            return Rows(values, ids, reader.name, places=kept if handled.dropped else None, handled=handled)
    except CoterieError as error:
        error.__context__ = None  # the database's own error may quote data
        raise


class Reader(Protocol):
    """An opened source."""

    name: str
    fields: list[Field]
    from_file: bool

    def fetch(self, wanted: Sequence[tuple[int, Kind]], identity: int | None) -> tuple[list[Cells], list[str | None]]:
        """The columns at the wanted positions, as what they are to be read, and the texts of the id column, if there is
        one."""

    def where(self, row: int) -> str:
        """A row, counted from 0, in words."""

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        """Several rows, each in words; they stand in order."""


def open_source(
    source: str | Table, table: str | None, query: str | None, csv: CsvFormat
) -> AbstractContextManager[Reader]:
    """Find out what kind of source this is, and whether `table` and `query` suit it."""
    if query is not None:
        query = query.strip().rstrip("; \t\n")
        if not query:
            raise InputError("the query is empty; leave it out, or write a SELECT")
    if isinstance(source, Table):
        if table is not None or csv != UTF8:
            raise InputError("--table, --delimiter, --decimal and --encoding are for files, not for a data frame")
        return open_table(source, query)
    lower = source.lower()
    is_csv = lower.endswith(tuple(DELIMITERS))
    if csv != UTF8 and not is_csv:
        raise InputError(f"{_shown(source)}: --delimiter, --decimal and --encoding are for CSV files")
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
    if is_csv:
        return open_csv(CsvFile.of(source, csv), query)
    for endings, advice in CONVERT.items():
        if lower.endswith(endings):
            raise InputError(f"{source}: {advice}")
    raise InputError(
        f"{source}: not a kind of data that can be read; use .csv, .tsv, .parquet, .duckdb, or a postgresql:// URL"
    )


def _shown(source: str) -> str:
    """A file by its name; of a URL nothing, for it may hold a password."""
    return "the PostgreSQL database" if "://" in source else source


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
