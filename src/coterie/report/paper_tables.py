"""The tables of the paper's example: runs, centres and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.report.blocks import Block, Grid, Tiles, Verdict
from coterie.report.example import ALGORITHMS, ITERATED, Example
from coterie.report.formats import format_bytes, format_duration
from coterie.report.paper_pictures import find_run

__all__ = ["list_centers", "list_protocols", "list_rounds", "list_runs", "show_key_figures"]

BOTH_WAYS = ("securenn, with dealing", "securenn", "onetime, with dealing", "onetime")


def show_key_figures(example: Example) -> Block:
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


def list_runs(example: Example) -> Block:
    head = ["run", "protocol", "time", "iterations", "rounds", "sent", "equal labels", "centres apart", "verdict"]
    rows = []
    for run, verdict in zip(example.runs, example.agreements, strict=True):
        word = Verdict("same" if verdict.holds else "differs", verdict.holds)
        equal = f"{verdict.same} of {verdict.points}"
        cost = [format_duration(run.seconds), run.iterations, run.traffic.rounds, format_bytes(run.sent)]
        rows.append([run.algorithm, run.protocol, *cost, equal, f"{verdict.off:.1e}", word])
    return Grid(head, rows, numeric=range(2, 8), caption="Each run against centralised k-means from the same start.")


def list_centers(example: Example) -> Block:
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


def list_protocols(example: Example) -> Block:
    """The paper's table at one k, with every protocol in it."""
    parts = {one.k for one in example.counted if one.algorithm not in ITERATED}
    k = min(parts or {one.k for one in example.counted})
    rows = []
    for key, row in ALGORITHMS.items():
        name = f"{row.name}, an iteration" if key in ITERATED else row.name
        rows.append([name, row.formula, row.rounds(k), *_count_both_ways(example, key, k)])
    caption = f"The paper's table of rounds, and what was counted at k = {k}."
    return Grid(["protocol", "paper", f"paper, k = {k}", *BOTH_WAYS], rows, numeric=range(1, 7), caption=caption)


def list_rounds(example: Example, ks: Sequence[int]) -> Block:
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
