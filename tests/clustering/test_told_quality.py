"""What quality and measures tell where output rules hold: attacks that worked, and must not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Point, Watch, fit
from coterie.data import gather
from coterie.errors import InputError
from coterie.parameters import name_parties, prepare_fit
from coterie.protocols import FAMILIES, OneTime
from coterie.runtime.threads import run_threads

BOUNDS = [(0.0, 100.0)] * 2
RULED = {"least_cluster_size": 10, "bounds": BOUNDS, "random_state": 1}


@pytest.fixture
def opened(monkeypatch):
    """What data parties are told, by name."""
    found = {}
    bring = OneTime.bring_together

    def noted(self, value, parts, what):
        values = bring(self, value, parts, what)
        found.setdefault(what, []).extend(one for one in values if one is not None)
        return values

    monkeypatch.setattr(OneTime, "bring_together", noted)
    return found


def two_groups(random, rows=150):
    return random.permutation(np.concatenate([random.normal(30, 2, (rows, 2)), random.normal(60, 2, (rows, 2))]))


@pytest.mark.parametrize("choose", ["calinski-harabasz", "silhouette"])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_number_of_clusters_of_which_one_is_closed_tells_no_measure(opened, scale, choose):
    """The outlier of the other party is a cluster of its own with k = 3: the inertias of 2 and 3 would tell how far it
    lies from everybody else."""
    random = np.random.RandomState(4)
    rows, outlier = two_groups(random), np.array([[45.0, 95.0]])
    model = SecureKMeans(range(2, 4), scale=scale, choose=choose, n_init=3, **RULED)
    model.fit_parties([rows[:150], np.concatenate([rows[150:], outlier])])
    assert not math.isnan(model.k_measures_[2])
    assert math.isnan(model.k_measures_[3])
    for told in opened["measures of k"]:
        assert told[-1] == 0
        assert told[0] != 0
    assert choose == "silhouette" or not opened.get("inertia")
    assert model.n_clusters_ in (2, 3)


def test_nothing_is_told_of_how_good_clusters_are_if_all_are_closed(opened):
    """Twelve rows beside one of the other party's, with nothing else in reach."""
    others = np.random.RandomState(7).uniform(0, 100, (24, 2))
    model = SecureKMeans(3, scale="standard", **RULED)
    model.fit_parties([np.repeat(others[5:6], 12, axis=0), others])
    assert model.suppressed_.all()
    for what in ("inertia", "scatter", "silhouette", "scales", "capped columns"):
        assert all((np.asarray(one) == 0).all() for one in opened[what]), what
    assert (model.predict(others) == -1).all(), "although no scales are known"


def test_numbers_of_clusters_that_cannot_all_be_open():
    with pytest.raises(InputError, match="24 clusters of 10 rows each"):
        SecureKMeans(range(23, 25), **RULED).fit(two_groups(np.random.RandomState(1), 50))


@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_open_clusters_far_from_most_rows(centers):
    """One party's large cluster is closed by the contribution rule; all of its rows count to a small one far away."""
    random = np.random.RandomState(1)
    far = random.normal(95, 1, (30, 2))
    mine = np.concatenate([random.normal(5, 1, (6000, 2)), far[:15]])
    model = SecureKMeans(2, scale="standard", centers=centers, **RULED).fit_parties([mine, far[15:]])
    assert model.suppressed_.sum() == 1
    whole = np.concatenate([mine, far[15:]])
    expected = (((whole - far.mean(axis=0)) / whole.std(axis=0)) ** 2).sum()
    assert model.inertia_ == pytest.approx(expected, rel=0.01)


class Last(Watch):
    point: Point | None = None

    def finished(self, point):
        self.point = point()


def test_a_run_that_is_opened_once_more_tells_the_spread_that_it_began_with():
    """Whoever brings other rows then would learn from what comes of it how the others' rows spread."""
    random = np.random.RandomState(2)
    mine, theirs = random.normal(40, 5, (60, 2)), random.normal(60, 20, (100, 2)).clip(0, 100)
    model = SecureKMeans(3, scale="standard", **RULED)
    task, blocks, *_ = prepare_fit(model, gather([mine, theirs], "horizontal", ("P1", "P2")))
    world = OneTime.world(name_parties(2))

    def run(blocks, points=None):
        watches = {rank: Last() for rank in world.ranks}

        def role(me):
            family, own = FAMILIES["onetime"](me, task.problem), None if me.deals else blocks[me.rank - 1]
            return fit(family, task, own, watches[me.rank], None if points is None else points[me.rank])

        return run_threads(world, role, lanes=task.lanes)[1], {rank: one.point for rank, one in watches.items()}

    first, points = run(blocks)
    points[0] = Point(points[0].start, points[0].iteration)
    again, _ = run([np.zeros_like(blocks[0]), blocks[1]], points)
    np.testing.assert_array_equal(again.scales, first.scales)
    np.testing.assert_array_equal(again.capped, first.capped)
    assert again.scatter == first.scatter


def possible_sizes(model, opened, n):
    """Sizes of the first of two clusters that inertia, scatter and centres leave possible, for a party that knows the
    public step: S - I = t (n - t) / n |c_1 - c_2|^2."""
    inertia, scatter = (int(opened[what][0].reshape(-1)[0]) for what in ("inertia", "scatter"))
    step = model.inertia_ / inertia
    apart = ((model.cluster_centers_[0] - model.cluster_centers_[1]) ** 2 / model.scales_**2).sum()
    t = np.arange(1, n)
    return t[np.abs(t * (n - t) / n * apart - (scatter - inertia) * step) <= step]


@pytest.mark.parametrize("sizes", [(70, 130), (400, 900), (100, 300)])
def test_sizes_stay_secret_where_centres_are_rounded(opened, sizes):
    random = np.random.RandomState(3)
    rows = np.concatenate([random.normal(at, 5, (count, 2)).round() for at, count in zip((30, 60), sizes, strict=True)])
    rows, n = random.permutation(rows), sum(sizes)
    blocks = [rows[: n // 2], rows[n // 2 :]]
    rounded = SecureKMeans(2, scale="standard", resolution={"x0": 1.0, "x1": 1.0}, **RULED).fit_parties(blocks)
    found = possible_sizes(rounded, opened, n)
    assert min(abs(found - sizes[j]).min() for j in (0, 1)) <= 10, "the attack is about right"
    assert len(found) >= RULED["least_cluster_size"] // 2
    opened.clear()
    exact = SecureKMeans(2, scale="standard", **RULED).fit_parties(blocks)
    assert len(possible_sizes(exact, opened, n)) < len(found), "which is why resolutions are to be named"
