"""One role in a session: what a protocol needs to run at it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
from concurrent.futures import wait as await_all
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar, cast

from coterie.randomness import Dealing, Dealt, Entropy, Material, Streams, agree
from coterie.ring import Array, Ring
from coterie.sharing.ledger import Ledger
from coterie.sharing.shared import Shared, hollow
from coterie.transport import Channel, Metered, Stamp, World

__all__ = ["Party", "join"]

Shape = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Party:
    """One who takes part, in the roles that its world gives it, with its channel, its randomness and its ledger."""

    channel: Metered
    streams: Streams
    dealt: Dealing
    ledger: Ledger = field(default_factory=Ledger)
    lanes: tuple[Metered, ...] = ()
    workers: ThreadPoolExecutor | None = None

    @cached_property
    def world(self) -> World:
        return self.channel.world

    @cached_property
    def rank(self) -> int:
        return self.channel.rank

    @cached_property
    def owns(self) -> bool:
        """Whether it brings data."""
        return self.rank in self.world.owners

    @cached_property
    def serves(self) -> bool:
        """Whether it holds shares and computes."""
        return self.rank in self.world.servers

    @cached_property
    def deals(self) -> bool:
        """Whether it deals randomness to those who serve."""
        return self.rank == self.world.dealer

    @cached_property
    def lead(self) -> bool:
        """The first who serves; it adds public values."""
        return self.rank == self.world.servers[0]

    def shared(self, ring: Ring, share: Array) -> Shared:
        """This role's end of a shared value."""
        return Shared(ring, (share,), (self.lead,))

    def hollow(self, ring: Ring, shape: Shape) -> Shared:
        """The end of a shared value at one who holds no share of it."""
        return Shared(ring, (hollow(shape),), (False,))

    def deal(self, material: Material) -> Dealt:
        """This role's end of what is dealt for a step."""
        return self.dealt.deal(material)

    def begin_protocol(self, dealer_hears: frozenset[str], collect_from: int = 0) -> None:
        """From here on this role sends and takes what the family declares and nothing else, on every lane. What is
        opened to all goes by way of collectors from so many bytes on; 0: never."""
        for channel in (self.channel, *self.lanes):
            channel.begin_protocol(dealer_hears, collect_from)

    def in_blocks(
        self,
        count: int,
        work: Callable[[Party, int], T],
        kind: Callable[[int], Hashable] = int,  # noqa: ARG002
    ) -> Callable[[], list[T]]:
        """Start work(party, block) for each block on the lanes, side by side; call what is returned to
        wait for the results. Block b runs on lane b modulo their number, at every role alike. `kind`: blocks of the
        same kind cost the same, so that a dry run runs one of them.

        A block has streams of its own and depends on nothing but what came before: blocks count once in
        the rounds. Without lanes they run here, one after another, and take turns with what follows.
        """
        start = self.channel.clock
        streams = self.streams.for_blocks(count)

        def run(channel: Metered, blocks: range) -> tuple[list[T], list[Stamp]]:
            results, ends = [], []
            for block in blocks:
                channel.clock = start
                here = Party(channel, streams[block], Dealing(channel, streams[block], block), self.ledger)
                results.append(work(here, block))
                ends.append(channel.clock)
            return results, ends

        if self.workers is None:
            apart = self.channel.beside()
            finish = self.channel.turns.begin(lambda: run(apart, range(count)))

            def come_back() -> list[T]:
                results, ends = finish()
                self.channel.join(apart, ends)
                return results

            return come_back
        lanes = self.lanes
        workers = self.workers

        def beside(lane: int) -> tuple[list[T], list[Stamp]]:
            with self.channel.idling.working():
                done = run(lanes[lane], range(lane, count, len(lanes)))
                lanes[lane].flush()
                return done

        futures = [workers.submit(beside, lane) for lane in range(min(len(lanes), count))]

        def wait() -> list[T]:
            with self.channel.idling.waiting():
                await_all(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()  # raises what went wrong on any lane, while the others may still run
            ordered: list[T | None] = [None] * count
            for lane, future in enumerate(futures):
                results, ends = future.result()
                ordered[lane :: len(lanes)] = results
                self.channel.join(lanes[lane], ends)
            return cast(list[T], ordered)

        return wait


def join(channel: Channel, entropy: Entropy, lanes: Sequence[Channel] = ()) -> Party:
    """Take part in the session that a channel belongs to: agree on secrets, then start counting."""
    streams = agree(channel, entropy)
    counting = Metered(channel)
    workers = ThreadPoolExecutor(len(lanes), f"coterie-lane-{channel.rank}") if lanes else None
    beside = tuple(Metered(lane, counting.idling) for lane in lanes)
    return Party(counting, streams, Dealing(counting, streams), lanes=beside, workers=workers)
