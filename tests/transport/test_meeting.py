"""Meetings: who is refused and hears why, who is waited for, who is missed, and what strangers cannot do."""

from __future__ import annotations

import contextlib
import datetime
import select
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.errors import (
    AuthenticationError,
    FrameError,
    PeerLost,
    PeerUnreachable,
    WrongLength,
    WrongSequence,
    WrongSession,
    WrongType,
)
from coterie.transport import HEADER_BYTES, World, door
from coterie.transport.certificates import Credentials, certificate_name
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    Abort,
    Goodbye,
    Header,
    Heartbeat,
    Letter,
    Note,
    Refusal,
    Stamp,
    decode_control,
)
from coterie.transport.door import Listener
from coterie.transport.hello import PROBE, Peer, begin_tls, context
from coterie.transport.meeting import Meeting
from coterie.transport.tls import Inbox
from tests.support import world
from tests.transport.fuzz import BOMBS, fuzzed
from tests.transport.meetings import (
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
    EXPECTED,
    attempt,
    close_all,
    connect,
    connecting,
    credentials,
    duel,
    hello,
    open_handles,
    peer_of,
    raw_accept,
    raw_dial,
    read_exactly,
    wait_until,
)

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("plain_errors")]

WORDS = np.arange(3, dtype=np.uint64)


# -- in good order -------------------------------------------------------------------------------------------


def everybody(in_world, **more):
    """A meeting for every rank."""
    listeners = [Listener() for _ in in_world.names]
    stack = contextlib.ExitStack()
    return stack, [stack.enter_context(held(rank, listeners, in_world, **more)) for rank in range(len(in_world.names))]


def test_more_lanes_in_another_session():
    """First one lane to agree on; then others, whose frames bear the session that was agreed on."""
    agreed = World(world(2).names, bytes(range(16)))
    stack, meetings = everybody(world(2))
    channels = []
    with stack:
        talk = [made.result()[0] for made in attempt(*(partial(met.connect, [0]) for met in meetings))]
        talk[1].post(2, b"on we go")
        assert talk[2].collect(1) == b"on we go"
        for made in attempt(*(partial(met.connect, range(1, 3), agreed) for met in meetings)):
            channels.append(made.result())
    try:
        assert [channel.lane for channel in channels[0]] == [1, 2]
        channels[1][1].send(2, WORDS)
        assert (channels[2][1].receive(1, np.uint64, (3,))[0] == WORDS).all()
        talk[1].post(2, b"still here")
        assert talk[2].collect(1) == b"still here"
        assert channels[0][0].world.session == agreed.session
    finally:
        close_all([channel for lanes in channels for channel in lanes] + talk)


def test_who_is_waited_for_is_told_whenever_it_changes():
    listeners = [Listener() for _ in world(2).names]
    told, first = [], threading.Event()

    def waiting(names):
        told.append(names)
        first.set()

    with (
        ThreadPoolExecutor(3) as pool,
        held(0, listeners, world(2)) as zero,
        held(1, listeners, world(2)) as one,
        held(2, listeners, world(2)) as two,
    ):
        futures = [pool.submit(zero.connect, [0], None, 20.0, waiting)]
        assert first.wait(10)
        futures.append(pool.submit(one.connect, [0]))
        deadline = time.monotonic() + 10
        while ["P2"] not in told and time.monotonic() < deadline:
            time.sleep(0.01)
        futures.append(pool.submit(two.connect, [0]))
        close_all([future.result()[0] for future in futures])
    assert told[0] == ["P1", "P2"]
    assert told[-1] == ["P2"]


