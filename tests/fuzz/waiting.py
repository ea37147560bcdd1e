"""Participants that wait for another one, and who comes instead.

Alice, Bob and the helper wait for Carol. Strangers, and whoever has Bob's key beside Bob himself, may send what they
like to Alice. At the end of every chunk Carol starts, and the run must complete. Some cases are apart: Carol's own key
says something wrong, and Alice must stop with an error that names her.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import socket
import ssl
import threading
from pathlib import Path

from coterie.errors import CoterieError, TransportError
from coterie.study.prepare import prepare
from coterie.study.session import meeting_of, same_participants
from coterie.transport import HEADER_BYTES, Stamp
from coterie.transport.certificates import create_credentials
from coterie.transport.channel import CONTROL, Header
from coterie.transport.hello import PROBE
from coterie.transport.meeting import MOST_LANES
from tests.fuzz.campaign import Campaign, Finding
from tests.fuzz.material import no_pictures
from tests.fuzz.troupe import Troupe
from tests.study.test_hostile import Target, key_of
from tests.study.walk import wait_until
from tests.transport.fuzz import fuzzed
from tests.transport.network import raw_context

__all__ = ["Waiting"]

TOTAL = 100_000
TLS = ssl.TLSVersion.TLSv1_3
#: One case of so many is Carol's.
APART = 500
#: Bytes by which a chunk may let the process grow, beyond what the first run took.
MOST = 64 << 20


class Waiting(Campaign):
    name = "tls-waiting"
    chunk = 1000
    abreast = 12
    limit = 600

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.troupe, self.apart = Troupe(("alice", "bob", "carol")), Troupe(("alice", "bob", "carol"))
        self.doors = [Target(one.study, "alice") for one in (self.troupe, self.apart)]
        self.ready = prepare(self.apart.orders("alice"))
        bob, carol = (raw_context(False, key_of(self.troupe, name), TLS) for name in ("bob", "carol"))
        self.keys = {"bob": bob, "carol": carol}
        own = (None, create_credentials("bob"), create_credentials("eve"))
        self.strangers = [raw_context(False, one, TLS) for one in own]
        self.bad = raw_context(False, key_of(self.apart, "carol"), TLS)
        self.grown, self.alone = 0, threading.Lock()
        with no_pictures():
            self.begin()
            self.end()
        self.grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def total(self) -> int:
        return TOTAL

    def begin(self) -> None:
        self.troupe.clear()
        for name in ("helper", "alice", "bob"):
            self.troupe.enter(name, wait=self.limit)
        for name in ("helper", "alice", "bob"):
            voice = self.troupe.voices[name]
            wait_until(lambda voice=voice: voice.missing == ["carol"], what=f"that {name} waits for carol")

    def end(self) -> str:
        """Carol comes after all."""
        with no_pictures():
            self.troupe.enter("carol")
            late = self.troupe.leave(60.0)
        if late or any(isinstance(end, BaseException) for end in self.troupe.ended.values()):
            raise Finding(f"the run does not complete: {late} still running, {self.troupe.ended}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if self.grown and (peak - self.grown) * 1024 > MOST:
            raise Finding(f"{(peak - self.grown) >> 10} MB more than before")
        return "the run completed (once a chunk)"

    def case(self, number: int) -> str:
        rng = self.random(number)
        if number % APART == 0:
            with self.alone:
                return f"carol's key, in her place: {self.stopped(rng)}"
        way = rng.randrange(10)
        if way < 3:
            outcome = f"in the clear: {self.clear(rng)}"
        elif way < 5:
            right = self.right("bob")
            outcome = f"a stranger's TLS: {self.secured(self.strangers[rng.randrange(3)], rng, right)}"
        elif way < 9:
            outcome = f"bob's key, beside bob: {self.secured(self.keys['bob'], rng, self.right('bob'))}"
        else:
            other = self.right("carol")._replace(session=rng.randbytes(16))
            outcome = f"carol's key, another study: {self.elsewhere(rng, other)}"
        if self.troupe.ended:
            raise Finding(f"the participants stopped: {self.troupe.ended}")
        return outcome

    def right(self, name: str, door: int = 0, lane: int = 0) -> Header:
        target = self.doors[door]
        return Header(CONTROL, lane, target.study.names.index(name), target.rank, target.world.session, 0, 0, Stamp())

    # -- what changes nothing ----------------------------------------------------------------------------

    def clear(self, rng: random.Random) -> str:
        """No TLS at all, or what begins like it."""
        raw = next(fuzzed(self.right("bob"), 1, rng.getrandbits(32)))
        head = rng.choice((b"", b"\x16\x03\x01\x40\x00\x01\xff\xff\xfc\x03\x03", b"\x16\x03\x01\x00\x10"))
        with self.doors[0].plain() as sock:
            return heard(sock, head + raw)

    def secured(self, own: ssl.SSLContext, rng: random.Random, right: Header) -> str:
        """Hellos and frames; but nobody takes a lane that Bob will need: his key speaks for him."""
        right = right._replace(lane=rng.choice((0, 0, PROBE)))
        raw = next(fuzzed(right, 1, rng.getrandbits(32)))
        if len(raw) >= HEADER_BYTES and raw[:5] == right.pack()[:5]:
            header = Header.unpack(raw[:HEADER_BYTES], "bob")
            if 0 < header.lane < MOST_LANES:
                raw = header._replace(lane=MOST_LANES + header.lane).pack() + raw[HEADER_BYTES:]
        return self.dialled(own, raw)

    def elsewhere(self, rng: random.Random, other: Header) -> str:
        fields = {"lane": rng.choice((0, 1, PROBE, 500)), "sender": rng.randrange(5), "receiver": rng.randrange(5)}
        return self.dialled(self.keys["carol"], other._replace(**fields).pack() + rng.randbytes(rng.choice((0, 100))))

    def dialled(self, own: ssl.SSLContext, raw: bytes) -> str:
        try:
            with self.doors[0].secured(own) as sock:
                return heard(sock, raw)
        except OSError as error:
            return type(error).__name__

    # -- what ends the waiting ---------------------------------------------------------------------------

    def stopped(self, rng: random.Random) -> str:
        """Alice waits as in a run. Carol's hello is wrong, or a frame behind it; or it was harmless, and she goes."""
        errors: list[BaseException] = []
        right = self.right("carol", 1)
        raw = next(fuzzed(right, 1, rng.getrandbits(32)))
        if rng.random() < 0.7:
            raw = right.pack() + raw
        if comes_early(raw, right):
            return "not run: an array that comes early is looked at when it is due"

        def wait() -> None:
            try:
                with meeting_of(self.apart.orders("alice"), self.ready) as met, same_participants():
                    met.connect([0], timeout=60.0)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        for said in itertools.chain([raw], itertools.repeat(right.pack(), 30)):
            with contextlib.suppress(OSError, AssertionError):
                wait_until(lambda: not thread.is_alive() or self._listens(), what="that alice listens")
                if not thread.is_alive():
                    break
                with self.doors[1].secured(self.bad) as sock:
                    heard(sock, said, 0.3)
            thread.join(3.0)
        if thread.is_alive() or not errors:
            raise Finding("alice waits on, though carol came and went")
        error = errors[0]
        named = error.peer == "carol" if isinstance(error, TransportError) else "carol" in str(error)
        if not isinstance(error, CoterieError) or not named:
            raise Finding(f"{type(error).__name__}: {error}")
        return type(error).__name__

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), self.doors[1].plain():
            return True
        return False


def comes_early(raw: bytes, right: Header) -> bool:
    """Is there, behind a hello, the header of an array that could be right, whenever it is due?"""
    if raw[:HEADER_BYTES] != right.pack() or len(raw) < 2 * HEADER_BYTES:
        return False
    with contextlib.suppress(CoterieError):
        header = Header.unpack(raw[HEADER_BYTES : 2 * HEADER_BYTES], "carol")
        return header.kind != CONTROL and header._replace(kind=CONTROL, length=0, stamp=Stamp()) == right
    return False


def heard(sock: socket.socket, raw: bytes, patience: float = 20.0) -> str:
    """Send, and hear how it ends."""
    sock.settimeout(patience)
    try:
        sock.sendall(raw)
        if not isinstance(sock, ssl.SSLSocket):
            sock.shutdown(socket.SHUT_WR)
        elif len(raw) < HEADER_BYTES:
            return "left in the middle of a hello"
        answer = b""
        while part := sock.recv(4096):
            answer += part
        return "answered" if answer else "closed"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return type(error).__name__
