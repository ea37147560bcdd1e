"""Rows that weigh differently: every family counts, adds up and averages as if a row were there several times."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.clustering.layout import Layout
from coterie.protocols import Problem
from coterie.protocols.interface import RowSets
from coterie.protocols.sampling import Sampling, plus_plus, public_draws
from coterie.runtime.threads import run_threads
from tests.contract.families import CASES, FAMILIES, world_of
from tests.support import SeededEntropy

N, D, K, MOST = 100, 3, 3, 5
RANDOM = np.random.RandomState(8)
ROWS = RANDOM.randint(-900, 900, (N, D))
WEIGHTS = RANDOM.randint(0, MOST + 1, N)
CENTERS = ROWS[[3, 50, 90]]
SETS = RowSets(np.arange(N) % 4, np.array([[1, 1, 1, 1], [0, 1, 1, 0]]))
LABELS = ((ROWS[:, None] - CENTERS) ** 2).sum(axis=2).argmin(axis=1)
HOT = np.eye(K, dtype=np.int64)[LABELS] * WEIGHTS[:, None]


def layout_of(partition, owners):
    if partition == "horizontal":
        return Layout("horizontal", N, D, rows=tuple(len(part) for part in np.array_split(np.arange(N), owners)))
    return Layout("vertical", N, D, columns=tuple(tuple(range(D))[j::owners] for j in range(owners)))


def computed(protocol, owners, operate, partition="horizontal"):
    """operate(family, rows, labels, old centres), with what it returns opened to all owners. Partition "private": by
    columns, and the dealer gives the weights."""
    weigher = "dealer" if partition == "private" else "owners"
    layout = layout_of(partition, owners)
    holders = np.repeat(np.arange(1, owners + 1), [len(p) for p in np.array_split(np.arange(N), owners)])

    def role(me):
        family = FAMILIES[protocol](me, Problem(N, K, (1 << 10,) * D, 32, most_weight=MOST, weigher=weigher))
        own, weights = None, WEIGHTS if me.deals else None
        if me.owns:
            own = np.where(layout.own_cells(me.rank), ROWS, 0)
            first = me.rank == me.world.owners[0]
            weights = np.where(holders == me.rank, WEIGHTS, 0) if partition == "horizontal" else WEIGHTS * first
            weights = None if weigher == "dealer" else weights
        rows = family.table(own, layout, weights)
        centers = family.enter(CENTERS if me.rank == me.world.owners[0] else None, CENTERS.shape)
        found = operate(family, rows, family.label(rows, centers), centers)
        return [family.open(family.widen(one), me.world.owners, "a value", "a test") for one in found]

    world = world_of(protocol, owners)
    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(1, rank))
    return results[list(world.ranks).index(1)]


PARTITIONS = [
    (protocol, owners, way)
    for protocol, owners in CASES
    for way in ("horizontal", "vertical", "private")
    if way == "horizontal" or (owners <= D and (way == "vertical" or world_of(protocol, owners).dealer is not None))
]


@pytest.mark.parametrize(("protocol", "owners", "partition"), PARTITIONS)
def test_counts_and_sums(protocol, owners, partition):
    sums, counts = computed(protocol, owners, lambda f, rows, labels, _: f.sums(rows, labels), partition)
    np.testing.assert_array_equal(sums, HOT.T @ ROWS)
    np.testing.assert_array_equal(counts, HOT.sum(axis=0))


@pytest.mark.parametrize(("protocol", "owners", "partition"), PARTITIONS)
def test_sets_of_rows(protocol, owners, partition):
    (found,) = computed(protocol, owners, lambda f, _, labels, __: (f.tally(labels, SETS),), partition)
    expected = [(HOT * held[SETS.kind_of][:, None]).sum(axis=0) for held in SETS.members]
    np.testing.assert_array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize(("protocol", "owners"), CASES)
def test_means(protocol, owners):
    (found,) = computed(protocol, owners, lambda f, rows, labels, old: (f.new_centers(rows, labels, old),))
    expected = (HOT.T @ ROWS) / HOT.sum(axis=0)[:, None]
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize(("protocol", "owners", "partition"), PARTITIONS)
def test_starts(protocol, owners, partition, every, monkeypatch):
    """k-means++ draws rows by weight and distance, as in the clear; with weights at few rows, these and no others."""
    few = np.where(np.arange(N) % every == 0, WEIGHTS + (WEIGHTS == 0), 0)
    monkeypatch.setitem(globals(), "WEIGHTS", few)
    problem = Problem(N, K, (1 << 10,) * D, 32, most_weight=MOST)
    first, numbers = public_draws(b"a seed", N, K, weighted=True)
    expected = plus_plus(Sampling.of(problem), ROWS, first, numbers, None, few)
    assert (few[expected] > 0).all()
    found, at = computed(protocol, owners, lambda f, rows, _, __: f.seed(rows, first, numbers), partition)
    np.testing.assert_array_equal(at, expected)
    np.testing.assert_array_equal(found, ROWS[expected])
