"""Channels over TLS 1.3 sockets. How they come about, `meeting` says.

One connection per direction: the sender dials, and from then on only writes; the receiver only reads.
(An OpenSSL object is not for two threads at once, and a party must be able to read while it writes.)
`send` writes what the socket takes at once and leaves the rest to the connection's own thread, so that
two parties who send to each other never wait for each other. The helper alone is held back when a
party's backlog grows. A connection that has nothing to send sends a heartbeat; how long a receiver waits,
`inbox` says.
"""

from __future__ import annotations

import contextlib
import math
import select
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import FrameError, PeerLost, TransportError
from coterie.transport.channel import (
    CONTROL,
    HEADER_BYTES,
    Abort,
    Channel,
    Control,
    Goodbye,
    Header,
    Heartbeat,
    Letter,
    Note,
    Stamp,
    World,
    as_bytes,
    dtype_code,
    encode_control,
    letter,
    trouble,
)
from coterie.transport.inbox import Inbox

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["LOOK", "Inbox", "Outbox", "TlsChannel", "farewell", "time_to_watch"]

C = TypeVar("C", bound=Control)

#: How many bytes the helper may be ahead of a party, beyond what TCP holds.
DEALER_AHEAD = 32 << 20
#: Bytes handed to OpenSSL at once.
CHUNK = 1 << 18
#: Seconds between two looks at the peers while one of them is waited for.
LOOK = 0.2
#: Of `patience`: after how much of it an idle connection sends a heartbeat, and how long a peer is watched that another
#: one blames, which must be long enough for a heartbeat; at least so many seconds.
BEAT, WATCH, LEAST_WATCH = 1 / 12, 1 / 6, 1.0


