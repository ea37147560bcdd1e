"""The page of the paper's example. What it shows, `simulation/` computes."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import msgspec

from coterie.ideal import Roles
from coterie.report.blocks import Block, Grid, Tiles, Verdict
from coterie.report.example import ALGORITHMS, ITERATED, MEANINGS, NAMES, TOLERANCE, Example, SecureRun
from coterie.report.formats import format_bytes, format_duration, join_names
from coterie.report.log import LogLine, describe_log
from coterie.report.page import render
from coterie.report.paper_pictures import Grouped, draw_pictures, find_run

__all__ = ["describe_runs", "make_page"]

BOTH_WAYS = ("securenn, with dealing", "securenn", "onetime, with dealing", "onetime")


def make_page(example: Example) -> tuple[str, dict[str, bytes]]:
    """The page, and the pictures in it as SVG files by name."""
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
        meanings=MEANINGS,
        tolerance=f"{TOLERANCE:g}",
        key_figures=_show_key_figures(example),
        shown={key: one.image for key, one in drawn.items()},
        right=grouped,
        example=example,
        runs=_list_runs(example),
        log=describe_runs(example),
        alike=len(describe_runs(example)) == len({run.algorithm for run in example.runs}),
        centers=_list_centers(example),
        paper_table=_list_protocols(example),
        rounds_table=_list_rounds(example, ks),
        sent=join_names([f"{name} sent {format_bytes(count)}" for name, count in example.sent.items()]),
        ks=join_names([str(k) for k in ks]),
        fewest=_describe_fewest(example),
        dealing_costs_nothing=all(
            one.rounds == one.with_dealing
            for one in example.counted
            if one.algorithm in ITERATED and one.protocol == "onetime"
        ),
    )
    return html, {one.file: one.svg for one in drawn.values()}


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
    parties = ("Alice", "Bob")
    return describe_log(entries, Roles(parties, parties, "P0"))


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


def _show_key_figures(example: Example) -> Block:
    agreements = example.agreements
    off = max((one.off for one in agreements), default=0.0)
    agreeing = f"{sum(one.holds for one in agreements)} of {len(agreements)}"
    return Tiles(
        [
            ("secure runs that agree", agreeing, "labels and centres as the centralised ones"),
            ("labels that differ", sum(one.points - one.same for one in agreements), "over all secure runs"),
            ("centres apart", f"{off:.1e}", "the largest difference of any coordinate"),
            ("sent", format_bytes(sum(example.sent.values())), "over all secure runs, by all roles"),
            ("computing took", format_duration(example.seconds), "everything on this page"),
        ]
    )


def _list_runs(example: Example) -> Block:
    head = ["run", "protocol", "time", "iterations", "rounds", "sent", "equal labels", "centres apart", "verdict"]
    rows = []
    for run, verdict in zip(example.runs, example.agreements, strict=True):
        word = Verdict("same" if verdict.holds else "differs", verdict.holds)
        equal = f"{verdict.same} of {verdict.points}"
        cost = [format_duration(run.seconds), run.iterations, run.traffic.rounds, format_bytes(run.sent)]
        rows.append([run.algorithm, run.protocol, *cost, equal, f"{verdict.off:.1e}", word])
    return Grid(head, rows, numeric=range(2, 8), caption="Each run against centralised k-means from the same start.")


def _list_centers(example: Example) -> Block:
    """The centres of the first secure run of either partition, beside the centralised ones."""
    shown = [run for run in (find_run(example, "horizontal"), find_run(example, "vertical")) if run is not None]
    head = ["centre", "centralised", *(f"{run.algorithm}, {run.protocol}" for run in shown)]

    def place(center: Any) -> str:
        return f"({center[0]:.5f}, {center[1]:.5f})"

    rows = [
        [f"{c + 1}", place(example.pooled.centers[c]), *(place(run.found.centers[c]) for run in shown)]
        for c in range(len(example.pooled.centers))
    ]
    return Grid(head, rows, numeric=range(1, len(head)), caption="Centres, to five places.")


def _list_protocols(example: Example) -> Block:
    """The paper's table at one k, with every protocol in it."""
    parts = {one.k for one in example.counted if one.algorithm not in ITERATED}
    k = min(parts or {one.k for one in example.counted})
    rows = []
    for key, row in ALGORITHMS.items():
        name = f"{row.name}, an iteration" if key in ITERATED else row.name
        rows.append([name, row.formula, row.rounds(k), *_count_both_ways(example, key, k)])
    caption = f"The paper's table of rounds, and what was counted at k = {k}."
    return Grid(["protocol", "paper", f"paper, k = {k}", *BOTH_WAYS], rows, numeric=range(1, 7), caption=caption)


def _list_rounds(example: Example, ks: Sequence[int]) -> Block:
    counted = [(ALGORITHMS[key], k, _count_both_ways(example, key, k)) for key in ITERATED for k in ks]
    rows = [[row.name, k, row.rounds(k), *both] for row, k, both in counted]
    caption = "Rounds an iteration: the paper's formula, and as counted."
    return Grid(["an iteration of", "k", "paper", *BOTH_WAYS], rows, numeric=range(1, 7), caption=caption)


def _count_both_ways(example: Example, algorithm: str, k: int) -> list[int | None]:
    cells: list[int | None] = []
    for protocol in ("securenn", "onetime"):
        own = [one for one in example.counted if (one.algorithm, one.protocol, one.k) == (algorithm, protocol, k)]
        cells += [own[0].with_dealing, own[0].rounds] if own else [None, None]
    return cells
