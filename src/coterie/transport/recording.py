"""Keeping a copy of everything a party sends and receives: for tests of what parties see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from numpy.typing import DTypeLike

from coterie.transport.channel import Channel, Stamp

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["Event", "Frame", "Recording"]

Verb = Literal["send", "receive", "tell", "hear", "post", "collect", "abort"]


@dataclass(frozen=True, repr=False)
class Frame:
    """One array that crossed the channel."""

    sender: int
    receiver: int
    array: Array


@dataclass(frozen=True, repr=False, eq=False)
class Event:
    """One thing that crossed the channel: an array, a bit, a letter, or an abort (culprit, reason), which goes to every
    peer and has no one `receiver`."""

    verb: Verb
    sender: int
    receiver: int | None
    content: Array | bool | bytes | tuple[int, str]


class Recording(Channel):
    """A channel that remembers, around any other: `events` has everything in order, the other lists each kind."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner
        self.world, self.rank, self.lane = inner.world, inner.rank, inner.lane
        self.events: list[Event] = []
        self.frames: list[Frame] = []
        self.notes: list[tuple[int, int, bool]] = []  # sender, receiver, bit
        self.letters: list[tuple[int, int, bytes]] = []  # sender, receiver, body

    @property
    def received(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.receiver == self.rank]

    @property
    def sent(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.sender == self.rank]

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        self._keep_array("send", self.rank, to, array)
        self.inner.send(to, array, stamp)

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        array, stamp = self.inner.receive(sender, dtype, shape)
        self._keep_array("receive", sender, self.rank, array)
        return array, stamp

    def gather(self) -> None:
        self.inner.gather()

    def flush(self) -> None:
        self.inner.flush()

    def tell(self, to: int, value: bool) -> None:
        self._keep_note("tell", self.rank, to, value)
        self.inner.tell(to, value)

    def hear(self, sender: int) -> bool:
        value = self.inner.hear(sender)
        self._keep_note("hear", sender, self.rank, value)
        return value

    def post(self, to: int, body: bytes) -> None:
        self._keep_letter("post", self.rank, to, body)
        self.inner.post(to, body)

    def collect(self, sender: int) -> bytes:
        body = self.inner.collect(sender)
        self._keep_letter("collect", sender, self.rank, body)
        return body

    def abort(self, culprit: int, reason: str) -> None:
        self.events.append(Event("abort", self.rank, None, (culprit, reason)))
        self.inner.abort(culprit, reason)

    def close(self) -> None:
        self.inner.close()

    def _keep_array(self, verb: Verb, sender: int, receiver: int, array: Array) -> None:
        copy = array.copy()
        self.frames.append(Frame(sender, receiver, copy))
        self.events.append(Event(verb, sender, receiver, copy))

    def _keep_note(self, verb: Verb, sender: int, receiver: int, value: bool) -> None:
        self.notes.append((sender, receiver, value))
        self.events.append(Event(verb, sender, receiver, value))

    def _keep_letter(self, verb: Verb, sender: int, receiver: int, body: bytes) -> None:
        self.letters.append((sender, receiver, bytes(body)))
        self.events.append(Event(verb, sender, receiver, bytes(body)))
