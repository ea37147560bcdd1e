"""What participants and a relay say to each other, inside TLS 1.3 with both certificates pinned, and nothing else.

A participant that is reached by way of the relay keeps one connection, on which it says for which studies it *listens*.
One that *dials* names the study and whom. The relay *calls* the one who listens, which comes with a new connection, to
*answer*. Both hear that they are *joined*; TLS with the relay ends there, on both connections, and from then on the
relay passes bytes on, which are those of the participants' own TLS.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, TypeVar

import msgspec

from coterie.typed import from_msgpack

__all__ = [
    "LENGTH_BYTES",
    "MOST_BROUGHT",
    "MOST_MESSAGE",
    "MOST_STUDIES",
    "NOBODY",
    "Answer",
    "Ask",
    "Bring",
    "Call",
    "Dial",
    "Joined",
    "Listen",
    "Ping",
    "Pong",
    "Recorded",
    "Refused",
    "RelaySays",
    "Request",
    "label_of",
    "pack",
    "read_length",
    "unpack",
]

#: Bytes of a message, at most; of one that brings a study. Studies for which one connection may listen.
MOST_MESSAGE, MOST_BROUGHT, MOST_STUDIES = 1 << 15, 1 << 20, 256
LENGTH_BYTES = 4
#: The name under which those connect who only bring a study, and need no certificate for that.
NOBODY = "nobody"

Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Hashes = Annotated[tuple[Hash, ...], msgspec.Meta(max_length=MOST_STUDIES)]
Token = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Text = Annotated[str, msgspec.Meta(max_length=MOST_BROUGHT)]
T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The base of all."""


class Listen(Message, frozen=True):
    """Calls for these studies are wanted, from now on and on this connection."""

    studies: Hashes


class Dial(Message, frozen=True):
    """A participant of the study, by its fingerprint, is wanted. `wait`: seconds that the relay may wait for it."""

    study: Hash
    to: Hash
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


class Answer(Message, frozen=True):
    """A call is answered on this connection."""

    token: Token


class Ask(Message, frozen=True):
    """Which of these studies are registered?"""

    studies: Hashes


class Bring(Message, frozen=True):
    """A study file and everybody's signature of it, by name, to be registered."""

    study: Text
    signatures: Annotated[dict[str, Text], msgspec.Meta(max_length=256)]


class Pong(Message, frozen=True):
    """Still here."""


class Recorded(Message, frozen=True):
    """These of the studies that were named are registered, and list the one who named them. `taken`: those of them for
    which another process of the same participant listens."""

    studies: Hashes
    taken: Hashes = ()


class Call(Message, frozen=True):
    """Somebody dials; the token is to be shown by who answers."""

    study: Hash
    token: Token


class Joined(Message, frozen=True):
    """The last word of the relay on a connection."""


class Ping(Message, frozen=True):
    """Still here?"""


class Refused(Message, frozen=True):
    """`unknown`: no such study is registered that lists who asks, or whom it asks for. `absent`: the one who is dialled
    is not connected, or does not answer. `elsewhere`: it is not by way of this relay that it is reached. `taken`:
    another process of the same participant listens for the study. `busy`: too many connections. `closed`: studies are
    registered by the operator alone. `invalid`: the study is not one that all participants have signed. `other`: it
    names another relay. `full`: too many studies were brought."""

    why: Literal["unknown", "absent", "elsewhere", "taken", "busy", "closed", "invalid", "other", "full"]


Request = Listen | Dial | Answer | Ask | Bring | Pong
RelaySays = Recorded | Call | Joined | Ping | Refused


def pack(message: Message) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def read_length(raw: bytes, most: int = MOST_MESSAGE) -> int:
    """How many bytes follow; a ValueError, if they are more than there may be."""
    length = int.from_bytes(raw, "big")
    if not 0 < length <= most:
        raise ValueError("not a message's length")
    return length


def unpack(raw: bytes, kind: type[T]) -> T:
    """A ValueError, if it is not one of these messages."""
    try:
        return from_msgpack(raw, kind)
    except RecursionError:
        raise ValueError("not a message") from None


def label_of(relay: str, participant: str) -> str:
    """The server name (SNI) that a participant asks a relay for, of both fingerprints: by it the relay finds the one
    certificate that it will take on the connection. Whoever does not know the two cannot tell who connects."""
    return "c" + hashlib.sha256(f"coterie relay {relay} {participant}".encode()).hexdigest()[:40]