# -- refused, and told why -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (versioned(hello(DUEL, 0, 1), 2), "speaks wire version 2, this is version 1"),
        (hello(DUEL, 0, 1, lane=5), "opens lane 5"),
        (hello(DUEL, 0, 1, lane=0xFFFD), "opens lane 65533"),
        (hello(DUEL, 1, 1), "another connection"),
        (hello(DUEL, 0, 2), "another connection"),
        (Header(CONTROL, 0, 0, 1, DUEL.session, 1, 0, Stamp()).pack(), "frame 1 where 0 was due"),
        (Header(2, 0, 0, 1, DUEL.session, 0, 0, Stamp()).pack(), "type 2 where type 0 was due"),
        (Header(CONTROL, 0, 0, 1, DUEL.session, 0, 9, Stamp()).pack(), "something else than a hello"),
        (Header(CONTROL, 0, 0, 1, DUEL.session, 0, 1 << 62, Stamp()).pack(), "a control message of"),
        (b"GET / HTTP/1.1\r\n".ljust(HEADER_BYTES), "not a Coterie frame"),
        (bytes(HEADER_BYTES), "not a Coterie frame"),
        (b"\xff" * HEADER_BYTES, "not a Coterie frame"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_both_sides_hear_what_is_wrong_with_a_hello(first, reason):
    with waiting_meeting(lanes=5) as (met, _, future), dialled(met, first) as sock:
        refusal = read_control(sock)
        error = future.exception(20)
    assert isinstance(refusal, Refusal)
    assert not refusal.busy
    assert reason in refusal.reason
    assert isinstance(error, FrameError)
    assert error.peer == "Rogue"
    assert reason in str(error)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (hello(World(DUEL.names, bytes(16)), 0, 1), WrongSession, "another session"),
        (versioned(hello(DUEL, 0, 1), 2), WrongSession, "speaks wire version 2"),
        (hello(DUEL, 0, 1, lane=3), WrongSession, "another connection"),
        (hello(DUEL, 1, 0), WrongSession, "another connection"),
        (Header(2, 0, 0, 1, DUEL.session, 0, 1 << 62, Stamp()).pack(), WrongType, "type 2"),
        (Header(CONTROL, 0, 0, 1, DUEL.session, 0, 1 << 62, Stamp()).pack(), WrongLength, "control message of"),
        (Header(CONTROL, 0, 0, 1, DUEL.session, 7, 0, Stamp()).pack(), WrongSequence, "frame 7"),
        (b"\xff" * HEADER_BYTES, WrongSession, "not a Coterie frame"),
        (frame(Refusal(False, "no such study")), WrongSession, "refused the connection: no such study"),
        (frame(Refusal(False, "\x1b[2J\x07all\nis well")), WrongSession, "connection: ?[2J?all?is well"),
        (frame(Letter(b"dear friend")), WrongType, "a letter where a hello was due"),
        *((frame(bomb), WrongType, "cannot be read") for bomb in BOMBS.values()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_peer_may_not_answer_when_it_is_dialled(answer, error, text):
    with waiting_meeting() as (_, rogues, future), raw_accept(rogues, credentials("Rogue")) as ear:
        read_exactly(ear, HEADER_BYTES)
        ear.sendall(answer)
        found = future.exception(20)
    assert isinstance(found, error), found
    assert found.peer == "Rogue"
    assert text in str(found)
    assert str(found).isprintable()


def test_hundreds_of_hellos_with_anything_wrong():
    """Each is answered with a refusal, or hung up on; what is raised here is known, and names who it was."""
    rogues, mine = Listener(), Listener()
    answers = Counter()
    with contextlib.closing(rogues), held(1, [rogues, mine]) as met:
        for raw in fuzzed(Header(CONTROL, 0, 0, 1, DUEL.session, 0, 0, Stamp()), 400, seed=3):
            with dialled(met, raw) as sock:
                if len(raw) < HEADER_BYTES:
                    continue
                header = Header.unpack(read_exactly(sock, HEADER_BYTES), "Honest")
                message = decode_control(read_exactly(sock, header.length), "Honest") if header.length else None
                answers[type(message).__name__, getattr(message, "busy", None)] += 1
            error = met.register.error
            assert error is None or (isinstance(error, FrameError) and error.peer == "Rogue")
            met.register.error = None
        assert ask(mine) == b""
    assert answers["Refusal", False] > 200, answers


def test_who_comes_twice_waits_until_the_first_is_gone():
    """A party that was killed and started again finds the others busy with what it left; when they have noticed and
    are back, it is let in."""
    rogues, mine = Listener(), Listener()
    with ThreadPoolExecutor(2) as pool:
        with held(1, [rogues, mine]) as busy:
            first = dialled(busy, hello(DUEL, 0, 1))
            read_exactly(first, HEADER_BYTES)
            again = pool.submit(hold_and_connect, 0, [rogues, mine])
            with pytest.raises(TimeoutError):
                again.result(0.7)
            assert busy.register.error is None
        first.close()
        back = pool.submit(hold_and_connect, 1, [rogues, Listener(mine.host, mine.port)])
        channels = [again.result(20), back.result(20)]
    close_all(channels)


def test_who_is_gone_before_it_is_answered_can_come_again(monkeypatch):
    """A peer says hello and is killed. The one that is started in its place is let in, not told that it is in."""
    honest, here, gone = door.hello, threading.Event(), []

    def reset_first(*args: object) -> bytes:
        here.wait(20)
        while gone:
            sock = gone.pop()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        return honest(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(door, "hello", reset_first)
    with waiting_meeting() as (met, _, future):
        gone.append(dialled(met, hello(DUEL, 0, 1)))
        here.set()
        wait_until(lambda: not gone and not met.door.guests, "the end of the first")
        with dialled(met, hello(DUEL, 0, 1)) as again:
            header = Header.unpack(read_exactly(again, HEADER_BYTES), "Honest")
            assert (header.kind, header.length) == (CONTROL, 0), "a hello, and no refusal"
        with pytest.raises(PeerLost, match="Rogue"):
            future.result(20)


def test_who_finds_a_peer_busy_for_too_long_says_so():
    rogues, mine = Listener(), Listener()
    with held(1, [rogues, mine]) as busy, dialled(busy, hello(DUEL, 0, 1)) as first:
        read_exactly(first, HEADER_BYTES)
        with pytest.raises(PeerUnreachable, match="in the middle of a run") as caught:
            hold_and_connect(0, [rogues, mine], 4.0)
    assert caught.value.peer == "Honest"


def test_who_is_hung_up_on_tries_again():
    """A host that is crowded by strangers, or that is about to stop, has not refused anybody's certificate."""
    with waiting_meeting() as (met, rogues, future):
        for _ in range(3):
            with raw_accept(rogues, credentials("Rogue")) as ear:
                read_exactly(ear, HEADER_BYTES)
        plain, _ = rogues.socket.accept()
        plain.close()
        with raw_accept(rogues, credentials("Rogue")) as ear, dialled(met, hello(DUEL, 0, 1)) as mouth:
            read_exactly(ear, HEADER_BYTES)
            ear.sendall(hello(DUEL, 0, 1))
            mouth.sendall(frame(Note(True)))
            assert future.result(20)[0].hear(0) is True


def test_an_address_that_cannot_be_one_is_unreachable():
    mine = Listener()
    peers = [Peer("no..such..host", 7101, credentials("Rogue").certificate), peer_of(mine, "Honest")]
    with pytest.raises(PeerUnreachable) as caught:
        connect(DUEL, 1, credentials("Honest"), peers, mine, timeout=0.3)
    assert caught.value.peer == "Rogue"


# -- gone while others are waited for ------------------------------------------------------------------------


@contextlib.contextmanager
def one_of_two_is_there(patience=1.0, timeout=20.0):
    """P1 waits for P0, who is there (yields its mouth), and for P2, who is not."""
    names = world(2).names
    listeners = [Listener() for _ in names]
    listeners[2].close()
    with ThreadPoolExecutor(2) as pool, contextlib.closing(listeners[0]), held(1, listeners, world(2), patience) as met:
        listening = pool.submit(raw_accept, listeners[0], credentials("P0"))
        future = pool.submit(met.connect, [0], None, timeout)
        with (
            listening.result(20) as ear,
            raw_dial(met.door.listener.host, met.door.listener.port, credentials("P0")) as mouth,
        ):
            read_exactly(ear, HEADER_BYTES)
            ear.sendall(hello(world(2), 0, 1))
            mouth.sendall(hello(world(2), 0, 1))
            read_exactly(mouth, HEADER_BYTES)
            yield mouth, ear, future


def control(message, sequence=0, **wrong):
    return frame(message, sequence, in_world=world(2), **wrong)


@pytest.mark.parametrize(
    ("say", "peer", "text"),
    [
        (lambda mouth: mouth.unwrap(), "P0", "without a word"),
        (lambda mouth: mouth.shutdown(socket.SHUT_RDWR), "P0", "without a word"),
        (lambda mouth: mouth.sendall(control(Abort(2, "PeerLost"))), "P2", "P2 was lost: P0 reports a lost connection"),
        (lambda mouth: mouth.sendall(control(Abort(0, "DataError"))), "P0", "P0 stopped: a problem with its data"),
        (lambda mouth: mouth.sendall(control(Abort(77, "nonsense"))), "P0", "P0 stopped: nonsense"),
        (lambda mouth: None, "P0", "has been silent for 1 seconds"),
        (lambda mouth: mouth.sendall(control(Heartbeat())[:-1]), "P0", "has been silent for 1 seconds"),
        (lambda mouth: mouth.sendall(control(Heartbeat())[:10]), "P0", "has been silent for 1 seconds"),
    ],
    ids=[
        "closes",
        "hangs up",
        "names another",
        "names itself",
        "names nobody",
        "silent",
        "half said",
        "header half said",
    ],
)
def test_who_was_there_and_goes_away_is_named(say, peer, text):
    with one_of_two_is_there() as (mouth, _, future):
        with contextlib.suppress(OSError):
            say(mouth)
        error = future.exception(20)
    assert isinstance(error, PeerLost), error
    assert error.peer == peer
    assert text in str(error)


def test_the_others_hear_of_it():
    """P1 gives up because of P2, and P0, who is there, is told."""
    with one_of_two_is_there(patience=5.0, timeout=0.5) as (_, ear, future):
        assert isinstance(future.exception(20), PeerUnreachable)
        heard = []
        with contextlib.suppress(EOFError):
            while True:
                heard.append(read_control(ear))
    assert isinstance(heard[-1], Abort)
    assert heard[-1] == Abort(2, "PeerUnreachable")


def test_what_others_hear_says_nothing_of_this_machine(monkeypatch):
    """Whatever an error of the operating system says, of a path or an address, stays at home."""
    with one_of_two_is_there(patience=5.0, timeout=20.0) as (_, ear, future):
        monkeypatch.setattr(Meeting, "_look_at", tell_too_much)
        assert isinstance(future.exception(20), OSError)
        heard = []
        with contextlib.suppress(EOFError):
            while True:
                heard.append(read_control(ear))
    assert heard[-1] == Abort(1, "PermissionError")


def tell_too_much(met, inbox):
    raise PermissionError(13, "Permission denied", "/home/alice/secret.csv")


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"\xff" * HEADER_BYTES, WrongSession),
        (control(Heartbeat(), 1), WrongSequence),
        (control(Heartbeat(), session=bytes(15) + b"x"), WrongSession),
        (control(Heartbeat(), lane=1), WrongSession),
        (control(Heartbeat(), length=1 << 62), WrongLength),
        (control(Heartbeat(), length=CONTROL_LIMIT + 1), WrongLength),
        (control(Heartbeat(), 1, kind=2), WrongSequence),
        (control(Heartbeat(), kind=2, session=bytes(15) + b"x"), WrongSession),
        (control(Heartbeat(), kind=2, lane=1), WrongSession),
        *((control(bomb), WrongType) for bomb in BOMBS.values()),
    ],
    ids=[
        "garbage",
        "sequence",
        "session",
        "lane",
        "length",
        "a little too long",
        "an array's sequence",
        "an array's session",
        "an array's lane",
        *BOMBS,
    ],
)
def test_what_is_no_frame_ends_the_waiting(raw, error):
    with one_of_two_is_there() as (mouth, _, future):
        mouth.sendall(raw)
        found = future.exception(20)
    assert isinstance(found, error), found
    assert found.peer == "P0"


