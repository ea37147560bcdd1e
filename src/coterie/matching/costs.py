"""What it costs to match rows: the arrays that are sent. (Letters of a few dozen bytes come on top.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coterie.matching.tags import TAG_BYTES

__all__ = ["SLOT_BYTES", "MatchingCost", "cost_of_matching"]

#: Of the number of a slot, as it travels.
SLOT_BYTES = 4


class MatchingCost(NamedTuple):
    """Bytes that each party sends the helper, and that the helper sends all of them together."""

    parties: tuple[int, ...]
    helper: int


def cost_of_matching(how: str, lengths: Sequence[int], cells: int = 0) -> MatchingCost:
    """For lists of these lengths. `how`: "shared" or "private"; in a patchwork, `cells` that all are told the holder
    of."""
    if cells:
        back = [cells + SLOT_BYTES * length for length in lengths]
    elif how == "private":
        back = [SLOT_BYTES * length for length in lengths]
    else:
        back = [-(-length // 8) for length in lengths]
    return MatchingCost(tuple(TAG_BYTES * length for length in lengths), sum(back))
