"""An organisation's columns as they are, for a survey: values may be missing, and lie anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.data.csv_file import UTF8, CsvFormat
from coterie.data.problems import INFINITE, UNREADABLE, Problem, refuse_problems
from coterie.data.schema import Rows, Wanted, check_wanted, find_columns
from coterie.data.sources import open_source
from coterie.data.tables import Table
from coterie.errors import CoterieError, DataError

__all__ = ["read_with_gaps"]


def read_with_gaps(
    source: str | Table,
    columns: Sequence[Wanted],
    *,
    table: str | None = None,
    query: str | None = None,
    csv: CsvFormat = UTF8,
) -> Rows:
    """Read the wanted columns of numbers as `read_rows` does, with NaN where a value is missing. What is refused is a
    value that is infinite, and words where numbers should be."""
    check_wanted(columns, None)
    try:
        with open_source(source, table, query, csv) as reader:
            positions, _ = find_columns(reader.fields, columns, None, reader.name, from_file=reader.from_file)
            found, _ = reader.fetch([(at, "number") for at in positions], None)
            if not found or not len(found[0]):
                raise DataError(f"{reader.name} has no rows; there is nothing to survey")
            problems, values = [], np.empty((len(found[0]), len(columns)))
            for at, (column, cells) in enumerate(zip(columns, found, strict=True)):
                assert cells.numbers is not None
                values[:, at] = cells.numbers
                problems.append(Problem(column, INFINITE, np.flatnonzero(np.isinf(cells.numbers))))
                if cells.present is not None:
                    words = np.isnan(cells.numbers) & cells.present
                    problems.append(Problem(column, UNREADABLE, np.flatnonzero(words)))
            refuse_problems([one for one in problems if len(one.rows)], reader.name, reader.name_rows)
            values[np.isnan(values)] = np.nan  # of all that are no numbers, one
            return Rows(values, None, reader.name)
    except CoterieError as error:
        error.__context__ = None  # the database's own error may quote data
        raise
