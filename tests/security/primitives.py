"""The primitives of `securenn` on tiny rings, each with two very different inputs, and checks of what they show.

All entries of an input hold the same secret: nothing but masks can make a frame vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from coterie.protocols.securenn.compare import FIELD, common_bits, compare_at_helper, private_compare
from coterie.protocols.securenn.sign import compute_msb, drelu, share_convert
from coterie.protocols.securenn.truncation import truncate
from coterie.protocols.words import elementwise_product, looked_up, matrix_product, select_share, square
from coterie.randomness import Dealt, Material
from coterie.randomness.material import BitsOver, Elements
from coterie.ring import Array, OddWords, Ring, Words
from coterie.sharing import Party, Shared, open_masked
from tests.protocols.steps import arg_min, divide, label_samples
from tests.security.views import (
    KNOWN_BYTES,
    assert_comparison_view,
    assert_fresh,
    assert_masked,
    assert_uniform,
    comparisons,
    conditioned,
    constant_splits,
    seen_by,
)
from tests.support import Ran, given, open_to, run

N = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """`role(me, *input)` runs it; `inputs` are two inputs, as far apart as its domain allows."""

    name: str
    width: int
    role: Callable[..., Any]
    inputs: tuple[tuple[Any, ...], tuple[Any, ...]]

    def ran(self, p: int, which: int, seed: int = 0) -> Ran:
        return run(p, lambda me: self.role(me, *self.inputs[which]), seed)

    def conditioned(self, p: int, which: int, viewers: set[int], turn: int = 0) -> Ran:
        role = lambda me: self.role(me, *self.inputs[which])  # noqa: E731
        return conditioned(p, role, viewers, KNOWN_BYTES[which], turn=turn)


def shared(me: Party, ring: Ring, values: Any) -> Shared:
    return given(me, ring, constant_splits(ring, values, me.world.p))


def on_shares(ring: Ring, protocol: Callable[..., Any]) -> Callable[..., Any]:
    return lambda me, *inputs: protocol(me, *(shared(me, ring, values) for values in inputs))


def _masked(me: Party, x: Shared) -> None:
    dealt = me.deal(Material("a mask", {"m": Elements(x.ring, *x.shape)}))
    if not me.deals:
        open_masked(me, dealt, m=x)


def _compare(me: Party, x: Array, r: Array) -> None:
    dealt = me.deal(Material("bits", bound={"x": BitsOver(FIELD, len(x), 5)}))
    if me.deals:
        dealt.bind(lambda: {"x": x})
        compare_at_helper(me, len(x), 5)
    else:
        private_compare(me, dealt, "x", r, common_bits(me, len(x), "a test"))


def _two_products(me: Party, x: Shared, y: Shared) -> None:
    elementwise_product(me, x, y)
    elementwise_product(me, y, x)


def _all(*values: int) -> tuple[Array, ...]:
    return tuple(np.full(N, value) for value in values)


def _words(*values: int) -> tuple[Array, ...]:
    return tuple(array.astype(np.uint64) for array in _all(*values))


def _rows(*values: int) -> Array:
    return np.tile(values, (N, 1))


PRODUCT = Primitive("product", 4, on_shares(Words(4), elementwise_product), (_all(0, 0), _all(7, -8)))
TWO_PRODUCTS = Primitive("two products", 4, on_shares(Words(4), _two_products), (_all(0, 0), _all(7, -8)))
SQUARE = Primitive("square", 4, on_shares(Words(4), square), (_all(0), _all(7)))
MATRIX = Primitive(
    "matrix_product",
    4,
    on_shares(Words(4), matrix_product),
    ((np.full((64, 64), 0), np.full((64, 64), 0)), (np.full((64, 64), 7), np.full((64, 64), -8))),
)
SELECT = Primitive("select_share", 4, on_shares(Words(4), select_share), (_all(0, 0, 0), _all(1, 7, -8)))
LOOK_UP = Primitive(
    "look_up",
    4,
    on_shares(Words(4), lambda me, x: looked_up(me, x, np.arange(16, dtype=np.uint64))),
    (_all(0), _all(-1)),
)
MASKED = Primitive("open_masked", 4, on_shares(Words(4), _masked), (_all(0), _all(-8)))
COMPARE = Primitive("private_compare", 5, _compare, (_words(0, 31), _words(31, 0)))
CONVERT = Primitive("share_convert", 4, on_shares(Words(4), share_convert), (_all(0), _all(14)))
MSB = Primitive("compute_msb", 4, on_shares(OddWords(4), compute_msb), (_all(0), _all(14)))
DRELU = Primitive("drelu", 4, on_shares(Words(4), drelu), (_all(3), _all(-4)))
#: Numbers of two bits over a ring of six: compared as numbers of four bits.
NARROW = Primitive("narrow drelu", 4, on_shares(Words(6), lambda me, x: drelu(me, x, 2)), (_all(3), _all(-4)))
TRUNCATE = Primitive("truncate", 5, on_shares(Words(5), lambda me, x: truncate(me, x, 2)), (_all(5), _all(-8)))
DIVIDE = Primitive("divide", 5, on_shares(Words(5), lambda me, x, y: divide(me, x, y, 2)), (_all(0, 1), _all(7, 2)))
ARG_MIN = Primitive("arg_min", 5, on_shares(Words(5), arg_min), ((_rows(0, 0, 0),), (_rows(5, -2, 1),)))
LABEL = Primitive(
    "label_samples",
    5,
    on_shares(Words(5), label_samples),
    ((_rows(0), np.array([[0], [0], [0]])), (_rows(2), np.array([[0], [2], [1]]))),
)

#: Those in which the helper deals and receives nothing, and those in which it compares.
WITHOUT_HELPER = (PRODUCT, TWO_PRODUCTS, SQUARE, MATRIX, SELECT, LOOK_UP, MASKED)
WITH_HELPER = (COMPARE, CONVERT, MSB, DRELU, TRUNCATE, DIVIDE, ARG_MIN, LABEL)
PRIMITIVES = WITHOUT_HELPER + WITH_HELPER


def check_data_view(primitive: Primitive, p: int, viewers: set[int]) -> None:
    """What data parties receive is uniform and fresh, whatever the input, and whether one of the viewers or the next
    party has the first correction."""
    for which, turn in product(range(2), (min(viewers) - 1, max(viewers))):
        frames = seen_by(primitive.conditioned(p, which, viewers, turn), viewers)
        assert frames or turn == max(viewers)
        assert_masked(frames, primitive.width)


def check_helper_view(primitive: Primitive, p: int) -> None:
    """What the helper receives: masked shares, and comparisons of which the answer is a fair coin."""
    for which in range(2):
        frames = seen_by(primitive.conditioned(p, which, {0}), {0})
        assert_masked([frame for frame in frames if frame.array.dtype != np.uint8], primitive.width)
        for messages in comparisons(frames, p):
            assert_comparison_view(messages)


def check_answers_are_unrelated_to_what_was_dealt(primitive: Primitive, p: int) -> None:
    """The helper knows x~ (ShareConvert), or the mask that it dealt (the others): no answer depends on it."""
    modulus = (1 << primitive.width) - (primitive is MSB)
    for which in range(2):
        masks: list[Array] = []

        def role(me: Party, which: int = which, masks: list[Array] = masks) -> None:
            if me.deals:
                _note_masks(me, masks)
            primitive.role(me, *primitive.inputs[which])

        frames = run(p, role).recordings[0].received
        known = np.sum([frame.array for frame in frames[:p]], axis=0) % modulus if primitive is CONVERT else masks[0]
        (messages,) = comparisons(frames, p)
        answers = assert_comparison_view(messages)
        assert_uniform(2 * known.astype(np.int64) + answers, 2 * modulus, f"{primitive.name}: answer and mask")


def _note_masks(me: Party, masks: list[Array]) -> None:
    deal = me.dealt.deal

    def noted(material: Material) -> Dealt:
        dealt = deal(material)
        for name, piece in material.masks.items():
            masks.append(piece.total([share[material.masks.places[name]] for share in dealt._masks]))
        return dealt

    me.dealt.deal = noted


def check_opening_view(p: int, viewer: int) -> None:
    """`open_to` shows a recipient the sum and nothing more: all shares but one are uniform and independent."""
    ring = Words(4)
    for secret, byte in zip((0, 11), KNOWN_BYTES, strict=True):
        values = np.full(N, secret)

        def role(me: Party, values: Array = values) -> None:
            open_to(me, shared(me, ring, values), [viewer], "a test", "a test")

        shares = [frame.array for frame in seen_by(conditioned(p, role, {viewer}, byte), {viewer})]
        own = constant_splits(ring, values, p)[viewer - 1] if viewer else ring.zeros((N,))
        zero_sharing = byte * sum(1 if viewer < j else -1 for j in range(1, p + 1) if viewer not in (0, j))
        total = (np.sum(shares, axis=0) + own + np.uint64(zero_sharing % 16)) % 16
        assert (total == secret).all()
        for share in shares:
            assert_fresh(share, 16, f"a share sent to P{viewer}")
        for j in range(1, len(shares) - 1):
            assert_uniform(shares[0] * np.uint64(16) + shares[j], 256, f"two shares sent to P{viewer}")


def transcript(ran: Ran) -> list[list[tuple[int, int, str, tuple[int, ...]]]]:
    """Of every role, what it sent and received, in its order, as far as an eavesdropper can tell."""
    return [
        [(frame.sender, frame.receiver, frame.array.dtype.str, frame.array.shape) for frame in recording.frames]
        for recording in ran.recordings
    ]


def check_sizes(one: Ran, other: Ran) -> None:
    """Two runs that an eavesdropper cannot tell apart: the same frames in the same order, the same rounds."""
    assert transcript(one) == transcript(other)
    assert one.traffic == other.traffic
