"""The overview of a simulation: what all parties together know, beside scikit-learn, and where each one's report is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from coterie.report.facts import Facts
from coterie.report.page import render, table, tiles
from coterie.report.words import duration, size, whole
from coterie.report.write import Section, sections

__all__ = ["Role", "write_overview"]


class Role(msgspec.Struct, frozen=True):
    """What one role of the simulation took, and where its report is. Peak memory and what was sent are in bytes."""

    name: str
    role: str
    seconds: float
    busy: float
    peak: int
    sent: int
    report: str


def write_overview(
    path: Path,
    facts: Facts,
    roles: Sequence[Role],
    values: NDArray[np.float64],
    labels: NDArray[Any],
) -> None:
    """Write the page. The facts are those of all parties together, who are one user here: values and labels are of
    the whole table."""
    parts = [part for part in sections(facts, values, labels, "rows of all parties") if part.anchor != "cost"]
    comparison = next(part for part in parts if part.anchor == "comparison")
    parts.remove(comparison)
    parts.insert(0, Section(comparison.anchor, comparison.name, comparison.body))
    parts.insert(0, Section("roles", "Who did what", _roles(facts, roles)))
    text = render(
        "report.html",
        title=facts.title,
        eyebrow="Coterie simulation",
        lede="Every role ran as a process of its own on one machine, over TLS, on the whole protocol. This page knows "
        "what all of them know together; each party's own report shows what it alone would have in a real run.",
        contents=[(part.anchor, part.name) for part in parts],
        sections=parts,
        footer=f"Written by coterie simulate{', ' + facts.when if facts.when else ''}.",
    )
    Path(path).write_text(text, encoding="utf-8")


def _roles(facts: Facts, roles: Sequence[Role]) -> Markup:
    figures = tiles(
        [
            ("time", duration(max(role.seconds for role in roles)), f"{facts.n_iter} iterations"),
            ("sent in all", size(sum(role.sent for role in roles)), f"{whole(facts.traffic.messages)} messages"),
            (
                "rounds",
                whole(facts.traffic.rounds),
                f"{facts.traffic.rounds_per_iteration} per iteration" if facts.traffic.rounds_per_iteration else "",
            ),
            ("memory at most", size(max(role.peak for role in roles)), "of one role"),
        ]
    )
    rows = [
        [
            role.name,
            role.role,
            duration(role.seconds),
            duration(role.busy),
            size(role.peak),
            size(role.sent),
            Markup('<a href="{}">report</a>').format(role.report),
        ]
        for role in roles
    ]
    head = ["name", "role", "time", "of processors", "memory", "sent", "what it knows"]
    return figures + table(head, rows, numeric={2, 3, 4, 5}, caption="Roles")
