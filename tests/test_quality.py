"""How good clusters are by default: not worse than scikit-learn's. A small version of benchmarks/quality.py."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.quality import SETS, compare, measure

from tests.clustering.comparison import seeded_runs  # noqa: F401

SEEDS, SECURE = 60, 2


#: Where about half of all runs are bad, some dozens of seeds tell nothing: the standard error is nine points.
MANY_SEEDS = 1000


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((name, SEEDS) for name in ("the paper's", "iris", "wine, standardised", "unequal sizes")),
        pytest.param("eight blobs", MANY_SEEDS, marks=pytest.mark.slow),
    ],
)
def test_ours_are_not_worse_than_scikit_learn_s(name, seeds):
    """A run is bad if its inertia is more than 5 % above the best. Bad runs are not more frequent, by two points and by
    two standard errors; and the protocol comes to what the oracle does."""
    found = measure(SETS[name](), seeds, secure=SECURE)
    assert found["bad"] - found["their_bad"] <= max(0.02, 2 * found["error"])
    assert not found["worse"]
    assert found["equal"] == SECURE


def test_bad_runs_would_be_noticed():
    """Planted: a quarter of runs ends far above the best."""
    good = np.ones(SEEDS)
    bad = np.where(np.arange(SEEDS) % 4, 1.0, 1.06)
    found = compare(bad, good)
    assert (found.bad, found.their_bad) == (0.25, 0.0)
    assert found.bad - found.their_bad > max(0.02, 2 * found.error)
    assert (found.worst, found.their_worst) == (1.06, 1.0)
