"""What a fit costs with a family without a dealer: the real program, once, at an imagined onlooker, with no content.

An onlooker owns, serves and deals nothing, so that its secrets are hollow everywhere, and it tells its channel what
others send. It is as a dry run at the dealer's chair (`dry_run.py`), but for clocks. Where servers do different things
in a step, the longest chain of messages depends on whose clock is ahead: so here every role has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.clustering import Task
from coterie.planning.dry_run import DryChannel, Ending, Found, run_dry
from coterie.protocols import FAMILIES, Family
from coterie.sharing import Shared
from coterie.transport import HEADER_BYTES, Stamp, World
from coterie.transport.metering import Sent

__all__ = ["look_on"]

#: The rank of one who is not there.
NOBODY = -1


class Clocks(Stamp):
    """The longest chain of messages so far, and that at each role, by rank."""

    by_role: tuple[int, ...]

    def __new__(cls, by_role: Sequence[int]) -> Clocks:
        self = super().__new__(cls, max(by_role))
        self.by_role = tuple(by_role)
        return self


class OnlookersChannel(DryChannel):
    """Every role's clock moves with what it receives."""

    clock: Clocks

    def __init__(self, world: World, stop: bool) -> None:
        super().__init__(world, stop)
        self.rank, self.clock = NOBODY, Clocks([0] * len(world.names))

    def others_send(self, frames: Sequence[Sent], rounds: int = 1) -> Callable[[], None]:
        before, after = self.clock.by_role, list(self.clock.by_role)
        for senders, to, size in frames:
            self.sent[tuple(senders), tuple(to)] += HEADER_BYTES + size
            for i in senders:
                for j in to:
                    if i != j:
                        after[j] = max(after[j], before[i] + rounds)

        def arrive() -> None:
            self.clock = Clocks([max(pair) for pair in zip(self.clock.by_role, after, strict=True)])

        return arrive

    def latest(self, stamps: Sequence[Stamp]) -> Stamp:
        every = [stamp.by_role for stamp in stamps if isinstance(stamp, Clocks)]
        return Clocks([max(column) for column in zip(*every, strict=True)])


def look_on(task: Task, parties: int, ended_by: Ending) -> Found:
    """What a fit takes; no cluster is suppressed."""
    family = FAMILIES[task.protocol]
    channel = OnlookersChannel(family.world([f"P{j}" for j in range(1, parties + 1)]), ended_by == "stop")
    return run_dry(_told(family), task, channel)


def _told(family: type[Family]) -> type[Family]:
    """The family, with what is opened to everybody told to the onlooker, too."""

    def open_to_all(self: Family, bits: Shared, what: str, reason: str) -> list[bool]:
        self.open(bits, self.me.world.ranks, what, reason)
        assert isinstance(self.me.channel, OnlookersChannel)
        return [self.me.channel.stop] * bits.size

    return type(family.__name__, (family,), {"open_to_all": open_to_all})
