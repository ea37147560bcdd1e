"""What the helper sees of ids: how many each set of parties has in common, and nothing else. Exactly, on small sets."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from coterie.matching import sort_tags

IDS = "abcd"


def views(lists, send=sort_tags):
    """How often the helper gets what, over all keys: under a random key, tags of different ids are different random
    numbers, so that all orders of them are equally likely."""
    seen = Counter()
    for order in permutations(range(len(IDS))):
        tag = dict(zip(IDS, order, strict=True))
        sent = [send(np.array([b"%02d" % tag[one] for one in own], "S16"))[0] for own in lists]
        seen[tuple(tuple(tags.tolist()) for tags in sent)] += 1
    return seen


#: By how many ids there are at the first alone, at the second alone and at both.
ALIKE = [
    (["ab", "bc"], ["cd", "da"], ["ba", "ca"]),
    (["ab", "cd"], ["ad", "bc"]),
    (["abc", "b"], ["dca", "a"], ["cab", "c"]),
    (["ab", "bc", "bd"], ["dc", "ca", "cb"]),
]


@pytest.mark.parametrize("sets", ALIKE, ids=str)
def test_it_depends_on_how_many_ids_are_common_and_on_nothing_else(sets):
    first, *others = (views(lists) for lists in sets)
    assert all(one == first for one in others)


def test_other_overlaps_are_other_views():
    assert views(["ab", "bc"]) != views(["ab", "cd"])


@pytest.mark.parametrize("sets", [(["ab", "bc"], ["ab", "cb"]), (["abc", "b"], ["bac", "b"])], ids=str)
def test_unsorted_tags_would_tell_the_order_of_rows(sets):
    """The fault: tags in the order of rows. With them, whether a common id comes first is seen."""
    unsorted = [views(lists, send=lambda tags: (tags, None)) for lists in sets]
    assert unsorted[0] != unsorted[1]
    assert views(sets[0]) == views(sets[1])
