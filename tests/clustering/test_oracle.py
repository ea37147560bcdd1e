"""Every fit equals the plaintext oracle, bit for bit: empty clusters, ties and edges of the range included."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning

from coterie import SecureKMeans
from coterie.data import split
from coterie.protocols import FAMILIES
from tests.clustering.comparison import WAYS, assert_equals_oracle, can_be_split, fit_blocks, way_name

RANDOM = np.random.RandomState(0)
CLOUD = RANDOM.normal(size=(17, 3))
GRID = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(16, 2)
FEW_POINTS = np.tile([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [0.0, 4.0, 1.0]], (4, 1))
EDGES = np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
WIDE = CLOUD[:, :2] * [30_000, 20]

CASES: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "random": (CLOUD, {"n_clusters": 3}),
    "starts that are equal rows": (FEW_POINTS, {"n_clusters": 4, "random_state": 1}),
    "ties on a grid": (GRID, {"n_clusters": 4, "init": GRID[[0, 3, 12, 15]]}),
    "ties between neighbours": (GRID, {"n_clusters": 3, "init": GRID[[5, 6, 10]]}),
    "equal centres": (CLOUD, {"n_clusters": 3, "init": CLOUD[[2, 2, 2]]}),
    "an empty cluster": (
        CLOUD,
        {"n_clusters": 3, "init": [[90.0, -90.0, 90.0], *CLOUD[:2]], "bounds": [(-100, 100)] * 3},
    ),
    "all clusters empty but the last": (
        CLOUD,
        {"n_clusters": 3, "init": [[90.0] * 3, [-90.0] * 3, [1.0] * 3], "bounds": [(-100, 100)] * 3},
    ),
    "one cluster": (CLOUD, {"n_clusters": 1}),
    "a cluster for every row": (CLOUD[:6], {"n_clusters": 6}),
    "two rows": (CLOUD[:2], {"n_clusters": 2}),
    "a constant column": (np.column_stack([CLOUD, np.full(17, 7.5)]), {"n_clusters": 3}),
    "nothing but constant columns": (np.full((6, 3), -2.25), {"n_clusters": 2}),
    "one column": (CLOUD[:, :1], {"n_clusters": 3}),
    "one iteration": (CLOUD, {"n_clusters": 4, "max_iter": 1}),
    "stop at the exact fixed point": (CLOUD, {"n_clusters": 4, "tol": 0}),
    "stop at once": (CLOUD, {"n_clusters": 4, "tol": 1e6}),
    "scaled by the bounds": (CLOUD * [1, 1000, 0.001], {"n_clusters": 3, "scale": "bounds"}),
    "values at the edges of the bounds": (EDGES, {"n_clusters": 3, "init": EDGES[:3], "bounds": [(-1, 1)] * 2}),
    "large values": (CLOUD * 1e6, {"n_clusters": 3, "tol": 1e6}),
    "small values": (CLOUD * 1e-6, {"n_clusters": 3, "tol": 1e-16}),
    "few fractional bits": (CLOUD, {"n_clusters": 3, "fractional_bits": 9}),
    "restarts": (CLOUD, {"n_clusters": 4, "n_init": 3}),
    "restarts of wide data": (WIDE, {"n_clusters": 4, "n_init": 3}),
    "rows one by one": (CLOUD, {"n_clusters": 3, "plan": {"block_rows": 1}}),
    "blocks of seven rows": (CLOUD, {"n_clusters": 3, "plan": {"block_rows": 7}}),
}
#: Parties, and what becomes of their centres.
PARTIES = [(2, "revealed"), (3, "shared"), (5, "revealed")]
#: What every case runs in `make test`: each partition, each division, SVK-means, shared centres.
QUICK = [
    ("onetime", PARTIES[1], {"partition": "horizontal", "counts": "secret"}),
    ("onetime", PARTIES[0], {"partition": "mixed", "counts": "secret"}),
    ("onetime", PARTIES[0], {"partition": "vertical", "counts": "revealed"}),
    ("onetime", PARTIES[1], {"partition": "vertical", "labels": "revealed"}),
    ("securenn", PARTIES[0], {"partition": "horizontal", "counts": "secret"}),
    ("securenn", PARTIES[1], {"partition": "mixed", "counts": "revealed"}),
    ("securenn", PARTIES[0], {"partition": "vertical", "labels": "revealed"}),
    ("falcon", PARTIES[0], {"partition": "horizontal", "counts": "secret"}),
    ("falcon", PARTIES[1], {"partition": "mixed", "counts": "revealed"}),
    ("falcon", PARTIES[2], {"partition": "horizontal", "counts": "secret"}),
]
RUNS = [
    pytest.param(
        name,
        protocol,
        parties,
        centers,
        way,
        marks=() if (protocol, (parties, centers), way) in QUICK else pytest.mark.slow,
        id=f"{name}, {protocol}-{parties}-{way_name(way)}",
    )
    for (name, (x, _)), protocol, (parties, centers), way in product(CASES.items(), FAMILIES, PARTIES, WAYS)
    if can_be_split(x, way["partition"], parties)
]


@pytest.mark.parametrize(("name", "protocol", "parties", "centers", "way"), RUNS)
def test_equals_the_oracle(name, protocol, parties, centers, way):
    x, options = CASES[name]
    blocks = split(x, way["partition"], parties)
    options = {"random_state": 0, **options, **way, "protocol": protocol, "centers": centers}
    model = fit_blocks(SecureKMeans(**options), blocks)
    assert_equals_oracle(model, blocks)


def test_an_empty_cluster_keeps_its_centre():
    x, options = CASES["an empty cluster"]
    far = np.array(options["init"][0])
    for way in WAYS:
        with pytest.warns(ConvergenceWarning):
            model = SecureKMeans(**options, **way).fit(x)
        assert 0 not in model.labels_
        np.testing.assert_array_equal(model.cluster_centers_[0], far)


def test_where_all_centres_are_equal_the_first_takes_all_rows():
    x, options = CASES["nothing but constant columns"]
    for way in WAYS:
        with pytest.warns(ConvergenceWarning):
            model = SecureKMeans(**options, **way).fit(x)
        assert (model.labels_ == 0).all()
        np.testing.assert_array_equal(model.cluster_centers_, x[:2])


def test_a_row_for_every_cluster_has_no_inertia():
    x, options = CASES["a cluster for every row"]
    model = SecureKMeans(**options, random_state=0, partition="vertical", labels="revealed").fit(x)
    assert sorted(model.labels_) == list(range(6))
    assert model.inertia_ == 0
    np.testing.assert_array_equal(model.labels_[model.init_rows_], range(6))


@st.composite
def problems(draw):
    """Blocks of a small table on a coarse grid, where ties are common, and options for them."""
    parties = draw(st.sampled_from([2, 3]))
    way = draw(st.sampled_from(WAYS))
    n = draw(st.integers(parties, 9))
    d = draw(st.integers(parties if way["partition"] == "vertical" else 1, 4))
    x = draw(arrays(np.float64, (n, d), elements=st.integers(-8, 8).map(lambda v: v / 4)))
    blocks = split(x, way["partition"], parties)
    if way["partition"] == "mixed":
        owners = draw(arrays(np.int64, (n, d), elements=st.integers(0, parties - 1)))
        owners.flat[:parties] = range(parties)
        blocks = [np.where(owners == j, x, np.nan) for j in range(parties)]
    k = draw(st.integers(1, min(n, 5)))
    options = {
        "n_clusters": k,
        "protocol": draw(st.sampled_from(list(FAMILIES))),
        "centers": draw(st.sampled_from(["revealed", "shared"])),
        "init": draw(
            st.sampled_from(["k-means++", "random"]) | arrays(np.float64, (k, d), elements=st.integers(-2, 2))
        ),
        "n_init": draw(st.sampled_from([1, 1, 2])),
        "max_iter": draw(st.integers(1, 3)),
        "tol": draw(st.sampled_from([0, 1e-4, 1.0])),
        "bounds": [(-2, 2)] * d,
        "scale": draw(st.sampled_from([None, "bounds"])),
        "plan": {"block_rows": draw(st.sampled_from([1, 4, 1000])), "lanes": draw(st.integers(0, 2))},
        "random_state": draw(st.integers(0, 9)),
    }
    return blocks, {**way, **options}


def check_equality(problem):
    blocks, options = problem
    assert_equals_oracle(fit_blocks(SecureKMeans(**options), blocks), blocks)


@settings(deadline=None, derandomize=True, max_examples=40, database=None)
@given(problems())
def test_small_random_problems_equal_the_oracle(problem):
    check_equality(problem)


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=300, database=None)
@given(problems())
def test_many_small_random_problems_equal_the_oracle(problem):
    check_equality(problem)
