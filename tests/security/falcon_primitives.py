"""Each primitive of `falcon` with many copies of one constant input in constant shares, seen from one server.

The streams that the viewer holds are constant (`views.condition`), and so is everything that enters. Whatever it
receives must be uniform now, entry by entry, from the one key that it lacks: a mask that is missing, or serves two
entries or two messages, shows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from coterie.protocols.falcon.bits import SLICED, multiply_rows, select, to_words
from coterie.protocols.falcon.comparing import floor, low_bits, signs
from coterie.protocols.falcon.entering import enter
from coterie.protocols.falcon.labelling import one_hot_least
from coterie.protocols.falcon.lookup import one_hot
from coterie.protocols.falcon.scoring import mean, reciprocal, row_scores
from coterie.protocols.falcon.servers import Step, cross, reshare
from coterie.ring import Array, Words
from coterie.transport import Frame
from tests.protocols.trio import THREE, Given, run_trio
from tests.security.views import assert_fresh, assert_random_words, condition
from tests.support import Ran

#: So many bits are enough for a test of each byte.
MANY = 1 << 15
#: How many copies: frames of bits, 64 a word, have a word for 64 of them.
COPIES = 64 * 64
WORDS = Words(64)


class Seen(NamedTuple):
    """A primitive, how many entries each input has and over which ring, and the bits of its words on the wire."""

    work: Callable[..., Step[Any]]
    inputs: tuple[Given, ...]
    width: int = 64


def constant(value: int, *shape: int, width: int = 64) -> Given:
    """Constant shares of a constant."""
    ring = Words(width)
    return Given(ring, [ring.encode(np.full(shape, one)) for one in (3, 5, value - 8)])


def constant_bits(bit: int, *shape: int) -> Given:
    ones = np.uint64(2**64 - 1)
    return Given(SLICED, [np.full(shape, one, np.uint64) for one in (ones, np.uint64(0), ones * np.uint64(1 - bit))])


def _product(trio, x, y):
    return reshare(trio, x.ring, x.shape, None if trio.role is None else cross(x, y, x.ring.mul))


def _mean(trio, sums, counts, old):
    by = yield from reciprocal(trio, counts, 31, 40)
    return (yield from mean(trio, sums, by, old, 40))


def _entered(owner: int) -> Callable[..., Step[Any]]:
    return lambda trio: enter(trio, WORDS, owner, COPIES, np.full(COPIES, 7) if trio.me.rank == owner else None)


def primitives(value: int) -> dict[str, Seen]:
    """With this input; what is seen must not depend on it."""
    bit, many = int(value < 0), (COPIES,)
    x, narrow = constant(value, *many), constant(value, *many, width=8)
    rows = np.array([0, 1]), np.array([1, 2])
    return {
        "product": Seen(_product, (x, x)),
        "product of bits": Seen(lambda t, h: multiply_rows(t, h, *rows), (constant_bits(bit, 3, COPIES),)),
        "bits to words": Seen(lambda t, h: to_words(t, h, WORDS), (constant_bits(bit, 1, COPIES // 64),)),
        "select": Seen(select, (constant_bits(bit, 1, COPIES // 64), x)),
        "sign": Seen(signs, (x,)),
        "narrow sign": Seen(signs, (narrow,), 8),
        "rounding": Seen(lambda t, v: floor(t, v, 21), (x,)),
        "low bits": Seen(lambda t, v: low_bits(t, v, 12), (x,)),
        "one-hot bits": Seen(lambda t, v: one_hot(t, v, 6), (constant(abs(value), 256),)),
        "scores": Seen(
            lambda t, v, c: row_scores(t, v, c, 64), (constant(value, COPIES // 4, 2), constant(value, 4, 2))
        ),
        "labels, all pairs": Seen(lambda t, z: one_hot_least(t, z, (4,)), (constant(value, 4, COPIES),)),
        "labels, tournament": Seen(lambda t, z: one_hot_least(t, z, (2, 2)), (constant(value, 4, COPIES),)),
        "mean": Seen(_mean, (constant(value, 64, 20), constant(5, 64), constant(value, 64, 20))),
        "entered by a server": Seen(_entered(1), ()),
    }


def ran(name: str, value: int, viewer: int | None = None, byte: int = 0, turn: int = 0) -> Ran:
    """`viewer`: the place of a server whose streams are constant."""
    seen = primitives(value)[name]
    known = set() if viewer is None else {THREE.servers[viewer]}
    return run_trio(seen.work, *seen.inputs, turn=turn, prepare=lambda me: condition(me.streams, known, byte))


def check_view(name: str, viewer: int, value: int, byte: int, turn: int) -> None:
    """All that a server receives is random, frame by frame and in all differences of frames of one size."""
    frames = [frame.array for frame in ran(name, value, viewer, byte, turn).recordings[viewer].received]
    width = primitives(value)[name].width
    whole = [_as_words(one, width) for one in frames]
    by_size: dict[tuple[int, int], list[Array]] = {}
    for one, bits in whole:
        by_size.setdefault((one.size, bits), []).append(one)
    for (size, bits), alike in by_size.items():
        if size * bits >= MANY:
            _assert_random(alike, bits, f"{name}: frames of {size} words of {bits} bits")
        differences = [first - second for first, second in combinations(alike, 2) if size * bits >= MANY]
        if differences:
            _assert_random(differences, bits, f"{name}: differences of frames of {size} words")
    small = [one.view(np.uint64) for one, bits in whole if bits == 64]
    if sum(one.size for one in small) >= 512:
        assert_random_words(small, f"{name}: all frames")


def _assert_random(frames: list[Array], bits: int, what: str) -> None:
    if bits == 64:
        for frame in frames:
            assert_random_words([frame], what)
            rows = frame if frame.ndim == 2 else frame[None]
            for first, second in pairwise(rows):
                if 64 * first.size >= MANY:
                    assert_random_words([first ^ second], f"{what}, rows")
    else:
        for frame in frames:
            assert_fresh(frame.astype(np.int64) % (1 << bits), 1 << bits, what)


def _as_words(frame: Array, width: int) -> tuple[Array, int]:
    if frame.dtype == np.uint8:
        return frame.astype(np.uint64), width
    return frame, 64


def sizes(one: Ran) -> list[list[tuple[int, int, str, tuple[int, ...]]]]:
    def described(frame: Frame) -> tuple[int, int, str, tuple[int, ...]]:
        return frame.sender, frame.receiver, frame.array.dtype.str, frame.array.shape

    return [[described(frame) for frame in recording.frames] for recording in one.recordings]
