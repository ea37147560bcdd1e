"""Counting what crosses a channel: rounds, messages and bytes, in all and by protocol; and refusing what may not
cross it while a protocol runs.

Rounds are the longest chain of dependent messages, measured with logical clocks: a message is stamped
one later than all that its sender had received before, and a receiver's clock moves to the stamp. Two
clocks run side by side. `rounds_with_dealing` counts every message, as the paper's table does. `rounds`
leaves out one-way dealt messages, which the dealer sends without having to wait for anybody.

Before a protocol begins, roles exchange keys and letters. From `begin_protocol` on nobody posts or collects a
letter, and the dealer is sent, and takes, only the kinds of messages that the protocol family declares.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import ProtocolError
from coterie.transport.channel import HEADER_BYTES, Channel, Stamp
from coterie.transport.idling import Idling, Lap
from coterie.transport.turns import Turns

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["Due", "Metered", "Sent", "Tally", "Traffic", "latest", "metered", "no_wait"]


#: Frames of one size: from each of some ranks, to each of some others, the bytes of one.
Sent = tuple[Sequence[int], Sequence[int], int]


class Tally(msgspec.Struct):
    """What one protocol took, everything that it calls included."""

    calls: int = 0
    rounds: int = 0
    rounds_with_dealing: int = 0
    messages: int = 0
    bytes_sent: int = 0


class Traffic(msgspec.Struct):
    """What one party sent, or all of them together, and how long the chain of messages was.

    Rounds per iteration are those of a full one (the last has no stop test if `max_iter` ends the run),
    between the clocks at the iterations' ends (`marks`), and are known for all roles together only.
    `bytes_sent` counts frames, header included, by party name. Protocols call each other, so the
    entries of `by_protocol` overlap; their rounds are the most that any role saw pass in all calls.
    """

    rounds: int = 0
    rounds_with_dealing: int = 0
    rounds_per_iteration: int = 0
    rounds_with_dealing_per_iteration: int = 0
    messages: int = 0
    bytes_sent: dict[str, int] = {}
    by_protocol: dict[str, Tally] = {}
    marks: list[Stamp] = []

    @classmethod
    def together(cls, parts: Sequence[Traffic]) -> Traffic:
        """The traffic of a run from that of its roles, by rank; rounds are the longest that any role saw."""
        whole = cls()
        for part in parts:
            whole.messages += part.messages
            whole.bytes_sent = {**whole.bytes_sent, **part.bytes_sent}
            for name, tally in part.by_protocol.items():
                mine = whole.by_protocol.setdefault(name, Tally())
                mine.messages += tally.messages
                mine.bytes_sent += tally.bytes_sent
                mine.calls = max(mine.calls, tally.calls)
                mine.rounds = max(mine.rounds, tally.rounds)
                mine.rounds_with_dealing = max(mine.rounds_with_dealing, tally.rounds_with_dealing)
        whole.marks = [latest(stamps) for stamps in zip(*(part.marks for part in parts), strict=True)]
        whole.rounds, whole.rounds_with_dealing = latest(Stamp(p.rounds, p.rounds_with_dealing) for p in parts)
        if len(whole.marks) > 1:
            steps = zip(whole.marks, whole.marks[1:], strict=False)
            whole.rounds_per_iteration, whole.rounds_with_dealing_per_iteration = latest(
                Stamp(b.rounds - a.rounds, b.with_dealing - a.with_dealing) for a, b in steps
            )
        return whole


class Due:
    """Bytes that the dealer is to send, or has sent: received when they are taken, after all that was expected
    before them. So nobody waits for what it does not need yet, and what is to be sent goes out first."""

    __slots__ = ("_array", "_channel", "size")

    def __init__(self, channel: Metered, size: int) -> None:
        self._channel, self.size = channel, size
        self._array: Array | None = None

    def receive(self) -> None:
        """On the channel of the task that expects it, whose clock it moves."""
        self._array, _ = self._channel.receive_now(0, np.uint8, (self.size,))

    def take(self) -> Array:
        while self._array is None:
            self._channel.receive_next()
        return self._array


class Metered(Channel):
    """A channel that counts, and keeps to what the running protocol declares, around any other.

    `laps`: how long each iteration of each start took here, in their order.
    """

    def __init__(self, inner: Channel, idling: Idling | None = None, turns: Turns | None = None) -> None:
        """`idling`: of the role, where this is not its only channel. `turns`: of the thread, where this channel is for
        one of several tasks."""
        self.inner = inner
        self.idling, self.turns = idling or Idling(), turns or Turns()
        self.laps: list[Lap] = []
        self._lap_began: Lap | None = None
        self.world, self.rank, self.lane = inner.world, inner.rank, inner.lane
        self.clock = Stamp()
        self.messages = 0
        self.bytes_sent = 0
        self.tallies: dict[str, Tally] = {}
        self._marks: list[Stamp] = []
        self._dealer_hears: frozenset[str] | None = None  # None: no protocol has begun
        #: From how many bytes on what is opened to all goes by way of collectors; 0: never (`sharing/collecting.py`).
        self.collect_from = 0
        #: What receives the openings that were begun and are still to be received, in their order.
        self._under_way: deque[Callable[[], None]] = deque()
        self._due: deque[Due] = deque()

    def beside(self) -> Metered:
        """The same channel, for a task that takes turns with this one: it has a clock of its own."""
        other = Metered(self.inner, self.idling, self.turns)
        other._dealer_hears, other._due = self._dealer_hears, self._due
        other.collect_from = self.collect_from
        return other

    def begin_protocol(self, dealer_hears: frozenset[str], collect_from: int = 0) -> None:
        """From here on a protocol runs: no letters, and to the dealer only the kinds given, "array" or "note".

        Whatever else a role tries raises ProtocolError, at the sender before anything leaves, and at the receiver
        before anything is taken.
        """
        if not dealer_hears <= {"array", "note"}:
            raise ProtocolError("a protocol may declare arrays and notes to the dealer, and nothing else")
        if self._dealer_hears not in (None, dealer_hears):
            raise ProtocolError("a protocol that declares something else has begun on this channel")
        self._dealer_hears, self.collect_from = dealer_hears, collect_from
        self.gather()

    def _keep_to_protocol(self, kind: str, sender: int, receiver: int) -> None:
        """Arrays go everywhere but to the dealer; the dealer is sent what is declared, and notes by P1 alone."""
        to_dealer = receiver == self.world.dealer
        if self._dealer_hears is None or (kind == "array" and not to_dealer):
            return
        if not to_dealer or kind not in self._dealer_hears or (kind == "note" and sender != 1):
            names = self.world.names
            raise ProtocolError(
                f"the protocol that runs declares no {kind} from {names[sender]} to {names[receiver]}; it was refused"
            )

    def send(self, to: int, array: Array, stamp: Stamp = Stamp(), *, dealt: bool = False) -> None:  # noqa: B008
        """`dealt`: a one-way message of the dealer that depends on nothing it has received."""
        if to == self.world.dealer:
            self._keep_to_protocol("array", self.rank, to)
        rounds, with_dealing = self.clock
        stamp = Stamp(-1 if dealt else rounds + 1, with_dealing + 1)
        if dealt and self.inner.may_wait_to_send(to):  # who deals runs ahead, until others are behind with reading
            with self.idling.waiting():
                self.inner.send(to, array, stamp)
        else:
            self.inner.send(to, array, stamp)
        self.messages += 1
        self.bytes_sent += HEADER_BYTES + array.nbytes

    def expect(self, size: int) -> Due:
        """So many bytes of the dealer's, to be taken later. A dealer that is sent arrays deals in answer to them, and
        is waited for at once. All that another one sends depends on nothing: it counts as if it were here."""
        due = Due(self, size)
        self._due.append(due)
        if self._dealer_hears is None or "array" in self._dealer_hears:
            due.take()
        elif not self.clock[1]:
            self.clock = Stamp(self.clock[0], 1)
        return due

    def receive_next(self) -> None:
        """The first of all that is expected of the dealer."""
        self._due.popleft().receive()

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        if sender == self.world.dealer:
            while self._due:
                self.receive_next()
        return self.receive_now(sender, dtype, shape)

    def receive_now(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        """What comes next of that sender, whatever is expected of it."""
        if self.rank == self.world.dealer:
            self._keep_to_protocol("array", sender, self.rank)
        if self.inner.may_wait_for(sender, math.prod(shape) * np.dtype(dtype).itemsize):
            self.idling.leave()
            try:
                array, stamp = self.inner.receive(sender, dtype, shape)
            finally:
                self.idling.enter()
        else:
            array, stamp = self.inner.receive(sender, dtype, shape)
        rounds, with_dealing = self.clock
        if stamp[0] > rounds or stamp[1] > with_dealing:
            self.clock = Stamp(max(rounds, stamp[0]), max(with_dealing, stamp[1]))
        return array, stamp

    def in_order(self, receive: Callable[[], Array]) -> Callable[[], Array]:
        """What was begun before is received before; and whatever was begun can be received early. `receive` is called
        once, and what is returned may be called once."""
        found: list[Array] = []
        self._under_way.append(lambda: found.append(receive()))

        def receive_in_order() -> Array:
            while not found:
                self._under_way.popleft()()
            return found.pop()

        return receive_in_order

    def receive_under_way(self) -> None:
        """All that was begun `in_order`."""
        while self._under_way:
            self._under_way.popleft()()

    def gather(self) -> None:
        self.inner.gather()

    def flush(self) -> None:
        self.inner.flush()

    def tell(self, to: int, value: bool) -> None:
        """Control messages are not counted: they are few, small and in nobody's way."""
        self._keep_to_protocol("note", self.rank, to)
        self.inner.tell(to, value)

    def hear(self, sender: int) -> bool:
        self._keep_to_protocol("note", sender, self.rank)
        if self.rank == self.world.dealer:
            self.turns.finish_all()
        with self.idling.waiting():
            return self.inner.hear(sender)

    def post(self, to: int, body: bytes) -> None:
        self._keep_to_protocol("letter", self.rank, to)
        self.inner.post(to, body)

    def collect(self, sender: int) -> bytes:
        self._keep_to_protocol("letter", sender, self.rank)
        return self.inner.collect(sender)

    def abort(self, culprit: int, reason: str) -> None:
        self.inner.abort(culprit, reason)

    def close(self) -> None:
        self.inner.close()

    def others_send(self, frames: Sequence[Sent]) -> Callable[[], None]:  # noqa: ARG002
        """At one who sends nothing of it: what others send in one round. Call what is returned where it has arrived.
        There is nothing to do here; a dry run counts it (`planning/dry_run.py`)."""
        return no_wait

    def mark_iteration(self) -> None:
        """Call where an iteration ends, and before the first begins."""
        self._marks.append(self.clock)
        now = Lap(time.perf_counter(), self.idling.waited)
        if self._lap_began is not None:
            before = self._lap_began
            self.laps.append(Lap(now.seconds - before.seconds, now.waited - before.waited))
        self._lap_began = now

    def start_over(self) -> None:
        """A restart begins: its first iteration is not measured against the last one's end."""
        self._marks.clear()
        self._lap_began = None

    @contextmanager
    def protocol(self, name: str) -> Iterator[None]:
        """Count what happens inside under this name."""
        before = self.counted
        try:
            yield
        finally:
            self.count(name, before)

    @property
    def counted(self) -> tuple[Stamp, int, int]:
        """What there is so far."""
        return self.clock, self.messages, self.bytes_sent

    def count(self, name: str, before: tuple[Stamp, int, int]) -> None:
        """Count under this name what has happened since then."""
        clock, messages, sent = before
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = Tally()
        tally.calls += 1
        tally.rounds += self.clock.rounds - clock.rounds
        tally.rounds_with_dealing += self.clock.with_dealing - clock.with_dealing
        tally.messages += self.messages - messages
        tally.bytes_sent += self.bytes_sent - sent

    def join(self, lane: Metered, ends: Iterable[Stamp]) -> None:
        """A lane is done with its blocks, which ended at these clocks: count here what it counted."""
        self.clock = latest([self.clock, *ends])
        self.messages += lane.messages
        self.bytes_sent += lane.bytes_sent
        for name, tally in lane.tallies.items():
            mine = self.tallies.setdefault(name, Tally())
            mine.calls += tally.calls
            mine.rounds += tally.rounds
            mine.rounds_with_dealing += tally.rounds_with_dealing
            mine.messages += tally.messages
            mine.bytes_sent += tally.bytes_sent
        lane.messages, lane.bytes_sent, lane.tallies = 0, 0, {}

    def traffic(self) -> Traffic:
        """What this party has counted so far."""
        return Traffic(
            rounds=self.clock.rounds,
            rounds_with_dealing=self.clock.with_dealing,
            messages=self.messages,
            bytes_sent={self.world.names[self.rank]: self.bytes_sent},
            by_protocol=dict(self.tallies),
            marks=list(self._marks),
        )


def no_wait() -> None:
    """There is nothing to wait for."""


def latest(stamps: Iterable[Stamp]) -> Stamp:
    """The later of each clock."""
    columns = zip(*stamps, strict=True)
    return Stamp(*(max(column) for column in columns))


class _HasChannel(Protocol):
    @property
    def channel(self) -> Metered: ...


P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=_HasChannel)


def metered(
    name: str,
) -> Callable[[Callable[Concatenate[M, P], R]], Callable[Concatenate[M, P], R]]:
    """Count a protocol, a function of the party that runs it, under the name the paper gives it."""

    def decorate(function: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
        @wraps(function)
        def counted(me: M, *args: P.args, **kwargs: P.kwargs) -> R:
            channel = me.channel
            before = channel.counted
            try:
                return function(me, *args, **kwargs)
            finally:
                channel.count(name, before)

        return counted  # type: ignore[return-value]  # `me` is positional here and there

    return decorate
