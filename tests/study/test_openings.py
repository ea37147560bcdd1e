"""Every opening is in everybody's audit log before it happens, whoever dies then."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from coterie.errors import FrameError, InputError, PeerLost, StudyError
from coterie.protocols import OneTime, SecureNN, words
from coterie.sharing import Disclosure, Ledger, gate
from coterie.study.audit import Audit, verify_audit
from coterie.study.openings import EVERY, Openings, makes_count
from coterie.transport import World, memory_channels
from coterie.transport.certificates import create_credentials
from tests.study.hooks import Hook, Stage
from tests.study.walk import SMALL, Cast

NAMES = ("helper", "alice", "bob")
ALICE = create_credentials("alice")


class Agreement:
    """As much of an agreement as openings need."""

    def __init__(self, replayed: bool = False) -> None:
        self.world, self.run, self.replayed = World(NAMES, b"0123456789abcdef"), "the run", replayed


class Desk:
    """A role's ledger, its log, and what became of it."""

    def __init__(self, path: Path, channel, replayed: bool = False) -> None:
        self.counted: list[int] = []
        self.audit = Audit(path, ALICE)
        sink = Openings(self.audit, channel, Agreement(replayed), lambda: self.counted.append(len(self.entries())))  # type: ignore[arg-type]
        self.ledger = Ledger(sink)

    def entries(self) -> list[dict]:
        found = verify_audit(self.audit.path).entries if self.audit.path.exists() else []
        return [entry for entry in found if entry["event"] == "opening"]


@pytest.fixture
def desks(tmp_path):
    world = World(NAMES, b"0123456789abcdef")
    helper, alice, _ = memory_channels(world)
    return Desk(tmp_path / "helper.jsonl", helper), Desk(tmp_path / "alice.jsonl", alice)


def test_what_is_in_the_log(desks):
    for desk in desks:
        for restart in (0, 1):
            desk.ledger.restart = restart
            for iteration in (1, 2, 3):
                desk.ledger.iteration = iteration
                desk.ledger.record("stop bit", NAMES, "go on?")
            desk.ledger.iteration = None
        desk.ledger.record("centers", NAMES[1:], "the result", "x, y")
    for desk in desks:
        entries = desk.entries()
        kept = ("run", "restart", "iteration", "what", "to", "reason", "detail")
        assert [tuple(entry[name] for name in kept) for entry in entries] == [
            ("the run", 0, 1, "stop bit", list(NAMES), "go on?", EVERY),
            ("the run", 1, 1, "stop bit", list(NAMES), "go on?", EVERY),
            ("the run", 1, None, "centers", ["alice", "bob"], "the result", "x, y"),
        ]
        assert len(desk.ledger.entries) == 7, "in memory there is one for every opening"
        assert desk.audit.openings("the run")[2] == desk.ledger.entries[-1]
        assert desk.audit.openings("another") == []
        assert desk.counted == [2], "counted once, before the result was logged"


def test_what_makes_a_run_count():
    assert makes_count(Disclosure("centers", NAMES, "why"))
    assert makes_count(Disclosure("suppression bits", NAMES, "why"))
    assert makes_count(Disclosure("counts", NAMES, "why"))
    assert makes_count(Disclosure("counts", NAMES, "why", 3)), "whoever breaks off before the end has them"
    assert makes_count(Disclosure("labels", NAMES, "why", 3))
    for entry in (
        Disclosure("stop bit", NAMES, "why", 3),
        Disclosure("equal ids", NAMES, "why"),
    ):
        assert not makes_count(entry)


def test_what_is_opened_once_more_is_not_logged_once_more(tmp_path):
    helper, *_ = memory_channels(World(NAMES, b"0123456789abcdef"))
    first = Desk(tmp_path / "log", helper)
    first.ledger.record("centers", NAMES, "the result", "x")
    again = Desk(tmp_path / "log", helper, replayed=True)
    again.ledger.record("centers", NAMES, "the result", "x")
    again.ledger.record("labels", NAMES, "the result", "3 rows")
    assert [entry["what"] for entry in again.entries()] == ["centers", "labels"]
    once_more = Desk(tmp_path / "log", helper)
    once_more.ledger.record("centers", NAMES, "the result", "x")
    assert [entry["what"] for entry in again.entries()] == ["centers", "labels", "centers"]


def test_lanes_write_one_after_another(desks):
    helper, _ = desks
    start = threading.Barrier(8)

    def write(lane):
        start.wait()
        for count in range(5):
            helper.ledger.record(f"value {lane} {count}", NAMES, "why")

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry["what"] for entry in helper.entries()] == [entry.what for entry in helper.ledger.entries]
    assert len(helper.entries()) == 40


def test_what_cannot_be_logged_is_not_opened():
    sent = []

    class Me:
        world = World(NAMES, b"0123456789abcdef")

        def __init__(self):
            def refuse(entry):
                raise InputError("the disk is full")

            self.ledger = Ledger(refuse)

        def __getattr__(self, name):
            sent.append(name)
            raise AssertionError(name)

    for act in (
        lambda me: gate.permit(me, "centers", [1, 2], "why"),
        lambda me: OneTime(me, None).open(None, [1], "labels", "why"),
        lambda me: SecureNN(me, None).open(None, [1], "labels", "why"),
        lambda me: gate.open_wide(me, 7, "inertia", "why"),
    ):
        me = Me()
        with pytest.raises(InputError):
            act(me)
        assert (sent, me.ledger.entries) == ([], [])


