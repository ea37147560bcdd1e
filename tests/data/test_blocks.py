"""Blocks of a table, by hand: how `split` cuts, what `gather` finds, and that one undoes the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.data import gather, split
from coterie.errors import InputError
from tests.data.frames import Frame

NAN = np.nan
X = np.arange(12.0).reshape(4, 3)


def names(count):
    return [f"P{j + 1}" for j in range(count)]


def gathered(blocks, partition, **options):
    return gather(blocks, partition, names(len(blocks)), **options)


def test_horizontal_splits_rows():
    first, second, third = split(X, "horizontal", 3)
    np.testing.assert_array_equal(first, X[:2])
    np.testing.assert_array_equal(second, X[2:3])
    np.testing.assert_array_equal(third, X[3:])


def test_vertical_splits_columns():
    first, second = split(X, "vertical", 2)
    np.testing.assert_array_equal(first, X[:, :2])
    np.testing.assert_array_equal(second, X[:, 2:])


def test_mixed_splits_into_a_checkerboard():
    first, second = split(X, "mixed", 2)
    np.testing.assert_array_equal(first, [[0, 1, NAN], [3, 4, NAN], [NAN, NAN, 8], [NAN, NAN, 11]])
    np.testing.assert_array_equal(np.isnan(second), ~np.isnan(first))


@pytest.mark.parametrize(("partition", "parties"), [("horizontal", 5), ("vertical", 4)])
def test_too_many_parties_for_the_table_is_refused(partition, parties):
    with pytest.raises(InputError, match=f"n_parties={parties}"):
        split(X, partition, parties)


def test_horizontal_blocks_follow_each_other():
    layout = gathered([X[:1], X[1:]], "horizontal").layout
    assert (layout.partition, layout.n, layout.d, layout.rows) == ("horizontal", 4, 3, (1, 3))


def test_vertical_blocks_stand_side_by_side():
    table = gathered([X[:, :1], X[:, 1:]], "vertical")
    assert table.layout.columns == ((0,), (1, 2))
    assert table.names == ("x0", "x1", "x2")


def test_mixed_blocks_say_who_holds_which_cell():
    owners = np.array([[1, 2, 1], [2, 2, 2], [1, 1, 1], [2, 1, 2]])
    layout = gathered([np.where(owners == j, X, NAN) for j in (1, 2)], "mixed").layout
    np.testing.assert_array_equal(np.frombuffer(layout.owners, np.uint8).reshape(4, 3), owners)


def test_names_come_from_the_frames():
    assert gathered([Frame(X, ["a", "b", "c"]), X], "horizontal").names == ("a", "b", "c")
    assert gathered([Frame(X[:, :1], ["age"]), Frame(X[:, 1:], ["pay", "debt"])], "vertical").names == (
        "age",
        "pay",
        "debt",
    )


def test_nameless_columns_beside_named_ones_are_numbered_by_their_place():
    assert gathered([Frame(X[:, :1], ["age"]), X[:, 1:]], "vertical").names == ("age", "x1", "x2")


def test_whole_numbers_and_lists_are_taken_as_they_are():
    table = gathered([[[1, 2], [3, 4]], np.array([[5, 6]], np.int32)], "horizontal")
    assert [block.dtype for block in table.blocks] == [np.float64, np.float64]
    np.testing.assert_array_equal(table.blocks[0], [[1, 2], [3, 4]])


def test_the_caller_s_data_are_not_touched():
    blocks = [X.copy(), X.copy()]
    gathered(blocks, "horizontal").blocks[0][:] = -1
    np.testing.assert_array_equal(blocks[0], X)


@pytest.mark.parametrize("partition", ["horizontal", "mixed"])
def test_a_block_without_rows_is_taken_when_asked_for(partition):
    empty = X[:0] if partition == "horizontal" else np.full_like(X, NAN)
    assert gathered([X, empty], partition, empty_blocks=True).layout.n == 4
    with pytest.raises(InputError, match="P2 has no rows"):
        gathered([X, empty], partition)


@settings(deadline=None, derandomize=True, max_examples=60, database=None)
@given(st.sampled_from(["horizontal", "vertical", "mixed"]), st.integers(2, 5), st.integers(5, 9), st.integers(5, 7))
def test_gathered_splits_add_up_to_the_table(partition, parties, n, d):
    x = np.arange(1.0, n * d + 1).reshape(n, d)
    table = gathered(split(x, partition, parties), partition)
    np.testing.assert_array_equal(table.whole(lambda j: np.nan_to_num(table.blocks[j]).astype(np.int64)), x)
    assert (table.layout.n, table.layout.d, len(table.names)) == (n, d, d)
    assert all(table.layout.own_rows(j).any() for j in range(1, parties + 1))
