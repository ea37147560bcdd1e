"""Keeping a copy of everything a party sends and receives: for tests of what parties see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from coterie.transport.channel import Channel, Stamp

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = ["Frame", "Recording"]


@dataclass(frozen=True, repr=False)
class Frame:
    """One array that crossed the channel."""

    sender: int
    receiver: int
    array: Array


class Recording(Channel):
    """A channel that remembers, around any other."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner
        self.world, self.rank, self.lane = inner.world, inner.rank, inner.lane
        self.frames: list[Frame] = []
        self.notes: list[tuple[int, int, bool]] = []  # sender, receiver, bit

    @property
    def received(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.receiver == self.rank]

    @property
    def sent(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.sender == self.rank]

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        self.frames.append(Frame(self.rank, to, array.copy()))
        self.inner.send(to, array, stamp)

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        array, stamp = self.inner.receive(sender, dtype, shape)
        self.frames.append(Frame(sender, self.rank, array.copy()))
        return array, stamp

    def tell(self, to: int, value: bool) -> None:
        self.notes.append((self.rank, to, value))
        self.inner.tell(to, value)

    def hear(self, sender: int) -> bool:
        value = self.inner.hear(sender)
        self.notes.append((sender, self.rank, value))
        return value

    def post(self, to: int, body: bytes) -> None:
        self.inner.post(to, body)

    def collect(self, sender: int) -> bytes:
        return self.inner.collect(sender)

    def abort(self, culprit: int, reason: str) -> None:
        self.inner.abort(culprit, reason)

    def close(self) -> None:
        self.inner.close()
