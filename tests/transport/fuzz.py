"""Frames that nobody honest sends: valid ones with something wrong in every place, and rubbish; the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from coterie.transport import HEADER_BYTES, Stamp
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    Abort,
    Goodbye,
    Header,
    Heartbeat,
    Letter,
    Note,
    Refusal,
    encode_control,
)

__all__ = ["BOMBS", "fuzzed"]

#: Messages that can be unpacked by no means, and some that would take much to unpack.
BOMBS = {
    "nested deeply": b"\x82\xa4type\xa9heartbeat\xa1x" + b"\x91" * 4000 + b"\xc0",
    "maps in maps": b"\x82\xa4type\xa9heartbeat\xa1x" + b"\x81\xa0" * 2000 + b"\xc0",
    "not UTF-8": b"\x83\xa4type\xa5abort\xa7culprit\x01\xa6reason\xa3\xff\xff\xff",
    "a string of four gigabytes": b"\x83\xa4type\xa5abort\xa7culprit\x01\xa6reason\xdb\xff\xff\xff\xff",
    "four billion fields": b"\xdf\xff\xff\xff\xff\xa4type\xa5abort",
    "four billion entries": b"\x82\xa4type\xa9heartbeat\xa1x\xdd\xff\xff\xff\xff",
    "bytes of four gigabytes": b"\x82\xa4type\xa6letter\xa4body\xc6\xff\xff\xff\xff",
    "an extension": b"\x82\xa4type\xa6letter\xa4body\xc9\xff\xff\xff\xff\x01",
}
MESSAGES = [
    *map(encode_control, (Heartbeat(), Goodbye(), Note(True), Letter(b"letter"), Refusal(True, "busy"))),
    *(encode_control(Abort(culprit, "reason")) for culprit in (0, 1, 2, -1, 1 << 40)),
    *BOMBS.values(),
]
EDGES = [0, 1, 2, 3, 7, 24, 52, 255, 256, CONTROL_LIMIT, CONTROL_LIMIT + 1, 65535]
EDGES += [1 << bits for bits in range(16, 64)] + [(1 << bits) - 1 for bits in range(16, 65)]
#: Fields of a header, by the largest number that each holds.
FIELDS = {"kind": 255, "lane": 65535, "sender": 65535, "receiver": 65535, "sequence": 2**64 - 1, "length": 2**64 - 1}


def fuzzed(right: Header, count: int, seed: int) -> Iterator[bytes]:
    """`count` byte strings around the header that is expected next, each of at most some kilobytes."""
    rng = random.Random(seed)
    for _ in range(count):
        yield rng.choice((_field, _field, _fields, _flipped, _cut, _control, _rubbish, _twice))(rng, right)


def _body(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(MESSAGES)
    if kind == 1:
        raw = bytearray(rng.choice(MESSAGES))
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(raw)
    return rng.randbytes(rng.choice((0, 1, 24, 100, 4096, 5000)))


def _wrong(rng: random.Random, field: str) -> int:
    return (rng.choice(EDGES) if rng.random() < 0.8 else rng.getrandbits(64)) & FIELDS[field]


def _field(rng: random.Random, right: Header) -> bytes:
    """One field of the header is wrong."""
    field = rng.choice([*FIELDS, "session"])
    if field == "session":
        return right._replace(session=rng.randbytes(16)).pack() + _body(rng)
    return right._replace(**{field: _wrong(rng, field)}).pack() + _body(rng)


def _fields(rng: random.Random, right: Header) -> bytes:
    """Several are; clocks run wild."""
    wrong = {field: _wrong(rng, field) for field in rng.sample(list(FIELDS), 3)}
    stamp = Stamp(rng.randrange(-1, 2**32 - 1), rng.randrange(2**32))
    return right._replace(stamp=stamp, **wrong).pack() + _body(rng)


def _flipped(rng: random.Random, right: Header) -> bytes:
    raw = bytearray(right.pack() + _body(rng))
    for _ in range(rng.choice((1, 1, 2, 8))):
        raw[rng.randrange(HEADER_BYTES)] ^= 1 << rng.randrange(8)
    return bytes(raw)


def _cut(rng: random.Random, right: Header) -> bytes:
    return right.pack()[: rng.randrange(HEADER_BYTES)]


def _control(rng: random.Random, right: Header) -> bytes:
    """A control message in order, but for what stands in it."""
    body = _body(rng)
    length = rng.choice((len(body), len(body), rng.choice(EDGES)))
    return right._replace(kind=CONTROL, length=length).pack() + body


def _rubbish(rng: random.Random, _: Header) -> bytes:
    return rng.randbytes(rng.choice((1, 51, 52, 53, 200, 2000)))


def _twice(rng: random.Random, right: Header) -> bytes:
    """The same frame again, or the one after the next."""
    body = encode_control(Heartbeat())
    one = right._replace(kind=CONTROL, length=len(body))
    return one.pack() + body + one._replace(sequence=rng.choice((right.sequence, right.sequence + 2))).pack() + body
