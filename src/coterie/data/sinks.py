"""What a party writes about its own rows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coterie.data.quoting import quote_name, quote_text
from coterie.data.relations import SETTINGS
from coterie.errors import InputError

__all__ = ["read_labels", "write_labels"]


def read_labels(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `write_labels` has written: where the rows stand in the source, from 0, and their labels."""
    import duckdb

    with duckdb.connect(config=SETTINGS) as connection:
        scan = f"SELECT row - 1 AS row, label FROM read_parquet({quote_text(str(path))})"
        found = connection.execute(scan).fetchnumpy()
    return np.asarray(found["row"], np.int64), np.asarray(found["label"], np.int64)


def write_labels(
    path: Path,
    labels: NDArray[np.int64],
    ids: list[str] | None,
    id_name: str | None,
    rows: NDArray[np.intp] | None = None,
) -> None:
    """Write a Parquet file with the columns `row` (the row's number in the source, from 1), the id under its own name
    if there is one, and `label`; whole or not at all. `rows`: where they stand in the source, from 0, if not all do.

    An id column that is itself called `row` or `label` is written as `id_row` or `id_label`.
    """
    import duckdb

    given = {"row": 1 + (np.arange(len(labels)) if rows is None else rows), "label": np.asarray(labels)}
    columns = ["CAST(row AS BIGINT) AS row", "CAST(label AS INTEGER) AS label"]
    if ids is not None:
        name = id_name or "id"
        name = f"id_{name}" if name.lower() in given else name
        given["id"] = np.array(ids, dtype=object)
        columns.insert(1, f"CAST(id AS VARCHAR) AS {quote_name(name)}")
    unfinished = path.with_name(path.name + ".part")
    try:
        with duckdb.connect(config=SETTINGS) as connection:
            connection.register("given", given)
            select = f"SELECT {', '.join(columns)} FROM given"
            connection.execute(f"COPY ({select}) TO {quote_text(str(unfinished))} (FORMAT parquet)")
        unfinished.replace(path)
    except (duckdb.Error, OSError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written; is there such a folder, and space in it?") from None