def test_heartbeats_keep_a_peer_that_waits_alive():
    with one_of_two_is_there(patience=0.6, timeout=2.5) as (mouth, _, future):
        for sequence in range(100):
            if future.done():
                break
            with contextlib.suppress(OSError):
                mouth.sendall(control(Heartbeat(), sequence))
            time.sleep(0.2)
        error = future.exception(20)
    assert isinstance(error, PeerUnreachable), error
    assert error.peer == "P2"


def test_a_peer_that_does_nothing_but_beat_does_not_stop_the_clock():
    """Its heart beats faster than anybody can count: the time to wait in is over all the same."""
    with one_of_two_is_there(timeout=1.5) as (mouth, _, future):
        sequence, began = 0, time.monotonic()
        with contextlib.suppress(OSError):
            while not future.done() and time.monotonic() < began + 20:
                mouth.sendall(b"".join(control(Heartbeat(), sequence + i) for i in range(200)))
                sequence += 200
        error = future.exception(20)
    assert isinstance(error, PeerUnreachable), error
    assert error.peer == "P2"


# -- a glance ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def inbox(patience=1.0):
    """The honest party's end of one connection, and the socket at the rogue's."""
    there, here = socket.socketpair()
    client, server = (context(False, credentials("Rogue"), [credentials("Honest").certificate]),
                      context(True, credentials("Honest"), [credentials("Rogue").certificate]))  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        wrapped = pool.submit(client.wrap_socket, there)
        made = Inbox(server.wrap_socket(here, server_side=True), DUEL, 0, 1, 0, patience)
        with wrapped.result() as mouth:
            try:
                yield made, mouth
            finally:
                made.close()


