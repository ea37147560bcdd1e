"""Surveys for tests, and what they must open, from the definition: sorted values and Python's whole numbers."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from coterie.surveys import SurveyTask, tally_values
from coterie.surveys.tally import encode_clipped, places_of
from coterie.surveys.task import WHOLE

__all__ = ["ask", "by_definition", "tallies_of"]


def ask(blocks: list[np.ndarray], low: float = 0.0, high: float = 8.0, **options: Any) -> SurveyTask:
    """A survey of blocks of rows; with `holders`, of columns."""
    holders = options.get("holders", ())
    d = len(holders) or blocks[0].shape[1]
    names = tuple("abcdefghijkl"[:d])
    return SurveyTask(
        options.pop("protocol", "onetime"), names, (low,) * d, (high,) * d, tuple(map(len, blocks)), **options
    )


def own_columns(task: SurveyTask, rank: int) -> list[int]:
    return [l for l, holder in enumerate(task.holders) if holder == rank] or list(range(task.columns))


def tallies_of(task: SurveyTask, blocks: list[np.ndarray]) -> list[np.ndarray]:
    return [tally_values(task, j, own_columns(task, j), block) for j, block in enumerate(blocks, 1)]


def by_definition(task: SurveyTask, blocks: list[np.ndarray]) -> dict[str, list[Any]]:
    """closed, missing, means (None, or a range that the encoded mean must lie in) and places, by column."""
    found: dict[str, list[Any]] = {"closed": [], "missing": [], "means": [], "places": []}
    m = task.least
    for l in range(task.columns):
        if task.holders:
            holder = task.holders[l]
            whose = [blocks[holder - 1][:, own_columns(task, holder).index(l)]]
        else:
            whose = [block[:, l] for block in blocks]
        there = [one[~np.isnan(one)] for one in whose]
        p = len(there)
        left_out = [()]
        if m > 1 and task.contribution != "off" and p > 1:
            left_out += list(combinations(range(p), min(task.coalition, p - 1)))
        sets = [np.concatenate([there[j] for j in range(p) if j not in out]) for out in left_out]
        every, n = np.concatenate(there), sum(map(len, whose))
        closed = any(len(one) < m for one in sets)
        found["closed"].append(closed)
        found["missing"].append(0 if closed else m * ((2 * (n - len(every)) + m) // (2 * m)))
        found["means"].append(None if closed else encode_clipped(task, l, every).mean())
        row = []
        for part in task.quantiles:
            tail = min(part, WHOLE - part)
            sure = n - found["missing"][-1] - (m - 1) // 2  # the fewest values that are there, by what is told
            assert closed or sure <= len(every)
            if closed or sure * tail < m * WHOLE:
                row.append(-1)
                continue
            rank = -(-part * len(every) // WHOLE)  # the least r with r >= q N
            place = int(np.sort(places_of(task, l, every))[rank - 1])
            enough = all(
                (places_of(task, l, one) <= place).sum() >= m and (places_of(task, l, one) >= place).sum() >= m
                for one in sets
            )
            row.append(place if enough else -1)
        found["places"].append(row)
    return found
