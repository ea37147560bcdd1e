"""MatDist, LabelSamples and ArgMin: every small case, ties included, then large numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ring import Words
from coterie.sharing import stack
from tests.protocols.steps import arg_min, label_samples, mat_dist
from tests.protocols.tiny import PARTIES, every_split, numbers, on_shares, protocol_settings, value_of
from tests.support import compute, splits


def distances(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    return ((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=2)


def one_hot(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """NumPy's argmin takes the lowest index, too."""
    return np.eye(len(c), dtype=np.int64)[distances(x, c).argmin(axis=1)]


# -- MatDist -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_distances_by_hand(p):
    got, _ = compute(p, mat_dist, [[0, 0], [3, 4], [-1, 2]], [[0, 0], [3, 0]])
    assert got.tolist() == [[0, 9], [25, 16], [5, 20]]


@pytest.mark.parametrize(("p", "width"), [(2, 4), (3, 3)])
def test_every_distance_of_every_two_splits(p, width):
    ring = Words(width)
    x = every_split(ring, p)
    column = [share[:, None] for share in x]
    got, _ = on_shares(p, mat_dist, (ring, column), (ring, column))
    values = value_of(ring, x).astype(np.int64)
    assert (got == np.subtract.outer(values, values) ** 2 % ring.modulus).all()


@pytest.mark.parametrize("p", [2, 3])
def test_every_distance_in_the_plane(p):
    ring = Words(4)
    points = np.indices((16, 16)).reshape(2, -1).T
    got, _ = on_shares(p, mat_dist, (ring, splits(ring, points, p, 1)), (ring, splits(ring, points, p, 2)))
    assert (got == distances(points, points) % 16).all()


# -- LabelSamples --------------------------------------------------------------------------------------------

#: On this line, the largest squared distance is 9, below a quarter of 2^6.
LINE = np.arange(-1, 3)[:, None]


def check_labels(p: int, k: int, centers: list[tuple[int, ...]]) -> None:
    """All centres in one session, each labelling several splits of every point."""
    ring = Words(6)
    rows = np.tile(LINE, (4, 1))

    def labelled(me, x, *c):
        return stack([label_samples(me, x, one) for one in c])

    shared = [(ring, splits(ring, np.array(c)[:, None], p, i)) for i, c in enumerate(centers)]
    got, _ = on_shares(p, labelled, (ring, splits(ring, rows, p)), *shared)
    expected = np.stack([one_hot(rows, np.array(c)[:, None]) for c in centers])
    assert (got == expected).all()


@pytest.mark.parametrize("p", [2, 3, 5])
def test_labels_by_hand(p):
    """(1, 1) is as far from the first centre as from the third."""
    x, c = [[0, 0], [9, 9], [1, 1], [5, 5]], [[0, 0], [10, 10], [2, 2], [0, 10]]
    got, _ = compute(p, label_samples, x, c)
    assert got.argmax(axis=1).tolist() == [0, 1, 0, 2]
    assert (got.sum(axis=1) == 1).all()
    assert set(np.unique(got)) == {0, 1}


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_choice_of_up_to_three_centers(p, k):
    check_labels(p, k, list(itertools.product(range(-1, 3), repeat=k)))


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("k", [4, 5])
def test_some_choices_of_more_centers(p, k):
    every = list(itertools.product(range(-1, 3), repeat=k))
    check_labels(p, k, every[:: len(every) // 24])


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("k", [4, 5])
def test_every_choice_of_more_centers(p, k):
    check_labels(p, k, list(itertools.product(range(-1, 3), repeat=k)))


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9])
def test_equal_centers_go_to_the_first(p, k):
    got, _ = compute(p, label_samples, [[1, 2], [-3, 4]], [[5, 6]] * k)
    assert got.tolist() == [[1] + [0] * (k - 1)] * 2


@given(
    p=PARTIES,
    k=st.integers(1, 7),
    x=st.lists(st.tuples(*[numbers(-(2**29), 2**29)] * 2), min_size=1, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
@protocol_settings
def test_labels_of_any_rows(p, k, x, seed):
    """Centres among the rows, beside them and anywhere."""
    rng = np.random.default_rng(seed)
    rows = np.array(x)
    centers = rows[rng.integers(0, len(x), k)] + rng.choice([0, 0, 1, -1, 1000], (k, 2))
    assert (compute(p, label_samples, rows, centers)[0] == one_hot(rows, centers)).all()


# -- ArgMin --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_least_entries_by_hand(p):
    got, _ = compute(p, arg_min, [[3, 1, 2], [1, 1, 1], [2, 1, 1], [0, -1, -2]])
    assert got.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_every_row_of_small_numbers(p, k):
    """Every tuple of four values, in several splits."""
    rows = np.array(list(itertools.product(range(-1, 3), repeat=k)) * (4 if k < 6 else 1))
    got, ran = compute(p, arg_min, rows, width=5)
    assert (got == rows.argmin(axis=1)).all()
    assert ran.results[0].shape == (len(rows),)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 3), (3, 2)])
def test_every_row_in_every_split(p, k):
    ring = Words(4)
    entry = every_split(ring, p)
    small = value_of(ring, entry) < 3
    entry = np.stack([share[small] for share in entry])  # (p, splits)
    choice = np.indices((entry.shape[1],) * k).reshape(k, -1).T  # (rows, k)
    shares = [share[choice] for share in entry]
    got, _ = on_shares(p, arg_min, (ring, shares))
    assert (got == value_of(ring, shares).argmin(axis=1)).all()


@given(p=PARTIES, k=st.integers(1, 9), data=st.data())
@protocol_settings
def test_the_least_of_any_numbers(p, k, data):
    row = st.lists(numbers(-(2**61), 2**61 - 1), min_size=k, max_size=k)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=6)))
    assert (compute(p, arg_min, rows)[0] == rows.argmin(axis=1)).all()
