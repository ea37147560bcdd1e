"""The clusters: their sizes and centres, as far as this party may know them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from coterie.columns import format_date
from coterie.report.agreed import MOST_COLUMNS, show_key_figures
from coterie.report.blocks import Block, Bullets, Grid, Paragraph
from coterie.report.facts import ColumnFacts, Facts
from coterie.report.formats import format_count, format_value, join_names
from coterie.report.views import Floats, draw_measures, draw_profile, draw_rows

__all__ = ["show_clusters"]


def show_clusters(facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None, whose: str) -> list[Block]:
    parts: list[Block] = [show_key_figures(facts)]
    about, quality = _about_clusters(facts), _about_quality(facts)
    parts += [Paragraph(about)] if about else []
    parts += _list_clusters(facts)
    parts += [Bullets(quality)] if quality else []
    if not all(map(math.isnan, facts.k_measures.values())):
        parts.append(draw_measures(facts))
    elif facts.k_measures:
        parts.append(Paragraph("What numbers of clusters come to is not told: clusters do not pass the output rules."))
    open_clusters = [j for j in range(facts.k) if not facts.closed(j)]
    if facts.centers is not None and open_clusters and len(facts.center_columns) > 1:
        parts.append(draw_profile(facts, open_clusters))
    if own_values is not None and own_labels is not None and len(own_values):
        parts.append(draw_rows(facts, own_values, own_labels, whose))
    return parts


def _list_clusters(facts: Facts) -> Iterator[Block]:
    """Sizes and centres: a row for each cluster or, where there are more columns than clusters, for each column."""
    by_name = {column.name: column for column in facts.columns}
    names = facts.center_columns[:MOST_COLUMNS] if facts.centers is not None else []
    rounded = facts.options.get("sizes") == "rounded" and facts.least > 1
    counted = {f"rows in all{', rounded' if rounded else ''}": facts.sizes, "own rows": facts.own_rows}
    known = {name: counts for name, counts in counted.items() if counts is not None}
    sizes, centers = [], []
    for j in range(facts.k):
        counts = [None if facts.closed(j) else row[j] for row in known.values()]
        sizes.append([None if count is None else format_count(count) for count in counts])
        center: list[str | None] = [None] * len(names)
        if facts.centers is not None and not facts.closed(j):
            center = [_format_in(by_name[name], v) for name, v in zip(names, facts.centers[j], strict=False)]
        centers.append(center)
    called = [f"{j} (closed)" if facts.closed(j) else str(j) for j in range(facts.k)]
    head = ["cluster", *known]
    across = len(names) > max(facts.k, 6)
    if not across:
        head += names
        sizes = [[*row, *center] for row, center in zip(sizes, centers, strict=True)]
    rows = [[name, *row] for name, row in zip(called, sizes, strict=True)]
    caption = "Clusters, with their centres in data units" if names and not across else "Clusters"
    yield Grid(head, rows, numeric=range(1, len(head)), caption=caption)
    if across:
        left_out = len(facts.center_columns) - len(names)
        yield Grid(
            ["column", *(f"cluster {name}" for name in called)],
            [[name, *(center[l] for center in centers)] for l, name in enumerate(names)],
            numeric=range(1, facts.k + 1),
            caption="Centres, in data units" + (f" ({left_out} more columns are not shown)" if left_out else ""),
        )


def _format_in(column: ColumnFacts, value: float) -> str:
    """A value of a column."""
    return format_date(value) if column.date else format_value(value, column.high - column.low)


def _about_clusters(facts: Facts) -> str:
    said = []
    if facts.options.get("chosen"):
        *tried, most = facts.options["chosen"].split(", ")
        said.append(f"{facts.k} clusters were chosen, of {', '.join(tried)} or {most}.")
    if facts.sizes is None:
        said.append("The sizes of the clusters were not disclosed; own rows are those of this party.")
    if facts.centers is None:
        said.append(f"The centres were not disclosed: each {facts.roles.keeper} keeps a share of them.")
    elif len(facts.center_columns) < facts.d:
        said.append("Of the centres, this party learnt its own columns.")
    elif rounded := [column.name for column in facts.columns if column.step]:
        if len(rounded) == facts.d:
            said.append("The centres are rounded, so that of themselves they tell no size.")
        else:
            said.append(
                f"The centres are rounded in {join_names(rounded)}, so that of themselves these values tell no size; "
                "those of the other columns may."
            )
    if facts.least > 1:
        said.append(_about_closed(facts))
    return " ".join(said)


def _about_quality(facts: Facts) -> list[str]:
    """How good the clusters are, as far as that was opened."""
    said = []
    if facts.inertia is not None:
        said.append(_about_inertia(facts, facts.inertia))
    if facts.silhouette is not None:
        said.append(
            f"The mean silhouette is {facts.silhouette:.2f}: 1 where rows lie on their centres, 0 where another "
            "is as close."
        )
    if facts.calinski_harabasz is not None:
        said.append(
            f"The Calinski-Harabasz index is {_told(facts, facts.calinski_harabasz)}: the larger, the further clusters "
            "lie apart for their width. It compares numbers of clusters of the same rows."
        )
    return said


#: In what distances are counted.
UNITS = {"standard": "standard deviations", "bounds": "halves of the agreed ranges"}


def _about_inertia(facts: Facts, inertia: float) -> str:
    """The inertia with its unit, for a row, and beside that of a single cluster where that was opened."""
    unit = UNITS.get(facts.options["scale"], "the units of the columns")
    weighed = facts.options.get("row_weights") is not None
    said = (
        f"The inertia is {_told(facts, inertia)}: the squared distances of all rows from their centres, added up"
        f"{', each times the weight of its row' if weighed else ''}, in {unit}, squared."
    )
    if not weighed and facts.options.get("matching") != "private" and facts.n:
        typical = math.sqrt(inertia / facts.n)
        said += f" A row lies about {typical:.2g} from its centre (root mean square)."
    if facts.scatter is not None and facts.scatter > 0:
        said += f" With a single cluster it would be {_told(facts, facts.scatter)}:"
        said += f" these clusters leave {min(inertia / facts.scatter, 1):.0%} of that."
    return said


def _told(facts: Facts, value: float) -> str:
    """A number on quality, as precisely as it is known: where centres are rounded, inertias are, too, and coarsely."""
    if facts.least > 1 and any(column.step for column in facts.columns):
        return f"about {float(f'{value:.2g}'):,g}"
    text = format_value(value, value / 100)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _about_closed(facts: Facts) -> str:
    few = sum(facts.suppressed)
    if few == facts.k:
        return (
            f"All {facts.k} clusters stay closed: none passes the output rules (a least size of {facts.least} rows). "
            "No centre is known, all labels are -1, and there is no inertia."
        )
    if not few:
        return f"All clusters pass the output rules (a least size of {facts.least} rows); none stays closed."
    closed = join_names([str(j) for j in range(facts.k) if facts.closed(j)])
    said = f"{'Cluster' if few == 1 else 'Clusters'} {closed}, {few} of {facts.k},"
    said += " stays closed: it does" if few == 1 else " stay closed: they do"
    return (
        f"{said} not pass the output rules (a least size of {facts.least} rows). Rows that were in "
        f"{'it' if few == 1 else 'them'} are labelled by the nearest open centre."
    )
