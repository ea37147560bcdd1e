"""TLS: who is let in, who is refused and named, and how long anybody waits."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from coterie.errors import AuthenticationError, PeerLost, PeerUnreachable, WrongSession
from coterie.transport import HEADER_BYTES, Metered, World, dialler, door
from coterie.transport.certificates import create_credentials
from coterie.transport.channel import CONTROL, Header, decode_control
from coterie.transport.door import Listener
from tests.support import world
from tests.transport.network import (
    DUEL,
    EXPECTED,
    Rogue,
    answer,
    attempt,
    beating,
    close_all,
    connect,
    connecting,
    credentials,
    duel,
    hello,
    meet,
    peer_of,
    raw_accept,
    raw_dial,
    read_exactly,
    tls_channels,
    together,
)

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("plain_errors")]

WORDS = np.arange(4, dtype=np.uint64)


def errors(*calls):
    return [made.exception() for made in attempt(*calls)]


@contextlib.contextmanager
def waiting_for_a_peer(timeout=20.0):
    """The honest party waits for the other one: yields the ports of both and the future of its channel,
    which is closed in the end if it came about. The other one's port is open, and nobody answers there."""
    mine, other = Listener(), Listener()
    peers = [peer_of(other, "Rogue"), peer_of(mine, "Honest")]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(connect, DUEL, 1, credentials("Honest"), peers, mine, timeout, 10.0)
        try:
            yield mine, other, future
        finally:
            if future.exception() is None:
                future.result().close()
            other.close()


# -- who is let in -------------------------------------------------------------------------------------------


def test_connections_are_tls_1_3_and_never_resumed():
    one, two = tls_channels(DUEL)
    try:
        for sock in [box.sock for end in (one, two) for box in end._inboxes.values()]:
            assert sock.version() == "TLSv1.3"
            assert not sock.session_reused
    finally:
        close_all([one, two])


def test_a_certificate_that_is_not_the_pinned_one():
    with waiting_for_a_peer() as (_, other, future):
        with contextlib.suppress(OSError):
            raw_accept(other, create_credentials("Rogue")).close()
        error = future.exception()
    assert isinstance(error, AuthenticationError)
    assert error.peer == "Rogue"


def test_who_shows_another_certificate_than_the_pinned_one_hears_that_it_is_refused():
    with waiting_for_a_peer() as (mine, other, _):
        elsewhere = Listener()
        peers = [peer_of(elsewhere, "Rogue"), peer_of(mine, "Honest")]
        with pytest.raises(AuthenticationError, match="certificate") as caught:
            connect(DUEL, 0, create_credentials("Rogue"), peers, elsewhere)
        meet(other, mine).close()
    assert caught.value.peer == "Honest"


def test_a_party_in_another_one_s_place():
    """P3 is known and trusted, but answers at the address of P2."""
    names = world(3).names
    mine, others = Listener(), [Listener(), Listener(), Listener()]
    listeners = [others[0], mine, *others[1:]]
    peers = [peer_of(listener, name) for listener, name in zip(listeners, names, strict=True)]
    with ThreadPoolExecutor(2) as pool:
        pool.submit(lambda: answer(others[0], world(3), 0, 1).close())
        impostor = pool.submit(raw_accept, others[1], credentials("P3"))
        with pytest.raises(AuthenticationError) as caught:
            connect(world(3), 1, credentials("P1"), peers, mine, 5.0)
        with contextlib.suppress(OSError):
            impostor.result().close()
    for listener in others:
        listener.close()
    assert caught.value.peer == "P2"


def test_a_party_that_says_it_is_another():
    """The certificate is the rogue's, the hello says otherwise."""
    with waiting_for_a_peer() as (mine, other, future):
        ear = answer(other, DUEL, 0, 1)
        with raw_dial(mine.host, mine.port, credentials("Rogue")) as sock:
            sock.sendall(hello(DUEL, 1, 1))
            error = future.exception()
        ear.close()
    assert isinstance(error, WrongSession)
    assert error.peer == "Rogue"


def test_a_lane_that_was_not_agreed():
    with waiting_for_a_peer() as (mine, other, future):
        ear = answer(other, DUEL, 0, 1)
        with raw_dial(mine.host, mine.port, credentials("Rogue")) as sock:
            sock.sendall(hello(DUEL, 0, 1, lane=1))
            error = future.exception()
        ear.close()
    assert isinstance(error, WrongSession)
    assert error.peer == "Rogue"


