"""Pages of what all parties together know, where they are one user: the overview of a simulation, beside scikit-learn
and with everybody's own report, and the report of a fit in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.report.blocks import Block, Grid, Link, Section, Tiles
from coterie.report.facts import Facts
from coterie.report.formats import format_bytes, format_count, format_duration
from coterie.report.page import render_page, write_page
from coterie.report.write import make_sections

__all__ = ["Role", "render_fit", "write_overview"]

#: How the roles of a fit ran, by its transport.
RAN = {
    "memory": "Every role ran as a thread of one process, on the whole protocol",
    "tls": "Every role ran as a process of its own on one machine, over TLS, on the whole protocol",
}


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
    parts = {part.anchor: part for part in make_sections(facts, values, labels, "rows of all parties")}
    del parts["traffic"]
    who = Section("roles", "Who did what", _list_roles(facts, roles))
    write_page(
        path,
        [parts.pop("clusters"), parts.pop("comparison"), who, *parts.values()],
        title=facts.title,
        eyebrow="Coterie simulation",
        lede=f"{RAN['tls']}. This page knows what all of them know together; each party's own report shows what it "
        "alone would have in a real run.",
        footer=f"Written by coterie simulate{', ' + facts.when if facts.when else ''}.",
    )


def render_fit(
    facts: Facts, transport: str, values: NDArray[np.float64] | None = None, labels: NDArray[Any] | None = None
) -> str:
    """The page of a fit in one program. `values` and `labels`: of the whole table, to be drawn."""
    return render_page(
        make_sections(facts, values, labels, "rows of all parties"),
        title=facts.title,
        eyebrow="Coterie report of a fit on one machine",
        lede=f"{RAN[transport]}; but one program held everybody's data, and this page knows what all roles know "
        "together. What it says of who learnt what holds between organisations that run a study, where each has a "
        "report of its own.",
        footer=f"Written by SecureKMeans.report; fitted {facts.when}.",
    )


def _list_roles(facts: Facts, roles: Sequence[Role]) -> list[Block]:
    traffic = facts.traffic
    messages = f"{format_count(traffic.messages)} messages"
    steady = f"{traffic.rounds_per_iteration} per iteration" if traffic.rounds_per_iteration else ""
    figures = [
        ("time", format_duration(max(role.seconds for role in roles)), f"{facts.n_iter} iterations"),
        ("sent in all", format_bytes(sum(role.sent for role in roles)), messages),
        ("rounds", format_count(traffic.rounds), steady),
        ("memory at most", format_bytes(max(role.peak for role in roles)), "of one role"),
    ]
    rows = [
        [
            role.name,
            role.role,
            format_duration(role.seconds),
            format_duration(role.busy),
            format_bytes(role.peak),
            format_bytes(role.sent),
            Link(role.report, "report"),
        ]
        for role in roles
    ]
    head = ["name", "role", "time", "of processors", "memory", "sent", "what it knows"]
    return [Tiles(figures), Grid(head, rows, numeric={2, 3, 4, 5}, caption="Roles")]
