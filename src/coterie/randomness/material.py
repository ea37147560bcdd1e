"""What a step needs and opens, declared once: the dealer deals by it, openings are checked by it, forecasts add it up.

A step's *material* has two kinds of pieces. *Masks* are uniform; each hides one value, which is then opened: so they
are also the list of what the step opens. *Bound* pieces add up to something that the dealer computes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.ring import Array, Prime, Ring, Words
from coterie.ring.kernels import bits_minus
from coterie.ring.moduli import ByteSource
from coterie.ring.packing import add_packed, pack, pack_difference, packed_bytes, unpack, wire_size

__all__ = ["Elements", "Material", "Piece", "Xor", "bits", "bits_over", "elements", "raw_words", "shorts", "words"]

Raw = NDArray[np.uint8]


class Piece(ABC):
    """Shares of one array: how they are stored as bytes, add up, and travel.

    `bytes`: of a share, in a stream and in a correction. `wire`: of the frame that opens a value which it masks.
    """

    bytes: int
    wire: int
    #: Whether any bytes are a uniform share.
    plain = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.count = shape, math.prod(shape)

    def draw(self, source: ByteSource) -> Raw:
        """A uniform share."""
        return source.read(self.bytes)

    @abstractmethod
    def total(self, shares: list[Raw]) -> Array:
        """What shares add up to; a share itself, if there is one."""

    @abstractmethod
    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        """Into `out`, which may be one of the others, the share that makes all of them add up to the value."""

    def pack(self, masked: Array) -> Array:
        """What is sent of a masked share."""
        return masked

    @abstractmethod
    def add(self, total: Array, received: Array) -> Array:
        """The sum with what somebody else has sent of a masked share."""


class Packed(Piece):
    """Over Z_2^w, in as few bytes as words of w bits need."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(shape)
        self.width, self.size, self.modulo = width, wire_size(width), np.uint64((1 << width) - 1)
        self.bytes = self.wire = packed_bytes(self.count, width)

    def total(self, shares: list[Raw]) -> Array:
        out = np.empty(self.count, np.uint64)
        unpack(out, shares[0], self.size, self.modulo)
        for share in shares[1:]:
            add_packed(out, share, self.size, self.modulo)
        return out.reshape(self.shape)

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        rest = self.total(others).reshape(-1)
        pack_difference(np.ascontiguousarray(value).reshape(-1), rest, self.modulo, self.size, out)

    def pack(self, masked: Array) -> Array:
        packed = np.empty(self.wire, np.uint8)
        packed[self.count * self.size :] = 0
        pack(masked.reshape(-1), self.size, packed)
        return packed

    def add(self, total: Array, received: Array) -> Array:
        """Into the total, which was packed and not sent."""
        flat = total.reshape(-1)
        add_packed(flat, received, self.size, self.modulo)
        return flat.reshape(total.shape)


class Unpacked(Packed):
    """Uniform words of 64 bits, as the stream gives them, of which kernels use the lower w."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(shape, width)
        self.bytes = 8 * self.count

    def total(self, shares: list[Raw]) -> Array:
        first, *rest = [share.view(np.uint64).reshape(self.shape) for share in shares]
        for share in rest:
            first = first + share
        return first

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:  # noqa: ARG002
        raise ProtocolError("unpacked words are masks, and add up to nothing else")


class Xor(Piece):
    """Bits that add up by XOR, so many in a word of the given type."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.unsignedinteger]) -> None:
        super().__init__(shape)
        self.dtype = np.dtype(dtype)
        self.bytes = self.wire = packed_bytes(self.count, 8 * self.dtype.itemsize)

    def view(self, share: Raw) -> Array:
        return share.view(self.dtype)[: self.count].reshape(self.shape)

    def total(self, shares: list[Raw]) -> Array:
        first, *rest = map(self.view, shares)
        for share in rest:
            first = first ^ share
        return first

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        self.view(out)[...] = value ^ self.total(others)

    def add(self, total: Array, received: Array) -> Array:
        return total ^ received


