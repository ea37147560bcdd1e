"""The centres as a file, as far as they are known."""

from __future__ import annotations

import csv
import io

from coterie.columns import format_date
from coterie.report.facts import Facts

__all__ = ["centers_as_csv"]


def centers_as_csv(facts: Facts) -> str:
    """A row a cluster, in data units, dates with the time of day; nothing of a closed one."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    sizes = facts.sizes if facts.options["counts"] == "revealed" or facts.options["sizes"] == "rounded" else None
    writer.writerow(["cluster", *(["size"] if sizes else []), *facts.center_columns])
    dates = {column.name for column in facts.columns if column.date}
    for j, row in enumerate(facts.centers or []):
        size = [sizes[j]] if sizes else []
        cells = [
            format_date(value, "seconds") if name in dates else repr(value)
            for name, value in zip(facts.center_columns, row, strict=True)
        ]
        writer.writerow([j, *size, *([""] * len(row) if facts.closed(j) else cells)])
    return stream.getvalue()
