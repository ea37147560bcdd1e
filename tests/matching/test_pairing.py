"""What the helper makes of tags; exactly what parties see of it, by enumerating every shuffle of small sets."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.matching import find_common, find_twins, pairing, place

LETTERS = "abcdefgh"


def tags(text):
    """Sorted tags; letters do."""
    return np.array(sorted(text), "S16")


class Shuffles:
    """Every way in which the words of one run can come out: each call of `words` takes the next permutation."""

    def __init__(self, orders):
        self.orders = iter(orders)

    def __call__(self, count):
        order = next(self.orders)
        assert len(order) == count
        return np.array(order, np.uint64)


def every_run(lists):
    """All outcomes of `place`, each with the same probability."""
    sizes = []

    def note(count):
        sizes.append(count)
        return np.arange(count, dtype=np.uint64)

    place(lists, note)
    for orders in itertools.product(*(itertools.permutations(range(size)) for size in sizes)):
        yield place(lists, Shuffles(orders))


def views(lists, seen):
    """How often each view of these parties occurs, over all shuffles: their tags' slots."""
    runs = list(every_run(lists))
    counted = Counter((len(members), *(tuple(slots[j].tolist()) for j in seen)) for slots, members in runs)
    return {view: count / len(runs) for view, count in counted.items()}


def near(one, other):
    return one.keys() == other.keys() and all(abs(one[view] - other[view]) < 1e-12 for view in one)


def random_words(seed):
    source = np.random.default_rng(seed)
    return lambda count: source.integers(0, 2**64, count, np.uint64)


sets = st.lists(st.sets(st.sampled_from(LETTERS)), min_size=2, max_size=5)


@given(sets)
def test_common_tags(chosen):
    lists = [tags(one) for one in chosen]
    everywhere = set.intersection(*chosen)
    for own, bits in zip(lists, find_common(lists), strict=True):
        assert [tag.decode() in everywhere for tag in own] == bits.tolist()


@given(sets, st.integers(0, 2**32))
def test_common_ids_meet_and_nobody_else_is_a_member(chosen, seed):
    lists = [tags(one) for one in chosen]
    slots, members = place(lists, random_words(seed))
    lengths = [len(one) for one in lists]
    assert len(members) == (max(lengths) if len(lists) == 2 else sum(lengths))
    for own, at in zip(lists, slots, strict=True):
        assert len(set(at.tolist())) == len(own)
    everywhere = set.intersection(*chosen)
    assert members.sum() == len(everywhere)
    for letter in everywhere:
        places = {int(at[own.tolist().index(letter.encode())]) for own, at in zip(lists, slots, strict=True)}
        assert len(places) == 1
        assert members[places.pop()]


def test_lists_that_are_wrong():
    assert find_twins(tags("abc")) == 0
    assert find_twins(tags("abbcc")) == 2
    assert find_twins(tags("abc")[::-1]) == -1
    assert find_twins(tags("")) == 0


@pytest.mark.parametrize("seen", [0, 1])
def test_what_one_of_two_sees_does_not_depend_on_who_matches(seen):
    mine = tags("abc")
    first = None
    for others in ("abc", "abx", "axy", "xyz"):  # 3, 2, 1 and 0 matches
        lists = [mine, tags(others)] if seen == 0 else [tags(others), mine]
        found = views(lists, [seen])
        first = first or found
        assert near(found, first)
    assert len(first) == 6  # every injection, alike


@pytest.mark.parametrize("sizes", [("ab", "abcd"), ("abcd", "ab")])
def test_lists_of_different_lengths(sizes):
    """The view of the shorter and of the longer one is a uniform injection into as many slots as the longer has."""
    mine, others = sizes
    strangers = "wxyz"[: len(others)]
    assert near(views([tags(mine), tags(others)], [0]), views([tags(mine), tags(strangers)], [0]))


@pytest.mark.parametrize("third", ["ac", "xy", "ab", "ax"])
def test_what_two_of_three_see_does_not_depend_on_the_third(third):
    found = views([tags("ab"), tags("ac"), tags(third)], [0, 1])
    assert near(found, views([tags("ab"), tags("ac"), tags("uv")], [0, 1]))


def test_strangers_that_are_kept_apart_would_be_seen(monkeypatch):
    """Planted: three parties placed as two are, so that only full matches meet for certain."""

    def as_two(lists, words):
        common = find_common(lists)
        total, matched = max(map(len, lists)), int(common[0].sum())
        shuffled = pairing.shuffle(total, words)
        slots = []
        for own, shared in zip(lists, common, strict=True):
            at = np.empty(len(own), np.int64)
            at[shared] = shuffled[:matched]
            rest = shuffled[matched:]
            at[~shared] = rest[pairing.shuffle(len(rest), words)[: len(own) - matched]]
            slots.append(at)
        members = np.zeros(total, bool)
        members[shuffled[:matched]] = True
        return slots, members

    monkeypatch.setitem(globals(), "place", as_two)
    with_it = views([tags("ab"), tags("ac"), tags("ax")], [0, 1])
    without = views([tags("ab"), tags("ac"), tags("xy")], [0, 1])
    assert not near(with_it, without)


def test_slots_that_follow_the_order_of_tags_would_be_seen(monkeypatch):
    """Planted: the others are not spread at random."""
    monkeypatch.setattr(
        pairing, "shuffle", lambda count, words: np.argsort(words(count)) if count == 3 else np.arange(count)
    )
    same = views([tags("abc"), tags("abx")], [0])
    monkeypatch.setattr(pairing, "shuffle", lambda count, words: (words(count), np.arange(count))[1])
    assert not near(same, views([tags("abc"), tags("xyz")], [0]))


def test_words_that_are_the_same_are_drawn_again():
    drawn = iter([np.array([5, 5], np.uint64), np.array([9, 2], np.uint64)])
    assert pairing.shuffle(2, lambda _: next(drawn)).tolist() == [1, 0]


@pytest.mark.parametrize("parties", [2, 3])
def test_slots_are_uniform(parties):
    """Statistics on larger sets: each row's slot, over many runs, whether it matches or not."""
    size, runs = 20, 4000
    lists = [tags([f"{i:02}" for i in range(10 * j, 10 * j + size)]) for j in range(parties)]
    words = random_words(7)
    total = size if parties == 2 else parties * size
    counts = np.zeros((parties, size, total))
    for _ in range(runs):
        slots, _ = place(lists, words)
        for j, at in enumerate(slots):
            counts[j, np.arange(size), at] += 1
    expected = runs / total
    chi2 = ((counts - expected) ** 2 / expected).sum(axis=2)
    freedom = total - 1
    assert (np.abs(chi2 - freedom) < 6 * np.sqrt(2 * freedom)).all()
