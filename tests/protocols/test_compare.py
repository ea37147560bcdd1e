"""PrivateCompare: every x, r and beta of a few bits, then words; and the helper hears nothing but the answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MaterialReused
from coterie.protocols.securenn.compare import FIELD, PIECE, Blinding, compare_at_helper, private_compare, unblinded
from coterie.randomness import Material
from coterie.randomness.material import BitsOver
from coterie.ring import Array
from coterie.sharing import Party
from tests.protocols.tiny import PARTIES, numbers, protocol_settings, vectors
from tests.support import Ran, compute, run


def answers(p: int, width: int, x, r, beta, below_zero=None) -> tuple[Array, Ran]:
    """What the helper finds where P1..Pp compare x, dealt bit by bit, with r."""
    x, r = np.array(x, np.uint64), np.array(r, np.uint64)
    beta = np.array(beta, np.uint8)
    below_zero = None if below_zero is None else np.array(below_zero, np.bool_)

    def role(me: Party) -> Array | None:
        dealt = me.deal(Material("x", bound={"x": BitsOver(FIELD, len(x), width)}))
        if me.deals:
            dealt.bind(lambda: {"x": x})
            return compare_at_helper(me, len(x), width)()
        return private_compare(me, dealt, "x", r, beta, below_zero)

    ran = run(p, role)
    assert ran.results[1:] == [None] * p
    return ran.results[0], ran


@pytest.mark.parametrize("p", [2, 3, 5])
def test_comparisons_by_hand(p):
    """6 > 5, 5 > 5, 4 > 5, then the same with beta = 1."""
    found, ran = answers(p, 3, [6, 5, 4] * 2, [5] * 6, [0, 0, 0, 1, 1, 1])
    assert found.tolist() == [1, 0, 0, 0, 1, 1]
    assert ran.traffic.rounds == 1


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("width", [1, 4, 6])
def test_every_comparison(p, width):
    """r = 0 and r = 2^l - 1 included; `below_zero` in every combination with the others."""
    size = 1 << width
    x, r, beta, below = np.indices((size, size, 2, 2)).reshape(4, -1).repeat(8 if width < 6 else 4, axis=1)
    found, _ = answers(p, width, x, r, beta, below)
    assert (found == beta ^ ((x > r) | (below == 1))).all()


@pytest.mark.parametrize("width", [4, 6])
def test_no_entry_below_zero_need_be_given(width):
    x, r, beta = np.indices((1 << width, 1 << width, 2)).reshape(3, -1)
    assert (answers(2, width, x, r, beta)[0] == beta ^ (x > r)).all()


@given(
    p=PARTIES,
    cases=vectors(
        st.tuples(numbers(0, 2**64 - 1, 2**63), numbers(0, 2**64 - 1, 2**63), st.integers(0, 1), st.integers(-1, 1))
    ),
    below=st.booleans(),
)
@protocol_settings
def test_comparisons_of_any_words(p, cases, below):
    """Against any word and against the neighbours of x."""
    cases = [(x, r, b) for x, r, b, _ in cases] + [(x, min(max(x + near, 0), 2**64 - 1), b) for x, _, b, near in cases]
    x, r, beta = zip(*cases)
    always = [below and i % 3 == 0 for i in range(len(cases))]
    found, _ = answers(p, 64, x, r, beta, always)
    assert found.tolist() == [b ^ int(a > c or n) for (a, c, b), n in zip(cases, always)]


@pytest.mark.parametrize("p", [2, 3])
def test_the_ends_of_the_word(p):
    top = 2**64 - 1
    x, r = np.array([0, 1, top - 1, top], np.uint64), np.array([0, top - 1, top], np.uint64)
    cases = [(int(a), int(b), beta) for a in x for b in r for beta in (0, 1)]
    found, _ = answers(p, 64, *zip(*cases))
    assert found.tolist() == [beta ^ int(a > b) for a, b, beta in cases]


def test_the_helper_sees_one_zero_or_none_in_a_random_place():
    """The sum of what it receives: uniform and not zero, but for one place where the answer is 1."""
    count = 4000
    _, ran = answers(3, 4, [9] * count, [5] * count, [0, 1] * (count // 2))
    messages = [frame.array.astype(int) for frame in ran.recordings[0].received]
    zeros = sum(messages) % FIELD.q == 0
    assert (zeros.sum(axis=1) == np.array([1, 0] * (count // 2))).all()
    places = zeros[::2].sum(axis=0)
    assert (np.abs(places - count / 8) < 5 * np.sqrt(count / 8)).all()


def test_bits_serve_one_comparison():
    def role(me: Party) -> None:
        dealt = me.deal(Material("x", bound={"x": BitsOver(FIELD, 1, 4)}))
        r, beta = np.zeros(1, np.uint64), np.zeros(1, np.uint8)
        if me.deals:
            dealt.bind(lambda: {"x": np.array([3], np.uint64)})
            compare_at_helper(me, 1, 4)
        else:
            private_compare(me, dealt, "x", r, beta)
            private_compare(me, dealt, "x", r, beta)

    with pytest.raises(MaterialReused):
        run(2, role)


def test_a_blinding_serves_one_comparison():
    def role(me: Party) -> None:
        r, beta = np.zeros(1, np.uint64), np.zeros(1, np.uint8)
        blinding = None if me.deals else Blinding(me, 1, 4)
        for _ in range(2):
            dealt = me.deal(Material("x", bound={"x": BitsOver(FIELD, 1, 4)}))
            if me.deals:
                dealt.bind(lambda: {"x": np.array([3], np.uint64)})
                compare_at_helper(me, 1, 4)
            else:
                private_compare(me, dealt, "x", r, beta, blinding=blinding)

    with pytest.raises(MaterialReused, match="blinding"):
        run(2, role)


def test_a_blinding_shows_nothing_and_is_not_pickled():
    def role(me: Party) -> None:
        if me.deals:
            return
        blinding = Blinding(me, 3, 4)
        assert repr(blinding) == "Blinding()"
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(blinding)

    run(2, role)


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 7])
def test_the_helper_looks_at_every_piece(count):
    x, r = np.arange(count) * 7 % 16, np.arange(count) * 5 % 16
    found, _ = answers(2, 4, x.tolist(), r.tolist(), [0, 1] * (count // 2) + [0] * (count % 2))
    assert found.tolist() == [i % 2 * (i < count // 2 * 2) ^ int(a > b) for i, (a, b) in enumerate(zip(x, r))]


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("kind", [np.uint8, np.uint64])
def test_unblinding_is_exclusive_or(p, kind):
    beta = np.array([0, 0, 1, 1], kind)
    assert compute(p, lambda me, b: b if me.deals else unblinded(b, beta), [0, 1, 0, 1])[0].tolist() == [0, 1, 1, 0]
