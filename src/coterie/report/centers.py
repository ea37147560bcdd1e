"""The centres as a file, as far as they are known."""

from __future__ import annotations

import csv
import io

from coterie.report.facts import Facts

__all__ = ["centers_as_csv"]


def centers_as_csv(facts: Facts) -> str:
    """A row a cluster, in data units; nothing of a closed one."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    sizes = facts.sizes if facts.options["counts"] == "revealed" or facts.options["sizes"] == "rounded" else None
    writer.writerow(["cluster", *(["size"] if sizes else []), *facts.center_columns])
    for j, row in enumerate(facts.centers or []):
        size = [sizes[j]] if sizes else []
        writer.writerow([j, *size, *([""] * len(row) if facts.closed(j) else map(repr, row))])
    return stream.getvalue()
