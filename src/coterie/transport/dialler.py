"""The calling side of a meeting: peers are dialled again and again until they let this party in."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Sequence

from coterie.errors import PeerUnreachable
from coterie.transport.channel import World
from coterie.transport.hello import HANDSHAKE, NotYet, Peer, dial, greet
from coterie.transport.register import Register
from coterie.transport.tls import Outbox, farewell

__all__ = ["Dialler"]

log = logging.getLogger(__name__)


class Dialler:
    """Connects to peers and puts the sending ends into the register."""

    def __init__(
        self,
        register: Register,
        peers: Sequence[Peer],
        context: ssl.SSLContext,
        patience: float,
        silence: float,
        waits: set[int],
        asked: str,
    ) -> None:
        """`silence`: seconds for which a port may take connections with nobody answering; `waits`: see `Outbox`;
        `asked`: the name to ask for."""
        self.register, self.peers, self.context = register, peers, context
        self.patience, self.silence, self.waits, self.asked = patience, silence, waits, asked

    def start(self, other: int, lanes: Sequence[int], world: World, deadline: float) -> None:
        """Connect to a peer on these lanes, in a thread of its own; what goes wrong ends the meeting."""
        arguments = other, lanes, world, deadline
        threading.Thread(target=self._dial_lanes, args=arguments, name=f"coterie-dial-{other}", daemon=True).start()

    def _dial_lanes(self, other: int, lanes: Sequence[int], world: World, deadline: float) -> None:
        register = self.register
        try:
            for lane in lanes:
                sock = self._dial(other, lane, deadline)
                outbox = Outbox(sock, world, register.rank, other, lane, self.patience, self.waits)
                with register.changed:
                    over = register.over
                    if over is None:
                        register.outboxes[other, lane] = outbox
                        register.changed.notify_all()
                if over is None:
                    names = world.names
                    log.debug("%s is connected to %s, lane %d", names[register.rank], names[other], lane)
                else:
                    farewell([outbox], [], register.blame(over), self.patience)
                    return
        except Exception as error:  # `Meeting` raises it in the thread that waits
            with register.changed:
                register.end(error)

    def _dial(self, other: int, lane: int, deadline: float) -> ssl.SSLSocket:
        """Connect to a peer, again and again until the deadline while it is not there or busy; a refusal for good is
        final, and so is a port that takes connections, with nobody answering, for as long as a peer may be silent."""
        register = self.register
        peer, name, pause = self.peers[other], register.world.names[other], 0.01
        mute: float | None = None  # since when nobody answers
        while True:
            with register.changed:
                if register.over is not None:
                    raise register.over
            left = max(deadline - time.monotonic(), 0.01)
            try:
                sock = self._try(other, lane, left)
                register.note_why(other, None)
                register.strayed.pop(other, None)
                return sock
            except NotYet as again:
                problem = again
            register.note_why(other, str(problem))
            mute = (mute or time.monotonic()) if problem.mute else None
            if time.monotonic() + pause > deadline or (mute and time.monotonic() > mute + self.silence):
                why = register.strayed.get(other, problem)
                raise PeerUnreachable(f"{name} cannot be reached {peer}: {why}", name)
            with register.changed:
                register.changed.wait_for(lambda: register.error or register.stopped, pause)
            pause = min(2 * pause, 1.0)

    def _try(self, other: int, lane: int, left: float) -> ssl.SSLSocket:
        """One attempt to connect to a peer."""
        peer, world = self.peers[other], self.register.world
        sock = dial(peer, world.names[other], self.context, min(self.patience, HANDSHAKE), left, self.asked)
        try:
            refusal = greet(sock, world, lane, self.register.rank, other, peer)
            if refusal is not None:
                raise NotYet(refusal.reason)
        except BaseException:
            sock.close()
            raise
        return sock
