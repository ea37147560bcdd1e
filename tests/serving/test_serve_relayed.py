"""`coterie serve` by way of a relay, between real processes: studies of which nobody has an address of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.relay.places import RelayProcess, make_relay
from tests.serving.house import House
from tests.serving.test_serve import SEEDS, ended, ordinary, same_as
from tests.study.hooks import Hook
from tests.study.walk import wait_until

pytestmark = pytest.mark.slow

__all__ = ["ordinary"]  # a fixture


@pytest.fixture
def house(tmp_path) -> Iterator[House]:
    before = os.umask(0o022)
    with House(tmp_path, relay=make_relay(tmp_path)) as made:
        yield made
    os.umask(before)


def relay_of(house: House) -> RelayProcess:
    return RelayProcess(house.relay, [cast.study_file("alice") for cast in house.casts])


def is_up(house: House) -> bool:
    return house.status().healthy and [one.registered for one in house.status().relays] == [True]


def test_three_studies_by_way_of_a_relay_that_is_killed_in_the_middle(house, ordinary):
    """Two runs end by name and go on from their checkpoints when they are started again; the third, whose study allows
    it, goes on by itself as soon as there is a relay. All end with the bits of a run without a relay."""
    first, second = (house.cast(name, seed=SEEDS[name]) for name in ("one", "two"))
    patient = house.cast("three", "--reconnect", 600, seed=SEEDS["three"])
    casts = [first, second, patient]
    house.start("--most-studies", 3)
    with relay_of(house) as relay:
        wait_until(lambda: is_up(house), 120, "being registered")
        for cast in casts:  # alice stands still in the middle, so that all are under way
            cast.begin_parties(alice=Hook(at="saved", iteration=3, signal="SIGSTOP"))
        for cast in casts:
            cast.struck("alice", 300)
        relay.kill()
        for cast in casts:
            cast.processes["alice"].send_signal(signal.SIGCONT)
        for cast in (first, second):
            codes = cast.finish_all()
            assert set(codes.values()) <= {6, 7}, (codes, house.said())
            for name in cast.parties:
                assert "the relay" in cast.err(name)
                assert not cast.shown(name)
        wait_until(lambda: not house.status().healthy, 120, "the status's knowing")
        assert f"not registered at the relay {relay.line[2]}" in house.status().problems[0]
        relay.start()
        wait_until(lambda: is_up(house), 120, "being registered again")
        assert set(patient.finish_all().values()) == {0}, house.said()
        for cast in (first, second):
            cast.begin_parties()
        for cast in casts:
            assert set(cast.finish_all().values()) == {0}, house.said()
            assert cast.agreed("bob")["resumed_after"] is not None
            same_as(cast, ordinary)
        for cast in casts:
            assert ended(house, cast).code == 0
        assert house.stop() == 0


def test_serve_is_restarted_in_the_middle_behind_a_relay(house, ordinary):
    casts = [house.cast(name, seed=SEEDS[name]) for name in ("one", "two")]
    house.start("--most-studies", 2, "--grace", 1)
    with relay_of(house):
        for cast in casts:
            cast.begin_parties(alice=Hook(at="saved", iteration=3, signal="SIGSTOP"))
        for cast in casts:
            cast.struck("alice", 300)
        pids = [house.study(cast).running.pid for cast in casts]
        assert house.stop() == 0, house.said()
        for cast in casts:
            assert cast.finish(cast.processes["bob"]) == 7, house.said()
            cast.bury("alice")
        assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids)
        house.start("--most-studies", 2)
        for cast in casts:
            cast.begin_parties()
        for cast in casts:
            assert set(cast.finish_all().values()) == {0}, house.said()
            assert cast.agreed("bob")["resumed_after"] is not None
            same_as(cast, ordinary)
        assert house.stop() == 0
