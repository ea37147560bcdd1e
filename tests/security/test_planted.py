"""Planted bugs: each of the checks of what parties see must fail when the protection it is about is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coterie.errors import MaterialReused
from coterie.protocols.securenn import compare, sign, truncation
from coterie.randomness import Dealing, Dealt, Material, Streams
from coterie.randomness.material import Elements
from coterie.ring import Array, Ring, Words
from coterie.sharing import Party, additive, open_masked
from tests.security.primitives import (
    ARG_MIN,
    COMPARE,
    CONVERT,
    DIVIDE,
    DRELU,
    LABEL,
    LOOK_UP,
    MATRIX,
    MSB,
    PRODUCT,
    SQUARE,
    TRUNCATE,
    TWO_PRODUCTS,
    Primitive,
    check_answers_are_unrelated_to_what_was_dealt,
    check_data_view,
    check_helper_view,
    check_opening_view,
    check_sizes,
    shared,
)
from tests.security.test_private_compare_view import CASES, Case, check_view
from tests.security.views import Known
from tests.support import run

Shape = tuple[int, ...]


def named(value: object) -> str | None:
    return value.name if isinstance(value, Primitive) else None


def no_zero_sharing(me: Party, ring: Ring, shape: Shape, purpose: str) -> Array:
    return ring.zeros(shape)


def change_masks(monkeypatch: pytest.MonkeyPatch, change: Callable[[Dealt, str, Array], Array]) -> None:
    """Masks are given out changed; at the helper likewise, so that results are right."""
    mask = Dealt.mask
    monkeypatch.setattr(Dealt, "mask", lambda self, name: change(self, name, mask(self, name)))


def one_mask_for_all(monkeypatch: pytest.MonkeyPatch, purposes: str) -> None:
    """Masks for the given purpose are one element, repeated."""

    def repeated(dealt: Dealt, name: str, mask: Array) -> Array:
        return np.full_like(mask, mask.flat[0]) if purposes in dealt.material.purpose else mask

    change_masks(monkeypatch, repeated)


def first_row_for_all(sample: Callable[[Party, int, int], Array]) -> Callable[[Party, int, int], Array]:
    return lambda me, count, length: np.broadcast_to(sample(me, 1, length), (count, length)).copy()


# -- a missing zero-sharing --------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("primitive", [COMPARE, DRELU, TRUNCATE], ids=named)
def test_a_missing_zero_sharing_in_private_compare_is_caught(monkeypatch, primitive, p):
    monkeypatch.setattr(compare, "zero_shares", no_zero_sharing)
    with pytest.raises(AssertionError, match="message of PrivateCompare"):
        check_helper_view(primitive, p)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_missing_zero_sharing_is_caught_in_every_comparison(monkeypatch, case):
    monkeypatch.setattr(compare, "zero_shares", no_zero_sharing)
    with pytest.raises(AssertionError, match="message of PrivateCompare"):
        check_view(2, case)


@pytest.mark.parametrize(("p", "viewer"), [(2, 0), (3, 0), (3, 1)])
def test_a_missing_zero_sharing_in_an_opening_is_caught(monkeypatch, p, viewer):
    monkeypatch.setattr(additive, "zero_shares", no_zero_sharing)
    with pytest.raises(AssertionError, match="a share sent to"):
        check_opening_view(p, viewer)


def test_a_zero_sharing_with_the_recipient_alone_is_caught(monkeypatch):
    """Every party shares zero with P1 only, who then can take all of it off again."""

    def star(me: Party, ring: Ring, shape: Shape, purpose: str) -> Array:
        others = [j for j in me.world.owners if j != me.rank and 1 in (j, me.rank)]
        share = ring.zeros(shape)
        for j in others:
            common = ring.sample(me.streams.pair(j, purpose), shape)
            share = ring.add(share, common) if me.rank < j else ring.sub(share, common)
        return share

    monkeypatch.setattr(additive, "zero_shares", star)
    check_opening_view(3, 0)
    with pytest.raises(AssertionError, match="a share sent to"):
        check_opening_view(3, 1)


# -- a mask reused across a vector -------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize(
    "primitive", [PRODUCT, SQUARE, MATRIX, LOOK_UP, MSB, DRELU, TRUNCATE, DIVIDE, ARG_MIN, LABEL], ids=named
)
def test_a_mask_reused_across_a_vector_is_caught(monkeypatch, primitive, p):
    """By one who received no correction before the opening: those make shares vary, masked or not."""
    one_mask_for_all(monkeypatch, "")
    with pytest.raises(AssertionError, match="not uniform"):
        for viewer in range(1, p + 1):
            check_data_view(primitive, p, {viewer})


@pytest.mark.parametrize("primitive", [MSB, DRELU, LABEL], ids=named)
def test_one_compute_msb_mask_for_a_vector_is_caught(monkeypatch, primitive):
    one_mask_for_all(monkeypatch, "ComputeMSB")
    with pytest.raises(AssertionError, match="not uniform"):
        check_data_view(primitive, 2, {1})


def test_a_mask_shared_by_two_halves_of_a_vector_is_caught(monkeypatch):
    change_masks(monkeypatch, lambda dealt, name, mask: np.concatenate([mask[: len(mask) // 2]] * 2))
    with pytest.raises(AssertionError, match="halves"):
        check_data_view(PRODUCT, 2, {1})


@pytest.mark.parametrize("primitive", [CONVERT, DRELU], ids=named)
def test_one_share_convert_mask_for_a_vector_is_caught(monkeypatch, primitive):
    common = Streams.common

    def constant(self: Streams, purpose: str) -> Any:
        return Known(37) if purpose == "ShareConvert r" else common(self, purpose)

    monkeypatch.setattr(Streams, "common", constant)
    with pytest.raises(AssertionError, match="not uniform"):
        check_helper_view(primitive, 2)


# -- a triple reused ---------------------------------------------------------------------------------------


def check_masks_serve_once() -> None:
    """A mask that has masked one value cannot mask another."""

    def role(me: Party) -> None:
        x = shared(me, Words(4), np.full(8, 3))
        dealt = me.deal(Material("a mask", {"m": Elements(x.ring, *x.shape)}))
        if not me.deals:
            open_masked(me, dealt, m=x)
            with pytest.raises(MaterialReused):
                open_masked(me, dealt, m=x + x)

    try:
        run(2, role)
    except Exception as error:
        raise AssertionError("a mask served twice") from error


def test_masks_serve_once():
    check_masks_serve_once()


def test_material_that_is_not_consumed_is_caught(monkeypatch):
    monkeypatch.setattr(Dealt, "_given", property(lambda self: {"m"}, lambda self, value: None))
    with pytest.raises(AssertionError, match="served twice"):
        check_masks_serve_once()


def test_a_triple_handed_out_twice_raises(monkeypatch):
    """The material of a run's first product serves all of its products."""
    deal = Dealing.deal

    def remembered(self: Dealing, material: Material) -> Dealt:
        kept = vars(self).setdefault("kept", {})
        if material.purpose not in kept:
            kept[material.purpose] = deal(self, material)
        return kept[material.purpose]

    monkeypatch.setattr(Dealing, "deal", remembered)
    with pytest.raises(MaterialReused):
        TWO_PRODUCTS.ran(2, 0)


