"""What a survey has found, in the units of the data, and what bounds it suggests."""

from __future__ import annotations

import math

import msgspec

from coterie.errors import ProtocolError
from coterie.surveys.program import Surveyed
from coterie.surveys.task import HALF_BITS, WHOLE, SurveyTask

__all__ = ["Cell", "ColumnFound", "describe_columns", "suggest_options"]


#: In per cent: a quantile at most so far from an end tells where a column ends.
NEAR = 5.0


class Cell(msgspec.Struct, frozen=True):
    """Where a quantile lies: from `low` to `high`; None stands for what is beyond the range."""

    low: float | None
    high: float | None


class ColumnFound(msgspec.Struct, frozen=True):
    """`rows`: with missing values. `missing`: to the nearest multiple of `missing_step`. `mean`: to the nearest
    multiple of `mean_step`, give or take rounding. `quantiles`: by per cent; None where one stays closed. Of a closed
    column nothing is known."""

    name: str
    low: float
    high: float
    rows: int
    closed: bool
    missing: int | None = None
    missing_step: int = 1
    mean: float | None = None
    mean_step: float = 0.0
    quantiles: dict[str, Cell | None] = {}

    @property
    def suggested(self) -> tuple[float, float] | None:
        """A range for a study: from the lowest to the highest quantile that is known and half as much further on either
        side, within that of the survey. A side stays as the survey has it where no quantile near it is known, and goes
        further where one lies beyond. None, where nothing is known."""
        known = [(float(per_cent), cell) for per_cent, cell in self.quantiles.items() if cell is not None]
        if not known:
            return None
        (lowest, first), (highest, last) = known[0], known[-1]
        low, high = first.low, last.high
        left = self.low if low is None or lowest > NEAR else low
        right = self.high if high is None or highest < 100 - NEAR else high
        more = (right - left) / 2
        wide_left = left - more if low is None else max(left - more, self.low)
        wide_right = right + more if high is None else min(right + more, self.high)
        return _rounded_outwards(wide_left, wide_right)


def describe_columns(task: SurveyTask, surveyed: Surveyed) -> list[ColumnFound]:
    """What one owner knows of each column."""
    if surveyed.closed is None or surveyed.missing is None or surveyed.means is None or surveyed.places is None:
        raise ProtocolError("nobody has told this role what the survey has found")
    found = []
    for l, name in enumerate(task.names):
        low, high, rows = task.low[l], task.high[l], int(task.column_rows[l])
        unit = (high / 2 - low / 2) / (1 << HALF_BITS)
        if surveyed.closed[l]:
            found.append(ColumnFound(name, low, high, rows, True, missing_step=task.least))
            continue
        quantiles = {
            format_quantile(part): _cell(task, l, int(place))
            for part, place in zip(task.quantiles, surveyed.places[l], strict=True)
        }
        mean = low / 2 + high / 2 + unit * int(surveyed.means[l])
        step = unit * (1 << int(task.mean_shifts[l]))
        missing = int(surveyed.missing[l])
        found.append(ColumnFound(name, low, high, rows, False, missing, task.least, mean, step, quantiles))
    return found


def format_quantile(part: int) -> str:
    """In per cent: 25, 0.5."""
    return f"{part * 100 / WHOLE:g}"


def _cell(task: SurveyTask, column: int, place: int) -> Cell | None:
    if place < 0:
        return None
    edges = task.edges(column)
    return Cell(
        None if place == 0 else float(edges[place - 1]), None if place == task.cells + 1 else float(edges[place])
    )


def _rounded_outwards(low: float, high: float) -> tuple[float, float]:
    """To two digits of their distance."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    digits = 12 - math.ceil(math.log10(max(abs(low), abs(high), step)))
    return round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)


def suggest_options(found: list[ColumnFound]) -> dict[str, str]:
    """Options of `coterie study create` that follow from what was found: `--columns`, `--bounds`, and `--missing` with
    the mean for columns of which values are missing."""
    known = [(one, one.suggested) for one in found]
    bounds = [f"{one.name}={range_[0]:.12g}:{range_[1]:.12g}" for one, range_ in known if range_ is not None]
    filled = [f"{one.name}={_mean_of(one):.6g}" for one, range_ in known if range_ is not None and one.missing]
    options = {"--columns": ",".join(one.name for one, range_ in known if range_ is not None)} if bounds else {}
    if bounds:
        options["--bounds"] = ",".join(bounds)
    if filled:
        options["--missing"] = ",".join(filled)
    return options


def _mean_of(one: ColumnFound) -> float:
    """The mean, as precisely as it is known."""
    if one.mean is None:
        raise ProtocolError("the mean of a closed column is not known")
    places = max(0, 1 - math.floor(math.log10(one.mean_step))) if one.mean_step > 0 else 6
    return round(one.mean, places)
