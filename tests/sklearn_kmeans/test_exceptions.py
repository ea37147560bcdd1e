"""The list of scikit-learn's tests that cannot pass names tests that exist, and leaves none out."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import MiniBatchKMeans

from tests.sklearn_kmeans import test_theirs
from tests.sklearn_kmeans.adapter import KMeans
from tests.sklearn_kmeans.exceptions import EXCEPTIONS, OTHERS, SPARSE, is_about_kmeans, reason_of

TESTS = {name: value for name, value in vars(test_theirs).items() if name.startswith("test_")}


def takes_estimators(test) -> bool:
    """Is the class that it makes handed to it?"""
    return bool({"Estimator", "Klass"} & set(inspect.signature(test).parameters))


def test_what_is_listed_exists_and_once():
    assert set(TESTS) >= EXCEPTIONS.keys() | OTHERS.keys()
    assert not EXCEPTIONS.keys() & OTHERS.keys()


def test_what_is_not_about_kmeans_is_listed_and_nothing_else():
    others = {name for name, test in TESTS.items() if not is_about_kmeans(test, {}) and not takes_estimators(test)}
    assert others == OTHERS.keys()


def test_the_class_decides_where_it_is_handed_over():
    test = TESTS["test_transform"]
    assert is_about_kmeans(test, {"Estimator": KMeans})
    assert not is_about_kmeans(test, {"Estimator": MiniBatchKMeans})


@pytest.mark.parametrize("sparse", [csr_matrix, csr_matrix(np.eye(2))])
def test_sparse_input_is_found_by_its_arguments(sparse):
    assert reason_of("test_transform", {"input_data": sparse}) is SPARSE
    assert reason_of("test_transform", {"input_data": np.eye(2)}) is None
    assert (
        reason_of("test_kmeans_relocated_clusters", {"array_constr": np.array})
        is EXCEPTIONS["test_kmeans_relocated_clusters"]
    )
