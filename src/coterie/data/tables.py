"""Data frames as sources: of pandas, polars, pyarrow and whatever else hands its columns over as Arrow does.

DuckDB reads them where they are. They get the same checks as files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.data.relations import QUERY_FAILED, Relation, connect, describe_fields, explain_query, name_row, select
from coterie.errors import DataError, InputError

if TYPE_CHECKING:
    import duckdb

__all__ = ["Table", "open_table"]

CALLED = "the data frame"


class Table:
    """A data frame that somebody hands over. It is not shown: its repr would quote data."""

    def __init__(self, frame: Any) -> None:
        if not any(hasattr(frame, name) for name in ("__arrow_c_stream__", "__dataframe__")):
            raise InputError(
                f"data must be a data frame, a path or a postgresql:// URL, not {type(frame).__name__}; of an array, "
                "make a data frame with the study's names of columns"
            )
        self.frame = frame

    def __repr__(self) -> str:
        return f"<Table of a {type(self.frame).__name__}>"


class _Stream:
    """A frame by its Arrow interface alone: DuckDB would ask polars for pyarrow, which need not be there."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def _readable(frame: Any) -> Any:
    """What DuckDB is handed. (Pandas' own Arrow interface needs pyarrow; its columns are read without.)"""
    known = type(frame).__module__.partition(".")[0] in ("pandas", "pyarrow")
    return frame if known or not hasattr(frame, "__arrow_c_stream__") else _Stream(frame)


@contextmanager
def open_table(table: Table, query: str | None) -> Iterator[Relation]:
    """A data frame; in a query it is called `data`."""
    import duckdb

    def explain(error: duckdb.Error) -> DataError:
        fault = explain_query(error) or QUERY_FAILED if query is not None else "its columns cannot be read"
        return DataError(f"{CALLED}: {fault}; have columns of numbers, text, dates or booleans, each of one type")

    with connect(":memory:", CALLED, explain) as connection:
        try:
            connection.register("data", _readable(table.frame))
        except (duckdb.Error, TypeError, ValueError, RuntimeError):
            kind = type(table.frame).__name__
            raise DataError(f"{CALLED}: a {kind} cannot be read; make it one of pandas or pyarrow") from None
        if query is not None:
            yield select(connection, CALLED, query)
        else:
            everything = "SELECT * FROM data"
            yield Relation(connection, CALLED, "data", describe_fields(connection, everything), name_row)
