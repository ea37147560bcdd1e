"""A fit that is taken up again ends as an undisturbed one does, bit for bit, and sends no mask twice."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Outcome, Point, Watch, fit
from coterie.data import split
from coterie.protocols import FAMILIES
from coterie.runtime.threads import run_threads
from coterie.transport import Channel, Recording
from tests.clustering.comparison import WAYS, task_and_table, way_name
from tests.support import SeededEntropy, by_rank

X = np.random.RandomState(3).uniform(-1, 1, (60, 3))
NAMES = ("P1", "P2", "P3")


class Points(Watch):
    """Keeps where a fit could be taken up again."""

    def __init__(self) -> None:
        self.points: list[Point] = []

    def iterated(self, point) -> None:
        self.points.append(point())


def fits(model, seed, resume=None):
    """Outcomes, points and recordings by rank."""
    blocks = split(X, model.partition, 3)
    task, _ = task_and_table(model, blocks)
    task = msgspec.structs.replace(task, lanes=0)
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        return recordings.setdefault(channel.rank, Recording(channel))

    def role(me) -> tuple[Outcome, list[Point]]:
        block = None
        if me.owns:
            block = task.encoding.encode(blocks[me.rank - 1], task.layout.own_columns(me.rank), "")
        watch = Points()
        point = None if resume is None else resume[me.rank]
        out = fit(FAMILIES[model.protocol](me, task.problem), task, block, watch, point)
        return out, watch.points

    world = FAMILIES[model.protocol].world(NAMES)
    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
    outcomes, points = (by_rank(world, found) for found in zip(*results, strict=True))
    return outcomes, points, [recordings.get(r) for r in range(4)]


def assert_same(left: list[Outcome], right: list[Outcome]) -> None:
    for a, b in zip(left[1:], right[1:], strict=True):
        for name in ("centers", "labels", "counts"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert (a.n_iter, a.inertia) == (b.n_iter, b.inertia)


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_a_resumed_fit_ends_as_an_undisturbed_one(protocol, way):
    model = SecureKMeans(4, protocol=protocol, random_state=0, tol=0, max_iter=6, n_parties=3, **way)
    whole, points, _ = fits(model, seed=0)
    assert len(points[1]) >= 3
    for at in (0, 2, len(points[1]) - 1):
        resumed, _, _ = fits(model, seed=1, resume=[p and p[at] for p in points])
        assert_same(whole, resumed)


@pytest.mark.parametrize("protocol", FAMILIES)
def test_restarts_go_on_where_they_were(protocol):
    model = SecureKMeans(3, protocol=protocol, random_state=5, tol=0, max_iter=4, n_init=3, n_parties=3)
    whole, points, _ = fits(model, seed=0)
    starts = [p.start for p in points[1]]
    assert set(starts) == {0, 1, 2}
    for at in (0, starts.index(1), starts.index(2), len(starts) - 1):
        resumed, _, _ = fits(model, seed=1, resume=[p and p[at] for p in points])
        assert_same(whole, resumed)


def test_a_point_shows_no_share_and_the_helpers_has_none():
    _, points, _ = fits(SecureKMeans(3, random_state=5, max_iter=3, n_parties=3, tol=0), seed=0)
    assert repr(points[1][0]) == "<Point 0, 1>"
    assert points[0][0].centers is None
    shares = [p[0].centers["words"] for p in points[1:]]
    assert not np.array_equal(sum(shares), shares[0])


def test_masked_values_differ_across_a_resume():
    """Large arrays on the wire are masked with fresh keys: no frame of the first run is seen again."""
    model = SecureKMeans(4, random_state=0, tol=0, max_iter=4, n_parties=3)
    _, points, before = fits(model, seed=0)
    _, _, after = fits(model, seed=1, resume=[p[0] for p in points])
    for old, new in zip(before, after, strict=True):
        seen = {f.array.tobytes() for f in old.frames if f.array.nbytes >= 64}
        assert seen
        assert not seen & {f.array.tobytes() for f in new.frames if f.array.nbytes >= 64}


def test_the_same_keys_would_be_noticed():
    """Planted: with the same entropy the masks of the data do repeat."""
    model = SecureKMeans(4, random_state=0, tol=0, max_iter=4, n_parties=3)
    _, points, before = fits(model, seed=0)
    _, _, after = fits(model, seed=0, resume=[p[0] for p in points])
    seen = {f.array.tobytes() for f in before[1].frames if f.array.nbytes >= 64}
    assert seen & {f.array.tobytes() for f in after[1].frames if f.array.nbytes >= 64}
