"""A participant whose own data or policy is refused tells the others at once: one word, and no reason."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from coterie.errors import DataError, InputError, PeerLost, PolicyError, StudyError
from coterie.study import endings
from coterie.study.predict import predict_rows
from coterie.study.run import run_study
from coterie.study.voice import Voice
from tests.study.walk import SMALL

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def ready(cast):
    cast.agree(*SMALL, "--centers", "shared")
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    return cast


@pytest.fixture
def told(monkeypatch):
    """What is said to the others, in place of saying it."""
    calls = []
    monkeypatch.setattr(endings, "decline", lambda *given: calls.append(given))
    monkeypatch.setattr("socket.create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    return calls


def refused(act, orders, kind):
    with pytest.raises(kind):
        act(orders)


@pytest.mark.parametrize("act", [run_study, predict_rows])
def test_refused_data_or_policy_is_told(ready, told, act):
    outside = ready.write("alice", "outside.csv", x=[1.0, 13.0], y=[0.0, 0.0])
    refused(act, ready.orders("alice", data=str(outside)), DataError)
    ready.policy("alice", centers=["revealed"])
    refused(act, ready.orders("alice"), PolicyError)
    assert len(told) == 2
    for world, rank, credentials, peers, patience in told:
        assert (world.names, rank, patience) == (ready.study.names, 1, 10.0)
        assert credentials.key == ready.key("alice").read_text()
        assert [peer.port for peer in peers] == [one.port for one in ready.study.everybody]


def test_what_is_nobody_elses_business_is_not_told(ready, told):
    """A slip at the keyboard is put right at the keyboard; and before one has signed there is nobody to tell."""
    refused(run_study, ready.orders("alice", data=None), InputError)
    refused(run_study, ready.orders("helper", data="data.csv"), InputError)
    refused(run_study, ready.orders("alice", out=ready.key("alice")), InputError)
    ready.at("alice", "study.alice.sig.toml").unlink()
    refused(run_study, ready.orders("alice"), StudyError)
    assert told == []


def test_others_who_cannot_be_told_do_not_hide_the_error(ready, monkeypatch):
    def fail(*given):
        raise OSError("no network")

    monkeypatch.setattr(endings, "decline", fail)
    ready.policy("alice", centers=["revealed"])
    refused(run_study, ready.orders("alice"), PolicyError)


def test_those_who_wait_stop_waiting(ready):
    """And learn who it was, but not why."""
    waiting = {name: threading.Event() for name in ("helper", "bob")}

    class Waits(Voice):
        def __init__(self, name):
            self.name = name

        def waiting(self, names):
            if names == ["alice"]:
                waiting[self.name].set()

    ended = {}

    def wait(name):
        ended.update(ready.take_part(names=[name], voices={name: Waits(name)}, wait=600.0))

    threads = [threading.Thread(target=wait, args=(name,), daemon=True) for name in waiting]
    for thread in threads:
        thread.start()
    for event in waiting.values():
        assert event.wait(60)
    outside = ready.write("alice", "outside.csv", x=[1.0, 13.0], y=[0.0, 0.0])
    refused(run_study, ready.orders("alice", data=str(outside)), DataError)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for error in ended.values():
        assert isinstance(error, PeerLost), ended
        assert error.peer == "alice"
        assert "alice" in str(error)
        assert "start it again, all of you" in str(error)
        for word in ("outside", "csv", "bounds", "13"):
            assert word not in str(error)
