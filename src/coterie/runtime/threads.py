"""Every role as a thread of this process."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from coterie.errors import CoterieError, PartyFailed, TransportError
from coterie.events import tell
from coterie.randomness import Entropy, SystemEntropy
from coterie.sharing import Party, join
from coterie.transport import Channel, World, memory_channels
from coterie.transport.wording import say_kind

__all__ = ["attributed", "role_at", "root_cause", "run_threads"]

T = TypeVar("T")
log = logging.getLogger(__name__)


@contextlib.contextmanager
def role_at(channel: Channel, entropy: Entropy, lanes: Sequence[Channel] = ()) -> Iterator[Party]:
    """One role, to its end. Whatever happens inside, the others hear of it and all channels are closed."""
    me: Party | None = None
    name = channel.world.names[channel.rank]
    log.debug("%s begins, with %d lanes", name, len(lanes))
    try:
        me = join(channel, entropy, lanes)
        yield me
        me.channel.turns.finish_all()  # others may need what this role sends in a task that it does not need itself
    except BaseException as error:
        culprit = channel.rank
        if isinstance(error, TransportError) and error.peer in channel.world.everybody:
            culprit = channel.world.names.index(error.peer)
        peer, kind = channel.world.names[culprit], type(error).__name__
        tell(log, logging.WARNING, "stops", f"{name} stops: {say_kind(kind)}, because of {peer}", peer=peer, error=kind)
        endings = [threading.Thread(target=one.abort, args=(culprit, kind)) for one in (channel, *lanes)]
        for ending in endings:  # side by side: each may wait a while for a peer that takes nothing any more
            ending.start()
        for ending in endings:
            ending.join()
        raise
    else:
        _close((channel, *lanes))
        log.debug("%s is done", name)
    finally:
        if me is not None:
            me.channel.turns.give_up()
            if me.workers is not None:
                me.workers.shutdown()


def _close(channels: Sequence[Channel]) -> None:
    """Close all of them, then raise what was found on the first where something was left unread."""
    problems = []
    for channel in channels:
        try:
            channel.close()
        except TransportError as error:
            problems.append(error)
    if problems:
        raise problems[0]


def run_threads(
    world: World,
    role: Callable[[Party], T],
    *,
    entropy: Callable[[int], Entropy] | None = None,
    wrap: Callable[[Channel], Channel] | None = None,
    lanes: int = 0,
) -> list[T]:
    """Run `role` at everybody and return the results in the order of ranks.

    `lanes`: how many there are beside the main one.

    `entropy` and `wrap` are for tests: a source of randomness for each rank, and a channel around each.
    If a role fails, its exception is raised here with the party's name, after all threads have ended.
    """
    by_lane: list[Sequence[Channel]] = [memory_channels(world, lane=lane) for lane in range(lanes + 1)]
    if wrap is not None:
        by_lane = [[wrap(channel) for channel in channels] for channels in by_lane]
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def run(rank: int) -> None:
        source = entropy(rank) if entropy else SystemEntropy()
        channel, *others = (channels[world.ranks.index(rank)] for channels in by_lane)
        try:
            with role_at(channel, source, others) as me:
                results[rank] = role(me)
        except BaseException as error:  # reaches the caller below
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), name=f"coterie-{rank}", daemon=True) for rank in world.ranks]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # an interrupt that comes just before a join is noticed after it
    except BaseException:  # the caller was interrupted: end the others, too
        for channels in by_lane:
            for channel in channels:
                channel.abort(channel.rank, "interrupted")
        end = time.monotonic() + 5
        for thread in threads:
            if thread.is_alive():
                thread.join(max(end - time.monotonic(), 0))
        raise
    if errors:
        party = root_cause({world.names[r]: e for r, e in errors.items()})
        raise attributed(errors[world.names.index(party)], party)
    return [results[rank] for rank in world.ranks]


def root_cause(errors: dict[str, BaseException]) -> str:
    """The party where the trouble started: the one whose error does not just report another's."""
    for name, error in errors.items():
        if not isinstance(error, TransportError) or error.peer not in errors or error.peer == name:
            return name
    return next(iter(errors))


def attributed(error: BaseException, party: str) -> BaseException:
    """The exception for the caller: with the party's name, and of Coterie's own tree."""
    if isinstance(error, CoterieError):
        error.party = error.party or party
        return error
    failed = PartyFailed(f"{type(error).__name__}: {error}")
    failed.party = party
    failed.__cause__ = error
    return failed
