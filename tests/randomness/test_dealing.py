"""Dealing: shares add up, only corrections travel, nothing is used twice."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness import Dealt
from coterie.ring import OddWords, Prime, Ring, Words
from coterie.sharing import Party
from tests.support import Ran, run

PARTIES = [2, 3, 5]
RINGS = [Words(1), Words(4), Words(64), OddWords(4), OddWords(64), Prime(67)]


def added(ring: Ring, shares: list[np.ndarray]) -> np.ndarray:
    value = ring.zeros(shares[0].shape)
    for share in shares:
        value = ring.add(value, share)
    return value


def deal(p: int, ring: Ring, values: np.ndarray, times: int = 1) -> Ran:
    """Deal shares of the values, that only the helper knows, and take them."""

    def role(me: Party) -> list[np.ndarray] | None:
        secret = (lambda: values) if me.deals else not_here
        dealt = [me.dealt.shares_of(ring, values.shape, "test", secret) for _ in range(times)]
        return None if me.deals else [one.take() for one in dealt]

    return run(p, role)


def not_here() -> np.ndarray:
    raise AssertionError("a value was computed at a data party")


def some(ring: Ring, shape: tuple[int, ...] = (3, 50)) -> np.ndarray:
    values = np.random.default_rng(1).integers(0, ring.modulus, shape, np.uint64).astype(ring.dtype)
    values.flat[:2] = 0, ring.modulus - 1
    return values


# -- uniform material ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_uniform_shares_add_up_to_what_the_helper_knows_and_nothing_travels(p, ring):
    def role(me: Party) -> list[np.ndarray]:
        dealt = [me.dealt.uniform(ring, (40, 3), "mask") for _ in range(2)]
        return [one.value if me.deals else one.take() for one in dealt]

    ran = run(p, role)
    for value, *shares in zip(*ran.results, strict=True):
        assert (added(ring, shares) == value).all()
    first, second = ran.results[0]
    assert (first != second).any()
    assert ran.traffic.messages == 0


def test_uniform_material_differs_from_entry_to_entry():
    ran = run(2, lambda me: me.dealt.uniform(Words(64), (500,), "mask").value if me.deals else None)
    assert len(np.unique(ran.results[0])) == 500


# -- shares of a value ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_dealt_shares_add_up_to_the_value(p, ring):
    values = some(ring)
    ran = deal(p, ring, values, times=p + 1)
    for shares in zip(*ran.results[1:], strict=True):
        assert (added(ring, list(shares)) == values).all()


@pytest.mark.parametrize("p", PARTIES)
def test_one_correction_travels_and_who_receives_it_rotates(p):
    ran = deal(p, Words(64), some(Words(64)), times=2 * p)
    sent = ran.recordings[0].sent
    assert [frame.receiver for frame in sent] == [*range(1, p + 1)] * 2
    assert all(frame.array.shape == (3, 50) for frame in sent)
    assert ran.traffic.messages == 2 * p


def test_who_has_received_least_receives_the_next_correction():
    """P1 gets 80 bytes, P2 ten times 8 before it is P1's turn again."""

    def role(me: Party) -> None:
        for count in (10, *[1] * 10, 1):
            me.dealt.shares_of(Words(64), (count,), "test", lambda: np.zeros(count, np.uint64))

    receivers = [frame.receiver for frame in run(2, role).recordings[0].sent]
    assert receivers == [1] + [2] * 10 + [1]


def test_shares_of_one_value_are_fresh_every_time():
    ran = deal(2, Words(64), some(Words(64)), times=4)
    for taken in ran.results[1:]:
        assert len({share.tobytes() for share in taken}) == 4


@pytest.mark.parametrize("width", [1, 6, 64])
@pytest.mark.parametrize("p", PARTIES)
def test_bit_shares_add_up_to_the_bits(p, width):
    field = Prime(67)
    words = np.array([0, 1, 2**width - 1, 2 ** (width - 1), 2**width - 2], np.uint64)

    def role(me: Party) -> list[np.ndarray] | None:
        secret = (lambda: words) if me.deals else not_here
        dealt = [me.dealt.bit_shares_of(field, 5, width, "bits", secret) for _ in range(p)]
        return None if me.deals else [one.take() for one in dealt]

    ran = run(p, role)
    expected = [[(int(word) >> b) & 1 for b in range(width)] for word in words]
    for shares in zip(*ran.results[1:], strict=True):
        assert added(field, list(shares)).tolist() == expected
    assert [frame.receiver for frame in ran.recordings[0].sent] == list(range(1, p + 1))


@pytest.mark.parametrize(("answer", "rounds"), [(False, 0), (True, 1)])
def test_a_round_is_counted_only_if_somebody_waits_for_the_answer(answer, rounds):
    def role(me: Party) -> None:
        me.dealt.shares_of(Words(64), (2,), "test", lambda: np.zeros(2, np.uint64), answer=answer)

    ran = run(2, role)
    assert (ran.traffic.rounds, ran.traffic.rounds_with_dealing) == (rounds, 1)


# -- one-time ------------------------------------------------------------------------------------------------


def dealt_everywhere(p: int = 2) -> list[Dealt]:
    return run(p, lambda me: me.dealt.uniform(Words(64), (3,), "mask")).results


def test_a_share_is_taken_once():
    _, dealt, _ = dealt_everywhere()
    dealt.take()
    with pytest.raises(MaterialReused, match="mask"):
        dealt.take()


def test_there_is_no_share_for_the_helper():
    with pytest.raises(MaterialReused, match="not for this role"):
        dealt_everywhere()[0].take()


def test_the_value_is_unknown_at_a_party():
    for dealt in dealt_everywhere(3)[1:]:
        with pytest.raises(ProtocolError, match="only the helper"):
            _ = dealt.value


def test_taken_through_the_party_material_is_consumed():
    def role(me: Party) -> None:
        material = me.dealt.uniform(Words(64), (3,), "mask")
        me.taken(material)
        me.taken(material)

    with pytest.raises(MaterialReused, match="mask"):
        run(2, role)


def test_material_is_neither_printed_nor_pickled():
    helper, party, _ = dealt_everywhere()
    assert repr(helper) == repr(party) == "Dealt(mask, shape=(3,))"
    for dealt in (helper, party):
        with pytest.raises(TypeError):
            pickle.dumps(dealt)
