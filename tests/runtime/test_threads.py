"""Roles as threads: results by rank; a failure reaches the caller with the party's name, and all others end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from coterie.errors import InputError, MaterialReused, PartyFailed, PeerLost, WrongType
from coterie.runtime.threads import attributed, role_at, root_cause, run_threads
from coterie.transport import Recording, memory_channels
from tests.support import SeededEntropy, world
from tests.transport.network import attempt

pytestmark = pytest.mark.timeout(60)

WORDS = np.zeros(4, np.uint64)


def everybody_waits_for(culprit, error):
    """A role that fails at one rank while all others wait for it."""

    def role(me):
        if me.rank == culprit:
            raise error
        me.channel.receive(culprit, np.uint64, (4,))

    return role


def test_results_come_by_rank_the_helper_first():
    assert run_threads(world(3), lambda me: (me.rank, me.deals)) == [(0, True), (1, False), (2, False), (3, False)]


@pytest.mark.parametrize("lanes", [0, 2])
def test_roles_talk(lanes):
    def role(me):
        for lane in me.lanes or (me.channel,):
            for peer in me.world.peers(me.rank):
                lane.send(peer, np.full(4, me.rank, np.uint64))
            heard = [int(lane.receive(peer, np.uint64, (4,))[0][0]) for peer in me.world.peers(me.rank)]
        return heard

    assert run_threads(world(2), role, lanes=lanes) == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_foreign_exception_becomes_that_party_s_failure(rank):
    error = ValueError("no such thing")
    with pytest.raises(PartyFailed, match=f"party P{rank}: ValueError: no such thing") as caught:
        run_threads(world(2), everybody_waits_for(rank, error))
    assert caught.value.party == f"P{rank}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [InputError("column 'x' is wrong"), MaterialReused("twice")], ids=repr)
def test_an_exception_of_the_tree_keeps_its_type(error):
    with pytest.raises(type(error)) as caught:
        run_threads(world(2), everybody_waits_for(2, error))
    assert caught.value is error
    assert caught.value.party == "P2"
    assert str(caught.value).startswith("party P2: ")


def test_the_others_hear_who_failed():
    heard = {}

    def role(me):
        if me.rank == 2:
            raise ValueError
        try:
            me.channel.receive(2, np.uint64, (4,))
        except PeerLost as error:
            heard[me.rank] = error.peer
            raise

    with pytest.raises(PartyFailed):
        run_threads(world(3), role)
    assert heard == {0: "P2", 1: "P2", 3: "P2"}


def test_a_failure_is_found_although_most_hear_of_it_at_second_hand():
    """P0 waits for P1, who waits for P2, who waits for P3, who fails."""

    def role(me):
        if me.rank == 3:
            raise InputError("column 'x' is wrong")
        me.channel.receive(me.rank + 1, np.uint64, (4,))

    with pytest.raises(InputError) as caught:
        run_threads(world(3), role)
    assert caught.value.party == "P3"


def test_a_party_that_ends_too_early_is_named():
    def role(me):
        if me.rank == 1:
            me.channel.receive(2, np.uint64, (4,))

    with pytest.raises(PeerLost) as caught:
        run_threads(world(2), role)
    assert caught.value.peer == "P2"


def test_a_failure_on_a_lane_is_the_party_s():
    def block(here, number):
        if number == 1:
            everybody_waits_for(2, InputError("column 'x' is wrong"))(here)

    with pytest.raises(InputError) as caught:
        run_threads(world(2), lambda me: me.in_blocks(2, block)(), lanes=2)
    assert caught.value.party == "P2"


def test_a_helper_that_is_far_ahead_ends_with_the_others():
    def role(me):
        if me.rank == 1:
            raise ValueError
        while me.deals:
            me.channel.send(1, np.zeros(4 << 20, np.uint64))

    with pytest.raises(PartyFailed) as caught:
        run_threads(world(2), role)
    assert caught.value.party == "P1"


INTERRUPTED = """
import sys
import numpy as np
from coterie.runtime.threads import run_threads
from coterie.transport import World