class Elements(Piece):
    """Over any ring, as it stores its elements."""

    def __init__(self, ring: Ring, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.ring, self.plain = ring, isinstance(ring, Words)
        self.bytes = self.wire = self.count * ring.dtype.itemsize

    def draw(self, source: ByteSource) -> Raw:
        return self.ring.sample(source, (self.count,)).view(np.uint8)

    def view(self, share: Raw) -> Array:
        own = share.view(self.ring.dtype).reshape(self.shape)
        return self.ring.reduce(own) if isinstance(self.ring, Words) else own

    def total(self, shares: list[Raw]) -> Array:
        first, *rest = map(self.view, shares)
        for share in rest:
            first = self.ring.add(first, share)
        return first

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        out.view(self.ring.dtype).reshape(self.shape)[...] = self.ring.sub(value, self.total(others))

    def add(self, total: Array, received: Array) -> Array:
        return self.ring.add(total, received)


class BitsOver(Elements):
    """Over Z_q, the bits of words (count,): what shares add up to is given by the words."""

    ring: Prime

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        shares = np.stack(others).reshape(-1, *self.shape)
        bits_minus(value, shares, self.ring.q, out.reshape(self.shape))


def words(*shape: int, width: int) -> Piece:
    """Shares over Z_2^width, packed."""
    return Packed(shape, width)


def raw_words(*shape: int, width: int) -> Piece:
    """As `words`, for masks in bulk: unpacked, their upper bits left for the kernel to cut off."""
    return Unpacked(shape, width)


def bits(*shape: int) -> Piece:
    """XOR shares of bits, 64 a word."""
    return Xor(shape, np.uint64)


def shorts(*shape: int) -> Piece:
    """XOR shares of tables of 16 bits."""
    return Xor(shape, np.uint16)


def elements(ring: Ring, *shape: int) -> Elements:
    """Shares over a ring."""
    return Elements(ring, shape)


def bits_over(field: Prime, count: int, width: int) -> Piece:
    """Shares over a field of the bits of so many words, lowest first."""
    return BitsOver(field, (count, width))


@dataclass(frozen=True)
class Material:
    """The declaration of one step: what is dealt for it, and what it opens under which mask.

    `to`: the ranks that masked values are opened to; None: all who serve. `rounds`: that these openings take.
    `answer`: the dealer deals in answer to what it was sent, so that somebody waits for it.
    """

    purpose: str
    masks: dict[str, Piece] = field(default_factory=dict)
    bound: dict[str, Piece] = field(default_factory=dict)
    to: Sequence[int] | None = None
    rounds: int = 1
    answer: bool = False

    def mask(self, name: str) -> Piece:
        piece = self.masks.get(name)
        if piece is None:
            raise ProtocolError(f"{name} of {self.purpose} is no mask")
        return piece

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each piece lies in the bytes of its kind, on a multiple of 8."""
        found = {}
        for pieces in (self.masks, self.bound):
            at = 0
            for name, piece in pieces.items():
                at = -(-at // 8) * 8
                found[name] = slice(at, at + piece.bytes)
                at += piece.bytes
        return found

    @property
    def mask_bytes(self) -> int:
        """Of a party's share of all masks."""
        return self._end(self.masks)

    @property
    def bound_bytes(self) -> int:
        """Of the correction."""
        return self._end(self.bound)

    def _end(self, pieces: dict[str, Piece]) -> int:
        return self.places[next(reversed(pieces))].stop if pieces else 0

    def draw(self, pieces: dict[str, Piece], source: ByteSource) -> Raw:
        """A uniform share of all masks, or of all bound pieces."""
        if all(piece.plain for piece in pieces.values()):
            return source.read(self._end(pieces))
        out = np.zeros(self._end(pieces), np.uint8)
        for name, piece in pieces.items():
            out[self.places[name]] = piece.draw(source)
        return out
