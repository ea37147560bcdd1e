"""What a start, standardisation, quality and the choice of k cost is what is forecast, to the byte and the round."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.planning import even_layout, forecast, planned, sketch
from coterie.planning.dry_run import dry_run
from coterie.planning.rehearsal import rehearse
from coterie.protocols import FAMILIES
from coterie.protocols.metric import standard_precision
from coterie.ring import FixedPoint
from coterie.transport.links import LINKS
from tests.contract.replicated import Replicated
from tests.planning.test_costs import task_of

#: Four blobs: of two, three and four clusters four are best by every measure, and found at once.
CORNERS = np.array([[-0.6, -0.6, 0.1], [0.6, -0.6, -0.1], [-0.6, 0.6, 0.1], [0.6, 0.6, -0.1]])
X = CORNERS[np.arange(150) % 4] + np.random.default_rng(0).uniform(-0.1, 0.1, (150, 3))
BLOCKS = {"block_rows": 100, "lanes": 0}
STANDARD = {"scale": "standard"}
WAYS = {
    "drawn rows": {"quality": ()},
    "a tolerance": {"quality": (), "tol": 1e-12},
    "quality": {},
    "inertia": {"quality": ("inertia",)},
    "silhouette": {"quality": ("silhouette",)},
    "Calinski-Harabasz": {"quality": ("calinski-harabasz",)},
    "standardised": {**STANDARD, "quality": ()},
    "standardised, quality": STANDARD,
    "standardised, two starts": {**STANDARD, "n_init": 2},
    "standardised, weights": {**STANDARD, "column_weights": {"x0": 3.0}, "init": "random"},
    "standardised, secret scales": {**STANDARD, "scales": "secret", "init": "random"},
    "standardised, shared centres": {**STANDARD, "centers": "shared", "init": "random"},
    "standardised, a least size": {**STANDARD, "least_cluster_size": 3, "init": "random"},
    "standardised, rounded": {**STANDARD, "least_cluster_size": 3, "resolution": {"x0": 0.1}, "sizes": "rounded"},
}
#: Several numbers of clusters.
CHOICES = {
    "measures": {},
    "silhouettes": {"choose": "silhouette"},
    "in secret": {"measures": "secret", "quality": ()},
    "silhouettes in secret": {"measures": "secret", "choose": "silhouette", "quality": ("inertia",)},
    "standardised": STANDARD,
    "standardised, in secret": {**STANDARD, "measures": "secret", "quality": ("silhouette",)},
    "two starts": {"n_init": 2, "init": "random"},
    "a least size": {"least_cluster_size": 3},
}
PARTITIONS = pytest.mark.parametrize(
    ("parties", "partition"), [(2, "horizontal"), pytest.param(3, "mixed", marks=pytest.mark.slow)]
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)


def fitted(clusters, parties, x=X, **options):
    options = {"max_iter": 2, "tol": 0, "random_state": 1, "plan": BLOCKS, "bounds": [(-1, 1)] * 3} | options
    model = SecureKMeans(clusters, n_parties=parties, **options).fit(x)
    assert not getattr(model, "suppressed_", np.zeros(1)).any()  # of a closed one nothing is opened
    return model


def assert_as_forecast(model, x=X):
    """Where all starts have taken as many iterations as the one that took most."""
    ended = "max_iter" if model.n_iter_ == model.max_iter else "stop"
    found = forecast(task_of(model, x), model.n_parties, model.n_iter_, LINKS["loopback"], ended)
    assert found.bytes_sent == model.traffic_.bytes_sent
    assert found.rounds == model.traffic_.rounds
    return found


@PARTITIONS
@pytest.mark.parametrize("way", WAYS)
def test_rows_and_patchworks(way, parties, partition):
    assert_as_forecast(fitted(3, parties, partition=partition, **WAYS[way]))


@pytest.mark.parametrize("way", ["quality", "standardised, quality", "standardised, two starts"])
def test_columns(way):
    """Each party standardises its own at home."""
    assert_as_forecast(fitted(3, 2, partition="vertical", **WAYS[way]))


@pytest.mark.parametrize("way", ["quality", "standardised, quality", "standardised, secret scales"])
def test_a_helper_that_takes_part_in_comparisons(way):
    assert_as_forecast(fitted(3, 2, X[:60], protocol="securenn", **WAYS[way]), X[:60])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["quality", "standardised, quality", "standardised, a least size"])
def test_servers_without_a_dealer(way):
    """Rehearsed, from public start rows."""
    x = X[:40]
    options = {**WAYS[way], "init": "random", "plan": {"block_rows": 16, "lanes": 0}}
    assert_as_forecast(fitted(2, 3, x, protocol="replicated", **options), x)


# -- the choice of k -------------------------------------------------------------------------------------------------


@PARTITIONS
@pytest.mark.parametrize("way", CHOICES)
def test_several_numbers_of_clusters(way, parties, partition):
    model = fitted((2, 3, 4), parties, partition=partition, **CHOICES[way])
    assert model.n_clusters_ == 4  # the forecast is that of opening the largest
    assert_as_forecast(model)


@pytest.mark.parametrize("way", ["measures", "silhouettes in secret"])
def test_more_iterations(way):
    """Of which each costs what it does with its number of clusters. Nothing ends sooner: the rows have no clusters."""
    x = np.random.default_rng(3).uniform(-1, 1, (150, 3))
    model = fitted((2, 4), 2, x, max_iter=4, random_state=0, **CHOICES[way])
    assert model.n_iter_ == 4
    if model.n_clusters_ == 4:
        assert_as_forecast(model, x)
    found = dry_run(task_of(model, x), 2, "max_iter")
    two, four = (dry_run(task_of(model, x).choice(i), 2, "max_iter").further for i in (0, 1))
    assert found.each.tolist() == [two.tolist(), four.tolist()]


@pytest.mark.parametrize("way", ["measures", "standardised, in secret"])
def test_a_helper_that_takes_part_in_the_choice(way):
    model = fitted((2, 4), 2, X[:60], protocol="securenn", **CHOICES[way])
    assert model.n_clusters_ == 4
    assert_as_forecast(model, X[:60])


@pytest.mark.slow
def test_servers_choose_without_a_dealer():
    x = X[:40]
    model = fitted((2, 4), 3, x, protocol="replicated", init="random", plan={"block_rows": 16, "lanes": 0})
    assert model.n_clusters_ == 4
    assert_as_forecast(model, x)


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", ["stop", "max_iter"])
def test_a_rehearsal_finds_what_a_dry_run_finds(ended_by):
    model = SecureKMeans((2, 3), protocol="securenn", init="random", n_init=2, bounds=[(-1, 1)] * 3, plan=BLOCKS)
    task = task_of(model, X)
    rehearsed, dry = (way(task, 2, ended_by) for way in (rehearse, dry_run))
    assert [one.tolist() for one in rehearsed] == [one.tolist() for one in dry]


def test_two_numbers_of_clusters_cost_as_much_as_one_after_the_other_but_for_what_is_done_once():
    def seconds(choices):
        task = task_of(SecureKMeans(choices, bounds=[(-1, 1)] * 3, plan=BLOCKS, random_state=0), X)
        return forecast(task, 2, 5, LINKS["lan"], "stop").seconds

    both, two, four = seconds((2, 4)), seconds(2), seconds(4)
    assert max(two, four) < both < two + four + 0.1


# -- how much --------------------------------------------------------------------------------------------------------


def sketched(rows, columns, clusters, standard, **more):
    task = sketch(even_layout("horizontal", rows, columns, 2), clusters, **more)
    if standard:
        f, metric = standard_precision(columns, rows, clusters, True)
        encoding = FixedPoint(task.encoding.low, task.encoding.high, task.encoding.names, f, True)
        task = msgspec.structs.replace(task, encoding=encoding, metric=metric)
    return planned(task, 2, "auto", LINKS["lan"])


@pytest.mark.parametrize("standard", [False, True], ids=["plain", "standardised"])
def test_a_start_costs_at_most_seven_iterations(standard):
    """At 100,000 x 8 and k = 8, in bytes."""
    drawn, given = (
        forecast(sketched(100_000, 8, 8, standard, init=init), 2, 1, LINKS["lan"], "max_iter")
        for init in ("k-means++", "random")
    )
    start = sum(drawn.bytes_sent.values()) - sum(given.bytes_sent.values())
    assert 0 < start <= 7 * sum(given.bytes_per_iteration.values())


@pytest.mark.parametrize("clusters", [2, 3, 4, 8])
def test_an_iteration_with_weights_takes_a_round_more(clusters):
    plain, weighted = (
        forecast(sketched(1000, 3, clusters, standard), 2, 5, LINKS["lan"], "stop").rounds_per_iteration
        for standard in (False, True)
    )
    assert weighted == plain + 1


@pytest.mark.parametrize(("rows", "columns"), list(product((100, 100_000), (2, 30))))
def test_weights_of_columns_take_some_rounds_whatever_n_and_d(rows, columns):
    """Scatter, octaves, a look-up; and a mask for the weights, and for the first centres times these."""
    plain, weighted = (
        forecast(
            msgspec.structs.replace(sketched(rows, columns, 4, standard, init="random"), quality=(), tol=0.0),
            2, 1, LINKS["lan"], "max_iter",
        )
        for standard in (False, True)
    )  # fmt: skip
    assert weighted.rounds - plain.rounds <= 22
