"""Ten thousand frames that nobody honest sends: each has its error, which names the sender, and none costs memory."""

from __future__ import annotations

import ssl
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from coterie.errors import FrameError, PeerLost, WrongLength, WrongSequence, WrongSession, WrongType
from coterie.transport import HEADER_BYTES, Stamp
from coterie.transport.channel import CONTROL, Abort, Header, Heartbeat, encode_control
from coterie.transport.tls import Inbox, TlsChannel
from tests.transport.fuzz import fuzzed
from tests.transport.network import DUEL

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("plain_errors")]

COUNT = 10_000
RIGHT = Header(2, 0, 0, 1, DUEL.session, 0, 24, Stamp())


class Fed:
    """A socket as an inbox sees it: gives out what it was fed, then ends, or has nothing more for the moment."""

    def __init__(self, raw: bytes, ends: bool = True) -> None:
        self.raw, self.at, self.ends, self.blocking = raw, 0, ends, True

    def settimeout(self, seconds: float) -> None:
        self.blocking = True

    def setblocking(self, blocking: bool) -> None:
        self.blocking = blocking

    def read(self, count: int, buffer: memoryview) -> int:
        part = self.recv(count)
        buffer[: len(part)] = part
        return len(part)

    def recv(self, count: int) -> bytes:
        part = self.raw[self.at : self.at + count]
        self.at += len(part)
        if not part and not self.ends:
            raise TimeoutError if self.blocking else ssl.SSLWantReadError
        return part

    def pending(self) -> int:
        return 1  # bytes, or the end

    def shutdown(self, how: int) -> None:
        pass

    def close(self) -> None:
        pass


def inbox(raw: bytes, ends: bool = True) -> Inbox:
    return Inbox(Fed(raw, ends), DUEL, 0, 1, 0, 10.0)


def receive(raw: bytes) -> None:
    TlsChannel(DUEL, 1, {}, {0: inbox(raw)}, 10.0).receive(0, np.uint64, (3,))


def hear(raw: bytes) -> None:
    TlsChannel(DUEL, 1, {}, {0: inbox(raw)}, 10.0).hear(0)


def collect(raw: bytes) -> None:
    TlsChannel(DUEL, 1, {}, {0: inbox(raw, ends=False)}, 10.0).collect(0)


def glance(raw: bytes) -> None:
    """Look while others are waited for, then expect an array."""
    box = inbox(raw, ends=False)
    message = box.glance()
    if message is None:
        TlsChannel(DUEL, 1, {}, {0: box}, 10.0).receive(0, np.uint64, (3,))
    else:
        raise PeerLost("it stopped", "Rogue")


def last_words(raw: bytes) -> None:
    assert isinstance(inbox(raw).last_words(), Abort | None)
    raise PeerLost("it stopped", "Rogue")


@pytest.mark.parametrize("way", [receive, hear, collect, glance, last_words], ids=lambda way: way.__name__)
def test_ten_thousand_frames(way):
    """There are few ways to be right by chance: an array of the length that is due, a note, a letter."""
    met: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for raw in fuzzed(RIGHT, COUNT, seed=sum(map(ord, way.__name__))):
            try:
                way(raw)
                met["fine"] += 1
            except (FrameError, PeerLost) as error:
                assert error.peer in DUEL.names
                assert str(error).isprintable()
                met[type(error).__name__] += 1
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert met["fine"] < COUNT / 10, met
    if way is not last_words:
        assert min(met[kind.__name__] for kind in (WrongSession, WrongSequence, WrongType, WrongLength)) > 100, met


@pytest.mark.parametrize("way", [receive, hear, collect, glance], ids=lambda way: way.__name__)
def test_every_truncation_of_a_right_frame(way):
    beat = encode_control(Heartbeat())
    whole = RIGHT._replace(kind=CONTROL, length=len(beat)).pack() + beat + RIGHT._replace(sequence=1).pack() + bytes(24)
    for kept in range(len(whole) if way is not hear else HEADER_BYTES + len(beat)):
        with pytest.raises((PeerLost, WrongType)) as caught:
            way(whole[:kept])
        assert caught.value.peer == "Rogue"
    if way in (receive, glance):
        way(whole)


def test_the_same_seed_gives_the_same_frames():
    assert list(fuzzed(RIGHT, 200, 1)) == list(fuzzed(RIGHT, 200, 1)) != list(fuzzed(RIGHT, 200, 2))
