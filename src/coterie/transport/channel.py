"""The contract between a party and the wire: send and receive arrays.

    send(to, array, dealt=False)      never blocks on the receiver's progress (the helper's may)
    gather(), flush()                 from now on small arrays may wait for others, to travel together; now they go
    receive(sender, dtype, shape)     the next array from that peer, which must be exactly this
    tell(to, value), hear(sender)     a public bit, as a control message of fixed size
    post(to, body), collect(sender)   a few public bytes, as a control message: while roles agree what to run
    abort(culprit, reason)            tell every peer that this party stops, and who is to blame
    close()                           in order; what a peer has sent that nobody asked for is an error then

A channel is one *lane*: connections of its own to every peer, for one thread. Lanes of one session
run side by side.

Frames are a fixed header and raw bytes. What is expected is known before a frame arrives, so its
session, type, sequence and length are checked before anything is allocated for it. An array that was
sent belongs to the channel: the sender must not write to it again, nor the receiver.

Each frame carries the *stamp* of its sender, two logical clocks (Lamport, 1978) kept by the metering
wrapper: the longest chain of dependent messages so far, without and with one-way dealt ones.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import FrameError, PeerLost, TransportError, WrongLength, WrongSequence, WrongSession, WrongType
from coterie.transport.wording import say_kind

if TYPE_CHECKING:
    from coterie.ring import Array

__all__ = [
    "CONTROL",
    "CONTROL_LIMIT",
    "HEADER_BYTES",
    "Abort",
    "Channel",
    "Control",
    "Goodbye",
    "Header",
    "Heartbeat",
    "Letter",
    "Note",
    "Refusal",
    "Stamp",
    "World",
    "decode_control",
    "dtype_code",
    "encode_control",
    "letter",
    "pack_header",
]

MAGIC = b"cote"
VERSION = 1
CONTROL = 0
CONTROL_LIMIT = 1 << 15  # room for what vouches for a renewed key, twice (`study.links`)
REASON_LIMIT = 400
CLOCK_END = (1 << 32) - 1  # where clocks stay: a peer may have said any
_CODES: dict[Any, int] = {}  # by the type and by NumPy's description of it
for _code, _type in enumerate((np.uint8, np.uint64, np.int64), 1):
    _CODES[_type] = _CODES[np.dtype(_type)] = _code
# magic, version, type, lane, sender, receiver, session, sequence, length, clock, clock with dealing
_LAYOUT = struct.Struct("<4sBBHHH16sQQII")
_START, _STAMP = struct.Struct("<4sBBHHH16sQQ"), struct.Struct("<II")
HEADER_BYTES, START_BYTES = _LAYOUT.size, _START.size


class Stamp(NamedTuple):
    """The sender's two clocks. `rounds` is negative for a one-way dealt message, which nobody counts."""

    rounds: int = 0
    with_dealing: int = 0


@dataclass(frozen=True)
class World:
    """Who takes part, by rank, in which role, and the session they are in.

    Whoever *owns* data has a rank from 1 on. Rank 0 is for the one who owns none, and vacant (an empty name) where
    there is nobody like that. Who *serves* holds shares and computes: all owners, unless `serving` says who. The one
    at rank 0 *deals* randomness if it does not serve.
    """

    names: tuple[str, ...]
    session: bytes = bytes(16)
    serving: tuple[int, ...] = ()

    @property
    def p(self) -> int:
        """How many own data."""
        return len(self.names) - 1

    @cached_property
    def ranks(self) -> range:
        return range(0 if self.names[0] else 1, len(self.names))

    @cached_property
    def everybody(self) -> tuple[str, ...]:
        """Their names, in the order of ranks."""
        return tuple(self.names[rank] for rank in self.ranks)

    @cached_property
    def owners(self) -> range:
        return range(1, len(self.names))

    @cached_property
    def servers(self) -> Sequence[int]:
        return self.serving or self.owners

    @cached_property
    def dealer(self) -> int | None:
        return 0 if self.names[0] and 0 not in self.serving else None

    @cached_property
    def players(self) -> list[int]:
        """Everybody but the dealer."""
        return [rank for rank in self.ranks if rank != self.dealer]

    def peers(self, rank: int) -> list[int]:
        return [other for other in self.ranks if other != rank]


def pack_header(
    kind: int,
    lane: int,
    sender: int,
    receiver: int,
    session: bytes,
    sequence: int,
    length: int,
    rounds: int,
    dealing: int,
) -> bytes:
    """The bytes of a header, from its fields."""
    return _LAYOUT.pack(
        MAGIC, VERSION, kind, lane, sender, receiver, session, sequence, length,
        0 if rounds < 0 else rounds + 1 if rounds < CLOCK_END else CLOCK_END,
        dealing if dealing < CLOCK_END else CLOCK_END,
    )  # fmt: skip


