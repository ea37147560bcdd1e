"""What ends the waiting for a peer and what does not: another study, packets that are dropped, a peer that declines."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coterie.errors import PeerLost, PeerUnreachable
from coterie.transport import HEADER_BYTES
from coterie.transport.channel import Note, Refusal
from coterie.transport.door import Listener
from coterie.transport.hello import Peer, begin_tls
from coterie.transport.meeting import Meeting
from coterie.transport.visits import decline
from tests.support import world
from tests.transport.meetings import (
    OTHER,
    ask,
    dialled,
    frame,
    held,
    hold_and_connect,
    read_control,
    versioned,
    waiting_meeting,
)
from tests.transport.network import (
    DUEL,
    close_all,
    credentials,
    hello,
    peer_of,
    raw_accept,
    raw_context,
    read_exactly,
    wait_until,
)

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("plain_errors")]


# -- another study -------------------------------------------------------------------------------------------


def test_who_asks_about_another_study_is_answered_and_ends_nothing():
    """How the two differ, the card tells; and those who ask about this one are still waited for."""
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], card=lambda: b"the card") as met:
        assert ask(mine, in_world=OTHER) == b"the card"
        assert (met.register.error, met.register.asked) == (None, set())
        assert ask(mine) == b"the card"
        wait_until(lambda: met.register.asked == {0}, "being asked")


def test_a_hello_of_another_session_ends_nothing():
    """The peer is busy with another study. Only that connection is refused; when it comes for this one, it may."""
    with waiting_meeting() as (met, rogues, future):
        for _ in range(3):
            for lane in (0, 5, 0xFFFE):
                with dialled(met, hello(OTHER, 0, 1, lane)) as sock:
                    assert read_control(sock) == Refusal(True, "it takes part in another study")
        assert (met.register.error, met.register.taken) == (None, set())
        with raw_accept(rogues, credentials("Rogue")) as ear, dialled(met, hello(DUEL, 0, 1)) as mouth:
            read_exactly(ear, HEADER_BYTES)
            ear.sendall(hello(DUEL, 0, 1))
            mouth.sendall(frame(Note(True)))
            assert future.result(20)[0].hear(0) is True


def test_a_peer_that_takes_part_in_another_study_is_waited_for_and_people_see_why():
    """A meeting of another session stands in the peer's place; then the right one does."""
    rogues, mine = Listener(), Listener()
    told, reason = [], threading.Event()

    def waiting(names):
        told.append(names)
        if names == ["Rogue (takes part in another study)"]:
            reason.set()

    with ThreadPoolExecutor(2) as pool, held(1, [rogues, mine]) as met:
        with held(0, [rogues, mine], OTHER) as elsewhere:
            future = pool.submit(met.connect, [0], None, 60.0, waiting)
            assert reason.wait(20), told
            assert not future.done()
            assert elsewhere.register.error is None
        again = pool.submit(hold_and_connect, 0, [Listener(rogues.host, rogues.port), mine], 60.0)
        close_all([future.result(60)[0], again.result(60)])


def test_a_peer_that_is_in_is_not_judged_by_what_else_comes_in_its_name():
    """A run is under way. Another program with the same key, of another version perhaps, does not end it."""
    with (
        waiting_meeting() as (met, rogues, future),
        raw_accept(rogues, credentials("Rogue")) as ear,
        dialled(met, hello(DUEL, 0, 1)) as mouth,
    ):
        read_exactly(ear, HEADER_BYTES)
        ear.sendall(hello(DUEL, 0, 1))
        channel = future.result(20)[0]
        with dialled(met, versioned(hello(DUEL, 0, 1), 2)) as sock:
            assert not read_control(sock).busy
        assert met.register.error is None
        mouth.sendall(frame(Note(True)))
        assert channel.hear(0) is True


# -- packets that get lost -----------------------------------------------------------------------------------


@contextlib.contextmanager
def full_door():
    """A port at which packets are dropped: nobody takes the connections that wait there, and there is no room for more.
    Yields the address, and what opens the door."""
    sock = socket.socket()
    with contextlib.ExitStack() as stack:
        stack.enter_context(sock)
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        crowd = []
        with contextlib.suppress(TimeoutError):
            while len(crowd) < 64:
                crowd.append(stack.enter_context(socket.create_connection(sock.getsockname(), timeout=0.3)))
        if len(crowd) == 64:
            pytest.skip("this system drops no packets at a full port")

        def open_door():
            sock.listen(64)
            sock.settimeout(10)
            for _ in crowd:
                sock.accept()[0].close()

        yield sock, open_door


