"""What is found by rehearsing a family is what the channel counts, also for many more rows and blocks; and what a dry
run finds, where there is a dealer."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.errors import InputError
from coterie.planning import even_layout, forecast, planned, sketch
from coterie.planning.dry_run import dry_run
from coterie.planning.rehearsal import rehearse
from coterie.protocols import FAMILIES
from coterie.transport.links import LINKS
from tests.contract.replicated import Replicated
from tests.planning.test_costs import task_of

LAN = LINKS["lan"]

X = np.random.default_rng(0).uniform(-1, 1, (150, 3))
WAYS = {
    "rows, secret counts": {},
    "rows, revealed counts": {"counts": "revealed"},
    "columns": {"partition": "vertical"},
    "SVK-means": {"partition": "vertical", "labels": "revealed"},
    "output rules": {"least_cluster_size": 3, "sizes": "rounded", "resolution": {"x0": 0.1}},
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)


SLOW = pytest.mark.slow
CASES = [
    pytest.param("securenn", p, way, ended, marks=() if p == 2 and ended == "stop" else SLOW)
    for p in (2, 3)
    for way in WAYS
    for ended in ("stop", "max_iter")
]
CASES += [("replicated", 2, "columns", "stop"), ("replicated", 3, "output rules", "max_iter")]  # it is slow


def assert_found_alike(task, parties, ended_by):
    rehearsed, dry = (way(task, parties, ended_by) for way in (rehearse, dry_run))
    assert [one.tolist() for one in rehearsed] == [one.tolist() for one in dry]


@pytest.mark.parametrize(("protocol", "parties", "way", "ended_by"), CASES)
def test_bytes_and_rounds_are_as_rehearsed(protocol, parties, way, ended_by):
    """In four blocks and a rest; rows that are not the same number at every party."""
    x = X[:62] if protocol == "replicated" else X
    model = SecureKMeans(
        3, protocol=protocol, n_parties=parties, max_iter=3, tol=0 if ended_by == "max_iter" else 1e6,
        init=x[[5, 20, 40]], bounds=[(-1, 1)] * 3, plan={"block_rows": 40 if len(x) > 100 else 20, "lanes": 0},
        **WAYS[way],
    ).fit(x)  # fmt: skip
    assert model.n_iter_ == (3 if ended_by == "max_iter" else 1)
    assert not getattr(model, "suppressed_", np.zeros(3)).any()
    task = task_of(model, x)
    if protocol == "securenn":
        assert_found_alike(task, parties, ended_by)
    found = forecast(task, parties, model.n_iter_, LINKS["loopback"], ended_by)
    assert found.bytes_sent == model.traffic_.bytes_sent
    assert found.rounds == model.traffic_.rounds
    if model.traffic_.rounds_per_iteration:
        assert found.rounds_per_iteration == model.traffic_.rounds_per_iteration


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"centers": "shared"}, marks=pytest.mark.slow),
        {"least": 3},
    ],
    ids=str,
)
def test_several_starts(options):
    task = sketch(even_layout("horizontal", 200, 2, 2), 2, protocol="securenn", restarts=3, init="random")
    task = msgspec.structs.replace(task, block_rows=64, **options)
    assert_found_alike(task, 2, "stop")


def test_a_million_rows_take_no_longer_to_forecast():
    task = planned(sketch(even_layout("horizontal", 10**6, 2, 2), 4, protocol="securenn"), 2, "auto")
    found = forecast(task, 2, 10, LAN, "stop")
    assert found.rounds_per_iteration == 43
    assert found.bytes_per_iteration["P1"] > 8 * 10**8
    assert found.seconds > 60


def test_a_drawn_start_is_left_out_and_said_to_be(monkeypatch):
    monkeypatch.setitem(FAMILIES, "replicated", Replicated)
    drawn, given = (
        forecast(sketch(even_layout("horizontal", 200, 2, 3), 2, protocol="replicated", init=init), 3, 2, LAN, "stop")
        for init in ("k-means++", "random")
    )
    assert (drawn.without_start, given.without_start) == (True, False)
    assert (drawn.rounds, drawn.bytes_sent) == (given.rounds, given.bytes_sent)


def test_a_patchwork_is_refused():
    model = SecureKMeans(2, protocol="replicated", n_parties=2, partition="mixed", init=X[:2])
    with pytest.raises(InputError, match="patchwork"):
        forecast(task_of(model, X), 2, 3, LAN, "stop")
