"""Dealing: shares add up, only corrections travel, nothing is used twice."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness import Dealt, Masked, Material
from coterie.randomness.material import Bits, BitsOver, Elements, Packed, Piece, Tables, Unpacked
from coterie.ring import Array, OddWords, Prime, Ring, Words
from coterie.sharing import Party
from tests.support import Ran, run

PARTIES = [2, 3, 5]
RINGS = [Words(1), Words(4), Words(64), OddWords(4), OddWords(64), Prime(67)]
SHAPE = (3, 50)
WORDS = Words(64)
#: Pieces, what shares of them are added up by, and below what their entries lie.
PIECES: dict[str, tuple[Piece, str, int]] = {
    **{repr(ring): (Elements(ring, *SHAPE), "ring", ring.modulus) for ring in RINGS},
    **{f"{w} bits": (Packed(*SHAPE, width=w), "words", 1 << w) for w in (1, 8, 17, 24, 33, 48, 63, 64)},
    "bits": (Bits(*SHAPE), "xor", 1 << 64),
    "tables": (Tables(*SHAPE), "xor", 1 << 16),
}


def added(piece: Piece, by: str, modulus: int, shares: list[Array]) -> Array:
    total = shares[0]
    for share in shares[1:]:
        if by == "ring":
            total = piece.ring.add(total, share)
        else:
            total = total ^ share if by == "xor" else (total + share) & np.uint64(modulus - 1)
    return total


def stored(piece: Piece) -> object:
    """The type of the entries."""
    return piece.ring.dtype if isinstance(piece, Elements) else getattr(piece, "dtype", np.uint64)


def some(modulus: int, dtype: object) -> Array:
    values = np.random.default_rng(1).integers(0, modulus, SHAPE, np.uint64).astype(dtype)
    values.flat[:2] = 0, modulus - 1
    return values


def deal(p: int, material: Material, values: dict[str, Array], times: int = 1) -> Ran:
    """Deal so many times, and take every share."""

    def role(me: Party) -> list[dict[str, Array]]:
        taken = []
        for _ in range(times):
            dealt = me.deal(material)
            found = {name: dealt.mask(name) for name in material.masks}
            if me.deals and material.bound:
                dealt.bind(lambda: values)
            elif material.bound:
                found |= {name: dealt.bound(name) for name in material.bound}
            taken.append(found)
        return taken

    return run(p, role)


def words(count: int, **options: object) -> Material:
    return Material("test", bound={"v": Elements(WORDS, count)}, **options)


# -- masks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("name", PIECES)
def test_shares_of_a_mask_add_up_to_what_the_helper_knows_and_nothing_travels(p, name):
    piece, by, modulus = PIECES[name]
    ran = deal(p, Material("test", {"m": piece}), {}, times=2)
    for value, *shares in zip(*ran.results, strict=True):
        assert (added(piece, by, modulus, [share["m"] for share in shares]) == value["m"]).all()
        assert value["m"].max() < modulus
    first, second = ran.results[0]
    assert (first["m"] != second["m"]).any()
    assert ran.traffic.messages == 0


def test_unpacked_masks_add_up_modulo_their_width():
    ran = deal(3, Material("test", {"m": Unpacked(*SHAPE, width=20)}), {})
    value, *shares = (one[0]["m"] for one in ran.results)
    assert not ((sum(shares) - value) & np.uint64((1 << 20) - 1)).any()


def test_a_mask_differs_from_entry_to_entry():
    ran = deal(2, Material("test", {"m": Elements(WORDS, 500)}), {})
    assert len(np.unique(ran.results[0][0]["m"])) == 500


# -- shares of a value ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("name", PIECES)
def test_bound_shares_add_up_to_the_value(p, name):
    piece, by, modulus = PIECES[name]
    values = some(modulus, stored(piece))
    ran = deal(p, Material("test", bound={"v": piece}), {"v": values}, times=p + 1)
    for shares in zip(*ran.results[1:], strict=True):
        assert (added(piece, by, modulus, [share["v"] for share in shares]) == values).all()


@pytest.mark.parametrize("p", PARTIES)
def test_pieces_of_all_kinds_travel_in_one_correction(p):
    """Also behind one whose bytes are no multiple of 8."""
    pieces = {name: piece for name, (piece, _, _) in PIECES.items()}
    odd = BitsOver(Prime(67), 5, 3)
    values = {name: some(modulus, stored(piece)) for name, (piece, _, modulus) in PIECES.items()}
    numbers = np.array([0, 1, 7, 4, 2], np.uint64)
    ran = deal(p, Material("test", {"m": PIECES["bits"][0]}, {"odd": odd, **pieces}), {"odd": numbers, **values})
    for name, (piece, by, modulus) in PIECES.items():
        shares = [one[0][name] for one in ran.results[1:]]
        assert (added(piece, by, modulus, shares) == values[name]).all(), name
    bits = added(odd, "ring", 67, [one[0]["odd"] for one in ran.results[1:]])
    assert bits.tolist() == [[(int(number) >> b) & 1 for b in range(3)] for number in numbers]
    assert ran.traffic.messages == 1


@pytest.mark.parametrize("p", PARTIES)
def test_one_correction_travels_and_who_receives_it_rotates(p):
    ran = deal(p, words(150), {"v": np.zeros(150, np.uint64)}, times=2 * p)
    sent = ran.recordings[0].sent
    assert [frame.receiver for frame in sent] == [*range(1, p + 1)] * 2
    assert all(frame.array.nbytes == 8 * 150 for frame in sent)
    assert ran.traffic.messages == 2 * p


def test_who_has_received_least_receives_the_next_correction():
    """P1 gets 80 bytes, P2 ten times 8 before it is P1's turn again."""

    def role(me: Party) -> None:
        for count in (10, *[1] * 10, 1):
            dealt = me.deal(words(count))
            if me.deals:
                dealt.bind(lambda: {"v": np.zeros(count, np.uint64)})

    receivers = [frame.receiver for frame in run(2, role).recordings[0].sent]
    assert receivers == [1] + [2] * 10 + [1]


