"""Views: what some roles receive, with all that these roles know themselves held constant.

Whoever looks at what it received also knows its own share of everything: the streams that it holds, and
its inputs. `condition` therefore replaces every stream that a viewer holds by constant bytes, and inputs
are shared in constant shares of a constant secret. Whatever still varies in the frames comes from
randomness that the viewers do not have - so a frame that must be masked must be uniform *now*, entry by
entry, and a mask that serves two entries, two values or nobody shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import chi2

from coterie.randomness import Dealing, Dealt, Material, Streams
from coterie.ring import Array, Ring
from coterie.sharing import Party
from coterie.transport import Frame
from tests.support import Ran, run

Q = 67
#: How improbable a statistic must be before a test fails. There are some ten thousand of them.
RARE = 1e-9
#: What the viewers' streams consist of: two points to condition on.
KNOWN_BYTES = (0, 91)


@cache
def _limit(freedom: int) -> float:
    return float(chi2.isf(RARE, freedom))


def assert_uniform(values: Any, modulus: int, what: str) -> None:
    """Chi-square: are the values uniform over 0..modulus-1?"""
    counts = np.bincount(np.asarray(values, np.int64).ravel(), minlength=modulus)
    expected = counts.sum() / modulus
    if expected < 4:
        raise ValueError(f"{what}: {counts.sum()} samples are too few for {modulus} cells")
    assert counts.size == modulus, f"{what}: not reduced modulo {modulus}"
    statistic = float(((counts - expected) ** 2).sum() / expected)
    assert statistic < _limit(modulus - 1), f"{what}: not uniform modulo {modulus} (chi-square {statistic:.0f})"


def assert_fresh(values: Array, modulus: int, what: str) -> None:
    """Uniform, and from entry to entry independent: along every axis, and between the two halves."""
    whole = values.astype(np.int64)
    assert_uniform(whole, modulus, what)
    for axis in range(whole.ndim):
        if whole.shape[axis] > 1:
            assert_uniform(np.diff(whole, axis=axis) % modulus, modulus, f"{what}, neighbours on axis {axis}")
    flat, half = whole.ravel(), whole.size // 2
    assert_uniform((flat[half : 2 * half] - flat[:half]) % modulus, modulus, f"{what}, its halves")


def assert_unrelated(one: Array, other: Array, width: int, what: str) -> None:
    """Two frames of one size: independent entry by entry."""
    a, b = one.astype(np.int64).ravel(), other.astype(np.int64).ravel()
    if one.dtype == np.uint8:  # 67 x 67 cells are too many; the difference tells a common mask as well
        assert_uniform((a - b) % Q, Q, what)
    else:
        m, n = modulus_of(one, width), modulus_of(other, width)
        assert_uniform(a * n + b, m * n, what)


def modulus_of(frame: Array, width: int) -> int:
    """The ring that a frame's entries lie in: Z_67 for bytes; L, or L - 1 where no entry is L - 1."""
    if frame.dtype == np.uint8:
        return Q
    return (1 << width) - int(not (frame == (1 << width) - 1).any())


def assert_random_words(frames: list[Array], what: str, width: int = 64) -> None:
    """Full-width words, of which there are too few to fill 2^64 cells: their bytes, and their differences'.

    A frame may also hold words of `width` bits, all of them; then these are as random."""
    narrow = [frame for frame in frames if width < 64 and not (frame >> np.uint64(width)).any()]
    full = [frame for frame in frames if not any(frame is one for one in narrow)]
    for some, bits in ((full, 64), (narrow, width)):
        if some:
            words = np.concatenate([frame.ravel() for frame in some])
            steps = np.concatenate([np.diff(frame.ravel()) for frame in some])
            _assert_random_bits(words, bits, f"{what}, {bits} bits")
            _assert_random_bits(steps, bits, f"{what}, {bits} bits, neighbours")


