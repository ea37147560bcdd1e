"""Typed values from bytes and plain objects: msgspec's readers, made safe for threads.

msgspec learns a type when it is first used, and what it has half learnt is seen by other threads: two of them that
use a type for the first time at once may crash the interpreter. Here a type is learnt by one thread alone. Nothing
else in this package may call msgspec's own `convert` and `decode` with a type (the linter refuses it).
"""

import threading
from typing import Any, TypeVar

import msgspec

__all__ = ["convert", "from_json", "from_msgpack", "learn"]

T = TypeVar("T")

_learning = threading.Lock()
_learnt: set[Any] = set()


def learn(kind: type[T]) -> type[T]:
    """The type itself, once msgspec knows all of it."""
    if kind not in _learnt:
        with _learning:
            msgspec.msgpack.Decoder(kind)
            _learnt.add(kind)
    return kind


def convert(value: Any, kind: type[T], strict: bool = True) -> T:
    return msgspec.convert(value, learn(kind), strict=strict)  # noqa: TID251


def from_json(raw: bytes | str, kind: type[T]) -> T:
    return msgspec.json.decode(raw, type=learn(kind))  # noqa: TID251


def from_msgpack(raw: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(raw, type=learn(kind))  # noqa: TID251
