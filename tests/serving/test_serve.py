"""`coterie serve` between real processes: three studies at once, of which two are disturbed; restarts; memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.study.identity import load_key
from coterie.surveys.found import ColumnFound
from coterie.transport.certificates import Credentials
from coterie.transport.hello import NotYet, Peer, context, dial, greet, server_name
from tests.serving.house import House, StudyCast
from tests.study.hooks import Hook, Stage
from tests.study.test_survey import ASKED, expected, give, greetings_of
from tests.study.walk import wait_until

pytestmark = pytest.mark.slow

SEEDS = {"one": 4, "two": 5, "three": 6}


@pytest.fixture
def house(tmp_path) -> Iterator[House]:
    before = os.umask(0o022)
    with House(tmp_path) as made:
        yield made
    os.umask(before)


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """By study, what its parties get with a helper that is an ordinary `coterie run`."""
    found = {}
    for name, seed in SEEDS.items():
        with Stage(tmp_path_factory.mktemp(name)) as stage:
            stage.ROWS = StudyCast.ROWS
            stage.points = lambda seed=seed: StudyCast.points_of(seed)
            stage.set()
            stage.begin()
            assert set(stage.finish_all().values()) == {0}, stage.said()
            found[name] = {party: stage.result(party) for party in stage.parties}
    return found


def same_as(cast: StudyCast, ordinary: dict[str, dict[str, Any]]) -> None:
    for party in cast.parties:
        assert cast.result(party) == ordinary[cast.name][party]


def ended(house: House, cast: StudyCast, before: float = 0.0) -> Any:
    """How a study's process has ended, since then."""
    return wait_until(lambda: (last := house.study(cast).last) and last.ended > before and last, 120, "its end")


def test_a_study_is_served_from_end_to_end(house, ordinary):
    """Started when its participants come; results, audit log and ledger are in the study's own folder; once more, it
    gives the same; SIGTERM ends it all."""
    cast, log = house.cast("one"), house.folder / "serve.jsonl"
    house.start("--log", log)
    for number in (1, 2):
        began = time.time()
        cast.begin_parties()
        assert set(cast.finish_all().values()) == {0}, house.said()
        told = ended(house, cast, began)
        assert (told.code, told.out) == (0, f"000{number}-fit"), told
        same_as(cast, ordinary)
    run = cast.document("alice", "manifest.json")["run"]
    assert {house.manifest(cast, f"000{number}-fit")["run"] for number in (1, 2)} == {run}
    assert {path.name for path in cast.home.iterdir()} >= {"audit.jsonl", "helper.budget.jsonl", "checkpoints"}
    assert not (house.folder / "keys" / "helper.budget.jsonl").exists()
    assert house.stop(signal.SIGTERM) == 0, house.said()
    assert not (house.state / "status.sock").exists()
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in told][:: len(told) - 1] == ["start", "end"]
    assert [(line["study"], line["code"]) for line in told if line["event"] == "run ends"] == [("study", 0)] * 2


def send_rubbish(cast: StudyCast) -> None:
    """Bob, with his own key, is let in by the helper, and then says what nobody understands."""
    study = cast.study
    known = study.world()
    rank, other = known.names.index("bob"), known.names.index("helper")
    me, helper = study.at_rank(rank), study.at_rank(other)
    own = context(False, Credentials(me.certificate, load_key(cast.key("bob"))), [helper.certificate])
    world = cast.orders_known("bob").world
    peer = Peer(helper.host, helper.port, helper.certificate)

    def let_in() -> Any:
        with contextlib.suppress(NotYet):
            sock = dial(peer, "helper", own, 30, 30, server_name(world.session, "fit"))
            if greet(sock, world, 0, rank, other, peer) is None:
                return sock
            sock.close()
        return None

    with wait_until(let_in, 120, "being let in") as sock:
        sock.sendall(b"rubbish " * 4096)
        with contextlib.suppress(OSError):
            while sock.recv(4096):
                pass


def test_three_studies_of_which_two_are_disturbed(house, ordinary):
    """One loses a participant, one has a participant that is malicious, the third is unharmed; then the others, too,
    come to the right end."""
    killed, fooled, unharmed = (house.cast(name, seed=seed) for name, seed in SEEDS.items())
    house.start("--most-studies", 3)
    killed.begin_parties(alice=Hook(at="saved", iteration=3, signal="SIGKILL"))
    unharmed.begin_parties()
    fooled.start("alice", "run", "--timeout", 30, "--wait", 120)  # who comes when all is over does not wait for long
    send_rubbish(fooled)
    killed.struck("alice", 300)
    assert killed.finish(killed.processes["bob"]) == 7, house.said()
    assert "alice" in killed.err("bob")
    told = ended(house, killed)
    assert told.code == 7
    assert "alice" in told.text
    told = ended(house, fooled)
    assert told.code in (4, 9), told  # before they agree on a session, peers may simply have different studies
    assert "bob" in told.text
    assert fooled.finish(fooled.processes["alice"]) in (6, 7, 9), house.said()
    assert set(unharmed.finish_all().values()) == {0}, house.said()
    same_as(unharmed, ordinary)
    for cast in (killed, fooled):
        cast.begin_parties()
    for cast in (killed, fooled):
        assert set(cast.finish_all().values()) == {0}, house.said()
        same_as(cast, ordinary)
    assert killed.agreed("bob")["resumed_after"] is not None
    assert house.status().healthy
    assert house.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_restarted_in_the_middle_of_three_studies(house, ordinary, number):
    """All can be taken up again, and end with the right bits. Children do not outlive their parent."""
    casts = [house.cast(name, seed=seed) for name, seed in SEEDS.items()]
    house.start("--most-studies", 3, "--grace", 1)
    for cast in casts:  # alice stands still in the middle, so that all are under way
        cast.begin_parties(alice=Hook(at="saved", iteration=3, signal="SIGSTOP"))
    for cast in casts:
        cast.struck("alice", 300)
    pids = [house.study(cast).running.pid for cast in casts]
    assert house.stop(number) == (0 if number == signal.SIGTERM else -signal.SIGKILL), house.said()
    for cast in casts:
        assert cast.finish(cast.processes["bob"]) == 7, house.said()
        cast.bury("alice")
    wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids), 60, "the end of the children")
    house.start("--most-studies", 3)
    if number == signal.SIGTERM:
        assert {house.study(cast).last.code for cast in casts} == {10}
    for cast in casts:
        cast.begin_parties()
    for cast in casts:
        assert set(cast.finish_all().values()) == {0}, house.said()
        assert cast.agreed("bob")["resumed_after"] is not None
        same_as(cast, ordinary)
    assert house.stop() == 0


