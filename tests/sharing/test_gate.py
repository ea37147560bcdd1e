"""The gate: what is opened, to whom, by which mask, and what the log says of it."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness import Dealt, Material
from coterie.randomness.material import Elements
from coterie.ring import OddWords, Prime, Ring, Words
from coterie.sharing import (
    Disclosure,
    Party,
    Shared,
    bring_together,
    open_masked,
    open_wide,
    permit,
    start_opening,
    tell_dealer,
    zero_shares,
)
from tests.support import Ran, given, open_parts, open_to, run, splits

PARTIES = [2, 3, 5]
RINGS = [Words(1), Words(4), Words(64), OddWords(64), Prime(67)]
WORDS = Words(64)


def on_shared(p: int, ring: Ring, values, role) -> Ran:
    """Run role(me, [values])."""
    shares = splits(ring, values, p)
    return run(p, lambda me: role(me, given(me, ring, shares)))


# -- zero-sharings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_zero_shares_add_up_to_zero_and_are_fresh(p, ring):
    def role(me: Party) -> list[np.ndarray]:
        return [] if me.deals else [zero_shares(me, ring, (40, 2), "test") for _ in range(2)]

    ran = run(p, role)
    for shares in zip(*ran.results[1:], strict=True):
        assert all(share.any() for share in shares)
        assert not ring.sum(np.stack(shares), 0).any()
    assert all((first != second).any() for first, second in ran.results[1:])
    assert ran.traffic.messages == 0


@pytest.mark.parametrize("p", [3, 5])
def test_fewer_than_all_zero_shares_say_nothing(p):
    """The sum of any p - 1 differs from entry to entry: one party's share is missing."""
    ran = run(p, lambda me: None if me.deals else zero_shares(me, WORDS, (200,), "test"))
    for missing in range(p):
        others = [share for j, share in enumerate(ran.results[1:]) if j != missing]
        assert len(np.unique(WORDS.sum(np.stack(others), 0))) == 200


# -- masked openings -----------------------------------------------------------------------------------------


def masks(me: Party, x: Shared) -> Dealt:
    """A mask m for a value."""
    return me.deal(Material("a test", {"m": Elements(x.ring, *x.shape)}))


def masked_opening(me: Party, x: Shared) -> tuple[np.ndarray | None, np.ndarray | None]:
    """What is opened at a data party, the mask at the helper."""
    dealt = masks(me, x)
    if me.deals:
        return None, dealt.mask("m")
    return open_masked(me, dealt, m=x)[0], None


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_the_value_less_its_mask_is_opened_to_all_data_parties(p, ring):
    values = np.arange(-4, 8).reshape(3, 4)
    ran = on_shared(p, ring, values, masked_opening)
    expected = ring.sub(ring.encode(values), ran.results[0][1])
    for opened, _ in ran.results[1:]:
        assert (opened == expected).all()
    assert ran.recordings[0].frames == []
    assert (ran.traffic.rounds, ran.traffic.messages) == (1, p * (p - 1))


def test_several_values_are_opened_in_one_round():
    def role(me: Party, x: Shared) -> list[np.ndarray]:
        dealt = me.deal(Material("a test", {"m": Elements(WORDS, 6), "n": Elements(WORDS, 2, 3)}))
        if me.deals:
            return [dealt.mask("m"), dealt.mask("n")]
        return open_masked(me, dealt, m=x, n=x.reshape(2, 3) * 2)

    values = WORDS.encode(np.arange(6))
    ran = on_shared(3, WORDS, values, role)
    masks = ran.results[0]
    for one, other in ran.results[1:]:
        assert (one == WORDS.sub(values, masks[0])).all()
        assert (other == WORDS.sub(WORDS.mul(values, np.uint64(2)).reshape(2, 3), masks[1])).all()
    assert ran.traffic.rounds == 1


def test_a_masked_opening_is_no_disclosure():
    ran = on_shared(2, WORDS, [1, 2], lambda me, x: (masked_opening(me, x), me.ledger.entries)[1])
    assert ran.results == [[], [], []]


