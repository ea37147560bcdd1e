"""Fits and predictions with `falcon` are the oracle's, bit for bit, in every way that the estimator offers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from coterie import SecureKMeans
from coterie.data import split
from coterie.errors import InputError
from coterie.planning import forecast
from coterie.protocols import FAMILIES, Falcon
from coterie.protocols.plaintext import whole
from coterie.ring import Words
from coterie.runtime.oracle import run_oracle
from coterie.transport.links import LINKS
from tests.clustering.comparison import task_and_table
from tests.planning.test_costs import task_of
from tests.support import one_column_decides

X = np.random.RandomState(0).normal(size=(150, 3)) + np.tile([[0, 0, 0], [6, 0, 3], [0, 7, -4]], (50, 1))
WAYS = {
    "as it is": {},
    "revealed counts": {"counts": "revealed"},
    "columns": {"partition": "vertical"},
    "a patchwork": {"partition": "mixed"},
    "a patchwork, revealed counts": {"partition": "mixed", "counts": "revealed"},
    "SVK-means": {"partition": "vertical", "labels": "revealed"},
    "random rows, restarts": {"init": "random", "n_init": 3},
    "output rules": {"least_cluster_size": 3, "sizes": "rounded", "resolution": {"x0": 0.1}},
    "output rules, some closed": {"least_cluster_size": 30, "n_clusters": 4, "contribution": "off"},
    "output rules, all closed": {"least_cluster_size": 55},
    "shared centres": {"centers": "shared"},
    "standardised": {"scale": "standard"},
    "standardised, secret scales": {"scale": "standard", "scales": "secret", "partition": "mixed"},
    "scaled by bounds": {"scale": "bounds"},
    "several k": {"n_clusters": range(2, 5)},
    "several k, by silhouette": {"n_clusters": range(2, 4), "choose": "silhouette", "measures": "secret"},
    "quality": {"quality": ("inertia", "silhouette", "calinski-harabasz")},
    "one cluster": {"n_clusters": 1},
    "all pairs": {"n_clusters": 5, "plan": {"schedule": "all_pairs"}},
    "blocks": {"plan": {"block_rows": 64, "lanes": 0}},
    "blocks on lanes": {"plan": {"block_rows": 40, "lanes": 2}, "partition": "mixed"},
}
pytestmark = one_column_decides


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_equals_the_oracle(parties, way):
    options = {"n_clusters": 3, "partition": "horizontal", "plan": {"lanes": 0}, **WAYS[way]}
    parties = min(parties, 3) if options["partition"] == "vertical" else parties
    blocks = split(X, options["partition"], parties)
    model = SecureKMeans(protocol="falcon", random_state=0, max_iter=4, **options).fit_parties(blocks)
    task, table = task_and_table(model, blocks)
    expected = run_oracle(task, table)
    assert (model.labels_.tolist(), model.n_iter_) == (expected.labels.tolist(), expected.n_iter)
    assert model.inertia_ == expected.inertia or (expected.inertia is None and np.isnan(model.inertia_))
    held = [kept["centers"] for kept in model.shares()]
    assert [Words(64).signed(sum(part["first"] for part in held)).tolist()] == [
        whole(expected.kept["centers"]).tolist()
    ]
    if expected.suppressed is not None:
        assert model.suppressed_.tolist() == expected.suppressed.tolist()
        assert expected.suppressed.any() == ("closed" in way)
        assert expected.suppressed.all() == ("all closed" in way)
    for name in ("counts", "sizes"):
        found, wanted = getattr(model, f"{name}_", None), getattr(expected, name)
        assert (found is None) == (wanted is None)
        assert found is None or found.tolist() == wanted.tolist()


def test_results_are_those_of_onetime():
    """Division, rounding and precision are the same."""
    blocks = split(X, "horizontal", 4)
    found, other = (
        SecureKMeans(3, protocol=name, random_state=0).fit_parties(blocks) for name in ("falcon", "onetime")
    )
    np.testing.assert_array_equal(found.cluster_centers_, other.cluster_centers_)
    assert (found.labels_.tolist(), found.inertia_) == (other.labels_.tolist(), other.inertia_)


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_it_predicts(parties, centers):
    blocks = split(X, "horizontal", parties)
    model = SecureKMeans(3, protocol="falcon", random_state=0, max_iter=4, centers=centers).fit_parties(blocks)
    assert model.predict_parties(blocks).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_weighted_rows(partition):
    weights = np.random.RandomState(1).randint(1, 5, len(X)).astype(float)
    found, other = (
        SecureKMeans(3, protocol=name, partition=partition, random_state=0, max_iter=4).fit(X, sample_weight=weights)
        for name in ("falcon", "onetime")
    )
    assert found.labels_.tolist() == other.labels_.tolist()
    np.testing.assert_array_equal(found.cluster_centers_, other.cluster_centers_)
    assert found.inertia_ == other.inertia_


def test_a_weight_counts_as_so_many_rows():
    few, weights = X[::10], np.arange(1, 16)
    start = few[[0, 4, 9]]
    weighted = SecureKMeans(3, protocol="falcon", init=start, max_iter=3, tol=0, bounds=[(-12, 12)] * 3).fit(
        few, sample_weight=weights
    )
    repeated = SecureKMeans(3, protocol="falcon", init=start, max_iter=3, tol=0, bounds=[(-12, 12)] * 3).fit(
        np.repeat(few, weights, axis=0)
    )
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-4)


# -- who is who -------------------------------------------------------------------------------------------------------


def test_two_parties_are_joined_by_a_third_server():
    two, three, five = (Falcon.world([f"P{j}" for j in range(1, p + 1)]) for p in (2, 3, 5))
    assert (two.everybody, list(two.servers), two.dealer) == (("P0", "P1", "P2"), [0, 1, 2], None)
    assert (three.everybody, list(three.servers), three.dealer) == (("P1", "P2", "P3"), [1, 2, 3], None)
    assert (five.names[0], list(five.servers)) == ("", [1, 2, 3])


def test_nobody_but_owners_and_servers_stands_in_the_log():
    model = SecureKMeans(3, protocol="falcon", random_state=0, max_iter=3).fit_parties(split(X, "horizontal", 2))
    told = {entry.what: set(entry.to) for entry in model.disclosures_}
    assert told["stop bit"] == {"P0", "P1", "P2"}
    assert told["centers"] == {"P1", "P2"}
    assert "P0" not in told["labels"] | told["inertia"]


def test_owners_who_do_not_serve_send_their_cells_once():
    model = SecureKMeans(3, protocol="falcon", init=X[:3], tol=0, max_iter=6, bounds=[(-20, 20)] * 3, quality=())
    model.fit_parties(split(X, "horizontal", 5))
    sent = model.traffic_.bytes_sent
    assert max(sent["P4"], sent["P5"]) < 2 * 8 * 30 * 3 + 2000 < sent["P1"] / 10


@pytest.mark.parametrize("matching", ["shared", "private"])
def test_rows_are_matched_by_a_helper_and_there_is_none(matching):
    frames = [
        pd.DataFrame(part, columns=list("abc"), index=list(range(len(part)))) for part in split(X, "horizontal", 2)
    ]
    columns = [frames[0][["a"]], frames[1][["b", "c"]]]
    model = SecureKMeans(3, protocol="falcon", partition="vertical", matching=matching)
    with pytest.raises(InputError, match='rows are matched by a helper, and protocol="falcon" has none'):
        model.fit_parties(columns)


@pytest.mark.parametrize("parties", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_it_runs_between_processes_over_tls(parties):
    blocks = split(X, "horizontal", parties)
    options = {"protocol": "falcon", "random_state": 0, "max_iter": 2}
    model = SecureKMeans(3, transport="tls", **options).fit_parties(blocks)
    expected = SecureKMeans(3, **options).fit_parties(blocks)
    assert model.labels_.tolist() == expected.labels_.tolist()
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.traffic_.bytes_sent == expected.traffic_.bytes_sent


# -- costs ------------------------------------------------------------------------------------------------------------


FORECASTS = {
    "as it is": {},
    "columns": {"partition": "vertical"},
    "a patchwork": {"partition": "mixed"},
    "SVK-means": {"partition": "vertical", "labels": "revealed", "init": X[[5, 60, 140]]},
    "revealed counts": {"counts": "revealed"},
    "k-means++, restarts": {"init": "k-means++", "n_init": 2},
    "standardised": {"scale": "standard", "init": X[[5, 60, 140]]},
    "several k": {"n_clusters": range(2, 4), "init": "k-means++"},
    "output rules": {"least_cluster_size": 3, "sizes": "rounded"},
    "shared centres": {"centers": "shared"},
    "lanes": {"plan": {"block_rows": 64, "lanes": 2}},
}


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("way", FORECASTS)
def test_bytes_and_rounds_are_as_forecast(way, parties):
    """In two blocks and a rest of 22 rows, most of the time; rows that are not the same number at every party."""
    options = {"n_clusters": 3, "init": "random", "plan": {"block_rows": 64, "lanes": 0}, **FORECASTS[way]}
    parties = min(parties, 3) if options.get("partition") == "vertical" else parties
    model = SecureKMeans(
        protocol="falcon", n_parties=parties, max_iter=2, tol=0, random_state=3, bounds=[(-20, 20)] * 3, **options
    ).fit(X)
    assert model.n_iter_ == 2
    found = forecast(task_of(model, X), parties, 2, LINKS["loopback"], "max_iter")
    if "several" not in way or len(model.cluster_centers_) == 3:
        assert found.bytes_sent == model.traffic_.bytes_sent
        assert found.rounds == model.traffic_.rounds
    assert found.rounds_per_iteration == model.traffic_.rounds_per_iteration
    assert not found.without_start


@pytest.mark.parametrize(
    ("k", "schedule", "counts", "most"),
    [(4, "all_pairs", "secret", 37), (4, "tournament", "secret", 44), (4, "all_pairs", "revealed", 24)],
)
def test_an_iteration_takes_the_rounds_of_its_specification(k, schedule, counts, most):
    """1 for scores, 7 + ceil(log2(s - 1)) + 2 for a level but for the last one's 2, 2 for words, 25 for new centres; 12
    for these if counts are revealed. The chain is shorter where nobody waits for the last message of a step."""
    model = SecureKMeans(
        k, protocol="falcon", init=X[[1, 60, 120, 140]], max_iter=4, tol=0, counts=counts, bounds=[(-20, 20)] * 3,
        plan={"schedule": schedule, "block_rows": 64, "lanes": 0},
    ).fit(X)  # fmt: skip
    assert most - 6 <= model.traffic_.rounds_per_iteration <= most


def test_a_million_rows_take_no_longer_to_forecast():
    from coterie.planning import even_layout, planned, sketch

    task = planned(sketch(even_layout("horizontal", 10**6, 2, 2), 4, protocol="falcon"), 2, "auto")
    found = forecast(task, 2, 10, LINKS["lan"], "stop")
    assert found.rounds_per_iteration <= 44
    assert 50 * 10**6 < found.bytes_per_iteration["P1"] < 130 * 10**6
    assert FAMILIES["falcon"] is Falcon
