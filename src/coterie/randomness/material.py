"""What a step needs and opens, declared once: the dealer deals by it, openings are checked by it, forecasts add it up.

A step's *material* has three kinds of pieces. *Masks* are uniform; each hides one value, which is then opened: so they
are also the list of what the step opens, with what it *opens* under noise that came with an earlier step. *Free* pieces
are uniform, too, and are added to what stays secret, as noise that the dealer alone knows. *Bound* pieces add up to
something that the dealer computes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.ring import Array, Prime, Ring, Words
from coterie.ring.kernels import bits_minus
from coterie.ring.moduli import ByteSource
from coterie.ring.packing import add_packed, pack, pack_difference, packed_bytes, unpack, wire_size

__all__ = [
    "Bits",
    "BitsOver",
    "Elements",
    "Material",
    "Packed",
    "Piece",
    "Pieces",
    "Raw",
    "Tables",
    "Unpacked",
    "declared",
]

Raw = NDArray[np.uint8]
NONE: Mapping[str, Piece] = {}
EVERYBODY: Mapping[str, Sequence[int]] = {}
NO_BYTES: Raw = np.empty(0, np.uint8)


class Piece(ABC):
    """Shares of one array: how they are stored as bytes, add up, and travel.

    `bytes`: of a share, in a stream and in a correction. `wire`: of the frame that opens a value which it masks.
    `plain`: any bytes are a uniform share.
    """

    plain = True

    def __init__(self, shape: tuple[int, ...], size: int) -> None:
        self.shape, self.count, self.bytes, self.wire = shape, math.prod(shape), size, size

    def draw(self, source: ByteSource) -> Raw:
        """A uniform share."""
        return source.read(self.bytes)

    @abstractmethod
    def read(self, share: Raw) -> Array:
        """A share, as values."""

    @abstractmethod
    def total(self, shares: list[Raw]) -> Array:
        """What shares add up to."""

    @abstractmethod
    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        """Into `out`, which may be one of the others, the share that makes all of them add up to the value."""

    def pack(self, masked: Array) -> Array:
        """What is sent of a masked share."""
        return masked

    @abstractmethod
    def add(self, total: Array, received: Array) -> Array:
        """The sum with what somebody else has sent of a masked share."""

    @abstractmethod
    def part(self, count: int) -> Piece:
        """So many of its values, which follow each other: how these are sent, and add up."""

    def split(self, count: int) -> list[tuple[slice, Piece]]:
        """So many parts, about equal, that are this whole piece together, and where each lies in it."""
        edges = [self.count * i // count for i in range(count + 1)]
        return [(slice(low, high), self.part(high - low)) for low, high in pairwise(edges)]


class Packed(Piece):
    """Over Z_2^w, in as few bytes as words of w bits need."""

    def __init__(self, *shape: int, width: int) -> None:
        super().__init__(shape, packed_bytes(math.prod(shape), width))
        self.width = width
        self.size, self.modulo = wire_size(width), np.uint64((1 << width) - 1)

    def read(self, share: Raw) -> Array:
        out = np.empty(self.count, np.uint64)
        unpack(out, share, self.size, self.modulo)
        return out.reshape(self.shape)

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

    def part(self, count: int) -> Piece:
        return Packed(count, width=self.width)


class Unpacked(Packed):
    """As `Packed`, for masks in bulk: words of 64 bits as the stream gives them, cut to w bits by the kernel that masks
    with them."""

    def __init__(self, *shape: int, width: int) -> None:
        super().__init__(*shape, width=width)
        self.bytes = 8 * self.count

    def read(self, share: Raw) -> Array:
        return share.view(np.uint64).reshape(self.shape)

    def total(self, shares: list[Raw]) -> Array:
        return reduce(np.add, map(self.read, shares))

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:  # noqa: ARG002
        raise ProtocolError("unpacked words are masks, and add up to nothing else")


class Bits(Piece):
    """XOR shares of bits, 64 a word."""

    dtype: type[np.unsignedinteger] = np.uint64

    def __init__(self, *shape: int) -> None:
        super().__init__(shape, packed_bytes(math.prod(shape), 8 * np.dtype(self.dtype).itemsize))

    def read(self, share: Raw) -> Array:
        """In its place."""
        return share.view(self.dtype)[: self.count].reshape(self.shape)

    def total(self, shares: list[Raw]) -> Array:
        return reduce(np.bitwise_xor, map(self.read, shares))

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        self.read(out)[...] = value ^ self.total(others)

    def add(self, total: Array, received: Array) -> Array:
        return total ^ received

    def part(self, count: int) -> Piece:
        return Bits(count)


class Tables(Bits):
    """XOR shares of tables of 16 bits."""

    dtype = np.uint16


class Elements(Piece):
    """Over any ring, as it stores its elements."""

    def __init__(self, ring: Ring, *shape: int) -> None:
        super().__init__(shape, math.prod(shape) * ring.dtype.itemsize)
        self.ring, self.plain = ring, isinstance(ring, Words)

    def draw(self, source: ByteSource) -> Raw:
        return self.ring.sample(source, (self.count,)).view(np.uint8)

    def read(self, share: Raw) -> Array:
        own = share.view(self.ring.dtype).reshape(self.shape)
        return self.ring.reduce(own) if isinstance(self.ring, Words) else own

    def total(self, shares: list[Raw]) -> Array:
        return reduce(self.ring.add, map(self.read, shares))

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        out.view(self.ring.dtype).reshape(self.shape)[...] = self.ring.sub(value, self.total(others))

    def add(self, total: Array, received: Array) -> Array:
        return self.ring.add(total, received)

    def part(self, count: int) -> Piece:
        return Elements(self.ring, count)


class BitsOver(Elements):
    """Over a field, the bits of words (count,), lowest first: the value is given by the words."""

    ring: Prime

    def correct(self, value: Array, others: list[Raw], out: Raw) -> None:
        shares = np.stack(others).reshape(len(others), *self.shape)
        bits_minus(value, shares, self.ring.q, out.reshape(self.shape))


class Pieces(dict[str, Piece]):
    """Pieces of one kind by name, one behind the other in a run of bytes, each on a multiple of 8."""

    def __init__(self, kind: str, pieces: Mapping[str, Piece]) -> None:
        super().__init__(pieces)
        self.kind, self.bytes = kind, 0
        self.places: dict[str, slice] = {}
        for name, piece in pieces.items():
            start = -(-self.bytes // 8) * 8
            self.bytes = start + piece.bytes
            self.places[name] = slice(start, self.bytes)
        self.plain = all(piece.plain for piece in pieces.values())

    def __missing__(self, name: str) -> Piece:
        raise ProtocolError(f"{name} is no {self.kind}")

    def cut(self, name: str, runs: list[Raw]) -> tuple[Piece, list[Raw]]:
        """A piece, and the bytes of it in each of the runs."""
        piece, place = self[name], self.places[name]
        return piece, [run[place] for run in runs]

    def total(self, name: str, runs: list[Raw]) -> Array:
        """What the shares of a piece in these runs add up to; the share itself, if there is one run."""
        piece, place = self[name], self.places[name]
        return piece.read(runs[0][place]) if len(runs) == 1 else piece.total([run[place] for run in runs])

    def draw(self, source: ByteSource) -> Raw:
        """A uniform share of all of them."""
        if not self.bytes:
            return NO_BYTES
        if self.plain:
            return source.read(self.bytes)
        out = np.zeros(self.bytes, np.uint8)
        for name, piece in self.items():
            out[self.places[name]] = piece.draw(source)
        return out


class Material:
    """The declaration of one step: what is dealt for it, and what it opens under which mask.

    `opens`: what is opened beside the values that masks hide, under noise from free pieces of an earlier step. `to`: by
    name, the ranks that something is opened to; all who serve, where nothing is said. `rounds`: that these openings
    take. `answer`: the dealer deals in answer to what it was sent, so that somebody waits for it.
    """

    def __init__(
        self,
        purpose: str,
        masks: Mapping[str, Piece] = NONE,
        bound: Mapping[str, Piece] = NONE,
        *,
        free: Mapping[str, Piece] = NONE,
        opens: Mapping[str, Piece] = NONE,
        to: Mapping[str, Sequence[int]] = EVERYBODY,
        rounds: int = 1,
        answer: bool = False,
    ) -> None:
        self.purpose, self.to, self.rounds, self.answer = purpose, to, rounds, answer
        self.masks, self.bound = Pieces(f"mask of {purpose}", masks), Pieces(f"bound piece of {purpose}", bound)
        self.free, self.opened = Pieces(f"free piece of {purpose}", free), {**masks, **opens}
        #: Bytes of the masks and free pieces of a party; and whether these and what is bound are one run of its stream.
        self.seeded = self.masks.bytes + self.free.bytes
        self.in_one_run = (
            self.masks.plain
            and self.free.plain
            and self.bound.plain
            and self.masks.bytes % 8 == 0
            and self.free.bytes % 8 == 0
        )

    def collected(self, servers: int, least: int) -> str | None:
        """What is opened by way of collectors: the last of what is opened to all of so many who serve, if it has the
        least size in bytes (0: nothing has). Where two serve there is nothing to collect."""
        if servers < 3 or not least or not self.opened:
            return None
        name = next(reversed(self.opened))
        to_all = name not in self.to or len(self.to[name]) == servers
        return name if to_all and self.opened[name].wire >= least else None


F = TypeVar("F", bound=Callable[..., Any])


def declared(function: F) -> F:
    """A function of public sizes that makes a declaration, which is kept: it is asked for again and again."""
    return cast(F, lru_cache(1024)(function))