def start_of_header(
    kind: int, lane: int, sender: int, receiver: int, session: bytes, sequence: int, length: int
) -> bytes:
    """All of a header that its receiver knows before it comes."""
    return _START.pack(MAGIC, VERSION, kind, lane, sender, receiver, session, sequence, length)


def stamp_before(raw: memoryview[Any], at: int) -> Stamp:
    """The stamp at the end of a header that ends there."""
    rounds, dealing = _STAMP.unpack_from(raw, at - _STAMP.size)
    return Stamp(rounds - 1, dealing)


class Header(NamedTuple):
    """What stands before every frame's bytes."""

    kind: int
    lane: int
    sender: int
    receiver: int
    session: bytes
    sequence: int
    length: int
    stamp: Stamp

    def pack(self) -> bytes:
        return pack_header(*self[:-1], *self.stamp)

    @classmethod
    def unpack(cls, raw: bytes | bytearray | memoryview, peer: str) -> Header:
        magic, version, kind, lane, sender, receiver, session, sequence, length, rounds, dealing = _LAYOUT.unpack(raw)
        if magic != MAGIC:
            raise WrongSession(f"{peer} sent bytes that are not a Coterie frame", peer)
        if version != VERSION:
            raise WrongSession(f"{peer} speaks wire version {version}, this is version {VERSION}", peer)
        return cls(kind, lane, sender, receiver, session, sequence, length, Stamp(rounds - 1, dealing))

    def check(self, expected: Header, peer: str) -> None:
        """Raise the error that says how this header differs from the expected one."""
        if self.session != expected.session:
            raise WrongSession(f"{peer} sent a frame of another session", peer)
        if (self.sender, self.receiver, self.lane) != (expected.sender, expected.receiver, expected.lane):
            raise WrongSession(f"{peer} sent a frame that belongs to another connection", peer)
        if self.sequence != expected.sequence:
            raise WrongSequence(f"{peer} sent frame {self.sequence} where {expected.sequence} was due", peer)
        if self.kind == CONTROL:
            if self.length > CONTROL_LIMIT:
                raise WrongLength(f"{peer} announced a control message of {self.length} bytes", peer)
        elif self.kind != expected.kind:
            raise WrongType(f"{peer} sent a frame of type {self.kind} where type {expected.kind} was due", peer)
        elif self.length != expected.length:
            raise WrongLength(f"{peer} announced {self.length} bytes where {expected.length} were due", peer)


class Heartbeat(msgspec.Struct, tag="heartbeat", frozen=True, forbid_unknown_fields=True):
    """Still here; sent when there was nothing else to send for a while. `waits`: the sender itself waits for a peer."""

    waits: bool = False


class Abort(msgspec.Struct, tag="abort", frozen=True, forbid_unknown_fields=True):
    """The sender stops. `culprit` is the rank of the party where the trouble started."""

    culprit: int
    reason: str

    def __post_init__(self) -> None:
        _make_plain(self)


class Goodbye(msgspec.Struct, tag="goodbye", frozen=True, forbid_unknown_fields=True):
    """The sender is done and closes in order."""


class Note(msgspec.Struct, tag="note", frozen=True, forbid_unknown_fields=True):
    """A public bit, always of the same size: the stop bit, for a helper that receives nothing else."""

    value: bool


class Letter(msgspec.Struct, tag="letter", frozen=True, forbid_unknown_fields=True):
    """A few bytes that roles agree by before the protocols begin."""

    body: bytes


class Refusal(msgspec.Struct, tag="refusal", frozen=True, forbid_unknown_fields=True):
    """A connection is not wanted: for now (`busy`), or for the reason given."""

    busy: bool
    reason: str

    def __post_init__(self) -> None:
        _make_plain(self)


def _make_plain(message: Abort | Refusal) -> None:
    """A peer's words end up in this party's messages: a few lines at most, and nothing that moves a cursor."""
    plain = "".join(c if c.isprintable() else "?" for c in message.reason[:REASON_LIMIT])
    msgspec.structs.force_setattr(message, "reason", plain)


#: None of these holds a list or another message, and none has a field that is not known here: what is nested is refused
#: at its first level, however deep it goes.
Control = Heartbeat | Abort | Goodbye | Note | Letter | Refusal
_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def encode_control(message: Control) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_control(raw: bytes | bytearray, peer: str) -> Control:
    try:
        return _decoder.decode(raw)
    except (ValueError, RecursionError) as error:  # not msgpack, another struct, not UTF-8, nested deeply
        raise WrongType(f"{peer} sent a control message that cannot be read", peer) from error


