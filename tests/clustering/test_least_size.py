"""Clusters below the least size stay closed: their centres, the labels of their rows, their part of the inertia."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Outcome, Task, fit
from coterie.protocols import FAMILIES
from coterie.protocols.plaintext import whole
from coterie.runtime.oracle import run_oracle
from coterie.runtime.threads import run_threads
from coterie.transport import Channel, Recording
from tests.clustering.comparison import split, task_and_table
from tests.support import SeededEntropy, by_rank

RANDOM = np.random.RandomState(1)
SIZES = (12, 3, 9, 10)
CORNERS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
X = np.concatenate([RANDOM.normal(c, 0.1, (s, 2)) for c, s in zip(CORNERS, SIZES, strict=True)])[
    RANDOM.permutation(sum(SIZES))
]
BOUNDS = [(-1.0, 9.0)] * 2


def fitted(
    partition: str,
    p: int,
    least: int,
    protocol: str,
    centers: str = "revealed",
    x: np.ndarray = X,
    init=CORNERS,
    blocks: list[np.ndarray] | None = None,
    bounds=BOUNDS,
    max_iter: int = 300,
    n_init: int = 1,
    seed: int = 0,
    **rules,
) -> tuple[Task, list[Outcome], Outcome, list[Recording]]:
    """Every role's outcome, the oracle's, and what went over the channels. `rules`: other fields of the task."""
    model = SecureKMeans(
        len(init) if n_init == 1 else 4, partition=partition, n_parties=p, protocol=protocol, bounds=bounds,
        init=init if n_init == 1 else "random", centers=centers, max_iter=max_iter, n_init=n_init, random_state=seed,
    )  # fmt: skip
    blocks = split(x, partition, p) if blocks is None else blocks
    task, table = task_and_table(model, blocks)
    task = msgspec.structs.replace(task, **{"least": least, "lanes": 0, "contribution": "off", **rules})
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        return recordings.setdefault(channel.rank, Recording(channel))

    def role(me):
        block = None
        if me.owns:
            block = task.encoding.encode(blocks[me.rank - 1], task.layout.own_columns(me.rank), "")
        family = FAMILIES[protocol](me, task.problem)
        out = fit(family, task, block)
        out.disclosures = list(me.ledger.entries)
        gathered = {name: family.gather(secret) for name, secret in out.kept.items()}
        out.kept = {} if me.deals else {name: family.export(secret) for name, secret in gathered.items()}
        return out

    world = FAMILIES[protocol].world([f"P{j + 1}" for j in range(p)])
    outcomes = by_rank(world, run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap))
    return task, outcomes, run_oracle(task, table), [recordings.get(r) for r in range(p + 1)]


def kept_centers(outcomes: list[Outcome]) -> np.ndarray:
    """From the shares of all who hold one: an additive one, or the first of two."""
    held = [out.kept["centers"] for out in outcomes if out is not None and out.kept]
    return np.add.reduce([one["words"] if "words" in one else one["first"] for one in held]).view(np.int64)


def assert_all_as_the_oracle(task: Task, outcomes: list[Outcome], oracle: Outcome) -> np.ndarray:
    """Every party has its part of what the oracle has, bit for bit, the kept shares included. Returns the labels."""
    labels = np.full(task.layout.n, 99)
    for out in outcomes[1:]:
        np.testing.assert_array_equal(out.suppressed, oracle.suppressed)
        labels[out.rows] = out.labels
        if task.centers == "revealed":
            np.testing.assert_array_equal(out.centers, oracle.centers[:, out.center_columns])
        else:
            assert out.centers is None
        assert out.inertia == oracle.inertia
        np.testing.assert_array_equal(out.sizes, oracle.sizes)
    np.testing.assert_array_equal(labels, oracle.labels)
    np.testing.assert_array_equal(kept_centers(outcomes), whole(oracle.kept["centers"]))
    other = outcomes[0]
    assert other is None or other.sizes is other.centers is other.labels is None
    assert other is None or other.kept or other.suppressed is None  # a server must know which clusters are closed
    return labels


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("centers", ["revealed", "shared"])
@pytest.mark.parametrize(("partition", "p"), [("horizontal", 3), ("vertical", 2), ("mixed", 2)])
def test_small_clusters_stay_closed(protocol, centers, partition, p):
    """Their rows go to the nearest centre that is open: a label of -1 would draw a map of what is closed."""
    task, outcomes, oracle, _ = fitted(partition, p, 10, protocol, centers)
    assert oracle.suppressed.tolist() == [False, True, True, False]
    labels = assert_all_as_the_oracle(task, outcomes, oracle)
    assert set(labels) == {0, 3}
    means = np.array([X[np.linalg.norm(X - CORNERS[j], axis=1) < 2].mean(axis=0) for j in (0, 3)])
    nearest = np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(labels, np.array([0, 3])[nearest])
    inertia = ((X - means[nearest]) ** 2).sum()
    np.testing.assert_allclose(oracle.inertia, inertia, rtol=1e-3)
    for out in outcomes[1:]:
        assert out.centers is None or not out.centers[oracle.suppressed].any()


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_where_all_are_closed_nothing_is_labelled(protocol, centers):
    task, outcomes, oracle, _ = fitted("horizontal", 2, 13, protocol, centers, sizes="rounded")
    assert oracle.suppressed.all()
    labels = assert_all_as_the_oracle(task, outcomes, oracle)
    assert (labels == -1).all()
    assert oracle.inertia is None
    assert not whole(oracle.kept["centers"]).any()


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


@pytest.mark.parametrize("protocol", ["onetime", pytest.param("securenn", marks=pytest.mark.slow)])
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
