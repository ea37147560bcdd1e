"""PrivateCompare at the helper, against a simulator that knows nothing but the answer.

The bits are handed to the parties in constant shares, as if the helper, who deals them, had chosen them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from coterie.protocols.securenn.compare import compare_at_helper, private_compare
from coterie.ring import Array
from coterie.sharing import Party
from tests.security.views import assert_comparison_view, comparisons, conditioned, seen_by

COUNT, BITS = 4096, 6
TOP = (1 << BITS) - 1


@dataclass(frozen=True)
class Case:
    """x against r (-1 where r stands below zero), blinded by beta; `answer` is beta XOR [x > r]."""

    x: int
    r: int
    beta: int

    @property
    def answer(self) -> int:
        return self.beta ^ (self.x > self.r)


CASES = [
    Case(x, r, beta)
    for x, r in [(40, 23), (23, 40), (23, 23), (0, 0), (TOP, 0), (0, TOP), (TOP, TOP), (TOP, TOP - 1), (17, -1)]
    for beta in (0, 1)
]


def shares_of_bits(x: int, p: int) -> list[Array]:
    """All-zero shares at all but the last party, which holds the bits themselves."""
    bits = np.tile((x >> np.arange(BITS)) & 1, (COUNT, 1)).astype(np.uint8)
    return [np.zeros_like(bits)] * (p - 1) + [bits]


@dataclass(frozen=True)
class Given:
    """Dealt bits."""

    share: Array

    def bound(self, name: str) -> Array:
        return self.share


def check_view(p: int, case: Case) -> None:
    shares = shares_of_bits(case.x, p)

    def role(me: Party) -> Array | None:
        if me.deals:
            return compare_at_helper(me, COUNT, BITS)()
        bits = Given(shares[me.rank - 1].copy())
        r = np.full(COUNT, case.r % (1 << BITS), np.uint64)
        beta = np.full(COUNT, case.beta, np.uint8)
        private_compare(me, bits, "bits", r, beta, below_zero=np.full(COUNT, case.r < 0))
        return None

    ran = conditioned(p, role, {0}, 0)
    assert (ran.results[0] == case.answer).all()
    (messages,) = comparisons(seen_by(ran, {0}), p)
    assert_comparison_view(messages, case.answer)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("p", [2, 3])
def test_the_view_is_made_from_the_answer_alone(p, case):
    check_view(p, case)


def test_the_cases_cover_both_answers():
    assert {case.answer for case in CASES} == {0, 1}
