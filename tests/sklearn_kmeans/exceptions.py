"""Which of scikit-learn's tests of `KMeans` cannot pass with `SecureKMeans` in its place, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import pytest
from scipy.sparse import issparse, spmatrix
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from tests.sklearn_kmeans.adapter import KMeans

__all__ = ["EXCEPTIONS", "OTHERS", "Reason", "is_about_kmeans", "is_sparse", "reason_of"]

try:
    from scipy.sparse import sparray

    SPARSE_TYPES: tuple[type, ...] = (spmatrix, sparray)
except ImportError:  # scipy below 1.11 has no such arrays
    SPARSE_TYPES = (spmatrix,)


@dataclass(frozen=True)
class Reason:
    """In words, and the exceptions that such a test may end with."""

    words: str
    ends_with: tuple[type[BaseException], ...]


#: What `pytest.warns` ends with, whatever happened inside.
NO_WARNING = pytest.fail.Exception
PRIVATE = Reason("reads private attributes of KMeans", (AttributeError,))
SPARSE = Reason("sparse input", (TypeError, NO_WARNING))
RELOCATION = Reason("empty clusters keep their centre; scikit-learn moves it", (AssertionError, ConvergenceWarning))
DIGITS = Reason("more digits than fixed point has", (AssertionError,))
ALGORITHM = Reason("there is one algorithm, and so no warning of another", (NO_WARNING,))

#: By the name of the test. What has sparse input is found by its arguments.
EXCEPTIONS = {
    "test_kmeans_relocated_clusters": RELOCATION,
    "test_kmeans_init_auto_with_initial_centroids": PRIVATE,
    "test_dense_sparse": SPARSE,
    "test_kmeans_empty_cluster_relocated": RELOCATION,
    "test_warning_elkan_1_cluster": ALGORITHM,
    "test_k_means_1_iteration": DIGITS,
    "test_n_init_auto": PRIVATE,
    "test_sample_weight_init": PRIVATE,
    "test_sample_weight_zero": PRIVATE,
}

MINI_BATCH = "MiniBatchKMeans alone"
FUNCTIONS = "functions of scikit-learn"
#: Tests that are not about `KMeans` at all, and about what they are.
OTHERS = {
    "test_relocate_empty_clusters": FUNCTIONS,
    "test_minibatch_update_consistency": MINI_BATCH,
    "test_minibatch_kmeans_partial_fit_init": MINI_BATCH,
    "test_minibatch_kmeans_verbose": MINI_BATCH,
    "test_minibatch_kmeans_warning_init_size": MINI_BATCH,
    "test_minibatch_sensible_reassign": MINI_BATCH,
    "test_minibatch_reassign": MINI_BATCH,
    "test_minibatch_with_many_reassignments": MINI_BATCH,
    "test_minibatch_kmeans_init_size": MINI_BATCH,
    "test_minibatch_declared_convergence": MINI_BATCH,
    "test_minibatch_iter_steps": MINI_BATCH,
    "test_k_means_function": FUNCTIONS,
    "test_euclidean_distance": FUNCTIONS,
    "test_inertia": FUNCTIONS,
    "test_kmeans_plusplus_wrong_params": FUNCTIONS,
    "test_kmeans_plusplus_output": FUNCTIONS,
    "test_kmeans_plusplus_norms": FUNCTIONS,
    "test_kmeans_plusplus_dataorder": FUNCTIONS,
    "test_is_same_clustering": FUNCTIONS,
}


def is_about_kmeans(test: FunctionType, arguments: Mapping[str, Any]) -> bool:
    """Does the test make a `KMeans`: by name, or because it is handed the class?"""
    if any(value is MiniBatchKMeans for value in arguments.values()):
        return False
    return "KMeans" in test.__code__.co_names or any(value is KMeans for value in arguments.values())


def is_sparse(value: Any) -> bool:
    """Is it a sparse array, or what makes one?"""
    return issparse(value) or (isinstance(value, type) and issubclass(value, SPARSE_TYPES))


def reason_of(name: str, arguments: Mapping[str, Any]) -> Reason | None:
    """Why a test cannot pass with these arguments; None, if it must."""
    return SPARSE if any(map(is_sparse, arguments.values())) else EXCEPTIONS.get(name)