def test_a_mask_is_consumed():
    def role(me: Party, x: Shared) -> None:
        dealt = masks(me, x)
        if not me.deals:
            open_masked(me, dealt, m=x)
            open_masked(me, dealt, m=x)

    with pytest.raises(MaterialReused, match="m of a test"):
        on_shared(2, WORDS, [1, 2], role)


def test_a_mask_serves_one_value_of_an_opening():
    def role(me: Party, x: Shared) -> None:
        dealt = masks(me, x)
        if not me.deals:
            one = dealt.hide("m", x.ring, x.share)
            start_opening(me, one)()
            dealt.masked("m", one.array)

    with pytest.raises(MaterialReused):
        on_shared(2, WORDS, [1, 2], role)


@pytest.mark.parametrize("ring", [WORDS, Words(32), OddWords(64)], ids=repr)
@pytest.mark.parametrize("shape", [(1,), (2,), (1, 3), (4,)])
def test_a_mask_that_does_not_fit_is_refused_and_nothing_is_sent(ring, shape):
    """NumPy would spread one mask over all entries."""

    def role(me: Party, x: Shared) -> str:
        dealt = me.deal(Material("a test", {"n": Elements(x.ring, *x.shape), "m": Elements(ring, *shape)}))
        if me.deals:
            return "does not fit"
        with pytest.raises(ProtocolError) as caught:
            open_masked(me, dealt, n=x, m=x)
        return str(caught.value)

    ran = on_shared(2, WORDS, [1, 2, 3], role)
    assert all("does not fit" in message for message in ran.results)
    assert ran.traffic.messages == 0


def test_a_mask_of_another_ring_is_refused():
    def role(me: Party, x: Shared) -> None:
        dealt = me.deal(Material("a test", {"m": Elements(Words(32), *x.shape)}))
        if not me.deals:
            with pytest.raises(ProtocolError):
                open_masked(me, dealt, m=x)

    assert on_shared(2, WORDS, [1, 2, 3], role).traffic.messages == 0


def test_what_is_not_uniform_is_no_mask():
    def role(me: Party, x: Shared) -> None:
        dealt = me.deal(Material("a test", bound={"zeros": Elements(WORDS, *x.shape)}))
        if me.deals:
            dealt.bind(lambda: {"zeros": WORDS.zeros(x.shape)})
        else:
            with pytest.raises(ProtocolError, match="zeros is no mask of a test"):
                open_masked(me, dealt, zeros=x)

    assert on_shared(2, WORDS, [1, 2, 3], role).traffic.messages == 1


# -- openings ------------------------------------------------------------------------------------------------


def opening(to):
    return lambda me, x: (open_to(me, x, to, "stop bit", "a test", "2 rows"), me.ledger.entries)


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("ring", RINGS, ids=repr)
@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("alone", [False, True])
def test_recipients_learn_the_value_and_nobody_else(p, ring, first, alone):
    ranks = [first] if alone else list(range(first, p + 1))
    values = np.arange(-4, 8).reshape(3, 4)
    ran = on_shared(p, ring, values, opening(ranks))
    for rank, (opened, _) in enumerate(ran.results):
        if rank in ranks:
            assert (opened == ring.encode(values)).all()
        else:
            assert opened is None
            assert ran.recordings[rank].received == []
    assert ran.traffic.rounds == 1


def test_every_role_logs_the_disclosure():
    ran = on_shared(3, WORDS, [1, 2], opening([1, 3]))
    expected = [Disclosure("stop bit", ("P1", "P3"), "a test", None, "2 rows")]
    assert all(entries == expected for _, entries in ran.results)


def test_the_log_says_in_which_iteration():
    def role(me: Party, x: Shared) -> list[Disclosure]:
        for me.ledger.iteration in (None, 1, 2):
            open_to(me, x, [1], "counts", "a test")
        return me.ledger.entries

    for entries in on_shared(2, WORDS, [1], role).results:
        assert [entry.iteration for entry in entries] == [None, 1, 2]