def test_packets_that_are_dropped_end_no_waiting(monkeypatch):
    """Nothing answers at the peer's address, not even a refusal, for much longer than a peer may be silent."""
    tries = []
    create = socket.create_connection

    def counted(*args, **kwargs):
        tries.append(args)
        return create(*args, **kwargs)

    with full_door() as (door, open_door):
        monkeypatch.setattr(socket, "create_connection", counted)
        mine = Listener()
        peers = [Peer(*door.getsockname(), credentials("Rogue").certificate), peer_of(mine, "Honest")]
        met = Meeting(DUEL, 1, credentials("Honest"), peers, mine, 0.3)
        with ThreadPoolExecutor(1) as pool, contextlib.closing(met):
            future = pool.submit(met.connect, [0], None, 50.0)
            wait_until(lambda: len(tries) > 6 or future.done(), "attempts to connect")
            assert not future.done(), future.exception()
            monkeypatch.undo()
            met.patience = 20.0  # all that comes now may take its time
            open_door()
            ear = accept_tls(door, credentials("Rogue"))
            with ear, dialled(met, hello(DUEL, 0, 1)) as mouth:
                read_exactly(ear, HEADER_BYTES)
                ear.sendall(hello(DUEL, 0, 1))
                mouth.sendall(frame(Note(True)))
                channel = future.result(20)[0]
                assert channel.hear(0) is True
                close_all([channel])


def accept_tls(sock, own):
    """The first of those who wait at a port that still wants TLS; others have given up since."""
    while True:
        plain, _ = sock.accept()
        plain.settimeout(20)
        with contextlib.suppress(OSError):
            return begin_tls(raw_context(True, own, ssl.TLSVersion.TLSv1_3), plain, server=True)


def test_a_port_that_takes_connections_and_does_not_answer_is_given_up():
    """That is a process that hangs, not one that has still to be started."""
    with waiting_meeting(patience=0.3) as (_, _, future):
        error = future.exception(20)
    assert isinstance(error, PeerUnreachable), error
    assert error.peer == "Rogue"


# -- declining -----------------------------------------------------------------------------------------------


def declined_by(rank, listeners, in_world=DUEL):
    peers = [peer_of(listener, name) for listener, name in zip(listeners, in_world.names, strict=True)]
    decline(in_world, rank, credentials(in_world.names[rank]), peers, 10.0)


def test_who_declines_is_not_waited_for():
    with waiting_meeting(timeout=60.0) as (met, rogues, future):
        declined_by(0, [rogues, met.door.listener])
        error = future.exception(20)
    assert isinstance(error, PeerLost), error
    assert error.peer == "Rogue"
    assert str(error) == "Rogue declined: its own data or policy does not allow this run; ask there"


def test_everybody_that_is_up_hears_of_it_and_nobody_waits_for_the_rest():
    """P3 declines. P0 and P1 wait for it; P2 is not up, and at its address packets are dropped."""
    listeners = [Listener() for _ in world(3).names]
    listeners[2].close()
    with (
        full_door() as (door, _),
        ThreadPoolExecutor(2) as pool,
        contextlib.closing(listeners[3]),
        held(0, listeners, world(3)) as zero,
        held(1, listeners, world(3)) as one,
    ):
        futures = [pool.submit(met.connect, [0], None, 60.0) for met in (zero, one)]
        peers = [peer_of(listener, name) for listener, name in zip(listeners, world(3).names, strict=True)]
        peers[2] = Peer(*door.getsockname(), peers[2].certificate)
        began = time.monotonic()
        decline(world(3), 3, credentials("P3"), peers, 10.0)
        took = time.monotonic() - began
        found = [future.exception(30) for future in futures]
    assert all(isinstance(error, PeerLost) and error.peer == "P3" for error in found), found
    assert any("declined" in str(error) for error in found)
    assert took < 15


def test_a_run_that_is_under_way_is_not_ended_by_a_refusal_to_take_part():
    with (
        waiting_meeting() as (met, rogues, future),
        raw_accept(rogues, credentials("Rogue")) as ear,
        dialled(met, hello(DUEL, 0, 1)) as mouth,
    ):
        read_exactly(ear, HEADER_BYTES)
        ear.sendall(hello(DUEL, 0, 1))
        channel = future.result(20)[0]
        declined_by(0, [rogues, met.door.listener])
        assert met.register.error is None
        mouth.sendall(frame(Note(True)))
        assert channel.hear(0) is True


@pytest.mark.slow
def test_declining_another_study_or_while_others_only_check_ends_nothing():
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], lanes=0) as checks:
        declined_by(0, [rogues, mine])
        assert checks.register.error is None
    with waiting_meeting() as (met, rogues, future):
        declined_by(0, [rogues, met.door.listener], OTHER)
        assert met.register.error is None
        met.close()
        assert isinstance(future.exception(20), PeerLost)


@pytest.mark.slow
def test_a_stranger_cannot_decline_in_a_peer_s_name():
    with waiting_meeting() as (met, rogues, future):
        peers = [peer_of(rogues, "Rogue"), peer_of(met.door.listener, "Honest")]
        decline(DUEL, 0, credentials("Stranger"), peers, 10.0)
        assert met.register.error is None
        met.close()
        assert isinstance(future.exception(20), PeerLost)


def test_declining_where_nobody_is_up():
    listeners = [Listener(), Listener()]
    for listener in listeners:
        listener.close()
    declined_by(0, listeners)