def test_a_party_sends_nothing_before_the_helper_has_logged_it(desks, monkeypatch):
    """The helper gets no share: without its word, a result could be open before it stands in the helper's log."""
    helper, alice = desks
    happened, waiting = [], threading.Event()
    channel = alice.ledger.write.talk
    collect, record = channel.collect, helper.audit.record

    def collecting(sender):
        waiting.set()
        return collect(sender)

    def recording(event, **fields):
        happened.append("the helper has logged it")
        return record(event, **fields)

    monkeypatch.setattr(channel, "collect", collecting)
    monkeypatch.setattr(helper.audit, "record", recording)

    def opening():
        alice.ledger.record("centers", NAMES, "the result")
        happened.append("alice may send")

    thread = threading.Thread(target=opening)
    thread.start()
    assert waiting.wait(60)
    assert [entry["what"] for entry in alice.entries()] == ["centers"]
    helper.ledger.record("centers", NAMES, "the result")
    thread.join(60)
    assert happened == ["the helper has logged it", "alice may send"]


def test_a_helper_that_says_something_else(desks):
    helper, alice = desks
    helper.ledger.write.talk.post(1, b"whatever")  # type: ignore[union-attr]
    with pytest.raises(FrameError, match="helper should have said that it logged an opening") as caught:
        alice.ledger.record("centers", NAMES, "why")
    assert caught.value.peer == "helper"


# -- in a run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [b'"detaim"', b'"detail":7,"was"'], ids=["a name", "a type"])
def test_an_opening_that_was_changed_in_the_log_is_named(desks, wrong):
    """A byte of the log is another one when a run looks up what it has opened."""
    desk = desks[0]
    desk.ledger.record("centers", NAMES[1:], "the result", "x, y")
    raw = desk.audit.path.read_bytes()
    desk.audit.path.write_bytes(raw.replace(b'"detail"', wrong))
    with pytest.raises(StudyError, match="line 1: the opening was changed"):
        desk.audit.openings("the run")


def openings(cast: Cast, name: str, what: str) -> list[dict]:
    return [entry for entry in cast.audit(name) if entry["event"] == "opening" and entry["what"] == what]


def test_one_dies_right_after_the_centres_are_opened_twice_with_another_row(tmp_path):
    """The attack: learn the centres, die, come back with another row. Every log shows both, the dead one's too."""
    with Stage(tmp_path) as stage:
        stage.policies(other_data="log")
        stage.set()
        points = stage.points()[stage.ROWS // 2 :]
        for row in (1.0, 2.0):
            points[0] = row
            stage.give("bob", x=points[:, 0], y=points[:, 1])
            stage.begin(bob=Hook(at="opened"))
            stage.struck("bob")
            for name in ("helper", "alice"):
                assert stage.finish(stage.processes[name]) == 7, stage.said()
            stage.bury("bob")
        for name in stage.names:
            found = openings(stage, name, "centers")
            assert len(found) == 2, name
            assert len({entry["session"] for entry in found}) == 2
            assert stage.audit(name)
        assert [entry["party"] for entry in stage.audit("alice") if entry["event"] == "other data"] == ["bob"]


def test_the_same_attack_under_the_default_policy(tmp_path):
    """The first opening counts, so that the second attempt is refused by everybody, and bob is named."""
    with Stage(tmp_path) as stage:
        stage.set()
        points = stage.points()[stage.ROWS // 2 :]
        stage.begin(bob=Hook(at="opened"))
        stage.struck("bob")
        for name in ("helper", "alice"):
            assert stage.finish(stage.processes[name]) == 7, stage.said()
        points[0] = 1.0
        stage.give("bob", x=points[:, 0], y=points[:, 1])
        stage.start("bob")
        assert stage.finish(stage.processes["bob"]) == 5
        assert "the rule `other_data` = 'refuse': bob returns to this study with other data" in stage.err("bob")
        assert len(openings(stage, "alice", "centers")) == 1


@pytest.mark.usefixtures("no_pictures")
def test_stop_bits_of_all_starts(cast):
    """One entry a start, before its first stop bit, and it says which start."""
    cast.agree(*SMALL, "--n-init", 3)
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    cast.run()
    for name in cast.names:
        found = [(entry["restart"], entry["iteration"], entry["detail"]) for entry in openings(cast, name, "stop bit")]
        assert found == [(0, 1, EVERY), (1, 1, EVERY), (2, 1, EVERY)]


@pytest.mark.usefixtures("no_pictures")
def test_results_tell_of_the_openings_of_all_attempts(cast, monkeypatch):
    """Alice fails after the centres were opened: what the results tell is what the log has of the whole run."""
    cast.agree(*SMALL)
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    genuine = words.bring_together
    failing = {"alice"}

    def fail(me, parts, what):
        opened = genuine(me, parts, what)
        if what == "centers" and me.world.names[me.rank] in failing:
            raise PeerLost("bob is gone", "bob")
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(words, "bring_together", fail)
        assert all(isinstance(error, PeerLost) for error in cast.take_part().values())
    cast.run()
    for name in cast.names:
        run = cast.document(name, "manifest.json")["run"]
        lines = cast.at(name, "results", "disclosures.jsonl").read_bytes().splitlines()
        logged = [entry for entry in cast.audit(name) if entry["event"] == "opening" and entry["run"] == run]
        assert [msgspec.json.decode(line)["what"] for line in lines] == [entry["what"] for entry in logged]
        assert openings(cast, name, "centers")
        counted = sum(line["times"] for line in cast.entry(name, "results")["disclosures"])
        assert counted == len(lines)