@pytest.mark.parametrize("p", [2, 3])
def test_a_copy_of_a_triple_is_caught_in_the_view(monkeypatch, p):
    """The masks of a run's first product serve all of its products."""
    check_data_view(TWO_PRODUCTS, p, {1})

    def remembered(dealt: Dealt, name: str, mask: Array) -> Array:
        return vars(dealt._from).setdefault(f"kept {dealt.material.purpose} {name}", mask)

    change_masks(monkeypatch, remembered)
    with pytest.raises(AssertionError, match=r"frames .* not uniform"):
        check_data_view(TWO_PRODUCTS, p, {1})


def test_a_stream_read_twice_is_caught_in_the_view(monkeypatch):
    """All steps read on in one stream; here each of them starts it anew."""
    read_on = Streams.dealt_run

    def anew(self: Streams, party: int) -> Any:
        self._runs.clear()
        return read_on(self, party)

    monkeypatch.setattr(Streams, "dealt_run", anew)
    with pytest.raises(AssertionError, match=r"frames .* not uniform"):
        check_data_view(TWO_PRODUCTS, 2, {1})


# -- PrivateCompare's blinding -----------------------------------------------------------------------------


@pytest.mark.parametrize("primitive", [COMPARE, CONVERT, MSB, TRUNCATE], ids=named)
def test_one_scalar_for_all_bits_is_caught(monkeypatch, primitive):
    sample = compare.common_scalars
    monkeypatch.setattr(compare, "common_scalars", lambda me, m, l: np.repeat(sample(me, m, 1), l, axis=1))
    with pytest.raises(AssertionError, match="not zero"):
        check_helper_view(primitive, 2)


