"""Budgets in whole studies: runs, predicted rows and other data are refused before anything is shared."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from coterie.errors import PolicyError
from coterie.study import endings, handshake
from coterie.study.audit import verify_audit
from coterie.study.predict import predict_rows
from coterie.study.run import run_study
from tests.study.walk import SMALL, Cast

pytestmark = pytest.mark.usefixtures("no_pictures")

VERTICAL = (
    *("--clusters", 2, "--partition", "vertical", "--id", "id", "--columns", "x,y", "--bounds", "x=0:1,y=0:1"),
    *("--holds", "alice=x,bob=y"),
)
POINTS = np.random.default_rng(0).uniform(-5, 5, (40, 2))
CELLS = np.random.default_rng(0).uniform(0, 1, 40)
IDS = [f"person {i:02d}" for i in range(40)]


def give(cast: Cast) -> None:
    for name in cast.parties:
        cast.give(name, x=POINTS[:, 0], y=POINTS[:, 1])


def refused(cast: Cast, name: str, monkeypatch, act=run_study, **changes) -> str:
    """What a participant says that is refused before it opens a socket."""
    with monkeypatch.context() as patch:
        for opener in ("socket", "create_server", "create_connection"):
            patch.setattr(socket, opener, lambda *a, **k: pytest.fail("a socket was opened"))
        patch.setattr(endings, "decline", lambda *given: None)  # the others are told: a test of its own
        with pytest.raises(PolicyError) as caught:
            act(cast.orders(name, **changes))
    assert caught.value.exit_code == 5
    return str(caught.value)


def elsewhere(cast: Cast, folder: str) -> dict:
    return {name: {"out": cast.at(name, folder)} for name in cast.names}


def test_runs_of_a_study_are_refused_before_greeting(cast, monkeypatch):
    cast.policies(runs=2)
    cast.agree(*SMALL)
    give(cast)
    cast.run()
    cast.run(each=elsewhere(cast, "again"), restart=True)
    for name in cast.names:
        said = refused(cast, name, monkeypatch, out=cast.at(name, "third"), restart=True)
        assert "the rule `runs` = 2 allows no further run of this study; 2 used" in said
        assert cast.events(name)[-2:] == ["started", "stopped"]
        elsewhere_logged = {"out": cast.at(name, "third"), "audit": cast.at(name, "other.jsonl")}
        moved = refused(cast, name, monkeypatch, **elsewhere_logged, restart=True)
        assert "the rule `runs` = 2" in moved, "another audit log does not help"
        ledger = verify_audit(cast.at(name, f"{name}.budget.jsonl"))
        assert [entry["run"] for entry in ledger.entries] == [
            entry["run"] for entry in cast.audit(name) if entry["event"] == "agreed"
        ]


def test_a_run_that_opens_nothing_does_not_count(cast, monkeypatch):
    """Bob's ids are others: everybody learns that, and it is no run."""
    cast.policies(runs=1)
    cast.agree(*VERTICAL)
    cast.give("alice", id=IDS, x=CELLS)
    cast.give("bob", id=[*IDS[:-1], "person 99"], y=CELLS)
    assert all(isinstance(error, Exception) for error in cast.take_part().values())
    cast.give("bob", id=IDS, y=CELLS)
    cast.run()
    assert "`runs` = 1" in refused(cast, "bob", monkeypatch, out=cast.at("bob", "again"), restart=True)


