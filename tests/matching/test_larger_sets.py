"""Private matching of sets too large to enumerate: what two of three parties see together, over many runs, does not
depend on what the third one holds; and a fault that shows there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coterie.matching import find_common, place
from tests.matching.test_pairing import random_words, tags

SIZE, RUNS = 12, 1500
FIRST, SECOND = range(SIZE), range(6, 6 + SIZE)  # six ids in common
#: The third holds all of these six, or none of them.
ALL, NONE = range(6, 6 + SIZE), range(40, 40 + SIZE)


def lists_of(third: Sequence[int]) -> list[Any]:
    return [tags([f"{i:02}" for i in own]) for own in (FIRST, SECOND, third)]


def meetings(third: Sequence[int], seed: int, how: Callable[..., Any] = place) -> np.ndarray:
    """How often the rows of the first and of the second stand in one slot (rows, rows), of all runs."""
    words, lists = random_words(seed), lists_of(third)
    met = np.zeros((SIZE, SIZE))
    for _ in range(RUNS):
        slots, _ = how(lists, words)
        met += slots[0][:, None] == slots[1][None, :]
    return met


def differ(one: np.ndarray, other: np.ndarray) -> bool:
    """By more than six standard deviations of a difference between two counts, anywhere."""
    spread = np.sqrt(np.maximum(one + other, 1) * (1 - (one + other) / (2 * RUNS)) + 1)
    return bool((np.abs(one - other) > 6 * spread).any())


def test_where_two_parties_meet_does_not_depend_on_the_third():
    one, other = meetings(ALL, 1), meetings(NONE, 2)
    assert not differ(one, other)
    assert one.sum() == 6 * RUNS, "common ids always meet, strangers never"


def test_strangers_that_are_aligned_would_be_seen():
    """The fault: only ids that all three hold share a slot for certain; all others are spread party by party."""

    def as_two(lists: list[Any], words: Any) -> Any:
        common, total = find_common(lists), sum(map(len, lists))
        together = np.argsort(words(total))
        slots = []
        for own, shared in zip(lists, common, strict=True):
            rest = together[int(shared.sum()) :]
            at = np.empty(len(own), np.int64)
            at[shared] = together[: int(shared.sum())]
            at[~shared] = rest[np.argsort(words(len(rest)))[: int((~shared).sum())]]
            slots.append(at)
        return slots, None

    assert differ(meetings(ALL, 1, as_two), meetings(NONE, 2, as_two))
