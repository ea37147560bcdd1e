"""Fixed point: real columns in a public range, as whole numbers in a ring.

Column l has the public range [low_l, high_l]. A value is centred by the middle of the range (a public
shift), multiplied by 2^f and rounded, so that |encoded| <= half_l = ceil(2^f (high_l - low_l) / 2).
`f` may be negative for very large ranges; it is common to all columns, since distances add them up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError

__all__ = ["FixedPoint", "fractional_bits", "widen"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The fewest steps that a column's range may be resolved into.
LEAST_STEPS = 1024


class FixedPoint(msgspec.Struct, frozen=True):
    """How columns of reals become whole numbers. Public, and the same at every party."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    names: tuple[str, ...]
    f: int
    scaled: bool = False  # columns are divided by half their range first,
    reach: float = 1.0  # of which so many parts are a unit
    weights: tuple[float, ...] = ()  # of squared differences, per column; all alike, if there are none

    @property
    def columns(self) -> int:
        return len(self.low)

    @property
    def shift(self) -> Floats:
        return (np.asarray(self.low) + np.asarray(self.high)) / 2

    @property
    def unit(self) -> Floats:
        """What one unit of a column is worth in data units, before the factor 2^f."""
        half = (np.asarray(self.high) - np.asarray(self.low)) / 2
        unit = np.where(half > 0, half / self.reach, 1.0) if self.scaled else np.ones(self.columns)
        return unit / np.sqrt(self.weights) if self.weights else unit

    @property
    def half(self) -> Ints:
        """half_l, the largest magnitude of an encoded entry of each column; at least 1."""
        reach = (np.asarray(self.high) - np.asarray(self.low)) / 2 / self.unit
        return np.maximum(np.ceil(reach * 2.0**self.f).astype(np.int64), 1)

    @property
    def distance_bits(self) -> int:
        """D + 2f: the bits of the largest squared distance between two rows in range."""
        return (4 * sum(int(h) ** 2 for h in self.half)).bit_length()

    def encode(self, rows: Any, columns: Sequence[int], where: str = "") -> Ints:
        """Rows of reals (holding the given columns) as whole numbers; NaN where a cell is not held.

        Refuses infinities and values outside the range, naming the column.
        """
        rows = np.asarray(rows, dtype=np.float64)
        pick = list(columns)
        low, high = np.asarray(self.low)[pick], np.asarray(self.high)[pick]
        if self.reach != 1.0:
            rows = np.clip(rows, low, high)  # standard deviations from the mean
        for bad, what in (
            (np.isinf(rows), "holds an infinity; remove or replace such rows"),
            (
                (rows < low) | (rows > high),
                "holds a value outside its agreed range; widen the bounds or clip the data",
            ),
        ):
            if bad.any():
                l = int(np.argmax(bad.any(axis=0)))
                name, at = self.names[pick[l]], f"[{low[l]:g}, {high[l]:g}]"
                raise InputError(f"{where}column {name!r} {what} (agreed range: {at})")
        scaled = (rows - self.shift[pick]) / self.unit[pick] * 2.0**self.f
        half = self.half[pick]
        whole = np.clip(np.rint(np.nan_to_num(scaled)), -half, half).astype(np.int64)
        return np.asarray(whole)

    def decode(self, whole: Any, columns: Sequence[int] | None = None) -> Floats:
        """Whole numbers back to data units."""
        pick = list(range(self.columns)) if columns is None else list(columns)
        values = np.asarray(whole, dtype=np.float64) * 2.0**-self.f * self.unit[pick] + self.shift[pick]
        return np.asarray(values)

    def squared(self, total: int, extra_bits: int = 0) -> float:
        """A sum of squares of encoded numbers, shifted right by `extra_bits`, in (scaled) data units."""
        return math.ldexp(total, extra_bits - 2 * self.f)


def widen(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The range twice as wide around the same middle; a constant column gets a range of its own size."""
    middle, half = (low + high) / 2, high / 2 - low / 2
    half = np.where(half > 0, 2 * half, np.maximum(np.abs(middle), 1.0) / 2)
    return middle - half, middle + half


def fractional_bits(
    low: Sequence[float],
    high: Sequence[float],
    names: Sequence[str],
    rows: int,
    clusters: int,
    scaled: bool,
    wanted: int | None,
) -> int:
    """The precision: as much as 64-bit words allow, at most 16 bits below the unit of the widest column.

    docs/arithmetic.md#precision. Columns much narrower than 1 get more than 16 fractional bits, and what
    is refused is a column resolved into fewer than 1024 steps rather than a fixed f, so that incomes in
    the hundred thousands need no rescaling while a narrow column beside a huge one is still caught. The
    centres' total movement must fit, too, so the number of clusters counts.
    """
    half = np.asarray(high, dtype=np.float64) / 2 - np.asarray(low, dtype=np.float64) / 2
    if scaled:
        half = np.where(half > 0, 1.0, half)
    widest = float(half.max(initial=0.0)) or 1.0
    b = math.ceil(math.log2(widest)) if math.isfinite(widest) else 1024
    if abs(b) > 400:
        name = names[int(np.argmax(half))]
        raise InputError(f"column {name!r} has a range of size {widest:g}, at the ends of floating point; rescale it")
    distance = 2 + 2 * b + math.log2(max(float(np.sum((half * 2.0**-b) ** 2)), 2.0**-60))
    most = min((60 - 2 * b - rows.bit_length()) // 2, math.floor((60 - distance - clusters.bit_length()) / 2))
    f = min(16 - min(b, 0), most)
    if wanted is not None:
        if wanted > most:
            raise InputError(f"fractional_bits={wanted} does not fit into 64-bit words here; use at most {most}")
        f = wanted
    steps = 2 * half * 2.0**f
    narrow = (steps < LEAST_STEPS) & (half > 0)
    if narrow.any():
        name = names[int(np.argmax(narrow))]
        raise InputError(
            f"column {name!r} would be resolved into only {int(steps[narrow][0])} steps with fractional_bits={f}; "
            'use scale="bounds", tighter bounds for the widest column, or more fractional_bits'
        )
    return f
