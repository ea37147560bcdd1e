"""scikit-learn's own tests of `KMeans`, with `SecureKMeans` in its place.

They come with the installed scikit-learn. All must pass but those that are listed in `exceptions.py`, each with its
reason; these must fail, with the exception that belongs to the reason.
"""

from __future__ import annotations

import pytest

from tests.clustering.comparison import seeded_runs  # noqa: F401
from tests.sklearn_kmeans.adapter import load_tests

#: Their data have a handful of rows, of which a party may hold two: one column decides, and is said to.
pytestmark = pytest.mark.filterwarnings("ignore:column .* carries:UserWarning")

globals().update({name: value for name, value in vars(load_tests()).items() if name.startswith("test_")})
