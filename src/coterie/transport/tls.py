"""Channels over TLS 1.3 sockets. How they come about, `meeting` says.

One connection per direction: the sender dials, and from then on only writes; the receiver only reads.
(An OpenSSL object is not for two threads at once, and a party must be able to read while it writes.)
In a protocol, `send` gathers small frames until there is a TLS record of them or this party waits for somebody, so that
what it sends to a peer in one round is written together. It writes what the socket takes and leaves the rest to the
connection's own thread, so that two parties who send to each other never wait for each other. The helper alone is held
back when a party's backlog grows. A connection that has nothing to send sends a heartbeat; how long a receiver waits,
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
from weakref import WeakMethod

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
    Heartbeat,
    Letter,
    Note,
    Stamp,
    World,
    as_bytes,
    dtype_code,
    encode_control,
    letter,
    pack_header,
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
#: Frames up to so many bytes are gathered, until there are so many bytes of them: as many as a TLS record holds.
GATHERED = 1 << 14
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
        self.gathers = False
        self.gathered = bytearray()
        self.pending: deque[memoryview[Any]] = deque()
        self.backlog = 0
        self.error: OSError | None = None
        self.closing = False
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.begun = self.last = time.monotonic()
        self.thread = threading.Thread(target=self._run, name=f"coterie-send-{to}", daemon=True)
        self.thread.start()

    def say(self, message: Control) -> None:
        with self.lock:
            self.put(CONTROL, memoryview(encode_control(message)), Stamp())
            self.flush()

    def put(self, kind: int, body: memoryview[Any], stamp: Stamp) -> None:
        """Gather a frame, or write it with all that was gathered before."""
        with self.lock:
            if self.error:
                raise self.error
            size = len(body)
            header = pack_header(
                kind, self.lane, self.rank, self.to, self.session, self.sequence, size, stamp[0], stamp[1]
            )
            try:
                self.sequence += 1
                self.backlog += HEADER_BYTES + size
                self.gathered += header
                if size <= GATHERED:
                    self.gathered += body
                    if self.gathers and len(self.gathered) < GATHERED:
                        return
                    body = body[:0]
                self._hand_over()
                self.pending.extend(body[at : at + CHUNK] for at in range(0, len(body), CHUNK))
            except BaseException:  # a signal: nobody knows how much of the frame is there, so nothing may follow it
                self._fail(OSError("interrupted in the middle of a frame"))
                raise
            self.flush()

    def flush(self) -> None:
        """Write all that there is, as far as the socket takes it now."""
        with self.lock:
            try:
                self._hand_over()
                self._write()
            except BaseException:
                self._fail(OSError("interrupted in the middle of a frame"))
                raise
            if self.error:
                raise self.error
            if self.pending:
                self.changed.notify_all()

    def _hand_over(self) -> None:
        """What was gathered is to be written. The caller holds the lock."""
        if self.gathered:
            self.pending.append(memoryview(self.gathered))
            self.gathered = bytearray()

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
        self.gathered = bytearray()
        self.pending.clear()
        self.changed.notify_all()

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self.sock.fileno(), select.POLLOUT)
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.pending or self.closing or self.error, self.heartbeat / 4)
                self._hand_over()  # of somebody who has sent it and works on for long
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
        if world.dealer in inboxes:  # what it sends has often come before it is wanted
            inboxes[world.dealer].before_wait = WeakMethod(self.flush)

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        outbox = self._outboxes[to]
        if self.may_wait_to_send(to):
            self.flush()  # the one that is behind may wait for somebody who waits for this
            with self._waiting():
                self._wait_for_room(to)
        try:
            outbox.put(dtype_code(array.dtype), as_bytes(array), stamp)
        except OSError as error:
            raise self._lost(to) from error

    def gather(self) -> None:
        for outbox in self._outboxes.values():
            outbox.gathers = True

    def flush(self) -> None:
        for to, outbox in self._outboxes.items():
            if outbox.gathered:
                try:
                    outbox.flush()
                except OSError as error:
                    raise self._lost(to) from error

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
        self._say(to, Note(value))

    def post(self, to: int, body: bytes) -> None:
        self._say(to, letter(body))

    def _say(self, to: int, message: Control) -> None:
        try:
            self._outboxes[to].say(message)
        except OSError as error:
            raise self._lost(to) from error

    def _lost(self, to: int) -> TransportError:
        """The error for a peer that takes nothing any more."""
        message = self._inboxes[to].last_words()
        if message is not None:
            return self._trouble(message, to)
        return PeerLost(f"{self._name(to)} has closed its connection", self._name(to))

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        inbox, kind = self._inboxes[sender], dtype_code(dtype)
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if inbox.end - inbox.at >= HEADER_BYTES + size:
            stamp, message = inbox.next(kind, size)
        else:
            if inbox.before_wait is None:
                self.flush()
            self._waits.add(self.lane)
            try:
                stamp, message = inbox.next(kind, size)
            finally:
                self._waits.discard(self.lane)
        if message is None:
            array = np.empty(shape, dtype)
            inbox.fill(as_bytes(array))
            return array, stamp
        raise self._trouble(message, sender)

    def may_wait_to_send(self, to: int) -> bool:
        outbox = self._outboxes[to]
        return outbox.limit is not None and outbox.backlog > outbox.limit

    def may_wait_for(self, sender: int, size: int) -> bool:
        inbox = self._inboxes[sender]
        return inbox.end - inbox.at < HEADER_BYTES + size

    def hear(self, sender: int) -> bool:
        return self._message(sender, Note).value

    def collect(self, sender: int) -> bytes:
        return self._message(sender, Letter).body

    def _message(self, sender: int, kind: type[C]) -> C:
        self.flush()
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
