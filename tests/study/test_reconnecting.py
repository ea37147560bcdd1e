"""A break of the network is survived without a person: all meet again, and the run goes on to the same bits."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.errors import Interrupted, PeerLost
from coterie.study.reconnecting import Attempt, keep_going
from coterie.study.voice import Voice
from tests.study.cutting import Cut, CutCast
from tests.study.walk import SMALL, Cast, Stopping, coterie

pytestmark = pytest.mark.usefixtures("no_pictures")

FIXED = (*SMALL, "--init", "random", "--seed", 3, "--tol", 0, "--max-iter", 6)
BY_COLUMNS = ("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id")
LOST = "lost; reconnecting (at most 60 s)"


def points(n: int = 48) -> np.ndarray:
    random = np.random.default_rng(7)
    return random.uniform(-10, 10, (n, 2))


def give(cast: Cast, way: str) -> None:
    own = points()
    if way == "vertical":
        ids = [f"row{i:03}" for i in range(len(own))]
        cast.give("alice", id=ids, x=own[:, 0])
        cast.give("bob", id=ids, y=own[:, 1])
        return
    for name, part in zip(cast.parties, np.array_split(own, len(cast.parties)), strict=True):
        cast.give(name, x=part[:, 0], y=part[:, 1])


def results(cast: Cast) -> dict[str, Any]:
    """All that must not depend on a break."""
    return {name: (cast.centers(name), cast.labels(name)) for name in cast.parties}


def options_of(protocol: str, way: str) -> tuple[object, ...]:
    return (*FIXED, "--protocol", protocol, *(BY_COLUMNS if way == "vertical" else ()))


def unbroken(folder: Path, protocol: str, way: str, parties: tuple[str, ...]) -> dict[str, Any]:
    with Cast(folder, parties) as cast:
        cast.agree(*options_of(protocol, way))
        cast.policies(least_cluster_size=1)
        give(cast, way)
        cast.run(patience=60.0)
        return results(cast)


CASES = [
    ("onetime", "horizontal", ("alice", "bob"), 2, True),
    ("onetime", "vertical", ("alice", "bob"), "computing", True),
    ("onetime", "horizontal", ("alice", "bob"), "writing results", False),
    ("securenn", "horizontal", ("alice", "bob"), 1, False),
    ("securenn", "vertical", ("alice", "bob"), 1, False),
    ("onetime", "horizontal", ("alice", "bob", "carol"), 2, False),
]


@pytest.mark.parametrize(
    ("protocol", "way", "parties", "at"),
    [pytest.param(*case[:4], marks=() if case[4] else pytest.mark.slow) for case in CASES],
)
def test_all_connections_are_cut_once(tmp_path, protocol, way, parties, at):
    with CutCast(tmp_path / "broken", parties=parties) as cast:
        cast.agree(*options_of(protocol, way), "--reconnect", 60)
        cast.policies(least_cluster_size=1)
        give(cast, way)
        voice = Cut(at, cast.wires.cut)
        cast.run(voices={"alice": voice}, patience=60.0)
        assert voice.done
        assert [note for note in voice.notes if note.endswith(LOST)], voice.notes
        agreed = [entry for entry in cast.audit("alice") if entry["event"] == "agreed"]
        assert len(agreed) >= 2
        assert len({entry["session"] for entry in agreed}) == len(agreed), "fresh keys"
        if isinstance(at, int):
            assert agreed[-1]["resumed_after"] in (at - 1, at) or at == 1
        assert len({entry["run"] for entry in agreed}) == 1 or at == "computing"
        started = [entry["reconnecting"] for entry in cast.audit("alice") if entry["event"] == "started"]
        assert started[0] is False
        assert all(started[1:])
        counted = [entry for entry in cast.audit_of_runs("alice") if entry["event"] == "counted"]
        assert len(counted) == 1, "a run that goes on is not charged again"
        broken = results(cast)
    assert broken == unbroken(tmp_path / "unbroken", protocol, way, parties)


@pytest.mark.slow
def test_ten_seconds_without_a_network(tmp_path):
    """Nothing is closed, and nothing arrives: the others are silent, and then are there again."""
    with CutCast(tmp_path / "broken") as cast:
        cast.agree(*FIXED, "--reconnect", 120)
        cast.policies(least_cluster_size=1)
        give(cast, "horizontal")

        def pause() -> None:
            cast.wires.flowing.clear()
            threading.Timer(10, cast.wires.flowing.set).start()

        voice = Cut(2, pause)
        cast.run(voices={"alice": voice}, patience=3.0)
        assert len([entry for entry in cast.audit("alice") if entry["event"] == "agreed"]) >= 2
        broken = results(cast)
    assert broken == unbroken(tmp_path / "unbroken", "onetime", "horizontal", ("alice", "bob"))


def test_one_that_does_not_come_back_is_named(tmp_path):
    with CutCast(tmp_path) as cast:
        cast.agree(*FIXED, "--reconnect", 2)
        cast.policies(least_cluster_size=1)
        give(cast, "horizontal")
        voice = Cut(2, cast.wires.close)
        ended = cast.take_part(voices={"alice": voice}, patience=5.0)
    for error in ended.values():
        assert isinstance(error, PeerLost)
        assert error.exit_code == 7
        assert "did not come back within 2 s" in str(error)
        assert "start it again, all of you" in str(error)
        assert error.peer in str(error)


def test_whoever_stops_on_purpose_is_not_waited_for(tmp_path):
    with Cast(tmp_path) as cast:
        cast.agree(*FIXED, "--reconnect", 600)
        cast.policies(least_cluster_size=1)
        give(cast, "horizontal")
        voice = Cut("", lambda: None)
        ended = cast.take_part(voices={"alice": Stopping(2), "bob": voice, "helper": voice}, patience=60.0)
    assert isinstance(ended["alice"], Interrupted)
    assert isinstance(ended["bob"], PeerLost)
    assert not [note for note in voice.notes if "reconnecting" in note]


# -- how often, and for how long ---------------------------------------------------------------------------


def test_a_break_may_take_its_time_and_no_longer(monkeypatch):
    """Breaks with nothing won in between are one break; where something was won, the next one has its own time."""
    made: list[Attempt] = []
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def attempt(one: Attempt) -> None:
        made.append(one)
        clock[0] += 4.0
        one.met, one.advanced = True, len(made) in (1, 3)
        raise PeerLost("bob was lost", "bob")

    with pytest.raises(PeerLost, match="bob did not come back within 10 s"):
        keep_going(attempt, 10, Voice())
    assert [one.wait for one in made] == [None, 10.0, 6.0, 10.0, 6.0, 2.0]


@pytest.mark.parametrize(
    ("seconds", "error"), [(0, PeerLost("bob was lost", "bob")), (60, PeerLost.stopped("bob declined", "bob"))]
)
def test_what_ends_at_once(seconds, error):
    made = []

    def attempt(one: Attempt) -> None:
        made.append(one)
        raise error

    with pytest.raises(PeerLost) as caught:
        keep_going(attempt, seconds, Voice())
    assert caught.value is error
    assert len(made) == 1


def test_the_study_says_for_how_long(cast: Cast):
    assert cast.agree(*SMALL, "--reconnect", 90).participants.reconnect == 90
    explained = coterie("study", "explain", cast.study_file("alice")).out
    assert "within 90 s" in " ".join(explained.split())
    refused = cast.create(*SMALL, "--reconnect", -1)
    assert refused.code == 2
    assert "--reconnect must be a number of seconds" in refused.err
