"""Decimal numbers: how they are written, and how coarse those of a column are."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

__all__ = ["NUMBER", "NUMBER_OR_WORD", "find_coarse_step", "parse_number"]

#: A decimal number: ASCII digits with an optional sign, point and exponent. No `1_000`, no `0x10`, no `+-1`.
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
#: Also nan and inf, as programs write them: they are read, and `schema` says what is wrong with them.
NUMBER_OR_WORD = rf"{NUMBER}|[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"

#: A grid is coarse if a column spans fewer steps than this.
COARSE = 1 << 16
#: Steps that people use: 1, 2, 2.5 and 5 times a power of ten; 2.5 also makes 0.25.
MULTIPLES = (5.0, 2.5, 2.0, 1.0)
#: By how much of a step a value may miss its multiple.
MISS = 1e-9
EPSILON = float(np.finfo(np.float64).eps)


def parse_number(text: str) -> float:
    """A finite decimal number, blanks around it allowed. Raises ValueError for everything else."""
    bare = text.strip()
    if not re.fullmatch(NUMBER, bare):
        raise ValueError("not a decimal number")
    value = float(bare)
    if not math.isfinite(value):
        raise ValueError("too large for a number")
    return value


def find_coarse_step(values: NDArray[np.float64]) -> float | None:
    """The largest step r such that all values of a column are whole multiples of r, or None if they span `COARSE`
    steps or more. r is 1, 2, 2.5 or 5 times a power of ten. A column with fewer than two different values has none.

    Values that are not finite are left out. A value may miss its multiple by 1e-9 of a step, or by as much as doubles
    of its size are apart, as 0.1 + 0.2 misses 0.3.
    """
    finite = np.unique(values[np.isfinite(values)])
    if len(finite) < 2:
        return None
    low, high = float(finite[0]), float(finite[-1])
    least = high / COARSE - low / COARSE  # divided before subtracting, so that it stays finite
    most = max(abs(low), abs(high))
    for exponent in range(_decade(most), _decade(least) - 1, -1):
        for multiple in MULTIPLES:
            step = float(f"{multiple}e{exponent}")
            if least < step <= most and _are_multiples(finite, step):
                return step
    return None


def _decade(value: float) -> int:
    return math.floor(math.log10(value))


def _are_multiples(values: NDArray[np.float64], step: float) -> bool:
    """First by a few values, then by all: most steps fail early."""
    few = values[:: max(len(values) // 64, 1)]
    return _fits(few, step) and _fits(values, step)


def _fits(values: NDArray[np.float64], step: float) -> bool:
    count = values / step
    missed = np.abs(count - np.rint(count))
    return bool((missed <= np.clip(np.abs(count) * 4 * EPSILON, MISS, 1e-3)).all())
