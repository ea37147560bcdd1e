"""What a server of `falcon` receives: uniform, fresh in every entry and every message, the same for every input; and
bugs that are planted to see that this finds them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import MaterialReused
from coterie.protocols.falcon import adder, bits, comparing, servers
from coterie.protocols.falcon.bits import Blinds
from coterie.protocols.falcon.entering import enter, open_to
from coterie.protocols.falcon.servers import Trio, run_step
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.transport import Recording, World
from tests.protocols.test_falcon import every_turn
from tests.protocols.trio import clear_bits, compute, every_split, run_trio, split, value_of
from tests.security.falcon_primitives import check_view, primitives, ran, sizes
from tests.security.views import KNOWN_BYTES, assert_random_words, condition
from tests.support import SeededEntropy

NAMES = list(primitives(1))
STEPS = [name for name in NAMES if "entered" not in name]


@every_turn
@pytest.mark.parametrize("name", NAMES)
def test_a_server_sees_random_words(name, turn):
    for viewer in range(3):
        check_view(name, viewer, -3, KNOWN_BYTES[viewer % 2], turn)


@pytest.mark.parametrize("name", STEPS)
def test_another_input_is_seen_alike(name):
    check_view(name, 1, 5, KNOWN_BYTES[0], 0)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_depend_on_shapes_alone(name):
    assert sizes(ran(name, -3)) == sizes(ran(name, 5))


# -- owners who do not serve ------------------------------------------------------------------------------------------

FOUR = World(("", "A", "B", "C", "D"), serving=(1, 2, 3))


def entered_by_the_fourth(viewer: int) -> list[np.ndarray]:
    recordings = {}

    def wrap(channel):
        recordings[channel.rank] = Recording(channel)
        return recordings[channel.rank]

    def role(me):
        recordings[me.rank].frames.clear()
        run_step(me, enter(Trio(me), Words(64), 4, 4096, np.full(4096, 7) if me.rank == 4 else None))

    run_threads(FOUR, role, entropy=lambda rank: SeededEntropy(2, rank), wrap=wrap)
    return [frame.array for frame in recordings[viewer].received]


@pytest.mark.parametrize("viewer", [1, 2, 3])
def test_what_another_owner_enters_looks_random_to_a_server(viewer):
    frames = entered_by_the_fourth(viewer)
    assert [frame.size for frame in frames] == ([2, 2] if viewer == 1 else [2, 4096])
    if viewer != 1:
        assert_random_words([frames[1]], "x_2")


def opened_to_the_fourth(viewers: set[int]) -> list[np.ndarray]:
    """Zeros in constant shares, opened to an owner who does not serve: what it receives."""
    recordings = {}

    def wrap(channel):
        recordings[channel.rank] = Recording(channel)
        return recordings[channel.rank]

    def role(me):
        recordings[me.rank].frames.clear()
        condition(me.streams, viewers, 0)
        trio = Trio(me)
        shares = [np.full(4096, one, np.uint64) for one in (1, 2, 2**64 - 3)]
        held = me.hollow(Words(64), (4096,))
        if trio.place is not None:
            held = trio.held(Words(64), shares[trio.place], shares[(trio.place + 1) % 3])
        run_step(me, open_to(trio, held, [4]))

    run_threads(FOUR, role, entropy=lambda rank: SeededEntropy(3, rank), wrap=wrap)
    return [frame.array for frame in recordings[4].received]


@pytest.mark.parametrize("with_server", [1, 2, 3])
def test_an_opening_tells_an_owner_the_sum_alone(with_server):
    """Also one that puts its view together with a server's, which knows one of the three shares and two keys."""
    frames = opened_to_the_fourth({4, with_server})
    assert not np.sum(frames, axis=0, dtype=np.uint64).any()
    for at, frame in enumerate(frames, 1):
        if at != with_server:  # its own, it knows
            assert_random_words([frame], f"from server {at}")


def test_a_blind_is_given_once():
    def work(trio):
        blinds = Blinds(trio, 2, 1)
        blinds.take(2)
        with pytest.raises(MaterialReused):
            blinds.take(1)
        yield servers.Round(())

    run_trio(work)


# -- planted bugs -----------------------------------------------------------------------------------------------------


def without_zero_share(monkeypatch):
    """A server's part of a product goes out as it is."""

    def bare(trio, ring, *shape):
        return ring.zeros(shape), ring.zeros(shape)

    for module in (servers, bits):
        monkeypatch.setattr(module, "around", bare)


def one_stretch_twice(monkeypatch):
    """b1 and F_i' of one stretch, as are q1 and others: the key is read once for all."""
    fresh = Trio.fresh

    def again(self, share, ring, *shape):
        if len(shape) != 2 or shape[0] not in (2, 3) or ring != Words(64):
            return fresh(self, share, ring, *shape)
        one = fresh(self, share, ring, shape[1])
        return np.stack([one] * shape[0]) if one.size else one

    monkeypatch.setattr(Trio, "fresh", again)


