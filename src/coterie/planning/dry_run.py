"""What a fit costs, by running it dry: the real program, once, at the dealer's chair, with no content.

The dealer holds no share, so its secrets are hollow everywhere. What a step deals and what it opens under its masks is
declared (`randomness/material.py`), and what is opened beside that is told to the channel (`Metered.others_send`). So
the dealer's run says what every role sends. Here nothing is drawn, computed or sent: all of it is added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from coterie.clustering import Point, Task, Watch, fit
from coterie.protocols import FAMILIES, Family
from coterie.protocols.interface import Ints
from coterie.randomness import Dealing, Dealt, Material, Streams
from coterie.ring import Array
from coterie.sharing import Party, hollow
from coterie.transport import HEADER_BYTES, Metered, Stamp, World
from coterie.transport.metering import Sent, latest
from coterie.transport.turns import Turns

__all__ = ["DryChannel", "DryParty", "Ending", "Found", "dry_run", "run_dry"]

T = TypeVar("T")
Ending = Literal["stop", "max_iter"]
Ranks = tuple[int, ...]
UNCOUNTED = nullcontext()


class Found(NamedTuple):
    """What a fit takes of which every start ends after one iteration, and what each further iteration of a start takes,
    for each number of clusters that is tried: rounds, then bytes sent by rank (that of the one who owns nothing
    first). Of several numbers of clusters the largest is opened."""

    first: Ints
    each: Ints

    @property
    def further(self) -> Ints:
        """With the largest number of clusters."""
        return np.asarray(self.each[-1])


class DryChannel(Metered):
    """Nothing crosses it. `sent`: how many bytes each of some roles has sent to each of some others. `stop`: the stop
    bit. `marks`: for each start, what it took until its iterations began, and to the end of each."""

    def __init__(self, world: World, stop: bool) -> None:
        self.world, self.rank, self.lane, self.stop = world, 0, 0, stop
        self.clock, self.sent, self.turns = Stamp(), Counter[tuple[Ranks, Ranks]](), Turns()
        self.marks: list[list[Ints]] = [[]]
        self._dealer_hears, self.collect_from = None, 0

    def taken(self) -> Ints:
        """Rounds, and bytes by rank."""
        taken = [self.clock.rounds, *[0] * len(self.world.names)]
        for (senders, to), size in self.sent.items():
            for i in senders:
                taken[1 + i] += size * sum(j != i for j in to)
        return np.array(taken)

    def others_send(self, frames: Sequence[Sent], rounds: int = 1) -> Callable[[], None]:
        for senders, to, size in frames:
            self.sent[tuple(senders), tuple(to)] += HEADER_BYTES + size
        then = self.clock.rounds + rounds

        def arrive() -> None:
            self.clock = Stamp(max(self.clock.rounds, then))

        return arrive

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        """Shares of the stop bit, the one value that is opened to a dealer. What else it is sent is not looked at."""
        return np.broadcast_to(np.array(self.stop and sender == 1, dtype), shape), self.clock

    def latest(self, stamps: Sequence[Stamp]) -> Stamp:
        return latest(stamps)

    def gather(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def hear(self, sender: int) -> bool:  # noqa: ARG002
        return self.stop

    def protocol(self, name: str) -> AbstractContextManager[None]:  # type: ignore[override]  # noqa: ARG002
        return UNCOUNTED

    @property
    def counted(self) -> tuple[Stamp, int, int]:
        return self.clock, 0, 0

    def count(self, name: str, before: tuple[Stamp, int, int]) -> None:
        """Of single protocols nothing is told."""

    def mark_iteration(self) -> None:
        self.marks[-1].append(self.taken())

    def start_over(self) -> None:
        self.marks.append([])


class DryDealt(Dealt):
    """What a step deals and opens, counted; of masks there is the shape."""

    __slots__ = ("_channel",)

    def __init__(self, channel: DryChannel, material: Material) -> None:
        self.material, self._channel = material, channel

    def mask(self, name: str) -> Array:
        return hollow(self.material.masks[name].shape)

    def free(self, name: str) -> Array:
        return hollow(self.material.free[name].shape)

    def bind(self, values: Callable[[], Mapping[str, Array]]) -> Callable[[], None]:  # noqa: ARG002
        material, servers = self.material, self._channel.world.servers
        collected = material.collected(len(servers), self._channel.collect_from)
        frames: list[Sent] = []
        for name, piece in material.opened.items():
            if name == collected:
                for j, (_, part) in zip(servers, piece.split(len(servers)), strict=True):
                    frames += [(servers, [j], part.wire), ([j], servers, part.wire)]
            else:
                frames.append((servers, material.to.get(name, servers), piece.wire))
        if material.bound:
            frames.append(([0], servers[:1], material.bound.bytes))
        rounds = material.rounds + (collected is not None) if material.opened else int(material.answer)
        return self._channel.others_send(frames, rounds)


class DryParty(Party):
    """An imagined dealer. Of blocks of the same kind it runs one, which stands for all of them."""

    channel: DryChannel

    def deal(self, material: Material) -> Dealt:
        return DryDealt(self.channel, material)

    def in_blocks(
        self, count: int, work: Callable[[Party, int], T], kind: Callable[[int], Hashable] = int
    ) -> Callable[[], list[T]]:
        channel, start = self.channel, self.channel.clock
        kinds = [kind(b) for b in range(count)]
        times, found, ends = Counter(kinds), dict[Hashable, T](), [start]
        for b, one in enumerate(kinds):
            if one in found:
                continue
            channel.clock, before = start, channel.sent
            channel.sent = Counter()
            found[one] = work(self, b)
            for between, size in channel.sent.items():
                before[between] += times[one] * size
            channel.sent = before
            ends.append(channel.clock)
        channel.clock = start

        def wait() -> list[T]:
            channel.clock = channel.latest([channel.clock, *ends])
            return [found[one] for one in kinds]

        return wait


class Largest(Watch):
    """When all starts are done, the bits that are left to open say which number of clusters is chosen: the last."""

    def __init__(self, channel: DryChannel) -> None:
        self.channel = channel

    def finished(self, point: Callable[[], Point]) -> None:  # noqa: ARG002
        self.channel.stop = True


def dry_run(task: Task, parties: int, ended_by: Ending) -> Found:
    """What a fit takes with a family that has a dealer; no cluster is suppressed."""
    family = FAMILIES[task.protocol]
    channel = DryChannel(family.world([f"P{j}" for j in range(1, parties + 1)]), ended_by == "stop")
    return run_dry(family, task, channel)


def run_dry(family: type[Family], task: Task, channel: DryChannel) -> Found:
    """What a fit takes, from what this channel is told of it."""
    streams = Streams(channel.world, channel.rank, {})  # without secrets, from which nothing can be drawn
    me = DryParty(channel, streams, Dealing(channel, streams))
    nowhere = ((0,) * task.layout.d,) * task.clusters
    todo = msgspec.structs.replace(task, centers_given=nowhere, max_iter=2)
    fit(family(me, task.problem), todo, None, Largest(channel))
    each = [first - before for before, first, *_ in channel.marks]
    more = sum(one * (len(marks) - 2) for one, marks in zip(each, channel.marks, strict=True))
    restarts = len(each) // max(len(task.choices), 1)  # of each number of clusters, which all take the same
    return Found(channel.taken() - more, np.stack(each[::restarts]))