def letter(body: bytes) -> Letter:
    """A letter, which must fit into a control message."""
    if len(body) > CONTROL_LIMIT - 64:
        raise ValueError(f"a letter of {len(body)} bytes is too long")
    return Letter(body)


def dtype_code(dtype: DTypeLike) -> int:
    """The wire's number for an element type."""
    try:
        return _CODES[dtype]
    except KeyError:
        raise TypeError(f"arrays of {np.dtype(dtype)} do not travel") from None


#: How this party sees to a peer that another one blames: its last words if it has stopped, None if it is still there,
#: an error if it is gone.
Look = Callable[[int], Abort | None]


def trouble(message: Control | None, sender: int, rank: int, world: World, look: Look) -> TransportError:
    """What a control message means to somebody who waits for something else."""
    peer = world.names[sender]
    if isinstance(message, Abort):
        return blamed(message, sender, rank, world, look)
    if isinstance(message, Goodbye):
        return PeerLost.stopped(f"{peer} has finished while this party still waits for it", peer)
    return WrongType(f"{peer} sent a {type(message).__name__.lower()} where something else was due", peer)


def blamed(message: Abort, sender: int, rank: int, world: World, look: Look) -> PeerLost:
    """The error for a peer that stops and says on whose account. It is believed of itself; of others only what this
    party can see as well. If the one it blames is there and well, the one to blame is who said so."""
    teller, tellers = sender, {sender}
    while True:
        name, accused, why = world.names[teller], message.culprit, say_kind(message.reason)
        lost = PeerLost if message.reason == PeerLost.__name__ else PeerLost.stopped  # it lost somebody, or its will
        if accused == rank:
            return lost(f"{name} stopped and blames this party: {why}", name)
        if accused == teller or accused not in world.peers(rank):
            return lost(f"{name} stopped: {why}", name)
        other = world.names[accused]
        try:
            said = look(accused)
        except TransportError:
            return lost(f"{other} was lost: {name} reports {why}", other)
        if said is None:
            return lost(f"{name} stopped and blames {other}, who is still connected here ({why})", name)
        tellers.add(accused)
        if said.culprit != accused and said.culprit in tellers:
            return lost(f"{name} and {other} stopped and blame each other ({why})", name)
        message, teller = said, accused  # the accused has stopped, and says on whose account


def unasked(peer: str) -> FrameError:
    """The error for what a peer has sent that nobody has read when all is done."""
    return FrameError(f"{peer} sent something that nobody asked for", peer)


class Channel(ABC):
    """One party's connections to all the others, on one lane."""

    world: World
    rank: int
    lane: int = 0

    @abstractmethod
    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None: ...  # noqa: B008

    @abstractmethod
    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]: ...

    def may_wait_to_send(self, to: int) -> bool:  # noqa: ARG002
        """Whether `send` may wait for the peer to take what it was sent before."""
        return True

    def may_wait_for(self, sender: int, size: int) -> bool:  # noqa: ARG002
        """Whether `receive` of so many bytes may wait for them."""
        return True

    def gather(self) -> None:  # noqa: B027
        """From now on, what is sent may be held back until there is more, or until this party waits for a peer."""

    def flush(self) -> None:  # noqa: B027
        """Let go of what is held back. Whoever waits for a peer does so anyway; call it where this party may go on for
        long without waiting."""

    @abstractmethod
    def tell(self, to: int, value: bool) -> None: ...

    @abstractmethod
    def hear(self, sender: int) -> bool: ...

    @abstractmethod
    def post(self, to: int, body: bytes) -> None: ...

    @abstractmethod
    def collect(self, sender: int) -> bytes: ...

    @abstractmethod
    def abort(self, culprit: int, reason: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def _name(self, rank: int) -> str:
        return self.world.names[rank]

    def _expected(self, sender: int, sequence: int, dtype: DTypeLike, shape: Sequence[int]) -> Header:
        length = math.prod(shape) * np.dtype(dtype).itemsize
        return Header(dtype_code(dtype), self.lane, sender, self.rank, self.world.session, sequence, length, Stamp())

    def _expected_control(self, sender: int, sequence: int) -> Header:
        return Header(CONTROL, self.lane, sender, self.rank, self.world.session, sequence, 0, Stamp())

    def _outgoing(self, to: int, sequence: int, kind: int, length: int, stamp: Stamp) -> Header:
        return Header(kind, self.lane, self.rank, to, self.world.session, sequence, length, stamp)


def as_bytes(array: Array) -> memoryview[Any]:
    """The raw bytes of an array, without a copy where it lies in one piece."""
    if array.size and array.flags.c_contiguous:
        return array.data.cast("B")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