def test_shares_of_one_value_are_fresh_every_time():
    ran = deal(2, words(150), {"v": np.arange(150, dtype=np.uint64)}, times=4)
    for taken in ran.results[1:]:
        assert len({share["v"].tobytes() for share in taken}) == 4


@pytest.mark.parametrize("width", [1, 6, 64])
@pytest.mark.parametrize("p", PARTIES)
def test_bit_shares_add_up_to_the_bits(p, width):
    piece = BitsOver(Prime(67), 5, width)
    numbers = np.array([0, 1, 2**width - 1, 2 ** (width - 1), 2**width - 2], np.uint64)
    ran = deal(p, Material("test", bound={"v": piece}), {"v": numbers}, times=p)
    expected = [[(int(number) >> b) & 1 for b in range(width)] for number in numbers]
    for shares in zip(*ran.results[1:], strict=True):
        assert added(piece, "ring", 67, [share["v"] for share in shares]).tolist() == expected
    assert [frame.receiver for frame in ran.recordings[0].sent] == list(range(1, p + 1))


def test_a_value_is_xored_in_place():
    """Into the shares of the others, where there are several."""
    material = Material("test", bound={"v": Bits(4), "w": Bits(4)})

    def role(me: Party) -> list[Array]:
        dealt = me.deal(material)
        if not me.deals:
            return [dealt.bound("v"), dealt.bound("w")]
        dealt.target("v")[...] ^= np.arange(4, dtype=np.uint64)
        dealt.bind(lambda: {"w": np.full(4, 9, np.uint64)})
        return []

    v, w = (np.bitwise_xor.reduce(shares) for shares in zip(*run(3, role).results[1:], strict=True))
    assert (v.tolist(), w.tolist()) == ([0, 1, 2, 3], [9] * 4)


@pytest.mark.parametrize(("answer", "rounds"), [(False, 0), (True, 1)])
def test_a_round_is_counted_only_if_somebody_waits_for_the_answer(answer, rounds):
    ran = deal(2, words(2, answer=answer), {"v": np.zeros(2, np.uint64)})
    assert (ran.traffic.rounds, ran.traffic.rounds_with_dealing) == (rounds, 1)


# -- one-time ------------------------------------------------------------------------------------------------

BOTH = Material("both", {"m": Elements(WORDS, 3)}, {"v": Elements(WORDS, 3)})
ZEROS = np.zeros(3, np.uint64)


def dealt_everywhere(p: int = 2) -> list[Dealt]:
    def role(me: Party) -> Dealt:
        dealt = me.deal(BOTH)
        if me.deals:
            dealt.bind(lambda: {"v": ZEROS})
        return dealt

    return run(p, role).results


def test_a_share_is_given_once():
    helper, party, _ = dealt_everywhere()
    party.bound("v")
    helper.mask("m")
    party.mask("m")
    for again in (lambda: party.bound("v"), lambda: party.mask("m"), lambda: helper.mask("m")):
        with pytest.raises(MaterialReused, match="of both was used before"):
            again()


def test_a_correction_is_sent_once():
    helper, *_ = dealt_everywhere()
    for again in ({"v": ZEROS}, {}):
        with pytest.raises(MaterialReused):
            helper.bind(lambda again=again: again)


def test_there_is_no_share_for_the_helper():
    with pytest.raises(ProtocolError, match="the helper has no share"):
        dealt_everywhere()[0].bound("v")


def test_a_party_binds_nothing():
    for dealt in dealt_everywhere(3)[1:]:
        with pytest.raises(ProtocolError, match="only the helper"):
            dealt.bind(lambda: {"v": ZEROS})
        with pytest.raises(ProtocolError):
            dealt.target("v")


def test_only_a_mask_masks_and_only_what_is_bound_adds_up():
    helper, party, _ = dealt_everywhere()
    for wrong in (
        lambda: party.mask("v"), lambda: party.bound("m"), lambda: party.mask("x"), lambda: party.masked("v", ZEROS),
        lambda: helper.bind(lambda: {"m": ZEROS}), lambda: helper.target("v"),
    ):  # fmt: skip
        with pytest.raises(ProtocolError):
            wrong()


def test_what_is_opened_has_the_size_that_was_declared():
    party = dealt_everywhere()[1]
    mask = party.mask("m")
    for wrong in (mask[:2], np.concatenate([mask, mask])):
        with pytest.raises(ProtocolError, match="declared"):
            party.masked("m", wrong)
    with pytest.raises(ProtocolError, match="declared"):
        Masked(mask, Elements(WORDS, 4))
    assert party.masked("m", mask).piece is BOTH.masks["m"]


def test_unpacked_words_are_masks_only():
    def role(me: Party) -> None:
        dealt = me.deal(Material("test", bound={"v": Unpacked(3, width=8)}))
        if me.deals:
            dealt.bind(lambda: {"v": ZEROS})

    with pytest.raises(ProtocolError, match="masks"):
        run(2, role)


def test_material_is_neither_printed_nor_pickled():
    helper, party, _ = dealt_everywhere()
    assert repr(helper) == repr(party) == "Dealt(both)"
    for dealt in (helper, party):
        with pytest.raises(TypeError):
            pickle.dumps(dealt)


@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_what_is_drawn_is_reduced(ring: Ring):
    ran = deal(3, Material("test", {"m": Elements(ring, 500)}), {})
    for one in ran.results:
        assert one[0]["m"].max() < ring.modulus
