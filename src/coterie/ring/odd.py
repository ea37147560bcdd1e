"""Compiled arithmetic of Z_(2^w - 1): NumPy has none that wraps around at an odd modulus."""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import vectorize

__all__ = ["odd_add", "odd_sub"]


@vectorize(["u8(u8, u8, u8)"], cache=True)
def odd_add(a: np.uint64, b: np.uint64, m: np.uint64) -> np.uint64:
    """a + b over Z_m, m = 2^w - 1 odd, for a, b < m: subtract m, unless that would be negative."""
    rest = m - b  # > 0
    return a - rest if a >= rest else a + b


@vectorize(["u8(u8, u8, u8)"], cache=True)
def odd_sub(a: np.uint64, b: np.uint64, m: np.uint64) -> np.uint64:
    """a - b over Z_m for a, b < m."""
    return a - b if a >= b else a + (m - b)