def glances(box):
    """Look until nothing more can be seen at once."""
    for _ in range(20):
        assert box.glance() is None
        time.sleep(0.01)


def test_a_header_that_comes_byte_by_byte():
    whole = Header(2, 0, 0, 1, DUEL.session, 0, 24, Stamp(3, 4)).pack() + WORDS.tobytes()
    with inbox() as (box, mouth):
        for byte in whole[:HEADER_BYTES]:
            mouth.sendall(bytes([byte]))
            assert box.glance() is None
        mouth.sendall(whole[HEADER_BYTES:])
        glances(box)
        stamp, message = box.next(2, 24)
        assert (stamp, message) == (Stamp(3, 4), None)
        body = bytearray(24)
        box.fill(memoryview(body))
        assert bytes(body) == WORDS.tobytes()


@pytest.mark.parametrize("cut", [1, 4, 30, HEADER_BYTES - 1, HEADER_BYTES])
def test_a_header_of_which_a_glance_has_seen_a_part(cut):
    whole = frame(Heartbeat()) + frame(Note(True), 1)
    with inbox() as (box, mouth):
        mouth.sendall(whole[: len(frame(Heartbeat())) + cut])
        if cut < HEADER_BYTES:
            glances(box)
        mouth.sendall(whole[len(frame(Heartbeat())) + cut :])
        while True:
            _, message = box.next(CONTROL, 0)
            if not isinstance(message, Heartbeat):
                break
        assert message == Note(True)


