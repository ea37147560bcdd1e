"""Openings in a study: each is in the audit log of every participant before it happens."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coterie.errors import FrameError
from coterie.sharing import Disclosure
from coterie.study.audit import Audit
from coterie.study.handshake import Greeted
from coterie.transport import Channel

__all__ = ["Openings", "everybody_has_saved", "makes_count"]

STOP_BIT = "stop bit"
#: What stands in the log, once a start, for all of its stop bits.
EVERY = "in this and every later iteration of this start"
LOGGED, SAVED = b"logged", b"saved"


def makes_count(entry: Disclosure) -> bool:
    """Does the opening make the run count? Stop bits, and whether ids are equal, do not; labels and counts of an
    iteration do, which whoever breaks off before the end has, too."""
    return entry.what not in (STOP_BIT, "equal ids")


def everybody_has_saved(talk: Channel) -> None:
    """Wait until everybody has kept the last checkpoint. From then on results can only be opened from there: whoever
    breaks off now gets the same ones again, and not others from other data that were never counted."""
    peers = talk.world.peers(talk.rank)
    for other in peers:
        talk.post(other, SAVED)
    for other in peers:
        if talk.collect(other) != SAVED:
            name = talk.world.names[other]
            raise FrameError(f"{name} should have said that it kept its last checkpoint, and said something else", name)


def _key(entry: Disclosure) -> tuple[str, tuple[str, ...], str]:
    return entry.what, entry.to, entry.detail


class Openings:
    """The sink of a role's ledger, which calls it for one opening at a time.

    1. The first opening that makes the run count is counted (`count`).
    2. The opening is written into the audit log; of the stop bits, the first of each start stands for all.
    3. Whoever sends nothing for an opening tells the others that it has written it, too; they wait for that. That is
       the helper; without one it may be anybody, since two servers are enough to open a value, so all tell all.

    Where only the results of a run that has ended are opened once more, to somebody who lacks them, what stands in the
    log already is not written again: it is the same.

    With a helper, a value is open once all data parties have sent their shares of it, which each does after step 3: so
    everybody has logged it by then. The helper is ahead of the parties as a rule, so that waiting takes no time.
    """

    def __init__(self, audit: Audit, talk: Channel, greeted: Greeted, count: Callable[[], None]) -> None:
        self.audit, self.talk, self.count = audit, talk, count
        self.run, self.session = greeted.run, greeted.world.session.hex()
        self.announced: set[int | None] = set()
        self.logged = {_key(entry) for entry in audit.openings(self.run)} if greeted.replayed else set()

    def __call__(self, entry: Disclosure) -> None:
        if entry.what == STOP_BIT:
            if entry.restart in self.announced:
                return
            self.announced.add(entry.restart)
            entry = msgspec.structs.replace(entry, detail=EVERY)
        if makes_count(entry):
            self.count()
        if _key(entry) not in self.logged:
            self.audit.record("opening", run=self.run, session=self.session, **msgspec.to_builtins(entry))
        self._confirm()

    def _confirm(self) -> None:
        world, rank = self.talk.world, self.talk.rank
        telling = world.players if world.dealer is None else [world.dealer]
        if rank in telling:
            for other in world.players:
                if other != rank:
                    self.talk.post(other, LOGGED)
        if rank == world.dealer:
            return
        for other in telling:
            if other != rank and self.talk.collect(other) != LOGGED:
                name = world.names[other]
                raise FrameError(f"{name} should have said that it logged an opening, and said something else", name)
