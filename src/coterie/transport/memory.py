"""Channels between threads of one process.

They keep the contract of the real ones: headers are made and checked, arrays become read-only, an
abort reaches everybody who waits, and the helper is held back when it runs too far ahead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import PeerLost, TransportError
from coterie.transport.channel import (
    CONTROL,
    Abort,
    Channel,
    Control,
    Goodbye,
    Header,
    Letter,
    Note,
    Stamp,
    World,
    dtype_code,
    letter,
    trouble,
    unasked,
)

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["MemoryChannel", "memory_channels"]

C = TypeVar("C", bound=Control)

#: How many bytes the dealer may be ahead of a party.
DEALER_AHEAD = 64 << 20
#: Seconds for which a peer is watched that another one blames.
WATCH = 1.0


class _Pipe:
    """Frames from one party to another, in order."""

    def __init__(self, limit: int | None) -> None:
        self.frames: deque[tuple[Header, Array | Control]] = deque()
        self.changed = threading.Condition()
        self.limit = limit
        self.waiting = 0  # bytes in the pipe
        self.closed = False

    def put(self, header: Header, body: Array | Control) -> None:
        with self.changed:
            if self.limit is not None and header.kind != CONTROL:
                self.changed.wait_for(lambda: self.closed or self.waiting <= (self.limit or 0))
            self.frames.append((header, body))
            self.waiting += header.length
            self.changed.notify_all()

    def get(self, timeout: float | None) -> tuple[Header, Array | Control] | None:
        with self.changed:
            if not self.changed.wait_for(lambda: self.frames or self.closed, timeout) or not self.frames:
                return None
            header, body = self.frames.popleft()
            self.waiting -= header.length
            self.changed.notify_all()
            return header, body

    def watch(self, seconds: float) -> Control | None:
        """What was said last, if the sender closes within this time; None if it does not."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.closed, seconds):
                return None
            last = self.frames[-1][1] if self.frames else Goodbye()
            return Goodbye() if isinstance(last, np.ndarray) else last

    def unread(self) -> bool:
        """Is there anything but a last word?"""
        with self.changed:
            return any(not isinstance(body, Abort | Goodbye) for _, body in self.frames)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class MemoryChannel(Channel):
    """One party's ends of the pipes."""

    def __init__(
        self, world: World, rank: int, pipes: dict[tuple[int, int], _Pipe], patience: float | None, lane: int
    ) -> None:
        self.world, self.rank, self.lane = world, rank, lane
        self._pipes = pipes
        self._patience = patience
        self._sent = dict.fromkeys(world.peers(rank), 0)
        self._received = dict.fromkeys(world.peers(rank), 0)
        self._closed = False

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        view = np.ascontiguousarray(array).view()
        view.flags.writeable = False
        self._put(to, dtype_code(view.dtype), view.nbytes, stamp, view)

    def tell(self, to: int, value: bool) -> None:
        self._put(to, CONTROL, 0, Stamp(), Note(value))

    def _put(self, to: int, kind: int, length: int, stamp: Stamp, body: Array | Control) -> None:
        pipe = self._pipes[self.rank, to]
        if pipe.closed:
            last = self._pipes[to, self.rank].watch(0)
            if isinstance(last, Abort):
                raise self._trouble(last, to)
            raise PeerLost(f"{self._name(to)} has closed its connection", self._name(to))
        pipe.put(self._outgoing(to, self._sent[to], kind, length, stamp), body)
        self._sent[to] += 1

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        header, body = self._get(self._expected(sender, self._received[sender], dtype, shape))
        if not isinstance(body, np.ndarray):
            raise self._trouble(body, sender)
        return body.reshape(shape), header.stamp

    def post(self, to: int, body: bytes) -> None:
        self._put(to, CONTROL, 0, Stamp(), letter(body))

    def hear(self, sender: int) -> bool:
        return self._message(sender, Note).value

    def collect(self, sender: int) -> bytes:
        return self._message(sender, Letter).body

    def _message(self, sender: int, kind: type[C]) -> C:
        _, body = self._get(self._expected_control(sender, self._received[sender]))
        if isinstance(body, kind):
            return body
        raise self._trouble(None if isinstance(body, np.ndarray) else body, sender)

    def _get(self, expected: Header) -> tuple[Header, Array | Control]:
        pipe, peer = self._pipes[expected.sender, self.rank], self._name(expected.sender)
        frame = pipe.get(self._patience)
        if frame is None:
            raise PeerLost(f"{peer} {'has closed its connection' if pipe.closed else 'has gone silent'}", peer)
        frame[0].check(expected, peer)
        self._received[expected.sender] += 1
        return frame

    def abort(self, culprit: int, reason: str) -> None:
        self._farewell(Abort(culprit, reason))

    def close(self) -> None:
        if self._closed:
            return
        self._farewell(Goodbye())
        for sender in self.world.peers(self.rank):
            if self._pipes[sender, self.rank].unread():
                raise unasked(self._name(sender))

    def _farewell(self, message: Control) -> None:
        if self._closed:
            return
        self._closed = True
        for to in self.world.peers(self.rank):
            self._pipes[self.rank, to].put(self._outgoing(to, self._sent[to], CONTROL, 0, Stamp()), message)
            self._pipes[self.rank, to].close()
            self._pipes[to, self.rank].close()

    def _trouble(self, message: Control | None, sender: int) -> TransportError:
        return trouble(message, sender, self.rank, self.world, self._look)

    def _look(self, accused: int) -> Abort | None:
        last = self._pipes[accused, self.rank].watch(WATCH)
        if last is None or isinstance(last, Abort):
            return last
        raise PeerLost(f"{self._name(accused)} has closed its connection", self._name(accused))


def memory_channels(world: World, patience: float | None = None, lane: int = 0) -> list[MemoryChannel]:
    """A channel for everybody, in the order of ranks, all connected, on one lane."""
    pipes = {(i, j): _Pipe(DEALER_AHEAD if i == world.dealer else None) for i in world.ranks for j in world.peers(i)}
    return [MemoryChannel(world, rank, pipes, patience, lane) for rank in world.ranks]
