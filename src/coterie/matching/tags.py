"""Ids as all parties write them, and the tags by which a helper compares them without knowing them."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["KEY_BYTES", "TAG_BYTES", "IdRule", "Tags", "make_tags", "normalise", "sort_tags"]

KEY_BYTES, TAG_BYTES = 32, 16
#: Ids are made into tags so many at a time, which bounds the memory that is needed besides the tags.
CHUNK = 1 << 16
#: Tags as fixed strings of bytes: numpy sorts and compares these as they are.
Tags = NDArray[np.bytes_]


class IdRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When two ids are the same. Letters differ in case unless `case` is "ignore"; blanks around an id never count, and
    with `spaces="ignore"` those inside do not either; `unicode` is the normal form in which letters are compared."""

    case: Literal["exact", "ignore"] = "exact"
    spaces: Literal["ends", "ignore"] = "ends"
    unicode: Literal["NFC", "NFKC"] = "NFC"


def normalise(text: str, rule: IdRule) -> str:
    """An id as the rule has it; empty, if there is nothing left of it."""
    before = None
    while text != before:  # letters may leave the normal form when blanks go or their case is folded
        before = text
        if not text.isascii():
            text = unicodedata.normalize(rule.unicode, text)
        text = "".join(text.split()) if rule.spaces == "ignore" else text.strip()
        if rule.case == "ignore":
            text = text.casefold()
    return text


def make_tags(ids: Sequence[str], key: bytes) -> Tags:
    """A keyed hash of every id. Without the key, tags of different ids are random and those of equal ids equal."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    tags = np.empty(len(ids), f"S{TAG_BYTES}")
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK]
        raw = b"".join([hashlib.blake2b(one.encode(), digest_size=TAG_BYTES, key=key).digest() for one in part])
        tags[start : start + len(part)] = np.frombuffer(raw, tags.dtype)
    return tags


def sort_tags(tags: Tags) -> tuple[Tags, NDArray[np.intp]]:
    """The tags in ascending order, which says nothing about the order of the rows, and for each the row it is of."""
    order = np.argsort(tags, kind="stable")
    return tags[order], order
