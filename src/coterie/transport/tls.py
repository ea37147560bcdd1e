"""Channels over TLS 1.3 sockets. How they come about, `meeting` says.

One connection per direction: the sender dials, and from then on only writes; the receiver only reads.
(An OpenSSL object is not for two threads at once, and a party must be able to read while it writes.)
`send` writes what the socket takes at once and leaves the rest to the connection's own thread, so that
two parties who send to each other never wait for each other. The helper alone is held back when a
party's backlog grows. A connection that has nothing to send sends a heartbeat; a receiver that hears
nothing for `patience` seconds declares the peer lost.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import FrameError, PeerLost
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
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
    decode_control,
    dtype_code,
    encode_control,
    letter,
    raise_for_control,
)

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["LOOK", "Inbox", "Outbox", "TlsChannel", "farewell"]

C = TypeVar("C", bound=Control)

#: How many bytes the helper may be ahead of a party, beyond what TCP holds.
HELPER_AHEAD = 32 << 20
#: Bytes handed to OpenSSL at once.
CHUNK = 1 << 18
#: How many heartbeats are taken away at a time; others want to be looked at, too.
HEARTBEATS = 100
#: Seconds between two looks at the peers while one of them is waited for.
LOOK = 0.2


class Outbox:
    """The sending side of one connection: at once if the socket takes it, else by its own thread.

    It begins with a heart that beats, so that the other side knows from the start that this one is there.
    """

    def __init__(self, sock: ssl.SSLSocket, world: World, rank: int, to: int, lane: int, patience: float) -> None:
        sock.setblocking(False)
        self.sock, self.session = sock, world.session
        self.rank, self.to, self.lane = rank, to, lane
        self.heartbeat, self.limit = patience / 5, HELPER_AHEAD if rank == 0 else None
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
                    self.say(Heartbeat())
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


class Inbox:
    """The receiving side of one connection."""

    def __init__(self, sock: ssl.SSLSocket, world: World, sender: int, rank: int, lane: int, patience: float) -> None:
        sock.settimeout(patience)
        self.sock, self.session = sock, world.session
        self.peer, self.sender, self.rank, self.lane = world.names[sender], sender, rank, lane
        self.patience = patience
        self.due = 0
        self.begun = bytearray()  # a header of which a part is there
        self.seen: tuple[Header, Control | None] | None = None  # what `glance` has found
        self.last = time.monotonic()

    def next(self, kind: int, length: int) -> tuple[Header, Control | None]:
        """The next frame: a control message, or the header of what was expected, with its bytes still to come."""
        found, self.seen = self.seen, None
        if found is not None and found[1] is not None:
            return found
        header = found[0] if found is not None else self._header()
        expected = Header(kind, self.lane, self.sender, self.rank, self.session, self.due, length, Stamp())
        header.check(expected, self.peer)
        self.due += 1
        return header, self._control(header) if header.kind == CONTROL else None

    def fill(self, buffer: memoryview[Any]) -> None:
        at, size = 0, len(buffer)
        try:
            while at < size:
                count = self.sock.read(size - at, buffer[at:])  # recv_into with fewer layers: one call a TLS record
                if not count:
                    raise PeerLost(f"{self.peer} has closed its connection without a word", self.peer)
                at += cast(int, count)
        except TimeoutError as error:
            raise PeerLost(f"{self.peer} has been silent for {self.patience:g} seconds", self.peer) from error
        except (OSError, ValueError) as error:  # ValueError: this side has closed it
            raise PeerLost(f"the connection from {self.peer} broke ({type(error).__name__})", self.peer) from error

    def glance(self) -> Abort | None:
        """Look, without waiting, whether the peer is still there, while nothing of it is due yet.

        Takes heartbeats away; what else has come stays for `next`. Returns what a peer that stopped has said.
        """
        for _ in range(HEARTBEATS):
            if self.seen is not None:
                return None
            self.sock.setblocking(False)
            try:
                while len(self.begun) < HEADER_BYTES:
                    part = self.sock.recv(HEADER_BYTES - len(self.begun))
                    if not part:
                        raise PeerLost(f"{self.peer} has closed its connection without a word", self.peer)
                    self.begun += part
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if time.monotonic() - self.last > self.patience:
                    raise PeerLost(f"{self.peer} has been silent for {self.patience:g} seconds", self.peer) from None
                return None
            except (OSError, ValueError) as error:
                raise PeerLost(f"the connection from {self.peer} broke ({type(error).__name__})", self.peer) from error
            finally:
                with contextlib.suppress(OSError):
                    self.sock.settimeout(self.patience)
            self.last = time.monotonic()
            header = self._header()
            if header.kind != CONTROL:
                self.seen = header, None
                return None
            expected = Header(CONTROL, self.lane, self.sender, self.rank, self.session, self.due, 0, Stamp())
            header.check(expected, self.peer)
            self.due += 1
            message = self._control(header)
            if isinstance(message, Abort):
                return message
            if not isinstance(message, Heartbeat):
                self.seen = header, message
        return None

    def last_words(self) -> Abort | None:
        """What a peer that closed has said of it, behind what it sent before."""
        deadline = time.monotonic() + 1.0
        scrap = memoryview(bytearray(CHUNK))
        with contextlib.suppress(PeerLost, FrameError, OSError):
            self.sock.settimeout(1.0)
            while time.monotonic() < deadline:
                header = self._header()
                if header.kind == CONTROL and header.length <= CONTROL_LIMIT:
                    message = self._control(header)
                    if isinstance(message, Abort):
                        return message
                else:
                    left = header.length
                    while left and time.monotonic() < deadline:
                        self.fill(scrap[: min(CHUNK, left)])
                        left -= min(CHUNK, left)
        return None

    def _header(self) -> Header:
        raw = self.begun + bytearray(HEADER_BYTES - len(self.begun))
        self.fill(memoryview(raw)[len(self.begun) :])
        self.begun.clear()
        return Header.unpack(raw, self.peer)

    def _control(self, header: Header) -> Control:
        raw = bytearray(header.length)
        self.fill(memoryview(raw))
        return decode_control(raw, self.peer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads
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
    ) -> None:
        self.world, self.rank, self.lane = world, rank, lane
        self._patience = patience
        self._outboxes, self._inboxes = outboxes, inboxes
        self._closed = False

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        while not self._outboxes[to].has_room(LOOK):
            for inbox in self._inboxes.values():  # is everybody still there?
                message = inbox.glance()
                if message is not None:
                    raise_for_control(message, inbox.peer, self.world)
        self._put(to, dtype_code(array.dtype), as_bytes(array), stamp)

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
                raise_for_control(message, self._name(to), self.world)
            raise PeerLost(f"{self._name(to)} has closed its connection", self._name(to)) from error

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        inbox, length = self._inboxes[sender], math.prod(shape) * np.dtype(dtype).itemsize
        while True:
            header, message = inbox.next(dtype_code(dtype), length)
            if message is None:
                array = np.empty(shape, dtype)
                inbox.fill(as_bytes(array))
                return array, header.stamp
            raise_for_control(message, inbox.peer, self.world)

    def hear(self, sender: int) -> bool:
        return self._message(sender, Note).value

    def collect(self, sender: int) -> bytes:
        return self._message(sender, Letter).body

    def _message(self, sender: int, kind: type[C]) -> C:
        inbox = self._inboxes[sender]
        while True:
            _, message = inbox.next(CONTROL, 0)
            assert message is not None
            if isinstance(message, kind):
                return message
            raise_for_control(message, inbox.peer, self.world)

    def abort(self, culprit: int, reason: str) -> None:
        self._farewell(Abort(culprit, reason))

    def close(self) -> None:
        self._farewell(Goodbye())

    def _farewell(self, message: Control) -> None:
        if self._closed:
            return
        self._closed = True
        farewell(list(self._outboxes.values()), list(self._inboxes.values()), message, self._patience)


def farewell(outboxes: Sequence[Outbox], inboxes: Sequence[Inbox], message: Control, patience: float) -> None:
    """Say a last word on every connection, see it off, and close."""
    for outbox in outboxes:
        with contextlib.suppress(OSError):
            outbox.say(message)
    for outbox in outboxes:
        outbox.close(*(2.0, 6.0) if isinstance(message, Abort) else (patience,))
    for inbox in inboxes:
        inbox.close()
