"""What the tests share: injected entropy, a run of any role function, shares made from plain numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pytest

from coterie.ring import Array, Ring, Words
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, Shared, bring_together, permit
from coterie.transport import Channel, Recording, Traffic, World

#: For tests of other things, on data of which a single column holds nearly all of the variance.
one_column_decides = pytest.mark.filterwarnings("ignore:column .* carries .* of the variance:UserWarning")

T = TypeVar("T")


class SeededEntropy:
    """Entropy for tests: the same bytes for the same seed and rank."""

    def __init__(self, seed: int, rank: int) -> None:
        self.label = f"{seed}|{rank}".encode()
        self.count = 0

    def draw(self, count: int) -> bytes:
        self.count += 1
        return hashlib.shake_256(self.label + b"|" + str(self.count).encode()).digest(count)


def world(p: int) -> World:
    return World(("P0", *(f"P{j}" for j in range(1, p + 1))))


@dataclass
class Ran:
    """What a run gave: results and recordings by rank, and the traffic of all roles together."""

    results: list[Any]
    recordings: list[Recording]
    traffic: Traffic


def run(p: int, role: Callable[[Party], Any], seed: int = 0) -> Ran:
    """Run `role` at the helper and p data parties, with injected entropy, recording every channel."""
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        recordings[channel.rank] = Recording(channel)
        return recordings[channel.rank]

    def counted(me: Party) -> tuple[Any, Traffic]:
        recordings[me.rank].frames.clear()  # the agreement on keys is not the protocol
        return role(me), me.channel.traffic()

    results = run_threads(world(p), counted, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
    return Ran(
        [result for result, _ in results],
        [recordings[rank] for rank in range(p + 1)],
        Traffic.together([traffic for _, traffic in results]),
    )


def by_rank(world: World, results: Sequence[T]) -> list[T | None]:
    """Results of those who take part, in the order of ranks, with nothing at rank 0 where that is vacant."""
    return [*([] if 0 in world.ranks else [None]), *results]


def splits(ring: Ring, values: Any, p: int, seed: int = 0) -> list[Array]:
    """Random additive shares of whole numbers, one array for each of P1..Pp."""
    rng = np.random.default_rng(seed)
    x = ring.encode(values)
    shares = []
    for _ in range(p - 1):
        raw = rng.integers(0, ring.modulus, x.shape, dtype=np.uint64, endpoint=False)
        shares.append(raw.astype(ring.dtype))
        x = ring.sub(x, shares[-1])
    return [*shares, x]


def given(me: Party, ring: Ring, shares: list[Array]) -> Shared:
    """This role's end of a value whose shares are given."""
    if me.deals:
        return me.hollow(ring, shares[0].shape)
    return me.shared(ring, shares[me.rank - 1])


def open_to(me: Party, value: Shared, to: Sequence[int], what: str, reason: str, detail: str = "") -> Array | None:
    """A value through the gate, as ring elements."""
    return open_parts(me, [(value, to, detail)], what, reason)[0]


def open_parts(
    me: Party, parts: Sequence[tuple[Shared, Sequence[int], str]], what: str, reason: str
) -> list[Array | None]:
    for _, to, detail in parts:
        permit(me, what, to, reason, detail)
    return bring_together(me, [(value, to) for value, to, _ in parts], what)


def total(ring: Ring, results: list[Any]) -> Array:
    """The value behind the shares that a run returned, by rank (the helper's is ignored)."""
    value = results[1].share
    for result in results[2:]:
        value = ring.add(value, result.share)
    return value


def compute(p: int, protocol: Callable[..., Shared], *inputs: Any, width: int = 64, seed: int = 0) -> tuple[Any, Ran]:
    """Share the inputs over Z_2^width, run the protocol on them, and return the signed result."""
    ring = Words(width)
    shares = [splits(ring, values, p, seed + i) for i, values in enumerate(inputs)]
    ran = run(p, lambda me: protocol(me, *(given(me, ring, s) for s in shares)), seed)
    return ring.signed(total(ring, ran.results)), ran
