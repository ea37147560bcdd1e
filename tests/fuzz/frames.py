"""Frames and letters in process: the parsers of the transport and of the study, with nothing of a network."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coterie import __version__
from coterie.errors import AuthenticationError, FrameError, PeerLost, PeerUnreachable
from coterie.study.audit import Head
from coterie.study.greetings import Card, Front, Greeting, read_letter
from coterie.study.handshake import Proposal
from coterie.study.session import Finished
from coterie.transport import Stamp
from coterie.transport.certificates import create_credentials
from coterie.transport.channel import CONTROL, CONTROL_LIMIT, Abort, Header, Letter, Refusal, encode_control
from coterie.transport.hello import Peer, check_hello, greet, read_hello
from coterie.transport.links import Link
from coterie.transport.tls import Inbox, TlsChannel
from tests.fuzz.campaign import Campaign, Finding, Tally
from tests.fuzz.mutation import mutate_letter
from tests.transport.fuzz import _control, _cut, _field, _fields, _flipped, _rubbish, _twice
from tests.transport.network import DUEL
from tests.transport.test_fuzz import Fed

__all__ = ["FedWatched", "Frames"]

TOTAL = 10_000_000
RIGHT = Header(2, 0, 0, 1, DUEL.session, 0, 24, Stamp())
HELLO = Header(CONTROL, 0, 0, 1, DUEL.session, 0, 0, Stamp())
CHANGES = (_field, _field, _fields, _flipped, _cut, _control, _rubbish, _twice)
#: In one chunk of so many, every allocation is counted, which takes time.
COUNTED, MOST = 20, 4 << 20

HEAD = Head("ab" * 32, 7, "cd" * 32, "ef" * 64)
CARD = Card(__version__, dict.fromkeys(("study", "clustering", "data", "disclosures", "participants"), "0" * 64), 1.5)
GREETING = Greeting(CARD, bytes(16), "fit", 24, 2, marks=[("0" * 32, 1, 0, 3)], commitment="a" * 64, head=HEAD)
LETTERS: list[tuple[type[Any], bytes]] = [
    (kind, msgspec.msgpack.encode(letter))
    for kind, letter in (
        (Card, CARD),
        (Front, GREETING),
        (Greeting, GREETING),
        (Proposal, Proposal(Link(0.01, 1e6), "0" * 64)),
        (Finished, Finished(HEAD)),
    )
]


class FedWatched(Fed):
    """A socket that sees how much room was made for what it is asked for. `most`: what may be expected of a frame."""

    def __init__(self, raw: bytes, ends: bool = True, most: int = CONTROL_LIMIT) -> None:
        super().__init__(raw, ends)
        self.most = most

    def read(self, count: int, buffer: memoryview[int]) -> int:
        if count > self.most:
            raise Finding(f"room for {count} bytes was made where {self.most} are the most that can be due")
        return super().read(count, buffer)

    def getpeercert(self, binary_form: bool) -> bytes:
        return _rogue().der

    def get_verified_chain(self) -> list[bytes]:
        return [_rogue().der]

    def sendall(self, raw: bytes) -> None:
        pass


@dataclass(frozen=True)
class _Rogue:
    peer: Peer
    der: bytes


_made: list[_Rogue] = []


def _rogue() -> _Rogue:
    """Who is dialled, with its certificate."""
    if not _made:
        import ssl

        certificate = create_credentials("Rogue").certificate
        _made.append(_Rogue(Peer("127.0.0.1", 1, certificate), ssl.PEM_cert_to_DER_cert(certificate)))
    return _made[0]


def _channel(raw: bytes, ends: bool = True) -> TlsChannel:
    return TlsChannel(DUEL, 1, {}, {0: Inbox(FedWatched(raw, ends), DUEL, 0, 1, 0, 10.0)}, 10.0)


def receive(rng: random.Random) -> str:
    _channel(rng.choice(CHANGES)(rng, RIGHT)).receive(0, np.uint64, (3,))
    return "an array of the length that was due"


def hear(rng: random.Random) -> str:
    _channel(rng.choice(CHANGES)(rng, RIGHT)).hear(0)
    return "a note"


def collect(rng: random.Random) -> str:
    _channel(rng.choice(CHANGES)(rng, RIGHT), ends=False).collect(0)
    return "a letter"


def glance(rng: random.Random) -> str:
    """Look while others are waited for, then expect an array."""
    box = Inbox(FedWatched(rng.choice(CHANGES)(rng, RIGHT), ends=False), DUEL, 0, 1, 0, 10.0)
    if box.glance() is not None:
        return "an abort"
    TlsChannel(DUEL, 1, {}, {0: box}, 10.0).receive(0, np.uint64, (3,))
    return "an array of the length that was due"


def last_words(rng: random.Random) -> str:
    box = Inbox(FedWatched(rng.choice(CHANGES)(rng, RIGHT)), DUEL, 0, 1, 0, 10.0)
    if not isinstance(box.last_words(), Abort | None):
        raise Finding("last words that are no abort")
    return "last words, or none"


def hello(rng: random.Random) -> str:
    """What a peer says first when it dials."""
    try:
        header = read_hello(FedWatched(rng.choice(CHANGES)(rng, HELLO)), "Rogue")
    except EOFError:
        return "hung up"
    check_hello(header, DUEL, header.lane, 0, 1)
    return "a hello"


def answer(rng: random.Random) -> str:
    """What a peer that is dialled answers."""
    raw = rng.choice(CHANGES)(rng, HELLO)
    refusal = greet(FedWatched(raw), DUEL, 0, 1, 0, _rogue().peer)
    return "busy, or hung up" if isinstance(refusal, Refusal) else "a hello"


def letter(rng: random.Random) -> str:
    kind, right = rng.choice(LETTERS)
    read_letter(mutate_letter(rng, right), kind, "Rogue", "letter")
    return f"a {kind.__name__} that can be read"


def posted(rng: random.Random) -> str:
    """The same in a frame, of which the message is changed as well."""
    _, right = rng.choice(LETTERS)
    body = mutate_letter(rng, encode_control(Letter(mutate_letter(rng, right)[:3000])))[:CONTROL_LIMIT]
    raw = RIGHT._replace(kind=CONTROL, length=len(body)).pack() + body
    _channel(raw).collect(0)
    return "a letter"


WAYS: tuple[Callable[[random.Random], str], ...] = (
    receive, hear, collect, glance, last_words, hello, answer, letter, letter, posted
)  # fmt: skip


class Frames(Campaign):
    """Case i goes the (i mod 10)-th of `WAYS`."""

    name = "frames"
    chunk = 20_000

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.chunks = 0

    def total(self) -> int:
        return TOTAL

    def case(self, number: int) -> str:
        way = WAYS[number % len(WAYS)]
        try:
            return f"{way.__name__}: {way(self.random(number))}"
        except (FrameError, PeerLost, AuthenticationError, PeerUnreachable) as error:
            if error.peer != "Rogue":
                raise Finding(f"{way.__name__}: the error names {error.peer!r}: {error}") from error
            if not str(error).isprintable():
                raise Finding(f"{way.__name__}: the message cannot be printed") from error
            return f"{way.__name__}: {type(error).__name__}"

    def run(self, numbers: Any) -> Tally:
        self.chunks += 1
        if self.chunks % COUNTED != 1:
            return super().run(numbers)
        tracemalloc.start()
        try:
            return super().run(numbers)
        finally:
            tracemalloc.stop()

    def end(self) -> str | None:
        if tracemalloc.is_tracing() and (peak := tracemalloc.get_traced_memory()[1]) > MOST:
            raise Finding(f"{peak} bytes were set aside at once")
        return None
