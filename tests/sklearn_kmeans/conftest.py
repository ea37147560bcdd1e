"""scikit-learn's tests: what its own conftest gives them, and which of them must pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.sklearn_kmeans.exceptions import is_about_kmeans, reason_of

THEIRS = f"{__package__}.test_theirs"


@pytest.fixture
def global_random_seed() -> int:
    return 42


@pytest.fixture
def global_dtype() -> type[np.float64]:
    return np.float64


def _arguments(item: pytest.Item) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not about `KMeans`; what is listed must fail, as it is listed."""
    left_out = []
    for item in items:
        if not isinstance(item, pytest.Function) or item.module.__name__ != THEIRS:
            continue
        reason = reason_of(item.originalname, _arguments(item))
        if not is_about_kmeans(item.function, _arguments(item)):
            left_out.append(item)
            continue
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason.words, raises=reason.ends_with, strict=True))
        if "elkan" in item.name:
            item.add_marker(pytest.mark.slow)  # there is one algorithm: its twin has shown it
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)