@pytest.mark.parametrize("partition", ["rows", "columns"])
def test_other_data_is_refused_at_home_and_by_everybody_else(cast, monkeypatch, partition):
    if partition == "rows":
        cast.agree(*SMALL)
        give(cast)
    else:
        cast.agree(*VERTICAL)
        for name, column in (("alice", "x"), ("bob", "y")):
            cast.give(name, id=IDS, **{column: CELLS})
    cast.run()
    if partition == "rows":
        cast.give("bob", x=POINTS[::-1, 0], y=POINTS[::-1, 1])  # the same rows in another order
    else:
        cast.give("bob", id=IDS[::-1], y=CELLS[::-1])
    cast.run(each=elsewhere(cast, "again"))
    changed = {"x": POINTS[:, 0], "y": POINTS[:, 1] * 0.5} if partition == "rows" else {"id": IDS, "y": CELLS * 0.5}
    cast.give("bob", **changed)
    assert "`other_data` = 'refuse': bob returns" in refused(cast, "bob", monkeypatch, out=cast.at("bob", "third"))

    cast.policy("bob", other_data="log")  # bob would not mind
    ended = cast.take_part(each=elsewhere(cast, "third"))
    refusing = [name for name in ("alice", "helper") if isinstance(ended[name], PolicyError)]
    assert refusing, ended  # the other one may have heard of it first
    for name in refusing:
        assert "bob returns to this study with other data" in str(ended[name])
        assert cast.entry(name, "other data")["party"] == "bob"
    assert not cast.at("alice", "third").exists()
    assert "opening" not in [entry["event"] for entry in cast.audit("alice")][-2:]

    cast.policies(other_data="log")
    cast.run(each=elsewhere(cast, "third"))


def test_rows_predicted_from_a_model(cast, monkeypatch):
    cast.policies(predicted_rows=70)
    cast.agree(*SMALL, "--centers", "shared")
    give(cast)
    cast.run()

    def orders(folder, **rows):
        made = {cast.helper: {"data": None, "out": cast.at(cast.helper, folder)}}
        for name, many in rows.items():
            data = cast.write(name, f"{folder}.csv", x=POINTS[:many, 0], y=POINTS[:many, 1])
            made[name] = {"data": str(data), "out": cast.at(name, folder)}
        return made

    cast.predict(orders("first", alice=20, bob=10))
    each = orders("second", alice=40, bob=30)
    for name in cast.parties:
        each[name]["model"] = cast.at(name, "results", "model.json")
    ended = cast.take_part(predict_rows, each=each)
    for name in cast.names:
        assert isinstance(ended[name], PolicyError) or "PolicyError" in str(ended[name]), ended
    assert any("does not allow 70 more rows to be predicted from this model; 30 used" in str(e) for e in ended.values())
    assert cast.events("alice")[-1] == "stopped"
    assert "opening" not in cast.events("alice")[-2:], "before any row was shared"
    cast.predict(orders("third", alice=20, bob=20))
    said = refused(cast, "alice", monkeypatch, predict_rows, **each["alice"])
    assert "`predicted_rows` = 70 does not allow 40 more rows to be predicted from this model; 70 used" in said


def test_predictions_at_home_are_not_limited(cast):
    cast.policies(predicted_rows=0, runs=1)
    cast.agree(*SMALL)
    give(cast)
    cast.run()
    data = cast.write("bob", "new.csv", x=POINTS[:, 0], y=POINTS[:, 1])
    cast.predict({"bob": {"data": str(data)}})
    assert len(cast.labels("bob", "predictions")["label"]) == 40


def test_greetings_say_what_the_policy_asks_for(cast, monkeypatch):
    cast.policy("alice", contribution="none-or-least", coalition=2)
    cast.agree(*SMALL)
    give(cast)
    heard = {}
    genuine = handshake.make_study_task

    def listen(study, purpose, greetings, matched=None):
        heard.update(greetings)
        return genuine(study, purpose, greetings, matched)

    monkeypatch.setattr(handshake, "make_study_task", listen)
    cast.take_part()
    assert (heard["alice"].contribution, heard["alice"].coalition) == ("none-or-least", 2)
    assert (heard["bob"].contribution, heard["bob"].coalition) == ("least", 1)
    assert heard["helper"].commitment == ""
    assert heard["alice"].commitment != heard["bob"].commitment


def test_the_same_data_under_other_rules_are_refused(cast):
    """Which clusters are closed tells their sizes, if the least size is raised by one from run to run."""
    cast.agree(*SMALL)
    give(cast)
    cast.run()
    cast.policy("alice", least_cluster_size=11)
    ended = cast.take_part(run_study, each=elsewhere(cast, "again"), restart=True)
    assert isinstance(ended["bob"], PolicyError), ended
    assert "had a least size of 10" in str(ended["bob"])
    assert "this one has a least size of 11" in str(ended["bob"])
    assert not any(cast.at(name, "again").exists() for name in cast.names)