def carries_in_the_open(monkeypatch):
    """S_i sends its carries as they are, and eta beside a fresh gamma."""
    fresh, step = Trio.fresh, adder.add_shares

    def bare(self, share, ring, *shape):
        return np.zeros(shape, np.uint64) if share == 0 and self.role != 1 else fresh(self, share, ring, *shape)

    def planted(trio, *given):
        class Open(Trio):
            fresh = bare

        return (yield from step(Open(trio.me, trio.turn), *given))

    monkeypatch.setattr(comparing, "add_shares", planted)


def a_mask_for_all_entries(monkeypatch):
    """F is one word, for every entry of a message."""
    fresh = Trio.fresh
    monkeypatch.setattr(
        Trio,
        "fresh",
        lambda self, share, ring, *shape: np.ascontiguousarray(
            np.broadcast_to(one, shape) if (one := fresh(self, share, ring, 1)).size else one
        ),
    )


LEAKS = {
    "the zero-share left out, of words": (without_zero_share, "product"),
    "the zero-share left out, of bits": (without_zero_share, "product of bits"),
    "one stretch used twice, of a bit": (one_stretch_twice, "bits to words"),
    "one stretch used twice, of a selection": (one_stretch_twice, "select"),
    "carries in the open": (carries_in_the_open, "sign"),
    "one mask for all entries": (a_mask_for_all_entries, "sign"),
    "one mask for all scores": (a_mask_for_all_entries, "scores"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_seen(monkeypatch, leak):
    plant, name = LEAKS[leak]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="not uniform"):
        for viewer in range(3):
            check_view(name, viewer, -3, 0, 0)


def test_an_opening_without_a_share_of_zero_is_seen(monkeypatch):
    fresh = Trio.fresh
    monkeypatch.setattr(
        Trio, "fresh", lambda self, share, ring, *shape: fresh(self, share, ring, *shape) * np.uint64(0)
    )
    with pytest.raises(AssertionError, match="not uniform"):
        test_an_opening_tells_an_owner_the_sum_alone(1)


def all_signs() -> None:
    x = every_split(4)
    found = clear_bits(compute(comparing.signs, x), len(x.shares[0]))[0]
    assert (found == (value_of(x) < 0)).all()


def lost_term(monkeypatch):
    """G without a_0 b_1 b_0: a third factor that needs no message of its own."""
    genuine = adder.leaves

    def leaves(a, eta, b, lows, sizes, reach, blind, out):
        genuine(a, eta, b, lows, sizes, reach, blind, out)
        for d, low in enumerate(lows):
            if sizes[d] == 2:
                out[d] ^= a[low] & b[low + 1] & b[low]

    monkeypatch.setattr(adder, "leaves", leaves)


def kept_carry(monkeypatch):
    """Carries of S_i's sum that forget what came before."""

    def carries(x, y, out):
        out[...] = x & y

    monkeypatch.setattr(adder, "carries", carries)


@pytest.mark.parametrize("plant", [lost_term, kept_carry])
def test_a_wrong_sign_is_found_among_all_splits(monkeypatch, plant):
    all_signs()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        all_signs()


def test_an_inverted_sigma_is_found(monkeypatch):
    genuine = bits.signed_kept

    def inverted(h, x, q, b, y, more, mask, out):
        genuine(h, x, np.negative(q), np.negative(b), y, more, mask, out)

    values = np.arange(64)
    h = [np.arange(64, dtype=np.uint8) & 1, np.zeros(64, np.uint8), np.ones(64, np.uint8)]
    from tests.protocols.trio import bits_of

    expected = np.where((np.arange(64) & 1) ^ 1, values, 0)
    assert (compute(bits.select, bits_of(h), split(64, values)) == expected).all()
    monkeypatch.setattr(bits, "signed_kept", inverted)
    assert (compute(bits.select, bits_of(h), split(64, values)) != expected).any()


def test_a_rounding_without_the_high_carry_is_found(monkeypatch):
    """kappa without omega: what adding y_k carries out of all bits."""
    genuine = comparing.multiply_rows
    x = split(64, np.arange(-320, 320) << 30, 3)
    expected = (value_of(x) + (1 << 20)) >> 21

    def planted(trio, *given):
        product = yield from genuine(trio, *given)
        return product + (2**64 - 1)

    assert (compute(lambda t, v: comparing.floor(t, v, 21), x) == expected).all()
    monkeypatch.setattr(comparing, "multiply_rows", planted)
    assert (compute(lambda t, v: comparing.floor(t, v, 21), x) != expected).any()
