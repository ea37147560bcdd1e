"""Words of few bytes on the wire: every width, and more words than one pass of a loop takes."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ring.packing import add_packed, pack, pack_difference, packed_bytes, unpack, wire_size

WIDTHS = range(1, 65)
COUNTS = (0, 1, 7, 1023, 1025, 3000)


def some_words(seed, count, width):
    words = np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)
    return words & np.uint64((1 << width) - 1)


def room(count, width):
    return np.zeros(packed_bytes(count, width), np.uint8)


@pytest.mark.parametrize("width", WIDTHS)
def test_words_come_back(width):
    size, mask = wire_size(width), np.uint64((1 << width) - 1)
    assert size * 8 >= width
    for count in COUNTS:
        words, wire, found = some_words(width, count, width), room(count, width), np.zeros(count, np.uint64)
        assert len(wire) % 8 == 0
        assert len(wire) < count * size + 8
        pack(words, size, wire)
        unpack(found, wire, size, mask)
        np.testing.assert_array_equal(found, words)


@pytest.mark.parametrize("width", WIDTHS)
def test_they_are_added_and_subtracted_on_the_way(width):
    size, mask = wire_size(width), np.uint64((1 << width) - 1)
    for count in COUNTS:
        one, other = some_words(1, count, width), some_words(2, count, width)
        wire, difference, total = room(count, width), room(count, width), one.copy()
        pack(other, size, wire)
        add_packed(total, wire, size, mask)
        np.testing.assert_array_equal(total, (one + other) & mask)
        pack_difference(one, other, mask, size, difference)
        found = np.zeros(count, np.uint64)
        unpack(found, difference, size, mask)
        np.testing.assert_array_equal(found, (one - other) & mask)


@pytest.mark.parametrize("width", [8, 16, 32, 40, 48, 56, 64])
def test_planes_are_of_four_two_and_one_bytes(width):
    """What is on the wire is agreed on between versions, too."""
    count, size = 5, wire_size(width)
    words, wire = some_words(3, count, width), room(count, width)
    pack(words, size, wire)
    at, shift, expected = 0, 0, b""
    for plane in (8,) if size == 8 else (4, 2, 1):
        if size == 8 or size & plane:
            expected += (words >> np.uint64(shift)).astype(f"<u{plane}").tobytes()
            at, shift = at + plane * count, shift + 8 * plane
    assert wire[:at].tobytes() == expected
