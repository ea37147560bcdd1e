"""`coterie.survey`: a look at columns of several parties in one process, to try it and to test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.protocols import FAMILIES
from coterie.report.survey import suggest_command
from coterie.runtime.surveys import survey_in_threads
from coterie.sharing import Disclosure
from coterie.surveys import (
    DEFAULT_CELLS,
    DEFAULT_QUANTILES,
    ColumnFound,
    SurveyTask,
    check_survey_rules,
    describe_columns,
    parts_of_quantiles,
    tally_values,
)
from coterie.surveys.task import MOST_CELLS, find_grid_fault
from coterie.transport import Traffic

__all__ = ["SurveyResult", "survey"]

Floats = NDArray[np.float64]


class SurveyResult(msgspec.Struct, frozen=True):
    """What every party knows at the end: each column, what was opened, and what was sent."""

    columns: list[ColumnFound]
    disclosures: list[Disclosure]
    traffic: Traffic

    @property
    def suggestion(self) -> str:
        """Options for `coterie study create`."""
        return suggest_command(self.columns)


def survey(
    blocks: Sequence[Any],
    bounds: Mapping[str, tuple[float, float]],
    *,
    partition: str = "horizontal",
    cells: int = DEFAULT_CELLS,
    quantiles: Sequence[float] = DEFAULT_QUANTILES,
    resolution: Mapping[str, float] | None = None,
    least_size: int = 10,
    contribution: str = "least",
    coalition: int = 1,
    protocol: str = "onetime",
) -> SurveyResult:
    """Missing values, mean and quantiles of each column over the blocks of all parties, on secret shares.

    `blocks`: for each party an array or a data frame of numbers, NaN where a value is missing; rows of all columns or,
    with `partition="vertical"`, all rows of some columns, in any order and number. `bounds`: the public range of each
    column by name (`x0`, `x1`, ... where blocks have none); values may lie beyond it. `cells`: into how many it is cut;
    `quantiles` in per cent. `least_size`, `contribution`, `coalition`: what may be opened (docs/survey.md).
    """
    if protocol not in FAMILIES:
        raise InputError(f"protocol must be one of {', '.join(FAMILIES)}, not {protocol!r}")
    if partition not in ("horizontal", "vertical"):
        raise InputError(f'a survey is of rows or columns: partition="horizontal" or "vertical", not {partition!r}')
    if contribution not in ("least", "off"):
        raise InputError(f'contribution must be "least" or "off", not {contribution!r}')
    if not 2 <= cells <= MOST_CELLS:
        raise InputError(f"there must be between 2 and {MOST_CELLS} cells, not {cells}")
    if least_size < 1 or coalition < 1:
        raise InputError("least_size and coalition must be at least 1")
    tables, names = _check_blocks(blocks, partition)
    held = _list_held(names, partition)
    columns = held[0] if partition == "horizontal" else [name for own in held for name in own]
    task = SurveyTask(
        protocol,
        tuple(columns),
        *_ends_of(columns, bounds, cells),
        tuple(len(table) for table in tables),
        tuple(j for j, own in enumerate(held, 1) for _ in own) if partition == "vertical" else (),
        cells,
        parts_of_quantiles(quantiles),
        tuple((resolution or {}).get(name, 0.0) for name in columns),
        least_size,
        "least" if contribution == "least" else "off",
        coalition,
    )
    check_survey_rules(task)
    tallies = [
        tally_values(task, j, [columns.index(name) for name in own], table)
        for j, (own, table) in enumerate(zip(held, tables, strict=True), 1)
    ]
    found, traffic = survey_in_threads(task, tallies, [f"P{j}" for j in range(1, len(tables) + 1)])
    return SurveyResult(describe_columns(task, found), found.disclosures, traffic)


def _check_blocks(blocks: Sequence[Any], partition: str) -> tuple[list[Floats], list[list[str] | None]]:
    """Numbers, and the names of columns where blocks have them."""
    if len(blocks) < 2:
        raise InputError(f"at least two parties are needed, one block each; there is {len(blocks)}")
    tables, names = [], []
    for j, block in enumerate(blocks, 1):
        try:
            table = np.asarray(block, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"party P{j}: the block holds something that is not a number; leave it out") from None
        if table.ndim != 2 or not table.size:
            raise InputError(f"party P{j}: expected a 2D block (rows, columns) that is not empty")
        if np.isinf(table).any():
            raise InputError(f"party P{j}: the block holds values that are infinite or too large; correct them")
        tables.append(table)
        names.append([str(name) for name in block.columns] if hasattr(block, "columns") else None)
    if partition == "horizontal" and len({table.shape[1] for table in tables}) > 1:
        raise InputError("the blocks have different numbers of columns; all must have the same columns")
    widths = [0, *(table.shape[1] for table in tables)]
    starts = np.cumsum(widths) if partition == "vertical" else np.zeros(len(widths), np.int64)
    for j, table in enumerate(tables):
        names[j] = names[j] or [f"x{l + starts[j]}" for l in range(table.shape[1])]
    return tables, names


def _list_held(names: Sequence[list[str] | None], partition: str) -> list[list[str]]:
    """Which columns each party holds, by name."""
    held = [own or [] for own in names]
    every = [name for own in held for name in own] if partition == "vertical" else held[0]
    if len(set(every)) < len(every):
        raise InputError("two columns have the same name; rename one of them")
    if partition == "horizontal" and any(own != held[0] for own in held):
        raise InputError("the blocks have different columns, or in another order; all must have the same")
    return held


def _ends_of(
    columns: Sequence[str], bounds: Mapping[str, tuple[float, float]], cells: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    for name in columns:
        if name not in bounds:
            raise InputError(f"bounds has no range for column {name!r}; add {name!r}: (low, high)")
        low, high = bounds[name]
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"the bounds of column {name!r} must be finite, low before high")
        if fault := find_grid_fault(float(low), float(high), cells):
            raise InputError(f"column {name!r}: {fault}")
    return tuple(float(bounds[name][0]) for name in columns), tuple(float(bounds[name][1]) for name in columns)
