"""What each role receives in each step of `onetime`: uniform, fresh in every entry, the same for every input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from coterie.protocols.onetime.sign import signs_of_differences
from coterie.randomness import Dealt, Masked
from coterie.randomness.material import Packed
from coterie.ring import Array, Words
from coterie.sharing import Party, start_opening
from tests.security.onetime_primitives import (
    LEFT,
    OPENINGS,
    PRIMITIVES,
    RIGHT,
    SIGN,
    SUMS,
    Primitive,
    check_opening,
    check_sums_reach_holders_only,
    check_view,
    outside,
    rows_of,
)
from tests.security.primitives import check_sizes
from tests.support import run

#: Up to p - 1 data parties who put together what they know.
COALITIONS = [
    (p, set(members)) for p in (2, 3) for size in range(1, p) for members in combinations(range(1, p + 1), size)
]


def named(value: object) -> str | None:
    return value.name if isinstance(value, Primitive) else None


@pytest.mark.parametrize(("p", "viewers"), COALITIONS, ids=str)
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_data_parties_see_uniform_bytes(primitive, p, viewers):
    check_view(primitive, p, viewers)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_the_helper_receives_nothing_and_sizes_depend_on_shapes_alone(primitive, p):
    one, other = primitive.ran(p, 0), primitive.ran(p, 1)
    check_sizes(one, other)
    assert one.recordings[0].received == []
    assert one.recordings[0].notes == []


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_a_correction_leaves_when_every_part_of_it_is_made(monkeypatch, primitive):
    """It is made in the place of somebody else's share: a part left out would tell that share."""
    bind, unmade = Dealt.bind, []

    def checked(self: Dealt, values: Callable[[], dict[str, Array]]) -> Callable[[], None]:
        made = values()
        unmade.extend(set(self.material.bound) - self._given - set(made))
        return bind(self, lambda: made)

    monkeypatch.setattr(Dealt, "bind", checked)
    primitive.ran(3, 1)
    assert unmade == []


@pytest.mark.parametrize("name", OPENINGS)
def test_an_opening_shows_the_sum_alone(name):
    check_opening(name)


def test_a_blocks_masked_labels_reach_the_holders_of_its_rows_only():
    check_sums_reach_holders_only()


@pytest.mark.parametrize(("width", "plane", "used"), [(4, "u1", 4), (12, "u2", 12), (20, "u4", 20), (36, "u1", 4)])
def test_bits_of_a_frame_that_a_word_does_not_need_are_zero(width, plane, used):
    """Shares have rubbish above their width: it stays at home. `plane`: the last one, of the highest bytes."""

    def role(me: Party) -> None:
        z = rows_of(me, -1, -(1 << 40), count=64)
        signs_of_differences(me, z, LEFT, RIGHT, 64, width)

    received = run(3, role).recordings[1].received
    openings = [frame.array for frame in received if frame.sender and frame.array.dtype == np.uint8]
    assert len(openings) == 2
    for opening in openings:
        highest = opening[-64 * np.dtype(plane).itemsize :].view(plane)
        assert highest.any()
        assert not (highest >> used).any()


@pytest.mark.parametrize(("count", "width"), [(1, 4), (3, 12), (5, 20), (7, 36), (1, 64), (0, 8)])
def test_what_fills_a_frame_up_is_zero(count, width):
    ring = Words(width)

    def role(me: Party) -> None:
        if not me.deals:
            rubbish = [np.full(1 << size, 0xA5, np.uint8) for size in range(3, 9)]  # for np.empty to find again
            del rubbish
            start_opening(me, Masked(ring.encode(np.full(count, -1)), Packed(count, width=width)))()

    (frame,) = run(2, role).recordings[1].received
    assert frame.array.size % 8 == 0
    used = count * {4: 1, 12: 2, 20: 4, 36: 5, 64: 8, 8: 1}[width]
    assert not frame.array[used:].any()


@pytest.mark.parametrize("viewers", [{1}, {2, 3}, {0, 1}], ids=str)
def test_a_conditioned_run_is_a_run(viewers):
    """Constant streams are as good as others to compute with, so that the views above are the protocol's."""

    def negative(ran) -> np.ndarray:
        return np.bitwise_xor.reduce(ran.results[1:])

    primitive = Primitive(
        "signs", lambda me, a, b: signs_of_differences(me, rows_of(me, a, b), LEFT, RIGHT, 8192, 8), SIGN.inputs
    )
    assert not negative(primitive.conditioned(3, 0, viewers)).any()
    assert (negative(primitive.conditioned(3, 1, viewers)) == np.uint64(2**64 - 1)).all()


def test_viewers_that_hold_no_cells_of_a_block_receive_no_opening_of_it():
    """Of the sums P3 learns E, its corrections, and masked labels of rows of its own."""
    ran = SUMS.conditioned(3, 1, {3})
    openings = [f for f in outside(ran, {3}) if f.sender and f.array.dtype == np.uint8]
    assert len(openings) == 2 * (2 + 2)  # from two others: 256 rows of its own and 256 that all hold, in blocks of 128