def _assert_random_bits(words: Array, bits: int, what: str) -> None:
    """Byte by byte, all of them together; and the bits that are left at the top."""
    parts = [(words >> np.uint64(at)) & np.uint64(255) for at in range(0, bits - 7, 8)]
    assert_uniform(np.concatenate(parts), 256, what)
    if bits % 8:
        top = (words >> np.uint64(bits // 8 * 8)) & np.uint64((1 << bits % 8) - 1)
        assert_uniform(top, 1 << bits % 8, f"{what}, the highest")


class Known:
    """A stream that viewers hold, too."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    def read(self, count: int) -> Array:
        return np.full(count, self.byte, np.uint8)


def condition(streams: Streams, viewers: set[int], byte: int) -> None:
    """From here on, the streams that a viewer holds are constant, at every role alike, blocks included."""
    common, pair, dealt_run, for_blocks = streams.common, streams.pair, streams.dealt_run, streams.for_blocks
    pair_run = streams.pair_run

    def unless_known(holders: set[int], stream: Any) -> Any:
        return Known(byte) if holders & viewers else stream

    def blocks(count: int) -> list[Streams]:
        made = for_blocks(count)
        for one in made:
            condition(one, viewers, byte)
        return made

    streams.common = lambda purpose: unless_known(set(streams.world.owners), common(purpose))
    streams.pair = lambda other, purpose: unless_known({streams.rank, other}, pair(other, purpose))
    streams.pair_run = lambda other: unless_known({streams.rank, other}, pair_run(other))
    streams.dealt_run = lambda party: Known(byte) if {0, party} & viewers else dealt_run(party)
    streams.for_blocks = blocks


def constant_splits(ring: Ring, values: Any, p: int) -> list[Array]:
    """Shares that tell nothing but are no random ones: 3 j at P_j, and what is missing at the last."""
    last = ring.encode(values)
    shares = []
    for j in range(1, p):
        shares.append(ring.encode(np.full(last.shape, 3 * j)))
        last = ring.sub(last, shares[-1])
    return [*shares, last]


def conditioned(
    p: int, role: Callable[[Party], Any], viewers: set[int], byte: int, seed: int = 0, turn: int = 0
) -> Ran:
    """Run a role function with the viewers' streams constant. Corrections, of which P_(turn + 1) has the first, are
    listed as one frame for each piece that the helper bound."""
    deal, corrections = Dealing.deal, []

    def known(me: Party) -> Any:
        condition(me.streams, viewers, byte)
        return role(replace(me, dealt=Dealing(me.channel, me.streams, turn)))

    def noted(self: Dealing, material: Material) -> Dealt:
        if self.rank == 0 and material.bound:
            corrections.append(material)
        return deal(self, material)

    with patch.object(Dealing, "deal", noted):
        ran = run(p, known, seed)
    by_receiver = defaultdict(list)
    for frame, material in zip(ran.recordings[0].sent, corrections, strict=True):
        by_receiver[frame.receiver].append(material)
    for j in range(1, p + 1):
        frames, due = ran.recordings[j].frames, iter(by_receiver[j])
        frames[:] = [one for f in frames for one in (pieces_of(f, next(due)) if f.sender == 0 else [f])]
    return ran


def pieces_of(frame: Frame, material: Material) -> list[Frame]:
    """A correction, piece by piece."""
    assert frame.array.nbytes == material.bound.bytes
    shares = [piece.total([frame.array[material.bound.places[name]]]) for name, piece in material.bound.items()]
    return [Frame(frame.sender, frame.receiver, share) for share in shares]


def seen_by(ran: Ran, viewers: set[int]) -> list[Frame]:
    """What the viewers received from outside. What a party tells all of them alike is listed once."""
    first = min(viewers)
    return [
        frame
        for rank in sorted(viewers)
        for frame in ran.recordings[rank].received
        if frame.sender not in viewers and (frame.sender == 0 or rank == first)
    ]


def assert_masked(frames: list[Frame], width: int) -> None:
    """Every frame is uniform, fresh in every entry, and unrelated to every other one."""
    for frame in frames:
        what = f"frame {frame.array.shape} from P{frame.sender} to P{frame.receiver}"
        assert_fresh(frame.array, modulus_of(frame.array, width), what)
    for one, other in combinations((frame.array for frame in frames), 2):
        if one.size == other.size and one.dtype == other.dtype:
            assert_unrelated(one, other, width, f"frames {one.shape} and {other.shape}")


def by_message(frames: list[Frame], p: int) -> list[list[Array]]:
    """The helper's frames: it takes one from each of P1..Pp, in that order, message by message."""
    groups = [frames[at : at + p] for at in range(0, len(frames), p)]
    assert all([frame.sender for frame in group] == list(range(1, p + 1)) for group in groups)
    return [[frame.array for frame in group] for group in groups]


def comparisons(frames: list[Frame], p: int) -> list[list[Array]]:
    """The messages of PrivateCompare among the helper's frames."""
    return [group for group in by_message(frames, p) if group[0].dtype == np.uint8]


def assert_comparison_view(messages: list[Array], answer: int | None = None) -> Array:
    """What the helper sees of m comparisons of l bits, against a simulator that knows only the answers.

    Each party's message is uniform over Z_67. The sum of all of them is, where the answer is 0, l
    independent uniform non-zero values, and where it is 1, a zero in a uniform place among l - 1 such
    values. Answers are all `answer`, or else fair and independent coins. Returns the answers.
    """
    for j, message in enumerate(messages, 1):
        assert_fresh(message, Q, f"P{j}'s message of PrivateCompare")
    for j in range(1, len(messages) - 1):  # any p - 1 of them are independent
        assert_uniform((messages[j].astype(np.int64) - messages[0]) % Q, Q, "two messages of PrivateCompare")
    sums = np.sum(messages, axis=0, dtype=np.int64) % Q
    zero = sums == 0
    found = zero.sum(axis=1)
    assert found.max() <= 1, "two zeros in one comparison"
    if answer is None:
        assert_fresh(found, 2, "the answers")
    else:
        assert (found == answer).all(), "the answer"
    length = sums.shape[1]
    if found.any():
        assert_uniform(np.nonzero(zero)[1], length, "the place of the zero")
    for answered in set(found.tolist()):
        rows = found == answered
        rest = sums[rows][~zero[rows]].reshape(rows.sum(), length - answered)
        assert_fresh(LOGARITHM[rest], Q - 1, "the values that are not zero")  # neighbours: their ratio
    return found


POWERS = [pow(2, exponent, Q) for exponent in range(Q - 1)]
#: log_2 over Z_67, so that ratios become differences. 2 generates all of Z_67 but 0.
LOGARITHM = np.argsort([0, *POWERS]) - 1
