"""The whole-number arithmetic that protocols compute and the plaintext oracle repeats, bit for bit."""

from __future__ import annotations

import numpy as np

from coterie.protocols.interface import Ints, Problem

__all__ = ["QUOTIENT_BITS", "quotient_means", "reciprocal_means", "reciprocals", "truncated"]

#: Quotient bits of the secure division. The paper's 130 rounds pay for 13 at ten rounds each; a bit takes
#: at most eight here, so 16 fit under the same count and centres resolve 2^-16 of a column's range.
QUOTIENT_BITS = 16


def truncated(x: Ints, g: int) -> Ints:
    """round(x / 2^g), halves upwards."""
    return x if g == 0 else np.asarray((x + (1 << (g - 1))) >> g)


def quotient_means(problem: Problem, sums: Ints, counts: Ints, old: Ints) -> Ints:
    """round((T + H t) / (s t)) s - H per column, for H = s 2^(bits-1): the mean on a grid of step s."""
    step = problem.quotient_steps(QUOTIENT_BITS)
    edge = step << (QUOTIENT_BITS - 1)
    t = counts[:, None]
    quotient = (2 * (sums + edge * t) + step * t) // np.maximum(2 * step * t, 1)
    return np.where(t == 0, old, quotient * step - edge)


def reciprocals(counts: Ints, g: int) -> Ints:
    """round(2^g / t), and 0 for t = 0."""
    safe = np.maximum(counts, 1)
    return np.where(counts == 0, 0, ((1 << (g + 1)) // safe + 1) >> 1)


def reciprocal_means(problem: Problem, sums: Ints, counts: Ints, old: Ints) -> Ints:
    """round((T q + [t = 0] 2^g C) / 2^g) with q = round(2^g / t)."""
    g = problem.reciprocal_bits
    q, empty = reciprocals(counts, g)[:, None], (counts == 0).astype(np.int64)[:, None]
    return truncated(sums * q + (empty << g) * old, g)
