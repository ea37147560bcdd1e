"""What the helper deals for one step of the protocol, in bulk.

The material of a step is one run of bytes from the stream of the helper and a party: first the *free* part,
uniform shares that everybody expands; then the *bound* part, shares that must add up to something, which all
parties but one expand, and that one receives. Words of w bits are packed into as few bytes as they need.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import MaterialReused, ProtocolError
from coterie.ring.packing import add_packed, pack_difference, packed_bytes, unpack, wire_size
from coterie.sharing import Masked, Party

__all__ = ["Part", "Step", "bits", "raw_words", "shorts", "words"]


class Part:
    """A named stretch of a step's bytes."""

    def __init__(self, kind: str, shape: tuple[int, ...], width: int) -> None:
        self.kind, self.shape, self.width = kind, shape, width
        self.count = math.prod(shape)
        self.bytes = packed_bytes(self.count, width)


def words(*shape: int, width: int) -> Part:
    """Shares over Z_2^width."""
    return Part("words", shape, width)


def raw_words(*shape: int) -> Part:
    """Uniform words of 64 bits, of which kernels use the lower ones: for free parts in bulk, which stay as the
    stream gives them."""
    return Part("raw", shape, 64)


def bits(*shape: int) -> Part:
    """XOR shares of bits, 64 a word."""
    return Part("bits", shape, 64)


def shorts(*shape: int) -> Part:
    """XOR shares of 16-bit tables."""
    return Part("shorts", shape, 16)


class Step:
    """The material of one step at one role.

    At a data party `free` and `bound` give a part, once. At the helper `free` gives what the shares add up
    to; `correct`, or XOR into `target`, makes the receiver's share; `send` sends it.
    """

    def __init__(self, me: Party, purpose: str, free: dict[str, Part], bound: dict[str, Part]) -> None:
        self.me, self.purpose = me, purpose
        self._parts = {**free, **bound}
        self._at: dict[str, int] = {}
        sizes = []
        for parts in (free, bound):
            at = 0
            for name, part in parts.items():
                self._at[name] = at
                at += part.bytes
            sizes.append(at)
        self._free = free
        self._receiver = me.dealt.next_receiver(sizes[1]) if bound else 0
        self._taken: set[str] = set()
        if me.deals:
            self._free_runs, self._other_runs = [], []
            for j in me.world.servers:
                stream = me.streams.dealt_run(j)
                self._free_runs.append(stream.read(sizes[0]))
                if bound and j != self._receiver:
                    self._other_runs.append(stream.read(sizes[1]))
            if bound:  # the correction takes the place of one of the others' shares
                self._correction = self._other_runs[0]
            return
        stream = me.streams.dealt_run(me.rank)
        self._free_runs = [stream.read(sizes[0])]
        if bound:
            if me.rank == self._receiver:
                self._other_runs = [me.channel.receive(0, np.uint8, (sizes[1],))[0]]
            else:
                self._other_runs = [stream.read(sizes[1])]

    def free(self, name: str) -> NDArray[Any]:
        """A uniform part: this party's share or, at the helper, the value."""
        return self._sum(name, self._free_runs)

    def masked(self, name: str, blinded: NDArray[np.uint64]) -> Masked:
        """What a kernel has blinded with a uniform part, which masks nothing else."""
        if name not in self._free or self._parts[name].count != blinded.size:
            raise ProtocolError(f"{name} of {self.purpose} is no mask for {blinded.size} values")
        if name not in self._taken or f"mask {name}" in self._taken:
            raise MaterialReused(f"{name} of {self.purpose} masks one value, once")
        self._taken.add(f"mask {name}")
        return Masked(blinded)

    def bound(self, name: str) -> NDArray[Any]:
        """This party's share of a part that adds up."""
        return self._sum(name, self._other_runs)

    def correct(self, name: str, value: NDArray[Any]) -> None:
        """At the helper: the receiver's share of a part, so that all shares add up to the value."""
        part, at = self._parts[name], self._at[name]
        target = self._correction[at : at + part.bytes]
        others = self._sum(name, self._other_runs)
        if part.kind == "words":
            mask, size = np.uint64((1 << part.width) - 1), wire_size(part.width)
            pack_difference(np.ascontiguousarray(value).reshape(-1), others.reshape(-1), mask, size, target)
        else:
            target[:] = np.ascontiguousarray(value ^ others).reshape(-1).view(np.uint8)[: part.bytes]

    def target(self, name: str) -> NDArray[Any]:
        """At the helper: the XOR of the shares that others have of a part, in the place of the receiver's: XOR
        the value into it."""
        part, at = self._parts[name], self._at[name]
        self._taken.add(name)
        mine = self._viewed(part, self._correction[at : at + part.bytes])
        for run in self._other_runs[1:]:
            mine ^= self._viewed(part, run[at : at + part.bytes])
        return mine

    def send(self) -> None:
        """At the helper: the correction leaves, once every part of it is made."""
        missing = [name for name in self._parts if name not in self._free and name not in self._taken]
        if missing:
            raise ProtocolError(f"{missing[0]} of {self.purpose} was not dealt")
        self.me.channel.send(self._receiver, self._correction, dealt=True)

    def _sum(self, name: str, runs: list[NDArray[np.uint8]]) -> NDArray[Any]:
        if name in self._taken:
            raise MaterialReused(f"{name} of {self.purpose} was used before")
        self._taken.add(name)
        part, at = self._parts[name], self._at[name]
        stretches = [run[at : at + part.bytes] for run in runs]
        if part.kind == "words":
            total = np.empty(part.count, np.uint64)
            mask, size = np.uint64((1 << part.width) - 1), wire_size(part.width)
            unpack(total, stretches[0], size, mask)
            for stretch in stretches[1:]:
                add_packed(total, stretch, size, mask)
            return total.reshape(part.shape)
        views = [self._viewed(part, stretch) for stretch in stretches]
        combined = views[0]
        for view in views[1:]:
            combined = combined + view if part.kind == "raw" else combined ^ view
        return combined

    @staticmethod
    def _viewed(part: Part, stretch: NDArray[np.uint8]) -> NDArray[Any]:
        dtype = np.uint16 if part.kind == "shorts" else np.uint64
        return stretch.view(dtype)[: part.count].reshape(part.shape)
