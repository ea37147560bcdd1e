"""Participants at work, one of whom sends one frame or letter that is not what is due, at any moment of a run.

Every other one ends soon, with an error of coterie.errors, and without results unless everybody has said before that
its own are ready. One of them at least names the peer. A change that does no harm (of a clock, say) lets the run
complete with the same results.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, TransportError
from coterie.transport import Stamp
from coterie.transport.channel import CONTROL, Header, Letter, decode_control, encode_control
from coterie.transport.tls import Outbox
from tests.fuzz.campaign import Campaign, Finding
from tests.fuzz.material import Put, no_pictures, sending
from tests.fuzz.mutation import mutate_letter
from tests.fuzz.troupe import Troupe
from tests.transport.fuzz import fuzzed

__all__ = ["Working"]

TOTAL = 1000
#: Seconds that a run may take whatever is sent: a few times what a peer may be silent.
PATIENCE, SOON = 3.0, 40.0


class Rotten:
    """Sends the `when`-th frame of one participant wrong. `what` it was is said afterwards."""

    def __init__(self, rank: int, when: int, rng: random.Random) -> None:
        self.rank, self.when, self.rng = rank, when, rng
        self.count, self.lock, self.what = itertools.count(), threading.Lock(), "nothing"

    def put(self, honest: Put, box: Outbox, kind: int, body: Any, stamp: Stamp) -> None:
        with self.lock:
            now = box.rank == self.rank and next(self.count) == self.when
        if not now:
            return honest(box, kind, body, stamp)
        if kind == CONTROL and self.rng.random() < 0.6:
            message = decode_control(bytearray(body), "itself")
            if isinstance(message, Letter) and len(message.body) > 4:
                self.what = "a letter"
                changed = encode_control(Letter(mutate_letter(self.rng, message.body)[:4000]))
                return honest(box, kind, memoryview(changed), stamp)
        self.what = "a control frame" if kind == CONTROL else "an array's frame"
        right = Header(kind, box.lane, box.rank, box.to, box.session, box.sequence, len(body), stamp)
        raw = next(fuzzed(right, 1, self.rng.getrandbits(32)))
        with box.changed:  # and from then on it sends nothing but this
            box.pending.append(memoryview(raw + bytes(4096)))
            box.backlog += len(raw) + 4096
            box._write()
        return None


class Working(Campaign):
    """One run a case."""

    name = "tls-working"
    chunk = 5
    limit = 600

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.troupe = Troupe(("alice", "bob"))
        self.sent = self._count()
        self.right = {name: self.troupe.centers(name) for name in self.troupe.parties}

    def total(self) -> int:
        return TOTAL

    def _count(self) -> list[int]:
        """How many frames each participant sends in a run."""
        counts = [0, 0, 0]

        def put(honest: Put, box: Outbox, kind: int, body: Any, stamp: Stamp) -> None:
            counts[box.rank] += 1
            honest(box, kind, body, stamp)

        self._run(put)
        if any(isinstance(end, BaseException) for end in self.troupe.ended.values()):
            raise Finding(f"a run without any change failed: {self.troupe.ended}")
        return counts

    def _run(self, put: Callable[..., None]) -> None:
        self.troupe.clear()
        with no_pictures(), sending(put):
            for name in self.troupe.names:
                self.troupe.enter(name, patience=PATIENCE)
            late = self.troupe.leave(SOON)
        if late:
            raise Finding(f"{late} still running after {SOON:g} s")

    def case(self, number: int) -> str:
        rng = self.random(number)
        rank = rng.randrange(3)
        rotten = Rotten(rank, rng.randrange(self.sent[rank]), rng)
        self._run(rotten.put)
        return f"{rotten.what}: {self._judge(self.troupe.names[rank], rotten.what)}"

    def _judge(self, rogue: str, what: str) -> str:
        ended = {name: self.troupe.ended[name] for name in self.troupe.names if name != rogue}
        wrong = {name: end for name, end in ended.items() if isinstance(end, BaseException)}
        told = {name: f"{type(error).__name__}: {error}" for name, error in wrong.items()}
        for name, error in wrong.items():
            if not isinstance(error, CoterieError):
                raise Finding(f"{what} of {rogue}: {told}")
            if self.troupe.at(name, "results").exists() and "ready" not in self.troupe.events(name):
                raise Finding(f"{what} of {rogue}: {name} failed, and has results")
        for name in set(ended) - set(wrong) - {self.troupe.helper}:
            if self.troupe.centers(name) != self.right[name]:
                raise Finding(f"{what} of {rogue}: {name} has other results")
        if not wrong:
            return "completed with the same results"
        names = {name: _named(error, rogue) for name, error in wrong.items()}
        if not any(names.values()):
            raise Finding(f"{what} of {rogue}, whom nobody names: {told}")
        if len(wrong) < len(ended) or any(self.troupe.at(name, "results").exists() for name in wrong):
            return "the peer is named, after everybody was ready"
        return "all name the peer" if all(names.values()) else "one names the peer, the other who told it"


def _named(error: CoterieError, rogue: str) -> bool:
    return error.peer == rogue if isinstance(error, TransportError) else rogue in str(error)
