"""`SecureKMeans` with the signature of scikit-learn's `KMeans`, and scikit-learn's own tests with it in that place."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sklearn.cluster
from scipy.sparse import issparse

from coterie import SecureKMeans

__all__ = ["KMeans", "load_tests"]

#: Where scikit-learn keeps its tests of `KMeans`.
THEIRS = "sklearn.cluster.tests.test_k_means"


class KMeans(SecureKMeans):
    """Takes what `KMeans` takes, with its defaults. There is one algorithm, and data are never written to."""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
    ) -> None:
        super().__init__(
            n_clusters,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            verbose=verbose,
            random_state=random_state,
        )
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Centres that are given may lie outside of the data: the bounds hold both."""
        self.bounds = "auto"
        given = None if isinstance(self.init, str) or callable(self.init) else np.asarray(self.init, np.float64)
        if given is not None and not issparse(X) and given.shape[1:] == np.shape(X)[1:]:
            both = np.concatenate([X, given])
            self.bounds = np.column_stack([both.min(axis=0) - 1, both.max(axis=0) + 1])
        super().fit(X, y, sample_weight)
        return self


def load_tests() -> ModuleType:
    """A copy of scikit-learn's module of tests of its own, to which `KMeans` is the one of this module."""
    spec = importlib.util.find_spec(THEIRS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sklearn.cluster, "KMeans", KMeans)
        spec.loader.exec_module(module)
    return module
