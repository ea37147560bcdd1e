"""The receiving side of one TLS connection.

Two limits hold while a peer is waited for. One that is silent for `patience` seconds is lost. One whose heart beats is
there, but if nothing else comes of it for `progress` seconds, the wait ends too. A peer that says, with its heartbeats,
that it waits for somebody itself has `PATIENT` times as long: so whoever waits for the one that is stuck gives up
first, and names it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast
from weakref import WeakMethod

from coterie.errors import FrameError, PeerLost
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    HEADER_BYTES,
    START_BYTES,
    Abort,
    Control,
    Goodbye,
    Header,
    Heartbeat,
    Stamp,
    World,
    decode_control,
    stamp_before,
    start_of_header,
    unasked,
)
from coterie.transport.wording import broken

__all__ = ["PATIENT", "PROGRESS", "Inbox"]

#: Bytes read at once where nobody wants them.
CHUNK = 1 << 18
#: Bytes that are read ahead, at most: a few TLS records.
AHEAD = 1 << 15
#: How many heartbeats are taken away at a time; others want to be looked at, too.
HEARTBEATS = 100
#: Seconds, at most, in which to look at what was left unread.
TIDY = 1.0
#: The limit on progress if none is given, in units of `patience`; and how many times as long one has that itself waits.
PROGRESS, PATIENT = 30, 3


class Inbox:
    """The receiving side of one connection."""

    def __init__(
        self,
        sock: ssl.SSLSocket,
        world: World,
        sender: int,
        rank: int,
        lane: int,
        patience: float,
        progress: float | None = None,
    ) -> None:
        sock.settimeout(patience)
        self.sock, self.session = sock, world.session
        self.peer, self.sender, self.rank, self.lane = world.names[sender], sender, rank, lane
        self.patience = patience
        self.progress = PROGRESS * patience if progress is None else progress
        self.due = 0
        #: What was read ahead lies from `at` to `end`.
        self.ahead, self.at, self.end = memoryview(bytearray(AHEAD)), 0, 0
        self.seen: tuple[Header, Control | None] | None = None  # what `glance` has found
        self.last = time.monotonic()  # of a sign of life
        self.waits = False  # what the last heartbeat said
        #: The method of a channel, which holds this, to be called before this waits for bytes that have not come yet.
        self.before_wait: WeakMethod[Callable[[], None]] | None = None

    @cached_property
    def _poll(self) -> select.poll:
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        return poll

    def next(self, kind: int, length: int) -> tuple[Stamp, Control | None]:
        """The next frame that is no heartbeat: a control message, or what was expected, with its stamp, and its bytes
        still to come."""
        began = 0.0
        while True:
            found, self.seen = self.seen, None
            if found is not None and found[1] is not None:
                return found[0].stamp, found[1]
            if found is None:
                if self.end - self.at < HEADER_BYTES:
                    began = began or time.monotonic()
                    self._read_header()
                right = start_of_header(kind, self.lane, self.sender, self.rank, self.session, self.due, length)
                at = self.at
                if self.ahead[at : at + START_BYTES] == right:  # as it is nearly always
                    self.due += 1
                    self.at = at + HEADER_BYTES
                    return stamp_before(self.ahead, self.at), None
            header = found[0] if found is not None else self._header()
            expected = Header(kind, self.lane, self.sender, self.rank, self.session, self.due, length, Stamp())
            header.check(expected, self.peer)
            self.due += 1
            if header.kind != CONTROL:
                return header.stamp, None
            message = self._control(header)
            if not isinstance(message, Heartbeat):
                return header.stamp, message
            self.waits = message.waits
            self.check_progress(began or time.monotonic())

    def check_progress(self, since: float) -> None:
        """Raise if the peer, though connected, has got nowhere since then for longer than it may."""
        limit = self.progress * (PATIENT if self.waits else 1)
        if time.monotonic() - since > limit:
            waits = "; it says that it waits for another one itself" if self.waits else ""
            raise PeerLost(
                f"{self.peer} is connected, but nothing has come of it for {limit:g} seconds{waits}", self.peer
            )

    def fill(self, buffer: memoryview[Any]) -> None:
        """The next bytes: from what was read ahead, then from the connection."""
        size, at = len(buffer), self.at
        if size <= self.end - at:  # as it is mostly, where rows are few
            buffer[:] = self.ahead[at : at + size]
            self.at = at + size
            return
        done = self.end - at
        buffer[:done] = self.ahead[at : self.end]
        self.at = self.end
        while done < size:
            done += self._read(buffer[done:])

    def _read(self, buffer: memoryview[Any]) -> int:
        """Wait for some bytes; how many have come."""
        try:
            if self.before_wait is not None and not self.sock.pending() and not self._poll.poll(0):
                call = self.before_wait()
                if call is not None:
                    call()
            count = cast(int, self.sock.read(len(buffer), buffer))  # recv_into with fewer layers: one call a TLS record
        except TimeoutError as error:
            raise PeerLost(f"{self.peer} has been silent for {self.patience:g} seconds", self.peer) from error
        except (OSError, ValueError) as error:  # ValueError: this side has closed it
            raise PeerLost(broken(self.peer, error), self.peer) from error
        if not count:
            raise PeerLost(f"{self.peer} has closed its connection without a word", self.peer)
        self.last = time.monotonic()
        return count

    def _read_header(self) -> None:
        """Read ahead until a header is there."""
        while self.end - self.at < HEADER_BYTES:
            count = self._read(self._room())  # which moves what is there
            self.end += count

    def _room(self) -> memoryview[Any]:
        """Where to read ahead; what is there already goes to the front."""
        if self.at:
            left = self.end - self.at
            self.ahead[:left] = self.ahead[self.at : self.end]
            self.at, self.end = 0, left
        return self.ahead[self.end :]

    def glance(self) -> Abort | None:
        """Look, without waiting, whether the peer is still there, while nothing of it is due yet.

        Takes heartbeats away; what else has come stays for `next`. Returns what a peer that stopped has said.
        """
        for _ in range(HEARTBEATS):
            if self.seen is not None:
                return None
            self.sock.setblocking(False)
            try:
                while self.end - self.at < HEADER_BYTES:
                    room = self._room()
                    count = cast(int, self.sock.read(len(room), room))
                    if not count:
                        raise PeerLost(f"{self.peer} has closed its connection without a word", self.peer)
                    self.end += count
                    self.last = time.monotonic()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if time.monotonic() - self.last > self.patience:
                    raise PeerLost(f"{self.peer} has been silent for {self.patience:g} seconds", self.peer) from None
                return None
            except (OSError, ValueError) as error:
                raise PeerLost(broken(self.peer, error), self.peer) from error
            finally:
                with contextlib.suppress(OSError):
                    self.sock.settimeout(self.patience)
            header = self._header()
            kind, length = header.kind, header.length  # what these must be, of an array, is known when it is due
            expected = Header(kind, self.lane, self.sender, self.rank, self.session, self.due, length, Stamp())
            header.check(expected, self.peer)
            if header.kind != CONTROL:
                self.seen = header, None
                return None
            self.due += 1
            message = self._control(header)
            if isinstance(message, Abort):
                return message
            if isinstance(message, Heartbeat):
                self.waits = message.waits
            else:
                self.seen = header, message
        return None

    def check_all_read(self) -> None:
        """Raise if the peer has sent anything, but heartbeats and a goodbye, that nobody has read. Does not wait."""
        end = time.monotonic() + TIDY
        with contextlib.suppress(PeerLost):
            while time.monotonic() < end:
                before = self.due
                if self.glance() is not None:
                    return
                if self.seen is not None:
                    if not isinstance(self.seen[1], Goodbye):
                        raise unasked(self.peer)
                    self.seen = None
                elif self.due == before:
                    return

    def watch(self, seconds: float) -> Abort | None:
        """Is the peer still there? Only for when all is over: what it sends is thrown away.

        Returns what it says if it stops, and None if it is there: something of it has come in the last three quarters
        of the time, so that what was on its way does not count. Raises if it is gone or silent.
        """
        began = heard = time.monotonic()
        raw, skip = bytearray(self.ahead[self.at : self.end]), 0
        if self.seen is not None:
            skip = self.seen[0].length if self.seen[1] is None else 0
            if isinstance(self.seen[1], Goodbye):
                raise PeerLost(f"{self.peer} has finished", self.peer)
        try:
            while (left := began + seconds - time.monotonic()) > 0:
                self.sock.settimeout(left)
                part = self.sock.recv(CHUNK)
                if not part:
                    raise PeerLost(f"{self.peer} has closed its connection without a word", self.peer)
                heard = time.monotonic()
                raw += part
                message, skip = self._last_of(raw, skip)
                if message is not None:
                    return message
        except TimeoutError:
            pass
        except (OSError, ValueError) as error:
            raise PeerLost(broken(self.peer, error), self.peer) from error
        if heard - began < seconds / 4:
            raise PeerLost(f"{self.peer} is silent", self.peer)
        return None

    def _last_of(self, raw: bytearray, skip: int) -> tuple[Abort | None, int]:
        """Go through what has come, `skip` bytes of which nobody wants. An abort, if there is one, and how many bytes
        nobody will want of what comes next; what is not complete stays in `raw`."""
        while True:
            gone = min(skip, len(raw))
            del raw[:gone]
            skip -= gone
            if skip or len(raw) < HEADER_BYTES:
                return None, skip
            header = Header.unpack(raw[:HEADER_BYTES], self.peer)
            if header.kind == CONTROL and header.length <= CONTROL_LIMIT:
                end = HEADER_BYTES + header.length
                if len(raw) < end:
                    return None, 0
                message = decode_control(raw[HEADER_BYTES:end], self.peer)
                if isinstance(message, Abort):
                    return message, 0
                if isinstance(message, Goodbye):
                    raise PeerLost(f"{self.peer} has finished", self.peer)
                del raw[:end]
            else:
                del raw[:HEADER_BYTES]
                skip = header.length

    def last_words(self) -> Abort | None:
        """What a peer that closed has said of it, behind what it sent before."""
        with contextlib.suppress(PeerLost, FrameError):
            return self.watch(TIDY)
        return None

    def _header(self) -> Header:
        self._read_header()
        raw = self.ahead[self.at : self.at + HEADER_BYTES]
        self.at += HEADER_BYTES
        return Header.unpack(raw, self.peer)

    def _control(self, header: Header) -> Control:
        raw = bytearray(header.length)
        self.fill(memoryview(raw))
        return decode_control(raw, self.peer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads
        self.sock.close()