def test_a_glance_takes_heartbeats_and_leaves_the_rest():
    with inbox() as (box, mouth):
        mouth.sendall(b"".join(frame(Heartbeat(), i) for i in range(5)) + frame(Letter(b"hello"), 5))
        glances(box)
        assert box.next(CONTROL, 0)[1] == Letter(b"hello")
        mouth.sendall(frame(Goodbye(), 6))
        glances(box)
        assert box.next(CONTROL, 0)[1] == Goodbye()


def test_a_glance_checks_what_it_leaves_only_when_it_is_due():
    """An array may come early, and what was expected of it is not known yet."""
    with inbox() as (box, mouth):
        mouth.sendall(Header(2, 0, 0, 1, DUEL.session, 0, 1 << 62, Stamp()).pack())
        glances(box)
        with pytest.raises(WrongLength):
            box.next(2, 24)


def test_silence_is_measured_from_the_last_sign_of_life():
    with inbox(patience=0.5) as (box, mouth):
        for sequence in range(4):
            mouth.sendall(frame(Heartbeat(), sequence))
            time.sleep(0.2)
            assert box.glance() is None
        time.sleep(0.6)
        with pytest.raises(PeerLost, match="silent") as caught:
            box.glance()
    assert caught.value.peer == "Rogue"


def test_whatever_is_read_is_a_sign_of_life():
    """A participant that was long busy, and has read all that was there, does not take the others for dead."""
    with inbox(patience=30) as (box, mouth):
        box.last -= 60  # nothing was read for a minute
        mouth.sendall(frame(Heartbeat(), 0) + frame(Letter(b"hello"), 1))
        assert box.next(CONTROL, 0)[1] == Letter(b"hello")
        assert box.glance() is None


