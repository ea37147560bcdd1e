"""The primitives that the output rules are made of, in every family, against the plaintext one."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.clustering import Layout
from coterie.protocols import FAMILIES, Plaintext, Problem
from coterie.protocols.interface import RowSets
from coterie.protocols.plaintext import in_the_clear, whole
from coterie.runtime.threads import run_threads
from coterie.sharing import concatenate
from tests.support import SeededEntropy, by_rank

RANDOM = np.random.RandomState(0)


def opened(protocol: str, p: int, problem: Problem, operate, *parts: np.ndarray) -> np.ndarray:
    """operate(family, *secrets), opened to P1; `parts` are split over the parties at random."""
    splits = []
    for values in parts:
        shares = [RANDOM.randint(-(1 << 40), 1 << 40, values.shape) for _ in range(p - 1)]
        splits.append([*shares, values - sum(shares)])

    def role(me):
        family = FAMILIES[protocol](me, problem)
        secrets = [
            family.enter(None if not me.owns else shares[me.rank - 1].astype(np.int64), shares[0].shape)
            for shares in splits
        ]
        return family.open(operate(family, *secrets), [1], "result", "a test")

    return at_first(protocol, p, role)


def at_first(protocol: str, p: int, role) -> np.ndarray:
    """What P1 has of a run in the family's own world."""
    world = FAMILIES[protocol].world([f"P{j}" for j in range(1, p + 1)])
    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(0, rank))
    return by_rank(world, results)[1]


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 17])
def test_any_of_finds_a_single_bit_in_any_place(protocol, p, rows):
    """All patterns of up to four rows, then each single place, and none: by columns side by side."""
    if rows <= 4:
        patterns = np.array([[pattern >> row & 1 for pattern in range(1 << rows)] for row in range(rows)])
    else:
        patterns = np.concatenate([np.eye(rows, dtype=int), np.zeros((rows, 1), int)], axis=1)
    columns = patterns.shape[1]
    values = np.where(patterns, RANDOM.randint(-9, 0, patterns.shape), RANDOM.randint(0, 9, patterns.shape))
    found = opened(
        protocol, p, Problem(4, 2, (9,)), lambda f, v: f.any_of(f.at_most(v, -1), columns), values.reshape(-1)
    )
    np.testing.assert_array_equal(found, patterns.any(axis=0))


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("p", [2, 3])
def test_linear_algebra_with_what_is_public(protocol, p):
    problem = Problem(10, 3, (1000, 1000))
    values = RANDOM.randint(-1000, 1000, (3, 2))
    factors = np.array([1, -2])
    order = [2, 0, 0]
    assert opened(protocol, p, problem, lambda _, v: v * factors, values).tolist() == (values * factors).tolist()
    assert opened(protocol, p, problem, lambda _, v: v[order], values).tolist() == values[order].tolist()
    first, second = RANDOM.randint(-9, 9, 5), RANDOM.randint(-9, 9, 4)
    joined = opened(protocol, p, problem, lambda _, a, b: concatenate([a, b]), first, second)
    assert joined.tolist() == [*first, *second]
    assert opened(protocol, p, problem, lambda _, a, b: a - b, first[:4], second).tolist() == (
        (first[:4] - second).tolist()
    )


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("p", [2, 3])
def test_bits_of_which_one_implies_the_other_are_subtracted(protocol, p):
    """<0 < t < 3> for every t from 0 to 5, for the places that a mask names."""
    t, mask = np.arange(6), np.array([1, 1, 1, 1, 0, 0])

    def operate(family, values):
        return family.at_most(values, 2) - family.at_most(values, 0) * mask

    assert opened(protocol, p, Problem(9, 2, (9,)), operate, t).tolist() == [0, 1, 1, 0, 0, 0]
    inverse = 1 - mask
    found = opened(
        protocol, p, Problem(9, 2, (9,)),
        lambda f, v: f.at_most(v, 2) - f.at_most(v, 0) * inverse, t,
    )  # fmt: skip
    assert found.tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("n", [3, 64, 150])
def test_a_tally_counts_every_set(protocol, k, n):
    """Rows of three parties and sets that overlap; blocks of 64 rows, so that sets cross them."""
    layout = Layout("horizontal", n, 1, rows=(n // 3, n // 3, n - 2 * (n // 3)))
    problem = Problem(n, k, (100,), block_rows=64)
    sets = RowSets(RANDOM.randint(0, 4, n), np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]))
    x, centers = RANDOM.randint(-100, 100, (n, 1)), RANDOM.randint(-100, 100, (k, 1))
    oracle = Plaintext(None, problem)
    expected = whole(oracle.tally(oracle.label(oracle.lay_out(in_the_clear(x)), in_the_clear(centers)), sets))
    labels = np.abs(x - centers.T).argmin(axis=1)
    by_hand = [int(row[sets.kind_of[labels == j]].sum()) for row in sets.members for j in range(k)]
    assert expected.tolist() == by_hand

    def role(me):
        family = FAMILIES[protocol](me, problem)
        own = None if not me.owns else layout.place(me.rank, x[layout.own_rows(me.rank)])
        labels = family.label(family.table(own, layout), family.public(centers))
        return family.open(family.tally(labels, sets), [1], "tally", "a test")

    np.testing.assert_array_equal(at_first(protocol, 3, role), expected)
