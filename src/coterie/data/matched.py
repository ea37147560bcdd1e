"""Rows of data frames that belong together by their index, for `SecureKMeans(matching=)`: found as a study finds them
(`coterie/study/matching.py`), with all parties' ids in one process."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.matching import KEY_BYTES, IdRule, draw_words, find_common, make_tags, normalise, place, sort_tags

__all__ = ["Matched", "ids_of", "match"]


@dataclass(frozen=True, repr=False)
class Matched:
    """Which rows of each block take part, in this order. Shared: what their ids are, the same for all. Private: in
    which slot of the table each stands, and for every slot 1 if it counts, else 0."""

    rows: list[NDArray[np.intp]]
    ids: list[str]
    slots: list[NDArray[np.int64]]
    members: NDArray[np.int64] | None = None


def ids_of(frame: Any, party: str) -> list[str]:
    """The index of a data frame as ids: text, all there, and no two alike."""
    if not hasattr(frame, "index") or not hasattr(frame, "columns"):
        raise InputError(f"party {party}: rows are matched by the index of data frames; the block has none")
    ids = [normalise(str(label), IdRule()) for label in frame.index]
    for count, what in ((ids.count(""), "is empty"), (len(ids) - len(set(ids)), "is that of another row, too")):
        if count:
            raise InputError(f"party {party}: the index of {count} rows {what}; every row needs one of its own")
    return ids


def match(ids: Sequence[Sequence[str]], private: bool) -> Matched:
    """By the ids of every party's rows."""
    key = secrets.token_bytes(KEY_BYTES)
    tags, row_of = zip(*(sort_tags(make_tags(own, key)) for own in ids), strict=True)
    if private:
        slots, members = place(tags, draw_words)
        return Matched(list(row_of), [], slots, members.astype(np.int64))
    rows = [
        np.array(sorted(order[common], key=own.__getitem__), np.intp)
        for own, order, common in zip(ids, row_of, find_common(tags), strict=True)
    ]
    return Matched(rows, [ids[0][i] for i in rows[0]], [])
