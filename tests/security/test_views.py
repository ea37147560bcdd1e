"""What each role receives in each primitive: uniform, fresh in every entry, the same for every input."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from coterie.sharing import Party, open_wide
from tests.security.primitives import (
    COMPARE,
    CONVERT,
    DRELU,
    MSB,
    NARROW,
    PRIMITIVES,
    TRUNCATE,
    WITH_HELPER,
    WITHOUT_HELPER,
    Primitive,
    check_answers_are_unrelated_to_what_was_dealt,
    check_data_view,
    check_helper_view,
    check_opening_view,
    check_sizes,
)
from tests.security.views import assert_masked, assert_random_words, conditioned, seen_by
from tests.support import total

#: Up to p - 1 data parties who put together what they know.
COALITIONS = [
    (p, set(members)) for p in (2, 3) for size in range(1, p) for members in combinations(range(1, p + 1), size)
]


def named(value: object) -> str | None:
    return value.name if isinstance(value, Primitive) else None


@pytest.mark.parametrize(("p", "viewers"), COALITIONS, ids=str)
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_data_parties_see_uniform_values(primitive, p, viewers):
    check_data_view(primitive, p, viewers)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", WITH_HELPER, ids=named)
def test_the_helper_sees_what_a_simulator_makes_up(primitive, p):
    check_helper_view(primitive, p)


@pytest.mark.parametrize("p", [2, 3])
def test_the_helper_sees_as_little_of_numbers_of_few_bits(p):
    check_helper_view(NARROW, p)
    check_sizes(NARROW.ran(p, 0), NARROW.ran(p, 1))


@pytest.mark.parametrize(("p", "viewers"), COALITIONS, ids=str)
def test_data_parties_see_uniform_values_of_few_bits(p, viewers):
    """All of them modulo 2^4 or 2^4 - 1, but for the answer, which is over the ring of the number."""
    for which, turn in product(range(2), (min(viewers) - 1, max(viewers))):
        frames = seen_by(NARROW.conditioned(p, which, viewers, turn), viewers)
        wide = [frame for frame in frames if frame.array.dtype == np.uint64 and (frame.array >= 16).any()]
        assert_masked([frame for frame in frames if not any(frame is one for one in wide)], 4)
        assert_masked(wide, 6)
        assert len(wide) <= 1


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", WITHOUT_HELPER, ids=named)
def test_the_helper_receives_nothing_in_a_product(primitive, p):
    assert primitive.ran(p, 1).recordings[0].received == []


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", [CONVERT, MSB, TRUNCATE], ids=named)
def test_answers_are_unrelated_to_what_the_helper_dealt(primitive, p):
    check_answers_are_unrelated_to_what_was_dealt(primitive, p)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_sizes_and_rounds_depend_on_shapes_alone(primitive, p):
    check_sizes(primitive.ran(p, 0), primitive.ran(p, 1))


def test_in_private_compare_data_parties_receive_what_was_dealt_and_nothing_else():
    for recording in COMPARE.ran(3, 0).recordings[1:]:
        assert all(frame.sender == 0 for frame in recording.received)


@pytest.mark.parametrize(("p", "viewer"), [(2, 0), (3, 0), (3, 1), (3, 2), (3, 3), (4, 0), (4, 1)])
def test_an_opening_shows_the_sum_alone(p, viewer):
    check_opening_view(p, viewer)


def test_an_opening_reaches_nobody_else():
    def role(me: Party) -> None:
        open_wide(me, me.rank, "a test", "a test")

    ran = conditioned(3, role, set(), 0)
    assert ran.recordings[0].frames == []


@pytest.mark.parametrize("viewer", [1, 2, 3])
def test_a_wide_opening_shows_the_sum_alone(viewer):
    """Of three parties: what two others sent is uniform to the third, in all 128 bits."""

    def role(me: Party) -> list[int | None]:
        return [open_wide(me, 10 * me.rank, "a test", "a test") for _ in range(500)]

    ran = conditioned(3, role, {viewer}, 91)
    assert set(ran.results[viewer]) == {60}
    for sender in {1, 2, 3} - {viewer}:
        sent = [frame.array for frame in seen_by(ran, {viewer}) if frame.sender == sender]
        assert_random_words([np.stack(sent)[:, 0], np.stack(sent)[:, 1]], f"P{sender}'s part of a wide opening")


@pytest.mark.parametrize("viewers", [{0}, {1}, {2, 3}], ids=str)
def test_a_conditioned_run_is_a_run(viewers):
    """Constant streams are as good as others to compute with, so that the views above are the protocol's."""
    for which, sign in enumerate((1, 0)):
        assert (total_of(DRELU.conditioned(3, which, viewers)) == sign).all()


def total_of(ran):
    return total(ran.results[1].ring, ran.results)
