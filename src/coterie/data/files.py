"""Files as relations of DuckDB: CSV, Parquet, and DuckDB's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.csv_file import DELIMITERS, SAVE_OR_SAY, CsvFile
from coterie.data.quoting import quote_name, quote_path, quote_text
from coterie.data.relations import (
    QUERY_FAILED,
    SETTINGS,
    Relation,
    check_all_read,
    connect,
    describe_fields,
    explain_query,
    kinds_of,
    name_row,
    select,
)
from coterie.data.schema import Field, check_names, list_names
from coterie.errors import DataError, InputError

if TYPE_CHECKING:
    import duckdb

__all__ = ["find_numeric_columns", "open_csv", "open_duckdb_file", "open_parquet"]

#: How the names of DuckDB's types of numbers begin.
NUMERIC = tuple(sign + kind for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"))
NUMERIC += ("FLOAT", "DOUBLE", "DECIMAL")


@contextmanager
def open_csv(file: CsvFile, query: str | None) -> Iterator[Relation]:
    """A CSV file. DuckDB reads it, on one thread: a second one would start in the middle of the file and take lines
    within quotes for rows. Even so it drops a last row whose quote is not closed; so the rows are counted besides."""
    names = file.header()
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    scan = (
        f"read_csv({quote_path(file.path)}, columns = {{{columns}}}, delim = {quote_text(file.delimiter)}, "
        "quote = '\"', escape = '\"', header = true, auto_detect = false, strict_mode = true, parallel = false, "
        f"compression = '{file.compression}', hive_partitioning = false)"
    )

    def explain(error: duckdb.Error) -> DataError:
        if query is not None and (fault := explain_query(error)) is not None:
            return DataError(f"{file.path}: {fault}")
        if file.is_utf8 and (where := file.find_undecoded()) is not None:
            return DataError(f"{file.path}, {where}: not UTF-8 text; {SAVE_OR_SAY}")
        if query is not None:
            return DataError(f"{file.path}: {QUERY_FAILED}")
        return DataError(f"{file.path}: this is not CSV; save it again, with one kind of line end")

    with connect(":memory:", file.path, explain) as connection:
        if not file.is_utf8:
            scan = _load_decoded(connection, file, len(names))
        if query is None:
            fields = [Field(name, "VARCHAR", kinds_of("VARCHAR", text_is_number=True), is_id=True) for name in names]
            yield CsvRelation(connection, file, scan, fields)
        else:
            check_names(names, file.path)
            count = file.count(len(names))
            called = ", ".join(quote_name(name or f"column {i + 1}") for i, name in enumerate(names))
            connection.execute(f"CREATE TEMP TABLE data AS SELECT * FROM {scan} AS source({called})")
            check_all_read(connection.execute("SELECT count(*) FROM data").fetchall()[0][0], count, file.path)
            yield select(connection, file.path, query, text_is_number=True, decimal=file.decimal)


class CsvRelation(Relation):
    """A CSV file as it stands."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, file: CsvFile, scan: str, fields: list[Field]) -> None:
        super().__init__(connection, file.path, scan, fields, file.where, lambda: file.count(len(fields)), file.decimal)
        self._file = file

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        return self._file.name_rows(rows)


def _load_decoded(connection: duckdb.DuckDBPyConnection, file: CsvFile, width: int) -> str:
    """A file that is not UTF-8, which DuckDB alone does not read, as a table in memory; its name."""
    columns = {f"c{i}": np.array([*column, None], object)[:-1] for i, column in enumerate(file.columns(width))}
    connection.register("decoded", columns)
    texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in columns)
    connection.execute(f"CREATE TEMP TABLE whole AS SELECT {texts} FROM decoded")
    return "whole"