def test_a_party_that_comes_twice_is_let_in_once():
    """The first connection is the one that counts."""
    with (
        waiting_for_a_peer() as (mine, other, future),
        raw_dial(mine.host, mine.port, credentials("Rogue")) as first,
        raw_dial(mine.host, mine.port, credentials("Rogue")) as second,
    ):
        first.sendall(hello(DUEL, 0, 1))
        read_exactly(first, HEADER_BYTES)
        second.sendall(hello(DUEL, 0, 1))
        refusal = Header.unpack(read_exactly(second, HEADER_BYTES), "Honest")
        assert decode_control(bytearray(read_exactly(second, refusal.length)), "Honest").busy
        with answer(other, DUEL, 0, 1) as ear:
            rogue = Rogue(first, ear)
            rogue.say(rogue.header().pack(), WORDS[:3].tobytes())
            assert future.result().receive(0, *EXPECTED)[0].tolist() == [0, 1, 2]


def test_another_session_is_missed_until_the_time_is_over():
    """Two that are in different sessions do not end each other's waiting; in the end both say what they saw."""
    other = World(DUEL.names, bytes(16))
    listeners = [Listener(), Listener()]
    peers = [peer_of(listener, name) for listener, name in zip(listeners, DUEL.names, strict=True)]
    at_first, at_second = errors(
        partial(connect, DUEL, 0, credentials("Rogue"), peers, listeners[0], 2.0),
        partial(connect, other, 1, credentials("Honest"), peers, listeners[1], 2.0),
    )
    for error, peer in ((at_first, "Honest"), (at_second, "Rogue")):
        assert isinstance(error, PeerUnreachable)
        assert error.peer == peer
    assert "takes part in another study" in f"{at_first} {at_second}"


# -- strangers -----------------------------------------------------------------------------------------------


def speaks_clear_text(host, port):
    with socket.create_connection((host, port), timeout=20) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while sock.recv(1024):
                pass


def hangs_up(host, port):
    socket.create_connection((host, port), timeout=20).close()


def is_refused(host, port, own, newest=ssl.TLSVersion.TLSv1_3):
    """The handshake fails, or (TLS 1.3 tells the client later) the first read does."""
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)), raw_dial(host, port, own, newest) as sock:
        sock.sendall(hello(DUEL, 0, 1))
        read_exactly(sock, HEADER_BYTES)


STRANGERS = {
    "clear text": speaks_clear_text,
    "hangs up": hangs_up,
    "no certificate": partial(is_refused, own=None),
    "a certificate of its own": partial(is_refused, own=create_credentials("Rogue")),
    "TLS 1.2": partial(is_refused, own=credentials("Rogue"), newest=ssl.TLSVersion.TLSv1_2),
}


def test_the_refused_are_refused_for_what_is_wrong_with_them():
    """The same client, with the pinned certificate and TLS 1.3, is let in."""
    with waiting_for_a_peer() as (mine, other, _):
        meet(other, mine).close()


def meet_in_spite_of(disturb):
    """Rank 1 waits, somebody disturbs, rank 0 comes: the two must be able to talk."""
    first, second = connecting(DUEL, timeout=8.0)
    listener = second.keywords["listener"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second)
        disturb(listener.host, listener.port)
        channels = [*first(), *waiting.result()]
    try:
        channels[0].send(1, WORDS)
        assert (channels[1].receive(0, np.uint64, (4,))[0] == WORDS).all()
    finally:
        close_all(channels)


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_is_refused_and_harms_nobody(stranger):
    meet_in_spite_of(stranger)


def test_a_stranger_that_says_nothing_is_not_waited_for():
    """Neither while the parties connect nor after they have closed: no thread still listens to it."""
    with contextlib.ExitStack() as strangers:
        meet_in_spite_of(lambda *address: strangers.enter_context(socket.create_connection(address)))
        still_there = [thread for thread in threading.enumerate() if thread.name.startswith("coterie")]
        for thread in still_there:
            thread.join(2)
        assert [thread.name for thread in still_there if thread.is_alive()] == []


def test_many_strangers_that_say_nothing_keep_nobody_out():
    with contextlib.ExitStack() as strangers:

        def crowd(*address):
            for _ in range(70):
                strangers.enter_context(socket.create_connection(address))

        meet_in_spite_of(crowd)


# -- who does not come ---------------------------------------------------------------------------------------


def test_a_peer_that_does_not_listen_is_unreachable():
    nobody = Listener()
    nobody.close()
    mine = Listener()
    peers = [peer_of(nobody, "Rogue"), peer_of(mine, "Honest")]
    with pytest.raises(PeerUnreachable) as caught:
        connect(DUEL, 1, credentials("Honest"), peers, mine, timeout=0.2)
    assert caught.value.peer == "Rogue"