def test_the_last_words_of_a_peer_that_never_ends():
    """It announces more than there is in the world and goes on sending it; nobody listens for long."""
    with inbox() as (box, mouth), ThreadPoolExecutor(1) as pool:

        def pour():
            with contextlib.suppress(OSError):
                mouth.sendall(Header(2, 0, 0, 1, DUEL.session, 0, 1 << 63, Stamp()).pack())
                while True:
                    mouth.sendall(bytes(1 << 18))

        pouring = pool.submit(pour)
        began = time.monotonic()
        assert box.last_words() is None
        assert time.monotonic() - began < 10
        box.close()
        pouring.result(20)


# -- asking who is there -------------------------------------------------------------------------------------


def test_a_peer_that_is_asked_shows_its_card():
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], card=lambda: b"the card") as met:
        for _ in range(3):
            assert ask(mine) == b"the card"
        assert met.register.taken == set()
        assert met.register.error is None


def test_a_peer_that_waits_or_is_busy_can_be_asked():
    with waiting_meeting(card=lambda: b"the card") as (met, rogues, future):
        assert ask(met.door.listener) == b"the card"
        with raw_accept(rogues, credentials("Rogue")) as ear, dialled(met, hello(DUEL, 0, 1)) as mouth:
            read_exactly(ear, HEADER_BYTES)
            ear.sendall(hello(DUEL, 0, 1))
            channel = future.result(20)[0]
            assert ask(met.door.listener) == b"the card"
            mouth.sendall(frame(Note(True)))
            assert channel.hear(0) is True


def test_who_only_checks_takes_part_in_nothing():
    """And does not keep those waiting who want more than an answer: they may come again, as to a peer that is busy."""
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], lanes=0, card=lambda: b"the card") as met:
        for lane in (0, 5):
            with dialled(met, hello(DUEL, 0, 1, lane)) as sock:
                assert read_control(sock) == Refusal(True, "it only checks who is there")
        assert ask(mine) == b"the card"
        assert (met.register.error, met.register.taken) == (None, set())


def test_nobody_there_to_ask():
    nobody = Listener()
    nobody.close()
    with pytest.raises(PeerUnreachable) as caught:
        ask(nobody)
    assert caught.value.peer == "Honest"


def test_a_stranger_is_not_told_who_is_there():
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], card=lambda: b"the card") as met:
        with pytest.raises(AuthenticationError):
            ask(mine, own="Stranger")
        assert met.register.error is None
        assert ask(mine) == b"the card"


def test_a_stranger_that_is_asked_in_a_peer_s_place():
    impostor = Listener()
    with ThreadPoolExecutor(1) as pool, contextlib.closing(impostor):
        answering = pool.submit(raw_accept, impostor, credentials("Stranger"))
        with pytest.raises(AuthenticationError) as caught:
            ask(impostor)
        with contextlib.suppress(OSError):
            answering.result(20).close()
    assert caught.value.peer == "Honest"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", PeerUnreachable),
        (hello(DUEL, 1, 0, PROBE), PeerUnreachable),
        (hello(DUEL, 1, 0, PROBE) + frame(Letter(b"x" * 100))[:-1], PeerUnreachable),
        (frame(Refusal(True, "busy"), sender=1, receiver=0), PeerUnreachable),
        (frame(Refusal(False, "never"), sender=1, receiver=0), WrongSession),
        (hello(DUEL, 1, 0, PROBE) + frame(Note(True)), WrongType),
        (hello(DUEL, 1, 0, PROBE) + frame(b"\xc1"), WrongType),
        (hello(DUEL, 1, 0, PROBE) + frame(Letter(b""), length=1 << 62), WrongType),
        (hello(DUEL, 1, 0, PROBE) + frame(Letter(b""), kind=2, length=1 << 62), WrongType),
        (hello(DUEL, 1, 0, PROBE) + b"\xff" * HEADER_BYTES, WrongSession),
        (hello(DUEL, 1, 0, 0), WrongSession),
        *((hello(DUEL, 1, 0, PROBE) + frame(bomb), WrongType) for bomb in BOMBS.values()),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_a_peer_may_answer_when_it_is_asked(answer, error):
    rogue = Listener()

    def play():
        with raw_accept(rogue, credentials("Honest")) as sock:
            read_exactly(sock, HEADER_BYTES)
            sock.sendall(answer)

    with ThreadPoolExecutor(1) as pool, contextlib.closing(rogue):
        playing = pool.submit(play)
        with pytest.raises(error) as caught:
            ask(rogue)
        playing.result(20)
    assert caught.value.peer == "Honest"


