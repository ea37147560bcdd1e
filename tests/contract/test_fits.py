"""A family that lives in the tests alone fits, predicts and explains through the same code as every other."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import split
from coterie.protocols import FAMILIES
from coterie.protocols.plaintext import whole
from coterie.ring import Words
from coterie.runtime import processes
from coterie.runtime.oracle import run_oracle
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


@pytest.mark.parametrize("parties", [2, *(pytest.param(p, marks=pytest.mark.slow) for p in (3, 4))])
def test_it_runs_between_processes_over_tls(monkeypatch, parties):
    """Rank 0 serves, is vacant, and is vacant with an owner who does not serve. Workers register the family first."""
    start = subprocess.Popen
    code = "from coterie.runtime.worker import main; from coterie.protocols import FAMILIES; "
    code += "from tests.contract.replicated import Replicated; FAMILIES[Replicated.name] = Replicated; main()"
    monkeypatch.setattr(processes.subprocess, "Popen", lambda _, **more: start([sys.executable, "-c", code], **more))
    blocks = split(X, "horizontal", parties)
    options = {"protocol": "replicated", "random_state": 0, "max_iter": 2}
    model = SecureKMeans(3, transport="tls", **options).fit_parties(blocks)
    expected = SecureKMeans(3, **options).fit_parties(blocks)
    assert model.labels_.tolist() == expected.labels_.tolist()
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.traffic_.bytes_sent == expected.traffic_.bytes_sent


def test_the_log_names_nobody_who_is_not_there():
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=2).fit_parties(split(X, "horizontal", 3))
    assert {name for entry in model.disclosures_ for name in entry.to} == {"P1", "P2", "P3"}
    assert "bounds" in {entry.what for entry in model.disclosures_}


def test_nobody_but_owners_and_servers_stands_in_the_log():
    model = SecureKMeans(3, protocol="replicated", random_state=0, max_iter=3).fit_parties(split(X, "horizontal", 2))
    told = {entry.what: set(entry.to) for entry in model.disclosures_}
    assert told["stop bit"] == {"P0", "P1", "P2"}
    assert told["centers"] == {"P1", "P2"}
    assert "P0" not in told["labels"] | told["inertia"]
