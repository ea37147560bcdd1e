"""Layout, by hand: three parties, four rows, three columns; which kinds of rows there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coterie.clustering import Layout
from coterie.clustering.layout import kinds_of_rows

HORIZONTAL = Layout("horizontal", 4, 3, rows=(1, 0, 3))
VERTICAL = Layout("vertical", 4, 3, columns=((0,), (2,), (1,)))
#: P1 has the first row and a cell of the last, P2 and P3 share the rows between.
OWNERS = np.array([[1, 1, 1], [2, 2, 3], [3, 3, 2], [1, 2, 2]], np.uint8)
MIXED = Layout("mixed", 4, 3, owners=OWNERS.tobytes())
TABLE = np.arange(1, 13).reshape(4, 3)


def groups(layout):
    return {tuple(rows.tolist()): parties for rows, parties in layout.label_groups(3)}


def test_rows_whose_labels_a_party_learns():
    assert [HORIZONTAL.own_rows(j).tolist() for j in (1, 2, 3)] == [
        [True, False, False, False],
        [False, False, False, False],
        [False, True, True, True],
    ]
    assert all(VERTICAL.own_rows(j).all() for j in (1, 2, 3))
    assert [MIXED.own_rows(j).tolist() for j in (1, 2, 3)] == [
        [True, False, False, True],
        [False, True, True, True],
        [False, True, True, False],
    ]


def test_columns_of_which_a_party_may_hold_cells():
    assert [VERTICAL.own_columns(j) for j in (1, 2, 3)] == [[0], [2], [1]]
    assert HORIZONTAL.own_columns(2) == MIXED.own_columns(2) == [0, 1, 2]


def test_label_groups_open_each_row_to_its_holders():
    assert groups(HORIZONTAL) == {(0,): [1], (1, 2, 3): [3]}
    assert groups(VERTICAL) == {(0, 1, 2, 3): [1, 2, 3]}
    assert groups(MIXED) == {(0,): [1], (1, 2): [2, 3], (3,): [1, 2]}


def test_center_groups_open_columns_to_their_owners_where_they_have_some():
    assert VERTICAL.center_groups(3) == [([0], [1]), ([2], [2]), ([1], [3])]
    assert HORIZONTAL.center_groups(3) == MIXED.center_groups(3) == [([0, 1, 2], [1, 2, 3])]


def test_a_block_goes_to_its_place():
    np.testing.assert_array_equal(HORIZONTAL.place(3, TABLE[1:]), TABLE * [[0], [1], [1], [1]])
    np.testing.assert_array_equal(HORIZONTAL.place(2, TABLE[:0]), 0 * TABLE)
    np.testing.assert_array_equal(VERTICAL.place(2, TABLE[:, [2]]), TABLE * [0, 0, 1])
    np.testing.assert_array_equal(MIXED.place(3, TABLE), TABLE * (OWNERS == 3))


@pytest.mark.parametrize("layout", [HORIZONTAL, VERTICAL, MIXED], ids=lambda layout: layout.partition)
def test_every_cell_has_one_owner_and_the_blocks_add_up_to_the_table(layout):
    cells = [layout.own_cells(j) for j in (1, 2, 3)]
    np.testing.assert_array_equal(np.sum(cells, axis=0), np.ones((4, 3)))
    parts = [
        layout.place(j, TABLE if layout.partition == "mixed" else TABLE[layout.own_rows(j)][:, layout.own_columns(j)])
        for j in (1, 2, 3)
    ]
    np.testing.assert_array_equal(np.sum(parts, axis=0), TABLE)
    for j, part in zip((1, 2, 3), parts, strict=True):
        np.testing.assert_array_equal(part != 0, cells[j - 1])


@given(arrays(np.uint8, st.tuples(st.integers(0, 30), st.integers(1, 4)), elements=st.integers(0, 3)))
def test_kinds_of_rows(cells):
    kinds, kind_of = kinds_of_rows(cells)
    expected, inverse = np.unique(cells, axis=0, return_inverse=True)
    assert kinds.tolist() == expected.tolist()
    assert kind_of.tolist() == inverse.reshape(-1).tolist()
