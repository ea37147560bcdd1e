"""The report: one page that says what a party asked for, found out, paid and gave away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.report.agreed import show_agreement
from coterie.report.blocks import Section
from coterie.report.clusters import show_clusters
from coterie.report.cost import show_comparison, show_course, show_traffic
from coterie.report.facts import OWNERS, Facts
from coterie.report.formats import format_count, join_names, pluralise
from coterie.report.page import write_page
from coterie.report.trust import show_disclosures, show_trust, show_versions

__all__ = ["make_sections", "write_report"]

Floats = NDArray[np.float64]


def write_report(path: Path, facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None) -> None:
    """Write the report of one party. Rows (m x own columns, NaN where a cell is not its own) and their labels are
    this party's; who owns no data has none."""
    when = f", {facts.when}" if facts.when else ""
    write_page(
        path,
        make_sections(facts, own_values, own_labels),
        title=facts.title,
        eyebrow=f"Coterie report of {facts.party}",
        lede=_summarise(facts),
        footer=f"Written by Coterie at {facts.party}{when}. It shows what this party may know, and is meant for this "
        "party.",
    )


def make_sections(
    facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None, whose: str = "own rows"
) -> list[Section]:
    """What the page says, part by part: what came out, what was disclosed, how it ran, what was agreed. `whose` says
    whose the rows are."""
    parts = []
    if facts.role in OWNERS:
        parts.append(Section("clusters", "Clusters", show_clusters(facts, own_values, own_labels, whose)))
    if facts.comparison:
        parts.append(Section("comparison", "Beside scikit-learn", show_comparison(facts.comparison)))
    parts.append(Section("disclosures", "What was disclosed", show_disclosures(facts)))
    parts.append(Section("trust", "What that rests on", show_trust(facts)))
    parts.append(Section("course", "How it ran", show_course(facts)))
    parts.append(Section("traffic", "What was sent", show_traffic(facts)))
    parts.append(Section("agreed", "What was agreed", show_agreement(facts)))
    parts.append(Section("versions", "Versions and hashes", show_versions(facts)))
    return parts


def _summarise(facts: Facts) -> str:
    lay = {"horizontal": "rows", "vertical": "columns", "mixed": "cells"}[facts.options["partition"]]
    columns = f"{format_count(facts.d)} {pluralise('column', facts.d)}"
    return (
        f"{format_count(facts.n)} rows of {columns} in {facts.k} {pluralise('cluster', facts.k)}: k-means over the "
        f"{lay} of {join_names(facts.parties)}, none of whom showed the others their data."
    )
