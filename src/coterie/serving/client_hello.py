"""The name that a TLS client asks for, read from its first message (RFC 8446, 4.1.2; RFC 6066, 3) without taking it.

Whatever else the message says is for the process that answers it.
"""

from __future__ import annotations

import select
import socket
import time

__all__ = ["MOST", "NotTls", "find_name", "wait_for_name"]

#: The most bytes that a first message may have, and the most records that it may be sent in.
MOST, MOST_RECORDS = 1 << 14, 64
#: Seconds between two looks at a message of which a part is missing.
LOOK = 0.02
RECORD_HEAD, HANDSHAKE_RECORD, CLIENT_HELLO, SERVER_NAME, HOST_NAME = 5, 22, 1, 0, 0


class NotTls(ValueError):
    """What a connection begins with is not the beginning of TLS, or names nobody."""


class _Short(Exception):
    """A part is missing yet."""


class _Bytes:
    """Bytes that are taken from the front. `Missing`: what it means if there are too few."""

    def __init__(self, raw: bytes, missing: type[Exception]) -> None:
        self.raw, self.at, self.missing = raw, 0, missing

    @property
    def left(self) -> int:
        return len(self.raw) - self.at

    def take(self, count: int) -> bytes:
        if self.left < count:
            raise self.missing
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def block(self, width: int) -> _Bytes:
        """What a length of so many bytes is said of. Its own parts must all be there."""
        return _Bytes(self.take(self.number(width)), NotTls)


def find_name(seen: bytes) -> str | None:
    """The name, from as much as has come; None, if more must come first. `NotTls` if no name will come of it."""
    try:
        message = _Bytes(_first_message(seen), NotTls)
    except _Short:
        if len(seen) >= MOST:
            raise NotTls("its first message is too long") from None
        return None
    message.take(2 + 32)  # version and random
    message.block(1)  # session
    message.block(2)  # ciphers
    message.block(1)  # compression
    extensions = message.block(2)
    while extensions.left:
        kind, body = extensions.number(2), extensions.block(2)
        if kind == SERVER_NAME:
            names = body.block(2)
            if names.number(1) != HOST_NAME:
                break
            return names.block(2).raw.decode("ascii", "replace")
    raise NotTls("it asks for no name")


def _first_message(seen: bytes) -> bytes:
    """A client's hello, which may have been sent in several records."""
    records, message = _Bytes(seen, _Short), b""
    for _ in range(MOST_RECORDS):
        if records.left and records.raw[records.at] != HANDSHAKE_RECORD:
            raise NotTls("it does not begin as TLS does")
        _, version, length = records.number(1), records.number(2), records.number(2)
        if version >> 8 != 3 or not 0 < length <= MOST:
            raise NotTls("it does not begin as TLS does")
        message += records.take(min(length, max(records.left, 1)))
        if message[0] != CLIENT_HELLO:
            raise NotTls("it does not begin as TLS does")
        if len(message) >= 4:
            size = int.from_bytes(message[1:4], "big")
            if size > MOST:
                raise NotTls("its first message is too long")
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
    raise NotTls("its first message is in too many pieces")


def wait_for_name(plain: socket.socket, seconds: float) -> str:
    """The name that whoever has connected asks for. Nothing is taken from the connection. `NotTls`, or an OSError, if
    no name comes within so many seconds, or at all."""
    end, known = time.monotonic() + seconds, 0
    poller = select.poll()
    poller.register(plain.fileno(), select.POLLIN)
    while (left := end - time.monotonic()) > 0:
        if not known and not poller.poll(left * 1000):
            break
        seen = plain.recv(MOST, socket.MSG_PEEK)
        if not seen:
            raise NotTls("it hung up")
        if len(seen) > known:
            known = len(seen)
            name = find_name(seen)
            if name is not None:
                return name
        else:
            if plain.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                raise NotTls("it hung up")
            time.sleep(min(LOOK, max(left, 0)))
    raise TimeoutError("it says nothing")