def role(me):
    if me.rank == 0:
        print("waiting", flush=True)
    me.channel.receive(1 if me.rank == 2 else 2, np.uint64, (4,))

try:
    run_threads(World(("P0", "P1", "P2")), role)
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="there are no signals here")
def test_an_interrupted_run_ends():
    """In a process of its own, so that no interrupt is left behind for another test. One that arrives while Python
    cleans up behind a weak reference is lost, so it is sent until the process ends."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == b"waiting\n"
        deadline = time.monotonic() + 120
        while one.poll() is None and time.monotonic() < deadline:
            one.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(10)
        assert one.poll() == 1
        assert one.stderr is not None
        assert one.stderr.read().endswith(b"interrupted\n")


def test_a_role_s_channel_is_closed_in_the_end():
    zero, one = memory_channels(world(1))

    def take_part(channel):
        with role_at(channel, SeededEntropy(0, 0)):
            pass

    attempt(lambda: take_part(zero), lambda: take_part(one))
    with pytest.raises(PeerLost):
        one.send(0, WORDS)


@pytest.mark.parametrize(
    ("error", "texts"),
    [
        (PeerLost("gone", "P2"), ["P1 stopped and blames P2, who is still", "P1 stopped and blames this party"]),
        (ValueError(), ["P1 stopped: an internal error"] * 2),
    ],
    ids=repr,
)
def test_who_fails_tells_the_others_whom_it_blames(error, texts):
    """Seen by P0, who is not a role here but looks at the wire."""
    channels = memory_channels(world(2))

    def blame():
        with role_at(channels[1], SeededEntropy(0, 1)):
            raise error

    def watch(rank):
        me = channels[rank]
        for peer in me.world.peers(rank):
            me.send(peer, np.zeros(64 if rank and peer else 32, np.uint8))
        me.receive(1, np.uint8, (64 if rank else 32,))
        with pytest.raises(PeerLost) as caught:
            me.receive(1, np.uint64, (4,))
        return str(caught.value)

    done = attempt(blame, lambda: watch(0), lambda: watch(2))
    assert done[0].exception() is error
    for watching, text in zip(done[1:], texts, strict=True):
        assert text in watching.result()


def test_entropy_and_wrapping_are_per_rank():
    wrapped = []

    def wrap(channel):
        wrapped.append(Recording(channel))
        return wrapped[-1]

    def draws():
        return run_threads(
            world(2),
            lambda me: me.streams.private("test").read(8).tolist(),
            entropy=lambda rank: SeededEntropy(7, rank),
            wrap=wrap,
        )

    first = draws()
    assert first == draws()
    assert len({tuple(draw) for draw in first}) == 3
    assert [recording.rank for recording in wrapped] == [0, 1, 2] * 2
    assert all(recording.frames for recording in wrapped)


# -- whose fault it is ---------------------------------------------------------------------------------------

FAULT = ValueError()


@pytest.mark.parametrize(
    ("errors", "party"),
    [
        ({"P1": FAULT}, "P1"),
        ({"P0": PeerLost("", "P2"), "P1": PeerLost("", "P2"), "P2": FAULT}, "P2"),
        ({"P0": PeerLost("", "P1"), "P1": PeerLost("", "P2"), "P2": InputError()}, "P2"),
        ({"P0": PeerLost("", "P2"), "P1": PeerLost("", "P2")}, "P0"),  # P2 left without an error of its own
        ({"P1": WrongType("", "P2"), "P2": PeerLost("", "P2")}, "P2"),  # who is told that it is to blame
        ({"P1": PeerLost("", "P2"), "P2": PeerLost("", "P1")}, "P1"),  # no telling: the first
    ],
)
def test_where_the_trouble_started(errors, party):
    assert root_cause(errors) == party


def test_attribution_keeps_the_first_name():
    error = InputError("wrong")
    assert attributed(error, "P1") is error
    assert attributed(error, "P2").party == "P1"
