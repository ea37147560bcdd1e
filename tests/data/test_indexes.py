"""Data frames of the same rows: their indexes must agree, or are made to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from coterie import SecureKMeans
from coterie.data import gather
from coterie.errors import InputError

ROWS = np.arange(12.0).reshape(6, 2)
LABELS = list("abcdef")
MINE = pd.DataFrame(ROWS[:, :1], LABELS, ["x"])
THEIRS = pd.DataFrame(ROWS[:, 1:], LABELS, ["y"])
NAMES = ("P1", "P2")


def test_the_same_index_is_taken_as_it_is():
    np.testing.assert_array_equal(gather([MINE, THEIRS], "vertical", NAMES).blocks[1], ROWS[:, 1:])


@pytest.mark.parametrize("partition", ["vertical", "mixed"])
def test_another_order_is_refused(partition):
    with pytest.raises(InputError, match=r"party P2: the index of its rows is not that of P1.*align=True"):
        gather([MINE, THEIRS[::-1]], partition, NAMES)


def test_another_order_is_aligned_if_wanted():
    np.testing.assert_array_equal(gather([MINE, THEIRS[::-1]], "vertical", NAMES, align=True).blocks[1], ROWS[:, 1:])


def test_other_rows_are_refused_with_counts():
    with pytest.raises(InputError, match="party P2: of the index of P1, 2 labels are missing, and 1 are others"):
        gather([MINE, THEIRS.rename({"a": "z"}).drop("b")], "vertical", NAMES, align=True)
    twice = THEIRS.rename({"a": "b"})
    with pytest.raises(InputError, match="party P2: the index of its rows has 1 labels twice"):
        gather([MINE, twice], "vertical", NAMES, align=True)


def test_rows_of_different_parties_have_indexes_of_their_own():
    other = pd.DataFrame(ROWS, list("uvwxyz"), ["x", "y"])
    assert gather([pd.DataFrame(ROWS, LABELS, ["x", "y"]), other], "horizontal", NAMES).layout.n == 12


def test_arrays_beside_frames_have_no_index():
    np.testing.assert_array_equal(gather([MINE, ROWS[:, 1:]], "vertical", NAMES).blocks[1], ROWS[:, 1:])


def test_fits_align():
    model = SecureKMeans(2, partition="vertical", random_state=0)
    straight = model.fit_parties([MINE, THEIRS]).labels_
    np.testing.assert_array_equal(model.fit_parties([MINE, THEIRS[::-1]], align=True).labels_, straight)