def test_the_same_scalars_for_all_comparisons_are_caught(monkeypatch):
    monkeypatch.setattr(compare, "common_scalars", first_row_for_all(compare.common_scalars))
    with pytest.raises(AssertionError, match="not zero"):
        check_helper_view(COMPARE, 2)


@pytest.mark.parametrize("primitive", [COMPARE, CONVERT, MSB, TRUNCATE], ids=named)
def test_a_skipped_permutation_is_caught(monkeypatch, primitive):
    identity = lambda me, m, l: np.tile(np.arange(l, dtype=np.uint8), (m, 1))  # noqa: E731
    monkeypatch.setattr(compare, "common_permutations", identity)
    with pytest.raises(AssertionError, match="the place of the zero"):
        check_helper_view(primitive, 2)


def test_one_permutation_for_all_comparisons_is_caught(monkeypatch):
    monkeypatch.setattr(compare, "common_permutations", first_row_for_all(compare.common_permutations))
    with pytest.raises(AssertionError, match="the place of the zero"):
        check_view(2, Case(40, 23, 0))


def test_beta_always_zero_is_caught(monkeypatch):
    monkeypatch.setattr(sign, "common_bits", lambda me, count, purpose: np.zeros(count, np.uint8))
    monkeypatch.setattr(truncation, "common_bits", lambda me, count, purpose: np.zeros(count, np.uint8))
    for primitive in (CONVERT, MSB, TRUNCATE):
        with pytest.raises(AssertionError, match="the answers"):
            check_helper_view(primitive, 2)
        with pytest.raises(AssertionError, match="answer"):
            check_answers_are_unrelated_to_what_was_dealt(primitive, 2)


def test_one_beta_for_a_vector_is_caught(monkeypatch):
    bits = sign.common_bits
    monkeypatch.setattr(sign, "common_bits", lambda me, count, purpose: np.repeat(bits(me, 1, purpose), count))
    with pytest.raises(AssertionError, match="the answers"):
        check_helper_view(MSB, 2)


# -- sizes -------------------------------------------------------------------------------------------------


def test_a_size_that_depends_on_the_input_is_caught():
    def indiscreet(me: Party, x: Array) -> None:
        if me.rank == 1:
            me.channel.send(2, np.zeros(x[0], np.uint8))
        if me.rank == 2:
            me.channel.receive(1, np.uint8, (x[0],))

    primitive = Primitive("indiscreet", 4, indiscreet, (([4],), ([5],)))
    check_sizes(primitive.ran(2, 0), primitive.ran(2, 0))
    with pytest.raises(AssertionError):
        check_sizes(primitive.ran(2, 0), primitive.ran(2, 1))
