"""What the helper works out from sorted lists of tags: who has what in common, or where rows meet unseen.

It has no ids and no key. It learns how long the lists are, and how many tags each set of parties has in common.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.matching.tags import Tags

__all__ = ["Slots", "Words", "count_slots", "draw_words", "find_common", "find_twins", "place", "shuffle"]

Slots = NDArray[np.int64]
Bits = NDArray[np.bool_]
#: Gives so many random words, each uniform over all 64-bit numbers.
Words = Callable[[int], NDArray[np.uint64]]


def find_twins(tags: Tags) -> int:
    """How many tags of a sorted list are the same as the one before; -1 if the list is not sorted."""
    if (tags[1:] < tags[:-1]).any():
        return -1
    return int((tags[1:] == tags[:-1]).sum())


def find_common(lists: Sequence[Tags]) -> list[Bits]:
    """For every sorted list, which of its tags all the others have too."""
    return [_all_of([_contains(other, own) for other in lists if other is not own], len(own)) for own in lists]


def _all_of(found: list[Bits], length: int) -> Bits:
    return np.logical_and.reduce([np.ones(length, bool), *found])


def _contains(tags: Tags, wanted: Tags) -> Bits:
    """Which of the wanted tags are in a sorted list."""
    if not len(tags):
        return np.zeros(len(wanted), bool)
    at = np.searchsorted(tags, wanted)
    return tags[np.minimum(at, len(tags) - 1)] == wanted


def count_slots(lengths: Sequence[int]) -> int:
    """How many slots there are for lists of these lengths."""
    return max(lengths) if len(lengths) == 2 else sum(lengths)


def place(lists: Sequence[Tags], words: Words) -> tuple[list[Slots], Bits]:
    """A slot for every tag of every sorted list, and for every slot whether all parties' rows in it are of one id.

    - Two parties: as many slots as the longer list has tags. Common tags share a random slot; each party's others are
      spread over the rest, independently, so that strangers may meet.
    - Three and more: as many slots as there are tags in all, and a random one for every *different* tag. Were rows of
      two parties kept together only where the third has the id too, those two would see by their slots what it has.

    Sees: a party its own slots, which are a uniform injection whatever matches; two and more parties together the slots
    of their own different ids, uniform again. How many slots there are follows from the lengths, which are public.
    """
    common = find_common(lists)
    if len(lists) == 2:
        return _place_two(lists, common, words)
    everything, whose = np.unique(np.concatenate(lists), return_inverse=True)
    total = count_slots([len(tags) for tags in lists])
    slot_of = shuffle(total, words)[: len(everything)]
    slots = np.split(slot_of[whose], np.cumsum([len(tags) for tags in lists])[:-1])
    members = np.zeros(total, bool)
    members[slots[0][common[0]]] = True
    return slots, members


def _place_two(lists: Sequence[Tags], common: list[Bits], words: Words) -> tuple[list[Slots], Bits]:
    total, matched = count_slots([len(tags) for tags in lists]), int(common[0].sum())
    shuffled = shuffle(total, words)
    together, rest = shuffled[:matched], shuffled[matched:]
    slots = []
    for tags, shared in zip(lists, common, strict=True):
        own = np.empty(len(tags), np.int64)
        own[shared] = together  # both lists are sorted: their common tags come in the same order
        own[~shared] = rest[shuffle(len(rest), words)[: len(tags) - matched]]
        slots.append(own)
    members = np.zeros(total, bool)
    members[together] = True
    return slots, members


def draw_words(count: int) -> NDArray[np.uint64]:
    """Random words that nobody can foresee."""
    return np.frombuffer(secrets.token_bytes(8 * count), np.uint64)


def shuffle(count: int, words: Words) -> Slots:
    """A uniform permutation: the order of random words, drawn again if two are the same."""
    while True:
        drawn = words(count)
        order = np.argsort(drawn)
        drawn = drawn[order]
        if not (drawn[1:] == drawn[:-1]).any():
            return order.astype(np.int64)
