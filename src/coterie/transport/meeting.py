"""How the roles of a run find each other: everybody listens (`door`), everybody dials (`dialler`), certificates are
pinned.

How a connection begins, `hello` says. A peer that is not there yet, or is busy, is dialled again and again. If a
connected peer disconnects, or if one says that it will not take part, the meeting ends with an error that names it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from coterie.errors import PeerLost, PeerUnreachable
from coterie.events import tell
from coterie.transport.certificates import Credentials
from coterie.transport.channel import Abort, World, trouble
from coterie.transport.dialler import Dialler
from coterie.transport.door import Comers, Door
from coterie.transport.hello import Peer, context, server_name
from coterie.transport.inbox import Inbox
from coterie.transport.register import Register
from coterie.transport.tls import LOOK, TlsChannel, farewell, time_to_watch
from coterie.transport.wording import say_kind

__all__ = ["MOST_LANES", "Meeting", "connect_lanes"]

log = logging.getLogger(__name__)

#: The most lanes that a peer may open.
MOST_LANES = 128
#: If a peer disconnects while others are waited for: seconds in which the reason may arrive here too.
GRACE = 1.0
#: Stands in `waits` for connecting, which has no lane yet.
CONNECTING = -1


class Meeting:
    """One role's connections to its peers, from the first to the last."""

    def __init__(
        self,
        world: World,
        rank: int,
        credentials: Credentials,
        peers: Sequence[Peer],
        listener: Comers,
        patience: float = 10.0,
        lanes: int = MOST_LANES,
        card: Callable[[], bytes] = bytes,
        progress: float | None = None,
        silence: float | None = None,
        told: Callable[[int, bytes], Exception | None] = lambda _, __: None,
        purpose: str = "",
    ) -> None:
        """`peers` by rank; `patience`: seconds that a peer may be silent; `lanes`: the most that a peer may open, 0 if
        questions are answered and no more; `card`: what to tell those who only ask; `progress`: seconds for which
        nothing but heartbeats may come of a peer that is waited for, 30 times `patience` unless told; `silence`:
        seconds for which a peer that can be reached need not answer or dial, `patience` unless told; `told`: hears
        the proof of a peer that declines, and says what to end with; `purpose`: what one who serves several studies is
        told that this connection is for."""
        self.world, self.rank, self.peers, self.patience = world, rank, peers, patience
        self.progress, self.silence = progress, patience if silence is None else silence
        self.waits: set[int] = set()  # lanes on which this party waits for somebody
        self.register = Register(world, rank)
        certificates = [peers[r].certificate for r in world.peers(rank)]
        calling, answering = context(False, credentials, certificates), context(True, credentials, certificates)
        asked = server_name(world.session, purpose)
        self.dialler = Dialler(self.register, peers, calling, patience, self.silence, self.waits, asked)
        others = {r: peers[r] for r in world.peers(rank)}
        self.door = Door(self.register, listener, answering, others, lanes, card, told)

    def connect(
        self,
        lanes: Sequence[int],
        world: World | None = None,
        timeout: float = 60.0,
        waiting: Callable[[list[str]], None] | None = None,
    ) -> list[TlsChannel]:
        """A channel on each lane, connected to every peer both ways; `world` says the session of their frames.

        While peers are missing, `waiting` is told which, whenever that changes. A peer that was there and is gone
        is an error, and so is one that is not there after `timeout` seconds; everybody else hears of it.
        """
        world, register = world or self.world, self.register
        others = world.peers(self.rank)
        deadline = time.monotonic() + timeout
        for other in others:
            self.dialler.start(other, lanes, world, deadline)
        self.waits.add(CONNECTING)
        try:
            self._wait([(other, lane) for other in others for lane in lanes], world, deadline, waiting)
        except BaseException as error:
            self._give_up(error)
            met = {inbox.peer for inbox in register.inboxes.values()}
            if isinstance(error, PeerUnreachable) and error.peer in met:
                raise PeerLost(str(error), error.peer) from error
            raise
        finally:
            self.waits.discard(CONNECTING)
        return [
            TlsChannel(
                world,
                self.rank,
                {j: register.outboxes[j, lane] for j in others},
                {j: register.inboxes[j, lane] for j in others},
                self.patience,
                lane,
                self.waits,
            )
            for lane in lanes
        ]

    def stay(self, seconds: float) -> None:
        """Be there until every peer has asked who is here, or for so long."""
        with self.register.changed:
            self.register.changed.wait_for(lambda: len(self.register.asked) == len(self.world.ranks) - 1, seconds)

    def close(self) -> None:
        """Answer nobody any more. Channels that were made stay."""
        with self.register.changed:
            if self.register.stopped:
                return
            self.register.stopped = True
            self.register.changed.notify_all()
        self.door.close()
        for sock in self.register.accepted.values():
            sock.close()

    # -- waiting -----------------------------------------------------------------------------------------

    def _wait(
        self,
        wanted: list[tuple[int, int]],
        world: World,
        deadline: float,
        waiting: Callable[[list[str]], None] | None,
    ) -> None:
        register = self.register
        told: list[str] = []
        absent = [world.names[other] for other in world.peers(self.rank)]
        while True:
            self._take_accepted(wanted, world, deadline)
            try:
                for inbox in register.inboxes.values():
                    self._look_at(inbox)
            except PeerLost as error:
                raise self._find_reason(error) from None
            self._look_at_doors(world, deadline)
            missing = register.find_missing(wanted)
            if any(lane == 0 for _, lane in wanted):
                absent = self._note_connected(absent, missing)
            if not missing:
                return
            described = [register.describe(name) for name in missing]
            closed = self.door.listener.trouble
            described += [closed] if closed else []
            if described != told and waiting is not None:
                waiting(described)
                told = described
            if time.monotonic() >= deadline:
                last = ", ".join(register.describe(name, ever=True) for name in missing)
                rest = f"; they could not reach this participant: {closed}" if closed else ""
                raise PeerUnreachable(f"{last} did not connect in time{rest}", missing[0])
            if self.door.listener.error is not None:
                raise self.door.listener.error

    def _note_connected(self, absent: list[str], missing: list[str]) -> list[str]:
        """Tell operators who has come, of those who were absent; returns who still is."""
        for name in absent:
            if name not in missing:
                tell(log, logging.INFO, "connected", f"{name} is connected", peer=name)
        return missing

    def _take_accepted(self, wanted: list[tuple[int, int]], world: World, deadline: float) -> None:
        """Make inboxes of the connections that have come; if some are missing, wait a moment. Raises what ended the
        meeting."""
        register = self.register
        with register.changed:
            for one in wanted:
                if one in register.accepted and one not in register.inboxes:
                    sock = register.accepted.pop(one)
                    register.inboxes[one] = Inbox(sock, world, one[0], self.rank, one[1], self.patience, self.progress)
            if register.error is None and register.find_missing(wanted):
                register.changed.wait(min(LOOK, max(deadline - time.monotonic(), 0)))
            if register.error is not None:
                raise register.error

    def _find_reason(self, error: PeerLost) -> Exception:
        """A peer is gone. It may have heard first what this party is about to hear: that another one declines."""
        with self.register.changed:
            self.register.changed.wait_for(lambda: self.register.error is not None, GRACE)
            return self.register.error or error

    def _look_at(self, inbox: Inbox) -> None:
        message = inbox.glance()
        if message is not None:
            raise trouble(message, inbox.sender, self.rank, self.world, self._look_for)

    def _look_for(self, accused: int) -> Abort | None:
        """Find out whether a peer that another one blames is still there; it may never have connected here."""
        for inbox in self.register.inboxes.values():
            if inbox.sender == accused:
                return inbox.watch(time_to_watch(self.patience))
        name = self.world.names[accused]
        raise PeerUnreachable(f"{self.register.describe(name, ever=True)} is not there", name)

    def _look_at_doors(self, world: World, deadline: float) -> None:
        """Check the peers that have accepted this party. If one went away before it dialled, another process may come
        in its place, which is dialled anew. One that stays and does not dial is an error."""
        own, register = self.peers[self.rank], self.register
        with register.changed:
            here = {other for other, _ in (*register.inboxes, *register.accepted)}
            for (other, lane), outbox in list(register.outboxes.items()):
                if outbox.gone():
                    del register.outboxes[other, lane]
                    outbox.close(0)
                    self.dialler.start(other, [lane], world, deadline)
                elif other not in here and time.monotonic() > outbox.begun + self.silence:
                    name = self.world.names[other]
                    where = f"this participant {own}" if own.way else f"{own.host}:{own.port}"
                    raise PeerUnreachable(
                        f"{name} does not dial, though it can be reached; can it reach {where}?", name
                    )

    def _give_up(self, error: BaseException) -> None:
        """Tell those who are there, and close everything."""
        log.info("%s leaves the meeting: %s", self.world.names[self.rank], say_kind(type(error).__name__))
        register = self.register
        with register.changed:
            register.error = register.error or (
                error if isinstance(error, Exception) else PeerLost("this party gave up")
            )
            outboxes, inboxes = list(register.outboxes.values()), list(register.inboxes.values())
        farewell(outboxes, inboxes, register.blame(error), self.patience)
        self.close()


def connect_lanes(
    lanes: int,
    world: World,
    rank: int,
    credentials: Credentials,
    peers: Sequence[Peer],
    listener: Comers,
    timeout: float = 60.0,
    patience: float = 10.0,
    progress: float | None = None,
) -> list[TlsChannel]:
    """Connect to every peer and be connected to by every peer, once per lane, or say who is missing. A process that has
    its port already may still be loading, so it may be silent for all of `timeout`."""
    meeting = Meeting(world, rank, credentials, peers, listener, patience, lanes, progress=progress, silence=timeout)
    try:
        return meeting.connect(range(lanes), timeout=timeout)
    finally:
        meeting.close()
