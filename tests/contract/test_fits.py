"""A family that lives in the tests alone fits, predicts and explains through the same code as every other."""

from __future__ import annotations

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import split
from coterie.local.oracle import run_oracle
from coterie.protocols import FAMILIES
from coterie.protocols.plaintext import whole
from coterie.ring import Words
from tests.clustering.comparison import task_and_table
from tests.contract.replicated import Replicated

X = np.random.RandomState(0).normal(size=(42, 3)) + np.tile([[0, 0, 0], [6, 0, 3], [0, 7, -4]], (14, 1))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """All that it takes."""
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)


WAYS = {
    "secret counts": {},
    "revealed counts": {"counts": "revealed"},
    "columns": {"partition": "vertical"},
    "a patchwork": {"partition": "mixed"},
    "SVK-means": {"partition": "vertical", "labels": "revealed"},
    "restarts": {"n_init": 2},
    "output rules": {"least_cluster_size": 3, "sizes": "rounded", "resolution": {"x0": 0.1}},
    "shared centres": {"centers": "shared"},
}


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_equals_the_oracle(parties, way):
    options = {"partition": "horizontal", **WAYS[way]}
    blocks = split(X, options["partition"], parties)
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=4, **options).fit_parties(blocks)
    task, table = task_and_table(model, blocks)
    expected = run_oracle(task, table)
    assert (model.labels_.tolist(), model.n_iter_) == (expected.labels.tolist(), expected.n_iter)
    assert model.inertia_ == expected.inertia
    held = [kept["centers"] for kept in model.shares()]
    assert [Words(64).signed(sum(part["first"] for part in held)).tolist()] == [
        whole(expected.kept["centers"]).tolist()
    ]
    assert getattr(model, "suppressed_", None) is None or not expected.suppressed.any()
    for name in ("counts", "sizes"):
        found, wanted = getattr(model, f"{name}_", None), getattr(expected, name)
        assert (found is None) == (wanted is None)
        assert found is None or found.tolist() == wanted.tolist()


def test_owners_who_do_not_serve_enter_shares_and_receive_results():
    blocks = split(X, "horizontal", 5)
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=4).fit_parties(blocks)
    reference = SecureKMeans(3, random_state=0, max_iter=4).fit_parties(blocks)
    assert model.labels_.tolist() == reference.labels_.tolist()
    np.testing.assert_array_equal(model.cluster_centers_, reference.cluster_centers_)
    assert model.predict_parties(blocks).tolist() == reference.predict_parties(blocks).tolist()
    assert len(model.shares()) == 3
    assert set(model.traffic_.bytes_sent) == {f"P{j}" for j in range(1, 6)}


@pytest.mark.parametrize("parties", [2, 4])
@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_it_predicts(parties, centers):
    blocks = split(X, "horizontal", parties)
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=4, centers=centers).fit_parties(blocks)
    assert model.predict_parties(blocks).tolist() == model.labels_.tolist()


def test_nobody_but_owners_and_servers_stands_in_the_log():
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=3).fit_parties(split(X, "horizontal", 2))
    told = {entry.what: set(entry.to) for entry in model.disclosures_}
    assert told["stop bit"] == {"P0", "P1", "P2"}
    assert told["centers"] == {"P1", "P2"}
    assert "P0" not in told["labels"] | told["inertia"]
