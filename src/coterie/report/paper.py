"""The page of the paper's example. What it shows, `simulation/` computes."""

from __future__ import annotations

import platform

import msgspec

from coterie.report.example import ITERATED, NAMES, TOLERANCE, Example, SecureRun
from coterie.report.formats import format_bytes, format_duration, join_names
from coterie.report.log import LogLine, describe_log
from coterie.report.page import render
from coterie.report.paper_pictures import Grouped, draw_pictures
from coterie.report.paper_tables import list_centers, list_protocols, list_rounds, list_runs, show_key_figures

__all__ = ["describe_runs", "make_page"]


def make_page(example: Example) -> tuple[str, dict[str, bytes]]:
    """The page, and the pictures in it as PNG files by name."""
    grouped = Grouped(example)
    drawn = draw_pictures(example, grouped)
    ks = sorted({one.k for one in example.counted if one.algorithm in ITERATED})
    html = render(
        "paper.html",
        title="The paper's example, run",
        eyebrow="Coterie demo",
        lede="Four blobs of 100 points, held by Alice and Bob. What each concludes alone, what k-means finds with all "
        "points in one place, and what secure k-means finds while nobody's points leave home.",
        contents=[
            ("whole", "All data in one place"),
            ("rows", "Split by rows"),
            ("columns", "Split by columns"),
            ("runs", "Every secure run"),
            ("told", "Who learnt what"),
            ("rounds", "Rounds"),
        ],
        footer=_make_footer(example),
        holds=example.holds,
        tolerance=f"{TOLERANCE:g}",
        key_figures=show_key_figures(example),
        shown={key: one.image for key, one in drawn.items()},
        right=grouped,
        example=example,
        runs=list_runs(example),
        log=describe_runs(example),
        alike=len(describe_runs(example)) == len({run.algorithm for run in example.runs}),
        centers=list_centers(example),
        paper_table=list_protocols(example),
        rounds_table=list_rounds(example, ks),
        sent=join_names([f"{name} sent {format_bytes(count)}" for name, count in example.sent.items()]),
        ks=join_names([str(k) for k in ks]),
        fewest=_describe_fewest(example),
        dealing_costs_nothing=all(
            one.rounds == one.with_dealing
            for one in example.counted
            if one.algorithm in ITERATED and one.protocol == "onetime"
        ),
    )
    return html, {one.file: one.png for one in drawn.values()}


def describe_runs(example: Example) -> list[tuple[str, list[LogLine]]]:
    """What was opened, in words: by algorithm, and by family too where they disclosed different things."""
    told_by: dict[str, dict[str, list[LogLine]]] = {}
    for run in example.runs:
        told_by.setdefault(run.algorithm, {})[run.protocol] = _describe_run(run)
    found = []
    for algorithm, families in told_by.items():
        lines = list(families.values())
        if all(one == lines[0] for one in lines):
            found.append((algorithm, lines[0]))
        else:
            found += [(f"{algorithm}, {family}", own) for family, own in families.items()]
    return found


def _describe_run(run: SecureRun) -> list[LogLine]:
    entries = [msgspec.structs.replace(e, to=tuple(NAMES.get(name, name) for name in e.to)) for e in run.disclosures]
    return describe_log(entries, "P0", ("Alice", "Bob"))


def _describe_fewest(example: Example) -> str:
    """What comparing all pairs at once makes of the rounds, where it was counted."""
    found = [one for one in example.counted if one.protocol == "onetime, all pairs"]
    found.sort(key=lambda one: one.k)
    return join_names([f"{one.rounds} rounds at k = {one.k}" for one in found]) if found else ""


def _make_footer(example: Example) -> str:
    from importlib.metadata import version

    named = ", ".join(f"{name} {version(name)}" for name in ("coterie", "scikit-learn", "numpy"))
    return (
        f"Made by coterie demo with {named} and Python {platform.python_version()} on {platform.machine()}, in "
        f"{format_duration(example.seconds)}. After: Hurtado Ramírez and Auñón, Privacy Preserving k-means clustering: "
        "A secure multi-party computation approach (arXiv 2009.10453)."
    )
