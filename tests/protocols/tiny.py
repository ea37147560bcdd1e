"""All inputs and all share splits of a tiny ring, as vectors long enough for many draws of entropy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from coterie.ring import Array, Ring
from coterie.sharing import Party, Shared
from tests.support import Ran, given, run, total

Input = tuple[Ring, list[Array]]

#: Hypothesis for tests that run a protocol in every example.
protocol_settings = settings(deadline=None, derandomize=True, max_examples=40)


def every_split(ring: Ring, p: int, times: int = 1) -> list[Array]:
    """All p-tuples of shares: every value in every way of splitting it, `times` over."""
    shares = np.indices((ring.modulus,) * p).reshape(p, -1).astype(ring.dtype)
    return [np.tile(share, times) for share in shares]


def value_of(ring: Ring, shares: list[Array]) -> Array:
    return ring.sum(np.stack(shares), 0)


def only(shares: list[Array], wanted: Array) -> list[Array]:
    return [share[wanted] for share in shares]


def every_pair(first: list[Array], second: list[Array]) -> tuple[list[Array], list[Array]]:
    """Every entry of the one with every entry of the other."""
    n, m = len(first[0]), len(second[0])
    return [np.repeat(share, m) for share in first], [np.tile(share, n) for share in second]


def on_shares(p: int, protocol: Callable[..., Shared], *inputs: Input, seed: int = 0) -> tuple[Array, Ran]:
    """Run the protocol on the given shares; the elements that the result's shares, all reduced, add up to."""

    def role(me: Party) -> Shared:
        return protocol(me, *(given(me, ring, shares) for ring, shares in inputs))

    ran = run(p, role, seed)
    ring = ran.results[1].ring
    assert all(result.share.max(initial=0) < ring.modulus for result in ran.results[1:])
    return total(ring, ran.results), ran


def numbers(low: int, high: int, *favoured: int) -> st.SearchStrategy[int]:
    """Whole numbers from low to high; the ends, zero and its neighbours often."""
    edges = {low, low + 1, -1, 0, 1, high - 1, high, *favoured}
    return st.one_of(st.sampled_from(sorted(v for v in edges if low <= v <= high)), st.integers(low, high))


def vectors(element: st.SearchStrategy, least: int = 1) -> st.SearchStrategy[list]:
    return st.lists(element, min_size=least, max_size=16)


PARTIES = st.sampled_from([2, 3])
WORD = numbers(-(2**63), 2**63 - 1, -(2**62), 2**62, 2**32)