# -- certificates that are nearly the pinned ones ------------------------------------------------------------


def issued(by: Credentials, name: str) -> Credentials:
    """A certificate that a participant has signed for somebody else, with the chain."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    issuer = x509.load_pem_x509_certificate(by.certificate.encode())
    made = (
        x509.CertificateBuilder()
        .subject_name(certificate_name(name))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .sign(serialization.load_pem_private_key(by.key.encode(), None), hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return Credentials(made.public_bytes(serialization.Encoding.PEM).decode() + by.certificate, text)


@pytest.mark.parametrize("name", ["Rogue", "Honest", "anybody"])
def test_a_certificate_that_a_participant_has_issued_is_not_the_participant_s(name):
    """Trusted certificates sign themselves, and could sign others: OpenSSL may be content; the pin is not."""
    with waiting_meeting() as (met, rogues, future):
        with raw_dial(met.door.listener.host, met.door.listener.port, issued(credentials("Rogue"), name)) as sock:
            sock.sendall(hello(DUEL, 0, 1))
            with contextlib.suppress(ssl.SSLError):
                assert sock.recv(1) == b""
        assert not future.done()
        assert met.register.error is None
        refused = contextlib.suppress(ssl.SSLError, ConnectionError)  # with TLS tickets of the rogue's unread, a reset
        with refused, raw_accept(rogues, issued(credentials("Rogue"), name)) as ear:
            assert ear.recv(1) == b""  # not even a hello
        error = future.exception(20)
    assert isinstance(error, AuthenticationError)
    assert error.peer == "Rogue"
    assert name != "anybody" or "not the pinned one" in str(error)


def test_who_is_refused_by_tls_hears_it_every_time():
    """Whatever else it was sending meanwhile: the refusal arrives, not a broken connection."""
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine]):
        for _ in range(20):
            with pytest.raises(AuthenticationError, match="certificate: it does not know the certificate"):
                ask(mine, own="Stranger")


# -- strangers at the door -----------------------------------------------------------------------------------


def test_two_meet_while_strangers_storm_the_door(monkeypatch):
    """Connections come as fast as they can be made, and none says anything: each is in the way of the others."""
    first, second = connecting(DUEL, timeout=20.0)
    monkeypatch.setattr(door, "CROWD", 8)
    doors = [call.keywords["listener"] for call in (first, second)]
    over = threading.Event()

    def storm(door):
        crowd = []
        with contextlib.ExitStack() as stack:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    crowd.append(stack.enter_context(socket.create_connection((door.host, door.port), timeout=2)))
                for old in crowd[:-50]:
                    old.close()
                del crowd[:-50]

    with ThreadPoolExecutor(4) as pool:
        storming = [pool.submit(storm, door) for door in doors]
        time.sleep(0.3)
        try:
            made: list[Future] = [pool.submit(first), pool.submit(second)]
            channels = [channel for future in made for channel in future.result(30)]
        finally:
            over.set()
        for stranger in storming:
            stranger.result(20)
    try:
        channels[0].send(1, WORDS)
        assert (channels[1].receive(0, *EXPECTED)[0] == WORDS).all()
    finally:
        close_all(channels)


def test_no_more_than_a_crowd_is_attended_to(monkeypatch):
    rogues, mine = Listener(), Listener()
    monkeypatch.setattr(door, "CROWD", 4)
    before = set(threading.enumerate())
    with contextlib.closing(rogues), held(1, [rogues, mine]) as met, contextlib.ExitStack() as strangers:
        for _ in range(40):
            strangers.enter_context(socket.create_connection((mine.host, mine.port), timeout=5))
        with raw_dial(mine.host, mine.port, credentials("Rogue")) as sock:  # the last one gets its turn
            sock.sendall(hello(DUEL, 0, 1))
            read_exactly(sock, HEADER_BYTES)
        greeting = [t for t in set(threading.enumerate()) - before if t.name == "coterie-greet"]
        assert len(greeting) <= 4
        assert len(met.door.guests) <= 4


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.filterwarnings("error")
def test_tls_with_a_peer_that_is_gone_leaves_no_socket(reset, server):
    """Whether it closed or broke off: that is an error of the connection, and no word about certificates."""
    own = context(server, credentials("Honest"), [credentials("Rogue").certificate])
    handles = open_handles()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        plain = socket.create_connection(listening.getsockname(), timeout=5)
        there, _ = listening.accept()
        if reset:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        there.close()
        select.select([plain], [], [], 5)  # until this side has heard of it
        with pytest.raises(OSError, match=r"(?i)reset|EOF|not connected|pipe") as caught:
            begin_tls(own, plain, server)
    assert isinstance(caught.value, ConnectionError | ssl.SSLEOFError) or not isinstance(caught.value, ssl.SSLError)
    assert open_handles() <= handles


def test_guests_that_are_gone_leave_nothing(monkeypatch):
    """Whether they close, or break off so early that there is no connection left to begin TLS on."""
    rogues, mine = Listener(), Listener()
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with contextlib.closing(rogues), held(1, [rogues, mine]) as met:
        handles = open_handles()
        for _ in range(50):
            with socket.create_connection((mine.host, mine.port), timeout=5) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for raw in (
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff" + bytes(70_000),
            b"\x16\x03\x01\x00\x05\x01",
        ):
            for _ in range(10):
                with socket.create_connection((mine.host, mine.port), timeout=5) as sock, contextlib.suppress(OSError):
                    sock.sendall(raw)
        assert ask(mine) == b""  # who comes last: all others have been attended to
        deadline = time.monotonic() + 10
        while (met.door.guests or open_handles() - handles) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not met.door.guests
        assert open_handles() <= handles
        assert met.door.thread.is_alive()
        assert met.register.error is None
    assert not raised


def test_a_host_without_threads_or_sockets_to_spare_goes_on_when_there_are_some(monkeypatch):
    rogues, mine = Listener(), Listener()
    with contextlib.closing(rogues), held(1, [rogues, mine], card=lambda: b"the card") as met:
        short = [RuntimeError("can't start new thread"), OSError(24, "Too many open files")]
        attend = met.door._attend

        def scarce(plain):
            if short:
                problem = short.pop()
                plain.close()  # whoever asks goes on from here
                raise problem
            attend(plain)

        monkeypatch.setattr(met.door, "_attend", scarce)
        for _ in range(2):
            with contextlib.suppress(OSError, PeerUnreachable):
                ask(mine)
        assert not short
        assert ask(mine) == b"the card"


def test_closing_a_meeting_sends_guests_away_and_can_be_done_twice():
    rogues, mine = Listener(), Listener()
    with (
        contextlib.closing(rogues),
        held(1, [rogues, mine]) as met,
        socket.create_connection((mine.host, mine.port), timeout=5) as guest,
    ):
        deadline = time.monotonic() + 10
        while not met.door.guests and time.monotonic() < deadline:
            time.sleep(0.01)
        met.close()
        met.close()
        with contextlib.suppress(ConnectionError):
            assert guest.recv(1) == b""


def test_a_close_is_not_drawn_out_by_a_slow_reader():
    """Somebody takes a little of what is pending every now and then: after an abort, nobody waits for that."""
    with duel(patience=0.5) as (channel, rogue):
        channel.send(0, np.zeros(16 << 20, np.uint64))
        over = threading.Event()

        def sip():
            with contextlib.suppress(OSError):
                while not over.wait(0.3):
                    rogue.ear.recv(1 << 17)

        with ThreadPoolExecutor(1) as pool:
            sipping = pool.submit(sip)
            began = time.monotonic()
            channel.abort(1, "enough")
            took = time.monotonic() - began
            over.set()
            sipping.result(20)
    assert took < 12
