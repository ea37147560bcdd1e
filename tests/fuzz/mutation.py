"""Letters that nobody honest writes: right ones with a byte or a field wrong, or with something that explodes."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from tests.transport.fuzz import BOMBS, EDGES

__all__ = ["mutate_bytes", "mutate_letter"]

#: What stands in a field instead.
VALUES: list[Any] = [
    *(None, True, -1, 0.5, float("nan"), float("inf"), -float("inf"), -(1 << 63)),
    *("", "\x1b[2J", "x" * 3000, b"", bytes(17), [], [[]], [[1, 2, 3, 4]], ["x"] * 100, {}, {"": {}}),
    *EDGES,
]
BOMB_LIST = list(BOMBS.values())


def mutate_bytes(rng: random.Random, raw: bytes) -> bytes:
    """A few bytes changed, left out, put in or repeated; or cut off."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, way = rng.randrange(len(changed) + 1), rng.randrange(6)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif way == 2:
            del changed[at : at + rng.choice((1, 1, 2, 16))]
        elif way == 3:
            changed[at:at] = rng.randbytes(rng.choice((1, 1, 2, 16)))
        elif way == 4:
            changed[at:at] = changed[at : at + rng.choice((1, 4, 64))]
        else:
            del changed[at:]
    return bytes(changed)


def mutate_letter(rng: random.Random, raw: bytes) -> bytes:
    """The letter with wrong bytes, a wrong field, or a bomb in the place of one."""
    way = rng.randrange(4)
    if way < 2:
        return mutate_bytes(rng, raw)
    fields = msgspec.msgpack.decode(raw)
    place = fields
    while True:
        key = rng.choice(list(place))
        if not (isinstance(place[key], dict) and place[key] and rng.random() < 0.6):
            break
        place = place[key]
    if way == 2:
        place[key] = rng.choice(VALUES)
        return msgspec.msgpack.encode(fields)
    place[key] = "the bomb"
    return msgspec.msgpack.encode(fields).replace(b"\xa8the bomb", rng.choice(BOMB_LIST)[-3000:])
