"""A dry run finds what the channel counts: every byte of every role and every round, for all options of a fit."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import put_together
from coterie.planning import even_layout, forecast, planned, sketch
from coterie.planning.dry_run import DryParty, dry_run
from coterie.protocols import FAMILIES
from coterie.runtime.job import Job, do
from coterie.runtime.threads import run_threads
from coterie.transport.links import LINKS
from tests.planning.test_costs import task_of

X = np.random.default_rng(0).uniform(-1, 1, (333, 6))
SPLITS = {2: (45, 288), 3: (200, 30, 103), 5: (64, 70, 1, 129, 69)}
SHK = {
    "secret counts": {},
    "revealed counts": {"counts": "revealed"},
    "shared centres": {"centers": "shared"},
    "a least size": {"least_cluster_size": 5},
    "rounded sizes": {"least_cluster_size": 5, "sizes": "rounded", "resolution": {"x0": 0.1}},
    "none or a least size": {"least_cluster_size": 5, "contribution": "none-or-least"},
    "shared centres, a least size": {"centers": "shared", "least_cluster_size": 5, "contribution": "off"},
}
SVK = {"partition": "vertical", "labels": "revealed"}
CASES = [(p, partition, SHK[way], ()) for p in (2, 3, 5) for partition in ("vertical", "mixed") for way in SHK]
CASES += [(p, "horizontal", SHK[way], SPLITS[p]) for p in (2, 3) for way in SHK]
CASES += [(5, "horizontal", {"contribution": "off"} | SHK[way], SPLITS[5]) for way in SHK if "none" not in way]
CASES += [(p, "vertical", SVK, ()) for p in (2, 3, 5)]


def fitted(p, partition, options, split=(), protocol="onetime", x=X, **more):
    """A model of three clusters, fitted to the rows that each party has of a `split`, or to even parts."""
    options = {"partition": partition, "init": x[[5, 20, 40]]} | options | more
    options = {"max_iter": 3, "tol": 0, "plan": {"block_rows": 100, "lanes": 0}} | options
    if options["partition"] == "vertical":
        options.pop("resolution", None)
    model = SecureKMeans(3, protocol=protocol, n_parties=p, bounds=[(-1, 1)] * x.shape[1], **options)
    model.fit_parties(np.split(x, np.cumsum(split)[:-1])) if split else model.fit(x)
    assert not getattr(model, "suppressed_", np.zeros(3)).any()  # of a closed one nothing is opened, which costs less
    return model


def assert_as_forecast(model, task):
    ended = "max_iter" if model.n_iter_ == model.max_iter else "stop"
    found = forecast(task, model.n_parties, model.n_iter_, LINKS["loopback"], ended)
    assert found.bytes_sent == model.traffic_.bytes_sent
    assert found.rounds == model.traffic_.rounds
    if model.traffic_.rounds_per_iteration:
        assert found.rounds_per_iteration == model.traffic_.rounds_per_iteration


def task_for(model, split, x=X):
    task = task_of(model, x)
    return msgspec.structs.replace(task, layout=msgspec.structs.replace(task.layout, rows=split)) if split else task


@pytest.mark.parametrize(("p", "partition", "options", "split"), CASES, ids=str)
def test_bytes_and_rounds_are_those_of_a_fit(p, partition, options, split):
    """In several blocks, with a rest that is no multiple of 64."""
    model = fitted(p, partition, options, split)
    assert_as_forecast(model, task_for(model, split))


@pytest.mark.parametrize("options", [{}, {"counts": "revealed"}, {"centers": "shared"}, SVK], ids=str)
@pytest.mark.parametrize("ended_by", ["stop", "max_iter"])
@pytest.mark.parametrize("p", [2, 3])
def test_the_end_makes_no_difference(p, ended_by, options):
    """By the stop bit after one iteration, or after the most."""
    model = fitted(p, "horizontal", options, tol=1e6 if ended_by == "stop" else 0)
    assert model.n_iter_ == (1 if ended_by == "stop" else 3)
    assert_as_forecast(model, task_of(model, X))


RESTARTS = [{}, {"counts": "revealed"}, {"centers": "shared"}, {"partition": "mixed"}, SVK, {"least_cluster_size": 5}]


@pytest.mark.parametrize("options", RESTARTS, ids=str)
@pytest.mark.parametrize(("protocol", "p"), [("onetime", 2), ("onetime", 3), ("securenn", 2)])
def test_several_starts(protocol, p, options):
    """Each of them ends after as many iterations."""
    x = X if protocol == "onetime" else X[:70, :3]
    start = {"init": "random", "n_init": 3, "random_state": 1, "max_iter": 2}
    model = fitted(p, "horizontal", options, (), protocol, x, **start)
    assert_as_forecast(model, task_of(model, x))


@pytest.mark.parametrize("options", [{}, {"centers": "shared"}, {"least_cluster_size": 3}], ids=str)
@pytest.mark.parametrize("partition", ["vertical", "mixed"])
def test_a_helper_that_takes_part_in_comparisons(partition, options):
    x = X[:90, :3]
    model = fitted(2, partition, options, (), "securenn", x, plan={"block_rows": 40})
    assert_as_forecast(model, task_of(model, x))


def test_a_patchwork_by_hand():
    """Blocks of one size and the same holders, who hold different numbers of cells in each."""
    owners = np.ones((256, 4), np.uint8)
    owners[:64, 0] = owners[64:128, :2] = owners[128:, :3] = 2
    task = planned(sketch(even_layout("mixed", 256, 4, 2), 3), 2, {"block_rows": 64, "lanes": 0})
    layout = msgspec.structs.replace(task.layout, owners=owners.tobytes())
    task = msgspec.structs.replace(task, layout=layout, max_iter=2, tol=-1.0)
    block = np.random.default_rng(2).integers(-99, 99, (256, 4))
    world = FAMILIES[task.protocol].world(["P1", "P2"])
    reports = run_threads(world, lambda me: do(me, Job(task, block if me.owns else None)))
    counted = put_together(task, [report.outcome for report in reports]).traffic
    assert counted is not None
    found = forecast(task, 2, 2, LINKS["loopback"], "max_iter")
    assert (found.bytes_sent, found.rounds) == (counted.bytes_sent, counted.rounds)


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_blocks_of_one_kind_are_run_once(monkeypatch, partition, protocol):
    dealt: list[str] = []
    deal = DryParty.deal
    monkeypatch.setattr(DryParty, "deal", lambda me, one: dealt.append(one.purpose) or deal(me, one))
    steps, sent = [], []
    for blocks in (4, 400):
        task = sketch(even_layout(partition, blocks * 64, 2, 2), 3, protocol=protocol, init="random")
        dealt.clear()
        found = dry_run(msgspec.structs.replace(task, block_rows=64), 2, "stop")
        steps.append(len(dealt))
        sent.append(found.further[1:].sum())
    assert steps[0] == steps[1]
    assert sent[1] > 50 * sent[0]


def test_blocks_whose_rows_lie_in_as_many_groups_are_run_once(monkeypatch):
    """Of a start by k-means++: how many groups a block touches depends on where it begins, and on little else."""
    steps: list[int] = []
    deal = DryParty.deal
    monkeypatch.setattr(DryParty, "deal", lambda me, one: steps.append(1) or deal(me, one))
    counts = []
    for blocks in (40, 400):
        task = sketch(even_layout("horizontal", blocks * 96, 2, 2), 3)
        steps.clear()
        dry_run(msgspec.structs.replace(task, block_rows=64), 2, "stop")
        counts.append(len(steps))
    assert counts[1] < 2 * counts[0]