class Outbox:
    """The sending side of one connection: at once if the socket takes it, else by its own thread.

    It begins with a heart that beats, so that the other side knows from the start that this one is there.
    """

    def __init__(
        self,
        sock: ssl.SSLSocket,
        world: World,
        rank: int,
        to: int,
        lane: int,
        patience: float,
        waits: set[int] | None = None,
    ) -> None:
        """`waits`: the lanes on which this party waits for somebody now, which its heartbeats tell."""
        sock.setblocking(False)
        self.sock, self.session = sock, world.session
        self.rank, self.to, self.lane = rank, to, lane
        self.waits = set[int]() if waits is None else waits
        self.heartbeat, self.limit = BEAT * patience, DEALER_AHEAD if rank == world.dealer else None
        self.sequence = 0
        self.pending: deque[memoryview[Any]] = deque()
        self.backlog = 0
        self.error: OSError | None = None
        self.closing = False
        self.changed = threading.Condition()
        self.begun = self.last = time.monotonic()
        self.thread = threading.Thread(target=self._run, name=f"coterie-send-{to}", daemon=True)
        self.thread.start()

    def say(self, message: Control) -> None:
        self.put(CONTROL, memoryview(encode_control(message)), Stamp())

    def put(self, kind: int, body: memoryview[Any], stamp: Stamp) -> None:
        with self.changed:
            if self.error:
                raise self.error
            header = Header(kind, self.lane, self.rank, self.to, self.session, self.sequence, len(body), stamp).pack()
            try:
                self.sequence += 1
                if len(body) <= CHUNK // 16:  # one record rather than two
                    parts = [memoryview(header + bytes(body))]
                else:
                    parts = [memoryview(header), *(body[at : at + CHUNK] for at in range(0, len(body), CHUNK))]
                self.pending.extend(parts)
                self.backlog += HEADER_BYTES + len(body)
                self._write()
            except BaseException:  # a signal: nobody knows how much of the frame was sent, so nothing may follow it
                self._fail(OSError("interrupted in the middle of a frame"))
                raise
            if self.error:
                raise self.error
            if self.pending:
                self.changed.notify_all()

    def has_room(self, patience: float) -> bool:
        """Whether the helper may go on: it waits for so long, at most, for the peer to take what it was sent."""
        with self.changed:
            return bool(
                self.changed.wait_for(lambda: self.error or self.limit is None or self.backlog <= self.limit, patience)
            )

    def _write(self) -> None:
        """Write what the socket takes now. The caller holds the lock."""
        try:
            while self.pending:
                part = self.pending[0]
                count = self.sock.send(part)
                self.backlog -= count
                if count == len(part):
                    self.pending.popleft()
                else:
                    self.pending[0] = part[count:]
            self.last = time.monotonic()
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = error
        self.pending.clear()
        self.changed.notify_all()

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self.sock.fileno(), select.POLLOUT)
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.pending or self.closing or self.error, self.heartbeat / 4)
                if self.error or (self.closing and not self.pending):
                    return
                idle = not self.pending and time.monotonic() - self.last >= self.heartbeat
            if idle:
                with contextlib.suppress(OSError):
                    self.say(Heartbeat(bool(self.waits)))
                continue
            if self.pending and poller.poll(1000 * self.heartbeat / 4):
                with self.changed:
                    self._write()
                    self.changed.notify_all()  # somebody may wait for the backlog to shrink

    def gone(self) -> bool:
        """Has the peer closed the connection? It says nothing on it: there is nothing to read before the end."""
        with self.changed:
            try:
                return self.error is not None or not self.sock.recv(1)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except (OSError, ValueError):
                return True

    def close(self, patience: float, most: float = math.inf) -> None:
        """Send what is pending, as long as the peer takes some of it every `patience` seconds, `most` seconds in all,
        and close."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        before, end = None, time.monotonic() + most
        while self.thread.is_alive() and self.backlog != before and time.monotonic() < end:
            before = self.backlog
            self.thread.join(patience)
        with self.changed:
            if self.thread.is_alive():
                self._fail(OSError("closed with frames pending"))
        self.thread.join()
        self.sock.close()


class TlsChannel(Channel):
    """One party's connections to all the others, on one lane."""

    def __init__(
        self,
        world: World,
        rank: int,
        outboxes: dict[int, Outbox],
        inboxes: dict[int, Inbox],
        patience: float,
        lane: int = 0,
        waits: set[int] | None = None,
    ) -> None:
        """`waits`: see `Outbox`."""
        self.world, self.rank, self.lane = world, rank, lane
        self._patience = patience
        self._outboxes, self._inboxes = outboxes, inboxes
        self._waits = set[int]() if waits is None else waits
        self._closed = False

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        if not self._outboxes[to].has_room(0):
            with self._waiting():
                self._wait_for_room(to)
        self._put(to, dtype_code(array.dtype), as_bytes(array), stamp)

    def _wait_for_room(self, to: int) -> None:
        outbox = self._outboxes[to]
        backlog, since = outbox.backlog, time.monotonic()
        while not outbox.has_room(LOOK):
            for inbox in self._inboxes.values():  # is everybody still there?
                message = inbox.glance()
                if message is not None:
                    raise self._trouble(message, inbox.sender)
            if outbox.backlog < backlog:
                backlog, since = outbox.backlog, time.monotonic()
            self._inboxes[to].check_progress(since)

    def tell(self, to: int, value: bool) -> None:
        self._put(to, CONTROL, memoryview(encode_control(Note(value))), Stamp())

    def post(self, to: int, body: bytes) -> None:
        self._put(to, CONTROL, memoryview(encode_control(letter(body))), Stamp())

    def _put(self, to: int, kind: int, body: memoryview[Any], stamp: Stamp) -> None:
        try:
            self._outboxes[to].put(kind, body, stamp)
        except OSError as error:
            message = self._inboxes[to].last_words()
            if message is not None:
                raise self._trouble(message, to) from error
            raise PeerLost(f"{self._name(to)} has closed its connection", self._name(to)) from error

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        inbox, length = self._inboxes[sender], math.prod(shape) * np.dtype(dtype).itemsize
        with self._waiting():
            header, message = inbox.next(dtype_code(dtype), length)
        if message is None:
            array = np.empty(shape, dtype)
            inbox.fill(as_bytes(array))
            return array, header.stamp
        raise self._trouble(message, sender)

    def hear(self, sender: int) -> bool:
        return self._message(sender, Note).value

    def collect(self, sender: int) -> bytes:
        return self._message(sender, Letter).body

    def _message(self, sender: int, kind: type[C]) -> C:
        with self._waiting():
            _, message = self._inboxes[sender].next(CONTROL, 0)
        if isinstance(message, kind):
            return message
        raise self._trouble(message, sender)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._waits.add(self.lane)
        try:
            yield
        finally:
            self._waits.discard(self.lane)

    def _trouble(self, message: Control | None, sender: int) -> TransportError:
        return trouble(message, sender, self.rank, self.world, self._look)

    def _look(self, accused: int) -> Abort | None:
        return self._inboxes[accused].watch(time_to_watch(self._patience))

    def abort(self, culprit: int, reason: str) -> None:
        self._farewell(Abort(culprit, reason))

    def close(self) -> None:
        self._farewell(Goodbye())

    def _farewell(self, message: Control) -> None:
        if self._closed:
            return
        self._closed = True
        farewell(list(self._outboxes.values()), list(self._inboxes.values()), message, self._patience)


def time_to_watch(patience: float) -> float:
    """Seconds in which a peer that another one blames shows whether it is still there."""
    return max(WATCH * patience, LEAST_WATCH)


def farewell(outboxes: Sequence[Outbox], inboxes: Sequence[Inbox], message: Control, patience: float) -> None:
    """Say a last word on every connection, see it off, and close. If all is well, nothing may have been left unread."""
    problem: FrameError | None = None
    for outbox in outboxes:
        with contextlib.suppress(OSError):
            outbox.say(message)
    for outbox in outboxes:
        outbox.close(*(2.0, 6.0) if isinstance(message, Abort) else (patience,))
    for inbox in inboxes:
        try:
            if isinstance(message, Goodbye):
                inbox.check_all_read()
        except FrameError as error:
            problem = problem or error
        inbox.close()
    if problem is not None:
        raise problem
