"""Ids: when two are the same, and what their tags tell."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.matching import KEY_BYTES, TAG_BYTES, IdRule, make_tags, normalise, sort_tags
from coterie.matching.tags import CHUNK

KEY, OTHER = bytes(KEY_BYTES), bytes([1]) * KEY_BYTES
RULES = [IdRule(*one) for one in itertools.product(("exact", "ignore"), ("ends", "ignore"), ("NFC", "NFKC"))]


@pytest.mark.parametrize(
    ("one", "other", "rule"),
    [
        (" 0815\t", "0815", IdRule()),
        ("Zo\u0065\u0308", "Zo\u00eb", IdRule()),
        ("AB 12", "ab 12", IdRule(case="ignore")),
        ("STRASSE", "straße", IdRule(case="ignore")),
        ("AB 1 2", "AB12", IdRule(spaces="ignore")),
        ("\uff11\uff12", "12", IdRule(unicode="NFKC")),
    ],
)
def test_what_is_the_same(one, other, rule):
    assert normalise(one, rule) == normalise(other, rule)


@pytest.mark.parametrize(
    ("one", "other", "rule"),
    [
        ("0815", "815", IdRule("ignore", "ignore", "NFKC")),  # leading zeros are part of an id
        ("AB", "ab", IdRule()),
        ("A B", "AB", IdRule()),
        ("\uff11", "1", IdRule()),
    ],
)
def test_what_is_not(one, other, rule):
    assert normalise(one, rule) != normalise(other, rule)


@pytest.mark.parametrize("rule", RULES)
@given(text=st.text(max_size=12))
@example(text="U\u00af")
def test_a_normal_id_stays_as_it_is(rule, text):
    once = normalise(text, rule)
    assert normalise(once, rule) == once
    assert once == once.strip()
    assert unicodedata.is_normalized(rule.unicode, once)


def test_tags_are_of_ids_and_key():
    ids = ["a", "b", "c"]
    tags = make_tags(ids, KEY)
    assert tags.dtype == f"S{TAG_BYTES}"
    assert len(set(tags.tolist())) == 3
    np.testing.assert_array_equal(tags[::-1], make_tags(ids[::-1], KEY))
    assert not set(tags.tolist()) & set(make_tags(ids, OTHER).tolist())
    with pytest.raises(ValueError, match="32 bytes"):
        make_tags(ids, b"short")


def test_many_tags_are_made_in_pieces():
    ids = [str(i) for i in range(CHUNK + 3)]
    tags = make_tags(ids, KEY)
    np.testing.assert_array_equal(
        tags[[0, CHUNK - 1, CHUNK, -1]], make_tags([ids[0], ids[CHUNK - 1], ids[CHUNK], ids[-1]], KEY)
    )


@given(st.lists(st.text(min_size=1), unique=True))
def test_sorted_tags_know_their_rows(ids):
    tags = make_tags(ids, KEY)
    ordered, order = sort_tags(tags)
    np.testing.assert_array_equal(ordered, np.sort(tags))
    np.testing.assert_array_equal(tags[order], ordered)