def test_an_opening_sends_fresh_shares():
    """Two openings of one value: neither message is the share itself, and no two are the same."""
    values = np.arange(50)
    shares = splits(WORDS, values, 3)

    def role(me: Party) -> None:
        for _ in range(2):
            open_to(me, given(me, WORDS, shares), [1], "x", "a test")

    frames = run(3, role).recordings[1].received
    assert len({frame.array.tobytes() for frame in frames} | {share.tobytes() for share in shares}) == 4 + 3


def test_a_scalar_is_opened_as_a_scalar():
    for opened, _ in on_shared(2, WORDS, -5, opening([0, 1, 2])).results:
        assert WORDS.signed(opened) == -5


def test_the_dealer_is_told_what_the_others_have_opened():
    def role(me: Party, x: Shared) -> list[Disclosure]:
        permit(me, "stop bit", me.world.ranks, "a test")
        (bit,) = bring_together(me, [(x, [1, 2])], "stop bit")
        assert tell_dealer(me, None if bit is None else bool(bit[0])) is True
        return me.ledger.entries

    for entries in on_shared(2, WORDS, [1], role).results:
        assert [entry.to for entry in entries] == [("P0", "P1", "P2")]


@pytest.mark.parametrize("p", PARTIES)
def test_parts_go_to_their_own_recipients_in_one_round(p):
    values = np.arange(-4, 8).reshape(3, 4)

    def role(me: Party, x: Shared):
        parts = [(x[:, :1], [1], "a"), (x[1], [0, 2], "b"), (x, [], "c"), (x[2:, 3], list(range(p + 1)), "d")]
        return open_parts(me, parts, "centers", "a test"), me.ledger.entries

    ran = on_shared(p, WORDS, values, role)
    everybody = tuple(f"P{j}" for j in range(p + 1))
    for rank, ((a, b, c, d), entries) in enumerate(ran.results):
        assert a is None if rank != 1 else WORDS.signed(a).tolist() == [[-4], [0], [4]]
        assert b is None if rank not in (0, 2) else WORDS.signed(b).tolist() == [0, 1, 2, 3]
        assert c is None
        assert WORDS.signed(d).tolist() == [7]
        assert [(entry.what, entry.to, entry.detail) for entry in entries] == [
            ("centers", ("P1",), "a"),
            ("centers", ("P0", "P2"), "b"),
            ("centers", (), "c"),
            ("centers", everybody, "d"),
        ]
    assert ran.traffic.rounds == 1


# -- wide openings -------------------------------------------------------------------------------------------


def wide(p: int, parts: list[int]) -> Ran:
    def role(me: Party):
        part = 0 if me.deals else parts[me.rank - 1]
        return open_wide(me, part, "inertia", "a test"), me.ledger.entries

    return run(p, role)


@pytest.mark.parametrize(
    "parts",
    [
        [1, 2, 3],
        [0, 0, 0],
        [-5, 2, 1],
        [2**64 - 1, 2**64 - 1, 2],
        [2**100, 2**90, -(2**80)],
        [-(2**126), -(2**126), 5],
        [2**127 - 2, 0, 1],
        [-(2**127), 0, 0],
    ],
)
def test_the_sum_of_whole_numbers_of_any_size(parts):
    ran = wide(3, parts)
    assert [opened for opened, _ in ran.results] == [None] + [sum(parts)] * 3
    assert (ran.traffic.rounds, ran.traffic.messages) == (1, 6)


@pytest.mark.parametrize("p", PARTIES)
def test_wide_totals_for_any_number_of_parties(p):
    parts = [(-1) ** j * (j + 1) << 70 for j in range(p)]
    assert [opened for opened, _ in wide(p, parts).results[1:]] == [sum(parts)] * p


def test_a_wide_opening_is_logged_and_hides_the_parts():
    ran = wide(3, [7, 7, 7])
    expected = [Disclosure("inertia", ("P1", "P2", "P3"), "a test")]
    assert all(entries == expected for _, entries in ran.results)
    sent = {frame.array.tobytes() for j in (1, 2, 3) for frame in ran.recordings[j].sent}
    assert len(sent) == 3
    assert (7).to_bytes(16, "little") not in sent
