"""What the threads of one meeting share: who has come, who is missing, and how the meeting ended."""

from __future__ import annotations

import ssl
import threading

from coterie.errors import PeerLost, TransportError
from coterie.transport.channel import Abort, World
from coterie.transport.hello import ELSEWHERE, FULL, UNSERVED
from coterie.transport.inbox import Inbox
from coterie.transport.tls import Outbox

__all__ = ["Register"]

#: Why a peer is missing, where people can do something about it: as it says so, and as others are told.
WORTH_TELLING = {why: why.removeprefix("it ") for why in (ELSEWHERE, FULL, UNSERVED)}


class Register:
    """Connections by peer and lane. Whoever changes something here holds `changed`, and notifies those who wait."""

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank = world, rank
        self.changed = threading.Condition()
        self.accepted: dict[tuple[int, int], ssl.SSLSocket] = {}
        self.taken: set[tuple[int, int]] = set()
        self.asked: set[int] = set()
        self.elsewhere: dict[int, str] = {}  # why peers cannot be talked to now (`WORTH_TELLING`)
        self.strayed: dict[int, str] = {}  # the same, of the last time that there was such a reason
        self.outboxes: dict[tuple[int, int], Outbox] = {}
        self.inboxes: dict[tuple[int, int], Inbox] = {}
        self.error: Exception | None = None
        self.stopped = False

    def end(self, error: Exception) -> None:
        """End the meeting with an error, if there is none yet. The caller holds the lock."""
        self.error = self.error or error
        self.changed.notify_all()

    @property
    def over(self) -> Exception | None:
        """Why nobody need be connected any more, if that is so."""
        return self.error or (PeerLost("this party has stopped") if self.stopped else None)

    def find_missing(self, wanted: list[tuple[int, int]]) -> list[str]:
        """The names of those whose connections are not all there."""
        open_ends = [one[0] for one in wanted if one not in self.inboxes or one not in self.outboxes]
        return [self.world.names[j] for j in dict.fromkeys(open_ends)]

    def describe(self, name: str, ever: bool = False) -> str:
        """A peer that is missing, and why where people can do something about it. `ever`: also if it is gone since."""
        other = self.world.names.index(name)
        why = self.elsewhere.get(other) or (self.strayed.get(other) if ever else None)
        return f"{name} ({WORTH_TELLING[why]})" if why else name

    def note_why(self, other: int, why: str | None) -> None:
        """Keep why a peer could not be talked to, as the last attempt has shown, if that is worth telling."""
        why = why if why in WORTH_TELLING else None
        with self.changed:
            if why != self.elsewhere.get(other):
                self.elsewhere.pop(other, None)
                if why is not None:
                    self.elsewhere[other] = self.strayed[other] = why
                self.changed.notify_all()

    def blame(self, error: BaseException) -> Abort:
        """What others hear of an error: whose fault it is, and its kind. What it says of files and addresses stays."""
        culprit = self.rank
        if isinstance(error, TransportError) and error.peer in self.world.everybody:
            culprit = self.world.names.index(error.peer)
        return Abort(culprit, type(error).__name__)
