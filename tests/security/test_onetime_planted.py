"""Planted bugs: each check of what parties of `onetime` see must fail when the protection it is about is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.errors import MaterialReused, ProtocolError
from coterie.protocols.interface import Part
from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime import table as table_module
from coterie.protocols.onetime.blinded import blind, compare
from coterie.randomness import Dealing, Dealt, Masked, Material, Streams
from coterie.randomness.material import Packed
from coterie.ring import Array
from coterie.sharing import Party, additive
from tests.ideal_logs import let_anything_be_opened
from tests.security.onetime_fits import (
    RESTLESS,
    STUDIES,
    blobs,
    check_labels_reach_holders_only,
    check_no_frame_is_sent_twice,
    fitted,
    repeat_addresses,
)
from tests.security.onetime_primitives import (
    ALL_PAIRS,
    ARG_MIN,
    BIT_PRODUCTS,
    BITS_TO_WORDS,
    CENTERS,
    CHOOSE,
    CONSIDER,
    KEEP,
    LABELS,
    LIFT,
    MEAN,
    OPENINGS,
    PLACES,
    SELECT,
    SIGN,
    SPREAD,
    SUMS,
    TABLE,
    TOURNAMENT,
    TRUNCATE,
    TWO_BITS_TO_WORDS,
    TWO_KEEPS,
    TWO_MEANS,
    TWO_SELECTIONS,
    TWO_SIGNS,
    TWO_SPREADS,
    TWO_TABLES,
    TWO_TOURNAMENTS,
    Primitive,
    check_opening,
    check_sums_reach_holders_only,
    check_view,
)
from tests.support import run


def named(value: object) -> str | None:
    return value.name if isinstance(value, Primitive) else None


# -- one mask for a vector ---------------------------------------------------------------------------------

MASKING = [SIGN, BIT_PRODUCTS, SELECT, TOURNAMENT, ALL_PAIRS, CENTERS, BITS_TO_WORDS, SUMS, PLACES, MEAN, LIFT,
           TRUNCATE, ARG_MIN, CHOOSE, KEEP, SPREAD, CONSIDER]  # fmt: skip
#: Every mask of every step, by the step's purpose, and where it is used.
MASKS = [
    (SIGN, "sign", "R"), (SIGN, "sign tree", "masks"), (SELECT, "select", "rho"), (SELECT, "select", "m"),
    (ALL_PAIRS, "winners", "masks"), (TOURNAMENT, "joined winners", "masks"), (CENTERS, "centers", "B"),
    (BITS_TO_WORDS, "bits to words", "rho"), (SUMS, "sums", "U 0"), (PLACES, "places", "s"), (MEAN, "mean", "rho"),
    (MEAN, "mean", "R"), (LIFT, "lift", "R"), (TRUNCATE, "truncation", "R"), (TRUNCATE, "truncation", "masks"),
    (KEEP, "keep", "V"), (KEEP, "keep", "M"), (SPREAD, "spread", "V"), (SPREAD, "spread", "M"),
    (TOURNAMENT, "winners' scores", "rho"),
]  # fmt: skip
#: Noise of scores, likewise. (S0, in the scores of winners, would not show: of the scores of a group one noise is left
#: that nobody has opened, and it would go on with the winner.)
NOISE = [(TOURNAMENT, "noise", "S"), (ALL_PAIRS, "noise", "S"), (LABELS, "scores", "S")]


def one_element_for_all(monkeypatch: pytest.MonkeyPatch, purpose: str = "", mask: str = "", kind: str = "mask") -> None:
    """The uniform parts of a step are one element, repeated; at the helper likewise, so that results are right."""
    give = getattr(Dealt, kind)

    def repeated(self: Dealt, name: str) -> Array:
        whole = give(self, name)
        chosen = purpose in ("", self.material.purpose) and mask in ("", name)
        return np.full_like(whole, whole.flat[0]) if chosen else whole

    monkeypatch.setattr(Dealt, kind, repeated)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", MASKING, ids=named)
def test_one_mask_for_a_vector_is_caught(monkeypatch, primitive, p):
    one_element_for_all(monkeypatch)
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(primitive, p, {1})


@pytest.mark.parametrize(("primitive", "purpose", "mask"), MASKS, ids=named)
def test_any_single_mask_repeated_is_caught(monkeypatch, primitive, purpose, mask):
    one_element_for_all(monkeypatch, purpose, mask)
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(primitive, 2, {1})


@pytest.mark.parametrize(("primitive", "purpose", "noise"), NOISE, ids=named)
def test_any_noise_repeated_is_caught(monkeypatch, primitive, purpose, noise):
    check_view(primitive, 2, {1})
    one_element_for_all(monkeypatch, purpose, noise, "free")
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(primitive, 2, {1})


def test_one_data_mask_for_a_table_is_caught(monkeypatch):
    mask = table_module.data_mask
    monkeypatch.setattr(table_module, "data_mask", lambda *args: np.full_like(mask(*args), mask(*args)[0]))
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(TABLE, 2, {1})


# -- material used twice -----------------------------------------------------------------------------------


def check_material_serves_once() -> None:
    """A step gives each part out once, and a mask masks one value, of its size, once."""

    def role(me: Party) -> None:
        piece = Packed(8, width=8)
        step = me.deal(Material("a test", {"m": piece, "unread": piece}, {"v": piece}))
        mask = step.mask("m")
        if me.deals:
            step.bind(lambda: {"v": mask})
            return
        step.bound("v")
        with pytest.raises(ProtocolError, match="does not open"):
            step.masked("v", mask)
        with pytest.raises(ProtocolError, match="declared"):
            step.masked("m", mask[:4])
        with pytest.raises(MaterialReused):
            step.masked("unread", mask)
        step.masked("m", mask)
        for again in (lambda: step.masked("m", mask), lambda: step.mask("m"), lambda: step.bound("v")):
            with pytest.raises(MaterialReused):
                again()

    try:
        run(2, role)
    except Exception as error:
        raise AssertionError("material served twice") from error


def test_material_serves_once():
    check_material_serves_once()


def test_a_mask_that_is_not_consumed_is_caught(monkeypatch):
    monkeypatch.setattr(Dealt, "masked", lambda self, name, blinded: Masked(blinded, Packed(*blinded.shape, width=8)))
    with pytest.raises(AssertionError, match="served twice"):
        check_material_serves_once()


def test_a_step_that_gives_a_mask_twice_is_caught(monkeypatch):
    monkeypatch.setattr(Dealt, "_once", lambda self, name: self._given.add(name))
    with pytest.raises(AssertionError, match="served twice"):
        check_material_serves_once()


def again(monkeypatch: pytest.MonkeyPatch, purpose: str, mask: str, kind: str = "mask") -> None:
    """The first of the masks with this name serves all steps of this purpose."""
    give, kept = getattr(Dealt, kind), {}

    def remembered(self: Dealt, name: str) -> Array:
        fresh, chosen = give(self, name), (self.material.purpose, name) == (purpose, mask)
        return kept.setdefault(self._from.streams, fresh) if chosen else fresh

    monkeypatch.setattr(Dealt, kind, remembered)


@pytest.mark.parametrize("p", [2, 3])
def test_noise_that_serves_two_steps_is_caught(monkeypatch, p):
    check_view(TWO_TOURNAMENTS, p, {1})
    again(monkeypatch, "noise", "S", "free")
    with pytest.raises(AssertionError, match=r"frames of .* not uniform"):
        check_view(TWO_TOURNAMENTS, p, {1})


def test_noise_hides_differences_once():
    def role(me: Party) -> None:
        z = blind(me, None if me.deals else np.zeros((2, 64), np.uint64), 2, 64, 8)
        pair = np.array([0]), np.array([1])
        compare(me, z, *pair, *pair, 64, 8)
        if not me.deals:
            with pytest.raises(MaterialReused, match="once"):
                z.take()
            assert repr(z) == "<Blinded>"

    run(2, role)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize(
    ("primitive", "purpose", "mask"),
    [
        (TWO_SIGNS, "sign", "R"),
        (TWO_SIGNS, "sign tree", "masks"),
        (TWO_SELECTIONS, "select", "rho"),
        (TWO_SELECTIONS, "select", "m"),
        (TWO_BITS_TO_WORDS, "bits to words", "rho"),
        (TWO_MEANS, "mean", "rho"),
        (TWO_MEANS, "mean", "R"),
        (CENTERS, "centers", "B"),
        (TWO_KEEPS, "keep", "V"),
        (TWO_KEEPS, "keep", "M"),
        (TWO_SPREADS, "spread", "V"),
        (TWO_SPREADS, "spread", "M"),
    ],
    ids=named,
)
def test_a_mask_that_serves_two_steps_is_caught(monkeypatch, primitive, purpose, mask, p):
    check_view(primitive, p, {1})
    again(monkeypatch, purpose, mask)
    with pytest.raises(AssertionError, match=r"frames of .* not uniform"):
        check_view(primitive, p, {1})


def test_a_stream_read_twice_is_caught(monkeypatch):
    """All steps of a block read on in one stream; here each of them starts it anew."""
    read_on = Streams.dealt_run

    def anew(self: Streams, party: int) -> Any:
        self._runs.clear()
        return read_on(self, party)

    monkeypatch.setattr(Streams, "dealt_run", anew)
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(TWO_SIGNS, 2, {1})


def test_one_data_mask_for_two_tables_is_caught(monkeypatch):
    monkeypatch.setattr(Streams, "new_value", lambda self: 1)
    with pytest.raises(AssertionError, match="frames of"):
        check_view(TWO_TABLES, 2, {1})


def test_one_data_mask_for_two_blocks_is_caught(monkeypatch):
    lasting = Streams.lasting
    monkeypatch.setattr(Streams, "lasting", lambda self, party, value, block: lasting(self, party, value, 0))
    with pytest.raises(AssertionError, match="frames of"):
        check_view(TABLE, 2, {1})


@pytest.mark.parametrize("study", RESTLESS.values(), ids=RESTLESS)
def test_iterations_that_repeat_addresses_are_caught(monkeypatch, study):
    """Steps start from zero in every iteration, so the iteration must be part of the address."""
    repeat_addresses(monkeypatch)
    with pytest.raises(AssertionError, match="sent twice"):
        check_no_frame_is_sent_twice(study, blobs(study))


# -- what is dealt -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "primitive", [SIGN, BIT_PRODUCTS, SELECT, BITS_TO_WORDS, PLACES, MEAN, LIFT, TRUNCATE], ids=named
)
def test_a_correction_that_subtracts_nothing_is_caught(monkeypatch, primitive):
    """If what the others expand is all zero, the receiver of the correction learns the masks themselves."""
    init = Dealt.__init__

    def bare(self: Dealt, dealing: Dealing, material: Material) -> None:
        init(self, dealing, material)
        if dealing.rank != self._receiver:
            for share in self._others:
                share[:] = 0

    monkeypatch.setattr(Dealt, "__init__", bare)
    with pytest.raises(AssertionError, match=r"from P0(: |, .*)not uniform"):
        for viewer in (1, 2):  # one of them receives
            check_view(primitive, 2, {viewer})


# -- openings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPENINGS)
def test_a_missing_zero_sharing_is_caught(monkeypatch, name):
    monkeypatch.setattr(additive, "zero_shares", lambda me, ring, shape, purpose: ring.zeros(shape))
    with pytest.raises(AssertionError, match="share of the"):
        check_opening(name)


def test_a_block_opened_to_everybody_is_caught(monkeypatch):
    opening = table_module.start_opening
    monkeypatch.setattr(table_module, "start_opening", lambda me, masked: opening(me, replace(masked, to=None)))
    with pytest.raises(AssertionError):
        check_sums_reach_holders_only()


@pytest.mark.parametrize("name", ["horizontal", "mixed, three parties"])
def test_labels_opened_to_everybody_are_caught(monkeypatch, name):
    opening = OneTime.open_parts

    def generous(self: OneTime, value: Any, parts: list[Part], what: str, reason: str) -> Any:
        if what == "labels":
            parts = [Part(part.index, self.me.world.owners, part.detail) for part in parts]
        return opening(self, value, parts, what, reason)

    monkeypatch.setattr(OneTime, "open_parts", generous)
    with pytest.raises(ProtocolError, match="was to be opened"):
        fitted(STUDIES[name])
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError):
        check_labels_reach_holders_only(STUDIES[name], fitted(STUDIES[name]))