@contextmanager
def open_parquet(path: str, query: str | None) -> Iterator[Relation]:
    scan = f"read_parquet({quote_path(path)}, hive_partitioning = false)"

    def explain(error: duckdb.Error) -> DataError:
        if query is None:
            return DataError(f"{path}: this is not a Parquet file, or it is damaged; write it again")
        return DataError(f"{path}: {explain_query(error) or QUERY_FAILED}")

    with connect(":memory:", path, explain) as connection:
        names = _parquet_names(connection, path)
        if query is None:
            fields = describe_fields(connection, f"SELECT * FROM {scan}")
            fields = [field._replace(name=name) for field, name in zip(fields, names, strict=True)]
            yield Relation(connection, path, scan, fields, name_row)
        else:
            check_names(names, path)
            connection.execute(f"CREATE TEMP VIEW data AS SELECT * FROM {scan}")
            yield select(connection, path, query)


def _parquet_names(connection: duckdb.DuckDBPyConnection, path: str) -> list[str]:
    """The names of the columns as they stand in the file; DuckDB renames those that differ in case alone."""
    schema = connection.execute(f"SELECT name, num_children FROM parquet_schema({quote_path(path)})").fetchall()
    nodes = iter(schema[1:])

    def skip(children: int | None) -> None:
        for _ in range(children or 0):
            skip(next(nodes)[1])

    names = []
    for name, children in nodes:
        names.append(str(name))
        skip(children)
    return names


@contextmanager
def open_duckdb_file(path: str, table: str | None, query: str | None) -> Iterator[Relation]:
    def explain(error: duckdb.Error) -> DataError:
        if opening:
            return DataError(f"{path}: this is not a DuckDB file, or another program is writing to it")
        if query is None:
            return DataError(f"{path}: the table cannot be read; the file may be damaged, or a view no longer fit")
        return DataError(f"{path}: {explain_query(error) or QUERY_FAILED}")

    opening = True
    with connect(os.path.abspath(path), path, explain) as connection:
        opening = False
        if query is not None:
            yield select(connection, path, query)
        else:
            sql = _find_table(connection, path, table)
            yield Relation(connection, path, sql, describe_fields(connection, f"SELECT * FROM {sql}"), name_row)


def _find_table(connection: duckdb.DuckDBPyConnection, path: str, table: str | None) -> str:
    """The quoted name of the table that is asked for, or of the only one."""
    listing = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database()"
    found = [(str(schema), str(name)) for schema, name in connection.execute(f"{listing} ORDER BY ALL").fetchall()]
    names = [name if schema == "main" else f"{schema}.{name}" for schema, name in found]
    if not found:
        raise DataError(f"{path} holds no tables")
    if table is None and len(found) > 1:
        raise InputError(
            f"{path} holds {len(found)} tables: {list_names(names)}; name one with --table, or give --query"
        )
    for pair, name in zip(found, names, strict=True):
        if table in (None, name, f"main.{name}"):
            return ".".join(quote_name(part) for part in pair)
    raise DataError(f"{path} has no table {table!r}; it has {list_names(names)}")


def find_numeric_columns(file: Path) -> dict[str, bool]:
    """The columns of a CSV or Parquet file, and whether DuckDB finds that they hold numbers."""
    import duckdb

    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    path, lower = quote_path(str(file)), file.name.lower()
    if lower.endswith(".parquet"):
        scan = f"read_parquet({path}, hive_partitioning = false)"
    else:
        delimiter = next((mark for ending, mark in DELIMITERS.items() if lower.endswith(ending)), None)
        if delimiter is None:
            raise InputError(f"{file}: not a kind of file that can be simulated on; use .csv, .tsv or .parquet")
        scan = f"read_csv({path}, delim = {quote_text(delimiter)}, header = true, hive_partitioning = false)"
    try:
        with duckdb.connect(config=SETTINGS) as connection:
            described = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    except duckdb.Error:  # its message may quote the file; what is wrong is said by `read_rows`
        raise DataError(f"{file}: the columns cannot be told; name those to cluster by with --columns") from None
    return {str(name).strip(): str(kind).startswith(NUMERIC) for name, kind, *_ in described}
