"""Clusters below the least size stay closed: their centres, the labels of their rows, their part of the inertia."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Outcome, Task, fit
from coterie.local.oracle import run_oracle
from coterie.local.threads import run_threads
from coterie.protocols import FAMILIES
from coterie.transport import Channel, Recording, World
from tests.clustering.comparison import split, task_and_table
from tests.support import SeededEntropy

RANDOM = np.random.RandomState(1)
SIZES = (12, 3, 9, 10)
CORNERS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
X = np.concatenate([RANDOM.normal(c, 0.1, (s, 2)) for c, s in zip(CORNERS, SIZES, strict=True)])[
    RANDOM.permutation(sum(SIZES))
]
BOUNDS = [(-1.0, 9.0)] * 2


def fitted(
    partition: str, p: int, least: int, protocol: str, centers: str = "revealed", x: np.ndarray = X, init=CORNERS
) -> tuple[Task, list[Outcome], Outcome, list[Recording]]:
    """Every role's outcome, the oracle's, and what went over the channels."""
    model = SecureKMeans(
        len(init), partition=partition, n_parties=p, protocol=protocol, init=init, bounds=BOUNDS, centers=centers
    )
    blocks = split(x, partition, p)
    task, table = task_and_table(model, blocks)
    task = msgspec.structs.replace(task, least=least, lanes=0)
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        return recordings.setdefault(channel.rank, Recording(channel))

    def role(me):
        block = None
        if not me.is_helper:
            block = task.encoding.encode(blocks[me.rank - 1], task.layout.own_columns(me.rank), "")
        out = fit(FAMILIES[protocol](me, task.problem), task, block)
        out.disclosures = list(me.ledger.entries)
        return out

    names = ("P0", *(f"P{j + 1}" for j in range(p)))
    outcomes = run_threads(World(names), role, entropy=lambda rank: SeededEntropy(0, rank), wrap=wrap)
    return task, outcomes, run_oracle(task, table), [recordings[r] for r in range(p + 1)]


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("centers", ["revealed", "shared"])
@pytest.mark.parametrize(("partition", "p"), [("horizontal", 3), ("vertical", 2), ("mixed", 2)])
def test_small_clusters_stay_closed(protocol, centers, partition, p):
    _, outcomes, oracle, _ = fitted(partition, p, 10, protocol, centers)
    assert oracle.suppressed.tolist() == [False, True, True, False]
    labels = np.full(len(X), 99)
    for out in outcomes[1:]:
        np.testing.assert_array_equal(out.suppressed, oracle.suppressed)
        labels[out.rows] = out.labels
        if centers == "revealed":
            np.testing.assert_array_equal(out.centers, oracle.centers[:, out.center_columns])
            assert not out.centers[oracle.suppressed].any()
        assert out.inertia == oracle.inertia
    np.testing.assert_array_equal(labels, oracle.labels)
    assert sorted(np.bincount(labels + 1).tolist()) == sorted([12, 12, 0, 0, 10])  # 12 suppressed, and two clusters
    assert outcomes[0].suppressed is None
    np.testing.assert_allclose(oracle.inertia, _inertia(X, labels), rtol=1e-3)


def _inertia(x, labels):
    return sum(((x[labels == j] - x[labels == j].mean(axis=0)) ** 2).sum() for j in set(labels) - {-1})


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize(
    ("least", "suppressed"),
    [(1, None), (2, [0, 0, 0, 0]), (3, [0, 0, 0, 0]), (4, [0, 1, 0, 0]), (12, [0, 1, 1, 1]), (13, [1, 1, 1, 1])],
)
def test_the_least_size_itself_is_enough(protocol, least, suppressed):
    _, outcomes, oracle, _ = fitted("horizontal", 2, least, protocol)
    for out in outcomes[1:]:
        assert (out.suppressed is None) if suppressed is None else out.suppressed.tolist() == suppressed
        np.testing.assert_array_equal(out.labels, oracle.labels[out.rows])
        np.testing.assert_array_equal(out.centers, oracle.centers)


@pytest.mark.parametrize("protocol", FAMILIES)
def test_more_clusters_than_a_word_holds(protocol):
    x = np.repeat(RANDOM.uniform(0, 8, (70, 2)), 2, axis=0)[:-1]
    _, outcomes, oracle, _ = fitted("horizontal", 2, 2, protocol, x=x, init=x[::2])
    np.testing.assert_array_equal(outcomes[1].suppressed, oracle.suppressed)
    assert oracle.suppressed.any()
    assert not oracle.suppressed.all()


def test_the_log_says_so_and_does_not_say_which():
    _, outcomes, _, _ = fitted("horizontal", 2, 10, "onetime")
    logs = [[msgspec.to_builtins(e) for e in out.disclosures] for out in outcomes]
    assert logs[0] == logs[1] == logs[2]
    (entry,) = (e for e in outcomes[0].disclosures if e.what == "suppression bits")
    assert entry.to == ("P1", "P2")
    assert entry.iteration is None
    order = [e.what for e in outcomes[0].disclosures]
    assert order.index("suppression bits") < order.index("centers") < order.index("labels")


def test_a_suppressed_centre_crosses_no_channel():
    """With everything else opened, no sum of what a party sent and received gives a suppressed centre."""
    task, _, oracle, recordings = fitted("horizontal", 2, 10, "onetime")
    received = recordings[1].received
    closed = task.clusters - int((~oracle.suppressed).sum())
    opened = [f for f in received if f.array.dtype == np.uint64 and f.array.size == 2 * (task.clusters - closed)]
    assert opened, "the centres of two clusters, two columns each"
    assert task.clusters * 2 not in {f.array.size for f in received[-8:]}
