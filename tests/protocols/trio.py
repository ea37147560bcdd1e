"""Three servers at work on shares that a test gives: all share splits of a tiny ring, in every role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coterie.protocols.falcon.bits import SLICED
from coterie.protocols.falcon.servers import Step, Trio, run_step
from coterie.protocols.onetime.bits import pack_rows, unpack_rows
from coterie.ring import Array, Ring, Words
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, Shared
from coterie.transport import Channel, Recording, Traffic, World
from tests.support import Ran, SeededEntropy

#: Two owners who serve, and one at rank 0 who owns nothing and serves, too.
THREE = World(("P0", "P1", "P2"), serving=(0, 1, 2))
Work = Callable[..., Step[Any]]


class Given(NamedTuple):
    """Shares x_0, x_1, x_2 over a ring."""

    ring: Ring
    shares: list[Array]

    def at(self, trio: Trio) -> Shared:
        place = trio.place
        if place is None:
            return trio.me.hollow(self.ring, self.shares[0].shape)
        return trio.held(self.ring, self.shares[place], self.shares[(place + 1) % 3])


def every_split(width: int, times: int = 1) -> Given:
    """All ways to split all numbers, and zeros that fill the last word of bits up."""
    count = (1 << width) ** 3
    shares = np.indices((1 << width,) * 3).reshape(3, -1).astype(np.uint64)
    padded = np.zeros((3, -(-count * times // 64) * 64), np.uint64)
    padded[:, : count * times] = np.tile(shares, times)
    return Given(Words(width), list(padded))


def split(width: int, values: Any, seed: int = 0) -> Given:
    """Random shares of numbers."""
    ring, rng = Words(width), np.random.default_rng(seed)
    whole = ring.encode(np.asarray(values))
    first, second = ring.reduce(rng.integers(0, 1 << 63, (2, *whole.shape), dtype=np.uint64) * np.uint64(3))
    return Given(ring, [first, second, ring.sub(ring.sub(whole, first), second)])


def bits_of(clear: list[Array]) -> Given:
    """Shares of a row of bits, 64 a word."""
    words = -(-len(clear[0]) // 64)
    return Given(SLICED, [pack_rows(share[None], words) for share in clear])


def value_of(given: Given) -> Array:
    """Signed."""
    assert isinstance(given.ring, Words)
    return given.ring.signed(given.ring.sum(np.stack(given.shares), 0))


def opened(results: list[Shared]) -> Array:
    """What the shares of three servers add up to; of every share both copies are the same."""
    ring, total = results[0].ring, None
    for i, one in enumerate(results):
        assert (one.shares[1] == results[(i + 1) % 3].shares[0]).all(), "two servers have different copies of a share"
        assert one.adds == (i == 0, i == 2)
        total = one.shares[0] if total is None else ring.add(total, one.shares[0])
    assert total is not None
    return ring.signed(total) if isinstance(ring, Words) else total


def clear_bits(rows: Array, count: int) -> Array:
    return unpack_rows(rows, count)


def run_trio(
    work: Work,
    *given: Given,
    turn: int = 0,
    seed: int = 0,
    world: World = THREE,
    prepare: Callable[[Party], None] = lambda me: None,
) -> Ran:
    """The work's step at every role, with recordings; results are those of the servers, in order."""
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        recordings[channel.rank] = Recording(channel)
        return recordings[channel.rank]

    def role(me: Party) -> tuple[Any, Traffic]:
        recordings[me.rank].frames.clear()  # the agreement on keys is not the protocol
        prepare(me)
        trio = Trio(me, turn)
        found = run_step(me, work(trio, *(one.at(trio) for one in given)))
        return found, me.channel.traffic()

    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
    by_rank = dict(zip(world.ranks, results, strict=True))
    return Ran(
        [by_rank[rank][0] for rank in world.servers],
        [recordings[rank] for rank in world.servers],
        Traffic.together([traffic for _, traffic in results]),
    )


def compute(work: Work, *given: Given, **how: Any) -> Array:
    return opened(run_trio(work, *given, **how).results)
