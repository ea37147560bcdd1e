"""What all roles have agreed to ask of their columns. Public, and the same at every role."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering.rules import coalitions
from coterie.clustering.task import Contribution
from coterie.errors import InputError
from coterie.protocols.interface import Ints, Problem

__all__ = [
    "DEFAULT_CELLS",
    "DEFAULT_QUANTILES",
    "MOST_CELLS",
    "MOST_QUANTILES",
    "WHOLE",
    "SurveyTask",
    "check_survey_rules",
    "find_grid_fault",
    "parts_of_quantiles",
]

DEFAULT_CELLS = 64
#: In per cent.
DEFAULT_QUANTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
MOST_CELLS, MOST_QUANTILES = 1024, 25
#: A quantile is a number of parts of this many: thousandths of a per cent.
WHOLE = 100_000
#: Half a column's range, encoded: values are rounded to so many steps before they are added up.
HALF_BITS = 16
#: No bound lies further out, and no cell is narrower: by itself, and compared with the bounds.
LARGEST, NARROWEST, NARROW = 1e300, 1e-300, 1e-10


class SurveyTask(msgspec.Struct, frozen=True, dict=True):
    """`rows`: of each owner. `holders`: for each column, the rank of the one who holds all of it; empty, where every
    owner holds rows of all columns. `low`, `high`: the public range of each column, cut into `cells` of the same width.
    `quantiles`: in parts of `WHOLE`. `resolution`: the step of each column's values; 0 where it is not known. `least`,
    `contribution`, `coalition`: what a column must pass to be opened."""

    protocol: str
    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    rows: tuple[int, ...]
    holders: tuple[int, ...] = ()
    cells: int = DEFAULT_CELLS
    quantiles: tuple[int, ...] = tuple(round(q * WHOLE / 100) for q in DEFAULT_QUANTILES)
    resolution: tuple[float, ...] = ()
    least: int = 1
    contribution: Contribution = "least"
    coalition: int = 1

    @property
    def partition(self) -> str:
        return "vertical" if self.holders else "horizontal"

    @property
    def columns(self) -> int:
        return len(self.names)

    @property
    def column_rows(self) -> Ints:
        """How many rows each column has, missing values included."""
        if self.holders:
            return np.array([self.rows[holder - 1] for holder in self.holders], np.int64)
        return np.full(self.columns, sum(self.rows), np.int64)

    @property
    def contributors(self) -> int:
        """How many hold values of a column."""
        return 1 if self.holders else len(self.rows)

    @property
    def places(self) -> int:
        """Where a value may lie: below the range, in one of its cells, above it."""
        return self.cells + 2

    @property
    def problem(self) -> Problem:
        """The public size, as protocol families know it: means of one number, of as many groups as there are
        columns."""
        return Problem(int(self.column_rows.max()), self.columns, (1 << HALF_BITS,))

    @cached_property
    def sets(self) -> Ints:
        """The sets of contributors (sets, contributors), 0 or 1, that must have enough values in a column: all of them
        and, for each coalition, all others. A rule that none at all will do as well is not for surveys."""
        whole = np.ones((1, self.contributors), np.int64)
        if self.least <= 1 or self.contribution == "off" or self.contributors == 1:
            return whole
        ranks = np.arange(1, self.contributors + 1)
        others = [~np.isin(ranks, without) for without in self.coalitions]
        return np.concatenate([whole, np.array(others, np.int64)])

    @property
    def coalitions(self) -> list[tuple[int, ...]]:
        return coalitions(self.contributors, self.coalition, strict=True)

    @cached_property
    def tails(self) -> Ints:
        """How much of all values lies on the outer side of each quantile, in parts of `WHOLE`."""
        parts = np.array(self.quantiles, np.int64)
        return np.minimum(parts, WHOLE - parts)

    @cached_property
    def offered(self) -> NDArray[np.bool_]:
        """Which quantiles of which columns (d, quantiles) may be opened at all, by the number of rows: those that have
        at least `least` rows on their outer side if hardly a value is missing."""
        return self.sure_rows[:, None] * self.tails >= self.least * WHOLE

    @property
    def sure_rows(self) -> Ints:
        """How many values of each column are there at least, if the number of missing ones is rounded to 0."""
        return self.column_rows - (self.least - 1) // 2

    @cached_property
    def mean_shifts(self) -> Ints:
        """The power of two to which each encoded mean is rounded: at least a cell, and at least resolution / least, so
        that the mean of any admissible number of values could have been rounded to it."""
        shifts = []
        for l in range(self.columns):
            step = 2.0 ** (HALF_BITS + 1) / self.cells
            if self.resolution and self.resolution[l]:
                half = (self.high[l] - self.low[l]) / 2
                step = max(step, self.resolution[l] / half * 2.0**HALF_BITS / self.least)
            shifts.append(min(math.ceil(math.log2(step)), HALF_BITS))  # half the range: a cell of two
        return np.array(shifts, np.int64)

    def edges(self, column: int) -> NDArray[np.float64]:
        """Where the cells of a column begin and end (cells + 1,)."""
        return np.linspace(self.low[column], self.high[column], self.cells + 1)


def parts_of_quantiles(quantiles: Sequence[float]) -> tuple[int, ...]:
    """Per cents in parts of `WHOLE`; refused, where they are no quantiles, or not in order."""
    parts = []
    for q in quantiles:
        part = q * WHOLE / 100
        if not (0 < q < 100 and abs(part - round(part)) < 1e-6 and 0 < round(part) < WHOLE):
            raise InputError(f"{q:g} is no quantile: name per cents between 0 and 100, of at most three decimal places")
        parts.append(round(part))
    if parts != sorted(set(parts)):
        raise InputError("quantiles must be in order, each once")
    if not 1 <= len(parts) <= MOST_QUANTILES:
        raise InputError(f"there must be between 1 and {MOST_QUANTILES} quantiles, not {len(parts)}")
    return tuple(parts)


def find_grid_fault(low: float, high: float, cells: int) -> str:
    """Why the range of a column cannot be cut into cells that numbers of its size can tell apart; nothing, if it
    can."""
    size = max(abs(low), abs(high))
    if size > LARGEST:
        return f"the bounds must lie between {-LARGEST:g} and {LARGEST:g}"
    if (high - low) / cells < max(NARROWEST, NARROW * size):
        return f"the bounds are too close together for {cells} cells; ask for wider bounds, or fewer cells"
    return ""


def check_survey_rules(task: SurveyTask, names: tuple[str, ...] = ()) -> None:
    """Refuse what could only end with a column closed whatever it holds. `names` by rank, for the message."""
    if task.holders:
        for name, rows in zip(task.names, task.column_rows.tolist(), strict=True):
            if rows < task.least:
                raise InputError(
                    f"column {name!r} has {rows} rows, so with a least size of {task.least} it would stay closed; "
                    "bring more rows, or leave the column out"
                )
        return
    held = task.sets @ np.array(task.rows, np.int64)
    for rows, without in zip(held.tolist(), [(), *task.coalitions], strict=False):
        if rows < task.least:
            apart = f" apart from {', '.join(names[j] if names else f'P{j}' for j in without)}" if without else ""
            raise InputError(
                f"all parties{apart} together hold {rows} rows, so with a least size of {task.least} every column "
                "would stay closed; bring more rows, or agree on a smaller least size"
            )