def test_a_peer_that_does_not_dial_is_unreachable():
    with waiting_for_a_peer(timeout=0.5) as (_, other, future):
        answer(other, DUEL, 0, 1).close()
        error = future.exception()
    assert isinstance(error, PeerUnreachable)
    assert error.peer == "Rogue"


def test_a_peer_that_listens_and_does_not_answer_is_unreachable(monkeypatch):
    """Its port is open and its process is not yet there, or hangs; its certificate is not in question."""
    for side in (dialler, door):
        monkeypatch.setattr(side, "HANDSHAKE", 0.5)
    with waiting_for_a_peer(timeout=0.5) as (_, _, future):
        error = future.exception()
    assert isinstance(error, PeerUnreachable), error
    assert error.peer == "Rogue"


def test_a_peer_that_answers_late_but_in_time_is_waited_for(monkeypatch):
    """The time to connect in is `timeout`, however short a single handshake may be."""
    for side in (dialler, door):
        monkeypatch.setattr(side, "HANDSHAKE", 1.0)
    first, second = connecting(DUEL, timeout=10.0)
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(second)
        with contextlib.suppress(TimeoutError):
            early.exception(1.5)
        late = attempt(first)[0]
    outcomes = [late.exception(), early.exception()]
    close_all([made.result()[0] for made in (late, early) if made.exception() is None])
    assert outcomes == [None, None]


def test_the_missing_party_is_named_by_all_who_came():
    zero, one, two = connecting(world(2), timeout=0.5)
    two.keywords["listener"].close()
    found = errors(zero, one)
    assert all(isinstance(error, PeerUnreachable) for error in found), found
    assert [error.peer for error in found] == ["P2", "P2"]


# -- silence -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "a header", "half a frame"])
def test_a_peer_that_goes_silent_is_lost(before):
    with duel(patience=0.5) as (channel, rogue), ThreadPoolExecutor(1) as pool:
        frame = rogue.header().pack() + b"half"
        rogue.say(frame[: {"nothing": 0, "a header": HEADER_BYTES, "half a frame": len(frame)}[before]])
        error = pool.submit(channel.receive, 0, *EXPECTED).exception(15)
    assert isinstance(error, PeerLost)
    assert "silent" in str(error)
    assert error.peer == "Rogue"


def test_heartbeats_keep_a_slow_peer_alive():
    one, two = tls_channels(DUEL, patience=1.5)

    def slow():
        threading.Event().wait(2.5)
        two.send(0, WORDS)

    try:
        array, _ = together(lambda: one.receive(1, np.uint64, (4,)), slow)[0]
        assert (array == WORDS).all()
    finally:
        close_all([one, two])


def test_a_peer_that_no_longer_listens_but_talks_on_is_lost():
    """It closes the connection to it, and sends heartbeats on the other: whoever sends must not hang."""

    def send_on(channel):
        while True:
            channel.send(0, WORDS)

    with duel(patience=1.0) as (channel, rogue), beating(rogue), ThreadPoolExecutor(1) as pool:
        rogue.ear.close()
        error = pool.submit(send_on, channel).exception(20)
    assert isinstance(error, PeerLost)
    assert error.peer == "Rogue"


# -- the end -------------------------------------------------------------------------------------------------


def test_what_was_sent_before_a_close_waits_for_a_slow_receiver():
    """More than the network holds, and a receiver that is busy for a while, as the last to finish is."""
    one, two = tls_channels(DUEL)
    much = np.arange(4 << 20, dtype=np.uint64)
    one.send(1, much)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(one.close)
        try:
            with contextlib.suppress(TimeoutError):
                closing.result(3.0)
            assert (two.receive(0, np.uint64, much.shape)[0] == much).all()
        finally:
            two.close()


def test_a_close_does_not_wait_for_ever_for_a_peer_that_does_not_read():
    with duel(patience=1.0) as (channel, _):
        channel.send(0, np.zeros(4 << 20, np.uint64))
        attempt(channel.close)[0].result()


def test_the_meter_counts_what_crosses_the_wire():
    """Header and body of every array, and nothing for what the transport itself says."""
    with duel() as (channel, rogue):
        counting = Metered(channel)
        sizes = (0, 3, 100_000)
        for size in sizes:
            counting.send(0, np.zeros(size, np.uint64))
        counting.close()
        crossed = 0
        with contextlib.suppress(EOFError):
            while True:
                header = Header.unpack(read_exactly(rogue.ear, HEADER_BYTES), "Honest")
                body = read_exactly(rogue.ear, header.length)
                if header.kind != CONTROL:
                    crossed += HEADER_BYTES + len(body)
    assert counting.traffic().bytes_sent == {"Honest": crossed}
    assert crossed == 3 * HEADER_BYTES + 8 * sum(sizes)
