"""Rounds as the docstrings declare them; what travels depends on shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from coterie.protocols.securenn.sign import compute_msb, drelu, share_convert
from coterie.protocols.securenn.truncation import truncate
from coterie.protocols.words import elementwise_product, looked_up, matrix_product, select_share, square
from coterie.ring import OddWords, Ring, Words
from coterie.sharing import Shared, stack
from coterie.transport import Traffic
from tests.protocols.steps import arg_min, divide, label_samples, mat_dist
from tests.protocols.tiny import on_shares
from tests.support import Ran, splits

WORDS = Words(64)


class Case(NamedTuple):
    """A protocol, the shapes of its inputs, and its rounds without and with the dealt ones."""

    protocol: Callable[..., Shared]
    shapes: list[tuple[int, ...]]
    rounds: int
    with_dealing: int
    ring: Ring = WORDS


def log2_up(k: int) -> int:
    return math.ceil(math.log2(k))


CASES = {
    "ElementWiseMatMul": Case(elementwise_product, [(7,), (7,)], 1, 2),
    "Square": Case(square, [(7,)], 1, 2),
    "MatMul": Case(matrix_product, [(3, 7), (7, 2)], 1, 2),
    "LookUp": Case(lambda me, x: looked_up(me, x, np.arange(8, dtype=np.uint64)), [(7,)], 1, 2),
    "SelectShare": Case(select_share, [(7,)] * 3, 1, 2),
    "ShareConvert": Case(share_convert, [(7,)], 4, 4),
    "ComputeMSB": Case(compute_msb, [(7,)], 3, 4, OddWords(64)),
    "DReLU": Case(drelu, [(7,)], 7, 7),
    "Truncate": Case(lambda me, x: truncate(me, x, 20), [(7,)], 3, 4),
    "MatDist": Case(mat_dist, [(7, 2), (3, 2)], 1, 2),
}
for bits in (1, 2, 5, 16):
    CASES[f"Division {bits}"] = Case(
        lambda me, x, y, bits=bits: stack(divide(me, x, y, bits)), [(7,)] * 2, 8 * bits - 1, 8 * bits - 1
    )
for bits, digit, steps in ((16, 4, 4), (16, 2, 8), (5, 2, 3)):
    CASES[f"Division {bits} by {digit}"] = Case(
        lambda me, x, y, bits=bits, digit=digit: stack(divide(me, x, y, bits, digit)),
        [(7,)] * 2,
        8 * steps - 1,
        8 * steps - 1,
    )
for k in range(2, 10):
    products = log2_up(k - 1)
    CASES[f"LabelSamples {k}"] = Case(label_samples, [(7, 2), (k, 2)], 8 + products, 9 + products)
    CASES[f"ArgMin {k}"] = Case(arg_min, [(7, k)], 8 * log2_up(k), 8 * log2_up(k))


@pytest.fixture(params=CASES)
def case(request) -> Case:
    return CASES[request.param]


def ran(case: Case, p: int, scale: int, seed: int = 0) -> Ran:
    """A run on numbers of this magnitude; all zero if it is 0."""
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-scale, scale + 1, shape) for shape in case.shapes]
    shared = [(case.ring, splits(case.ring, values, p, seed)) for values in inputs]
    return on_shares(p, case.protocol, *shared, seed=seed)[1]


@pytest.mark.parametrize("p", [2, 3])
def test_rounds_are_as_declared(case, p):
    traffic = ran(case, p, scale=1000).traffic
    assert (traffic.rounds, traffic.rounds_with_dealing) == (case.rounds, case.with_dealing)


@pytest.mark.parametrize("name", CASES)
def test_the_tally_under_the_protocols_name_is_the_whole(name):
    case = CASES[name]
    traffic = ran(case, 2, scale=1000).traffic
    tally = traffic.by_protocol[name.split()[0]]
    assert (tally.calls, tally.rounds, tally.rounds_with_dealing) == (1, case.rounds, case.with_dealing)
    assert tally.messages == traffic.messages
    assert tally.bytes_sent == sum(traffic.bytes_sent.values())


@pytest.mark.parametrize("k", [1, 2, 4])
def test_one_cluster_costs_nothing_and_more_cost_more(k):
    shapes = [(7, 2), (k, 2)]
    traffic = [ran(Case(label_samples, shapes, 0, 0), 2, 9), ran(Case(arg_min, [(7, k)], 0, 0), 2, 9)]
    assert [one.traffic.messages == 0 for one in traffic] == [k == 1] * 2


def frames(one: Ran) -> list[list[tuple[int, int, str, tuple[int, ...]]]]:
    """Per role, what was sent and received, in order: between whom, of which type and shape."""
    return [
        [(frame.sender, frame.receiver, frame.array.dtype.str, frame.array.shape) for frame in recording.frames]
        for recording in one.recordings
    ]


def without_names(traffic: Traffic) -> tuple[int, int, int, int]:
    sent = sum(traffic.bytes_sent.values())
    return traffic.rounds, traffic.rounds_with_dealing, traffic.messages, sent


@pytest.mark.parametrize("p", [2, 3])
def test_what_travels_depends_on_shapes_alone(case, p):
    """Zeros and large numbers, with other randomness as well: the same frames in the same order."""
    one, other, third = ran(case, p, scale=0), ran(case, p, scale=2**30), ran(case, p, scale=5, seed=1)
    assert frames(one) == frames(other) == frames(third)
    assert without_names(one.traffic) == without_names(other.traffic) == without_names(third.traffic)


def test_bytes_grow_with_the_entries_and_messages_do_not():
    small, large = (ran(Case(drelu, [(count,)], 7, 7), 2, 9).traffic for count in (10, 1000))
    assert small.messages == large.messages
    assert sum(small.bytes_sent.values()) < sum(large.bytes_sent.values())
