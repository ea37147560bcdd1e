"""What `coterie run` says in the end: the centres, as far as they are in the results, and where to read on."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from coterie.cli.console import Console, printable
from coterie.columns import format_date, parse_date
from coterie.report.formats import format_value, join_names, pluralise
from coterie.study.agreement import Study

__all__ = ["show_end"]

#: A table has at most so many lines; a name at most so many characters.
MOST_LINES, MOST_LETTERS = 20, 24
#: Characters between two columns of a table.
GAP = 2
CENTERS, REPORT = "centers.csv", "report.html"
#: The first row is the head.
Cells = list[list[str]]


@dataclass(frozen=True)
class Cluster:
    """A line of centers.csv. `center` is empty where the cluster stays closed; so is `size` where none is told."""

    label: str
    size: list[str]
    center: list[str]

    @property
    def closed(self) -> bool:
        return not any(self.center)


def show_end(console: Console, where: Path, study: Study) -> None:
    """Show what a folder of results holds: the centres as a table, if there are any, and where the report is."""
    if (where / CENTERS).exists():
        _show_centers(console, where / CENTERS, study)
    report = where / REPORT
    console.say(f"done: results are in {where}; to read: {report}", "done", out=str(where), report=str(report))


def _show_centers(console: Console, path: Path, study: Study) -> None:
    columns, clusters = _read_centers(path, study)
    if console.json:
        console.show(None, "centers", columns=columns, clusters=[_record(one) for one in clusters])
        return
    cells, left_out = _lay_out(columns, clusters, study, console.rich.width)
    console.say("The centres, in data units:")
    console.show(_draw(cells), "centers")
    if left_out:
        console.say(f"and {join_names(left_out)}: see {path}")
    if any(one.closed for one in clusters):
        console.say("(closed: does not pass the output rules, so nothing of it was opened; the report says more)")


def _read_centers(path: Path, study: Study) -> tuple[list[str], list[Cluster]]:
    """The file itself is read: what it does not hold was not opened to this party."""
    with path.open(encoding="utf-8", newline="") as file:
        (_, *names), *rows = csv.reader(file)
    told = study.disclosures
    sized = int(names[:1] == ["size"] and (told.counts == "revealed" or told.sizes == "rounded"))
    return names[sized:], [Cluster(label, cells[:sized], cells[sized:]) for label, *cells in rows]


def _record(one: Cluster) -> dict[str, Any]:
    """A cluster for machines."""
    known = {"size": int(one.size[0])} if one.size and not one.closed else {}
    return {"cluster": int(one.label), "closed": one.closed, **known, "center": None if one.closed else one.center}


def _lay_out(columns: list[str], clusters: list[Cluster], study: Study, width: int) -> tuple[Cells, list[str]]:
    """A row for each cluster; for each column, if only so all of them fit the screen. And what is left out."""
    known = ["size"] * len(clusters[0].size)
    upright = [["cluster", *known, *(_shorten(name) for name in columns)]]
    for one in clusters:
        values = [_format(study, name, cell) for name, cell in zip(columns, one.center, strict=True)]
        closed = [f"{one.label} (closed)", *[""] * (len(known) + len(columns))]
        upright.append(closed if one.closed else [one.label, *one.size, *values])
    across = [list(line) for line in zip(*upright, strict=True)]
    across[0] = ["column", *(f"cluster {label}" for label in across[0][1:])]
    nouns = ["cluster", "column"]
    if _fitting(upright, width) < len(upright[0]) and _fitting(across, width) == len(across[0]):
        upright = across
        nouns.reverse()
    most = _fitting(upright, width)
    lost = len(upright) - 1 - MOST_LINES, len(upright[0]) - most
    said = [f"{count} more {pluralise(noun, count)}" for count, noun in zip(lost, nouns, strict=True) if count > 0]
    return [row[:most] for row in upright[: MOST_LINES + 1]], said


def _fitting(cells: Cells, width: int) -> int:
    """How many columns of a table fit into so many characters; two at least."""
    used, count = -GAP, 0
    for column in zip(*cells[: MOST_LINES + 1], strict=True):
        used += GAP + max(map(cell_len, column))
        if used > width and count >= 2:
            break
        count += 1
    return count


def _draw(cells: Cells) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for j, name in enumerate(cells[0]):
        table.add_column(Text(name), justify="right" if j else "left", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    return table


def _format(study: Study, name: str, cell: str) -> str:
    """A value as finely as matters in its column; closed ones are empty."""
    feature = next((one for one in study.features if one.name == name), None)
    if not cell or feature is None:
        return printable(cell)
    if feature.kind == "date":
        return format_date(parse_date(cell))
    return format_value(float(cell), feature.high - feature.low)


def _shorten(name: str) -> str:
    name = printable(name)
    return name if cell_len(name) <= MOST_LETTERS else set_cell_size(name, MOST_LETTERS - 1).rstrip() + "…"
