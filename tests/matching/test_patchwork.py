"""Who holds which cell, against a plaintext join."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.matching.patchwork import lay_out

RANDOM = np.random.RandomState(2)


def words(count):
    return RANDOM.randint(0, 1 << 63, count, dtype=np.uint64)


def tags_of(ids):
    return np.array(sorted(f"{i:04d}".encode() for i in ids), "S16")


def joined(lists, holders, precedence):
    """By id, who has each of its cells (from 1; 0: nobody), and how many cells several hold."""
    found, twice = {}, [0] * len(holders)
    for one in sorted(set().union(*lists)):
        cells = []
        for l, able in enumerate(holders):
            having = [j for j in precedence if j in able and one in lists[j]]
            twice[l] += len(having) > 1
            cells.append(having[0] + 1 if having else 0)
        found[one] = cells
    return found, twice


@given(
    lists=st.lists(st.sets(st.integers(0, 6)), min_size=2, max_size=4),
    columns=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=3),
    order=st.permutations(range(4)),
)
def test_as_a_plaintext_join(lists, columns, order):
    p = len(lists)
    holders = [sorted(j for j in able if j < p) or [0] for able in columns]
    precedence = [j for j in order if j < p]
    found = lay_out([tags_of(one) for one in lists], holders, precedence, words)
    expected, twice = joined(lists, holders, precedence)
    assert found.twice == twice
    assert found.absent == [sum(cells[l] == 0 for cells in expected.values()) for l in range(len(holders))]
    complete = {one for one, cells in expected.items() if all(cells)}
    assert found.owners.shape == (len(complete), len(holders))
    for own, slots in zip(lists, found.slots, strict=True):
        for one, slot in zip(sorted(own), slots.tolist(), strict=True):
            assert (slot >= 0) == (one in complete)
            if slot >= 0:
                assert found.owners[slot].tolist() == expected[one]


def test_rows_stand_in_random_order():
    """Exactly: over all orders that random words may have, every row stands in every place equally often."""
    lists = [tags_of({1, 2, 3}), tags_of({1, 2, 3})]
    seen = np.zeros((3, 3), int)
    for drawn in product(range(3), repeat=3):
        if len(set(drawn)) == 3:
            slots = lay_out(lists, [[0], [1]], [0, 1], lambda count: np.array(drawn, np.uint64)).slots
            np.testing.assert_array_equal(slots[0], slots[1])
            seen[np.arange(3), slots[0]] += 1
    assert (seen == 2).all()


@pytest.mark.parametrize("precedence", [[0, 1], [1, 0]])
def test_precedence(precedence):
    found = lay_out([tags_of({1, 2}), tags_of({2})], [[0, 1]], precedence, words)
    assert found.twice == [1]
    assert found.owners[found.slots[1][0]].tolist() == [precedence[0] + 1]