def test_one_waits_until_there_is_room_and_is_told(house, ordinary):
    """With room for one study, the other's participants hear that the helper is busy, and come in when it is not."""
    first, second = (house.cast(name, seed=SEEDS[name]) for name in ("one", "two"))
    house.start("--most-studies", 1)
    first.start("alice", "run", "--timeout", 30)
    wait_until(lambda: house.study(first).running, 120, "the first study")
    second.begin_parties()
    wait_until(lambda: "helper (is busy" in second.out("bob"), 120, "the word that it is busy")
    assert house.study(second).running is None
    first.start("bob", "run", "--timeout", 30)
    for cast in (first, second):
        assert set(cast.finish_all().values()) == {0}, house.said()
        same_as(cast, ordinary)
    assert house.stop() == 0


def test_too_many_rows_are_refused_by_name(house):
    cast = house.cast("one")
    house.start("--most-rows", cast.ROWS - 1)
    cast.begin_parties()
    told = ended(house, cast)
    assert told.code == 5
    assert f"--most-rows {cast.ROWS - 1}" in told.text
    assert "alice 100, bob 100; 200 in all" in told.text
    assert set(cast.finish_all().values()) == {7}, house.said()
    assert "helper" in cast.err("alice")


def test_predictions_are_served(house):
    """With shared centres rows are labelled together: the helper's process does what is asked for. New rows get the
    labels that they get with a helper that is an ordinary `coterie predict`."""
    cast = house.cast("one", "--centers", "shared")
    house.start()
    cast.begin_parties()
    assert set(cast.finish_all().values()) == {0}, house.said()
    told = ended(house, cast)
    for name in cast.parties:
        cast.start(name, "predict", "--timeout", 30)
    assert set(cast.finish_all().values()) == {0}, house.said()
    told = ended(house, cast, told.ended)
    assert (told.code, told.purpose, told.out) == (0, "predict", "0002-predict")
    assert house.manifest(cast, "0002-predict")["purpose"] == "predict"
    for name in cast.parties:
        assert cast.labels(name, "predictions")["label"] == cast.labels(name)["label"]
    for name, part in zip(cast.parties, np.array_split(StudyCast.points_of(9), 2), strict=True):
        cast.give(name, "new.csv", x=part[:60, 0], y=part[:60, 1])
        cast.start(name, "predict", "--timeout", 30, "--out", cast.at(name, "new"))
    assert set(cast.finish_all().values()) == {0}, house.said()
    assert ended(house, cast, told.ended).out == "0003-predict"
    assert house.stop() == 0
    for name in cast.names:
        cast.start(name, "predict", "--timeout", 30, "--out", cast.at(name, "unserved"))
    assert set(cast.finish_all().values()) == {0}, house.said()
    for name in cast.parties:
        assert cast.labels(name, "new") == cast.labels(name, "unserved")


def test_surveys_are_served(house):
    cast = house.parties("one")
    cast.agree(*ASKED)
    give(cast, "rows")
    cast.bring()
    house.start()
    for name in cast.parties:
        cast.start(name, "survey", "--timeout", 30, "--out", cast.at(name, "results"))
    assert set(cast.finish_all().values()) == {0}, house.said()
    told = ended(house, cast)
    assert (told.code, told.purpose, told.out) == (0, "survey", "0001-survey")
    found = expected(cast, "rows", greetings_of(cast))
    for name in cast.parties:
        assert msgspec.convert(cast.document(name, "survey.json")["columns"], list[ColumnFound]) == found
    assert house.stop() == 0
    for name in cast.names:  # with a helper that is an ordinary `coterie survey`
        cast.start(name, "survey", "--timeout", 30, "--out", cast.at(name, "unserved"))
    assert set(cast.finish_all().values()) == {0}, house.said()
    for name in cast.parties:
        assert (
            cast.document(name, "survey.json", "unserved")["columns"] == cast.document(name, "survey.json")["columns"]
        )


def test_signatures_are_fetched_and_then_it_is_served(house, ordinary):
    """Only the helper's own signature was brought; the parties come, as to any run, and it goes on by itself."""
    cast = house.cast("one", without=("alice", "bob"))
    house.start()
    assert house.study(cast).standing == "waiting"
    cast.begin_parties()
    assert set(cast.finish_all().values()) == {0}, house.said()
    assert ended(house, cast).code == 0
    assert house.study(cast).standing == "served"
    same_as(cast, ordinary)
    assert house.stop() == 0
