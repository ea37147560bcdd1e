"""Random problems at the size of their limits: cluster sums, counts and centres, empty clusters among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from coterie.protocols import Ints, Problem


@dataclass
class Clusters:
    """Sums (k, d) and counts (k,) of clusters, and the centres (k, d) before."""

    problem: Problem
    sums: Ints
    counts: Ints
    old: Ints


@st.composite
def clusters(draw: st.DrawFn) -> Clusters:
    """As `fractional_bits` permits them: rows half^2 and clusters times a distance below 2^60."""
    k, d = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    row_bits = draw(st.integers(1, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = int(rng.integers(1 << (row_bits - 1), 1 << row_bits))
    most = min((60 - row_bits) // 2, 26)
    half_bits = draw(st.sampled_from([most, most - 1]) | st.integers(1, most))
    half = rng.integers(1, (1 << half_bits) + 1, d)
    half[0] = 1 << half_bits
    counts = rng.multinomial(rows, rng.dirichlet(np.full(k, 0.3)))
    counts[rng.random(k) < 0.3] = 0
    reach = counts[:, None] * half
    sums = np.where(
        rng.random((k, d)) < 0.3,
        rng.choice([-1, 1], (k, d)) * reach,
        rng.integers(-reach, reach + 1),
    )
    old = rng.integers(-half, half + 1, (k, d))
    return Clusters(Problem(rows, k, tuple(half.tolist())), sums, counts.astype(np.int64), old)
