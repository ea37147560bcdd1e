"""Being reached by way of a relay: a listener that opens no port.

It keeps a connection to the relay, and dials the relay anew for everybody who calls. It needs a participant's
credentials, the relay and the hashes of the studies; whose connection it is that has come, the participants' own TLS
decides, as at any other door.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from coterie.errors import CoterieError, FrameError, InputError
from coterie.transport.certificates import Credentials
from coterie.transport.hello import HANDSHAKE, NotYet
from coterie.transport.relay_messages import Answer, Bring, Call, Joined, Listen, Ping, Pong, Recorded, Refused, pack
from coterie.transport.relayed import REASONS, RelayAt, Turned, bring_study, exchange, read_message

__all__ = ["RelayedListener"]

log = logging.getLogger(__name__)

#: The most calls that are answered at a time.
CROWD = 64
#: Seconds in which a relay must have said something; between attempts to register, at first and at most.
SILENCE, FIRST_PAUSE, LAST_PAUSE = 60.0, 0.1, 5.0


class RelayedListener:
    """The same to a door as `Listener`: `fileno` can be read when somebody has come, whom `accept` returns.

    `trouble`: why nobody can come at the moment, in words, if that is so; `error`: why nobody ever will. `registered`:
    whether the relay knows of this listener; `unheard`: the studies in which nobody can come nevertheless, and why. One
    of them does not keep the others from being heard.
    """

    def __init__(
        self,
        relay: RelayAt,
        credentials: Credentials,
        studies: Sequence[str],
        patience: float = HANDSHAKE,
        bring: Callable[[str], Bring | None] | None = None,
    ) -> None:
        """`studies`: hashes of those in which calls are wanted; `bring`: what to bring to a relay that does not know a
        study, if there is something."""
        self.relay, self.host, self.port = relay, relay.host, relay.port
        self.credentials, self.patience, self.bring = credentials, min(patience, HANDSHAKE), bring
        self.trouble, self.error = "", None
        self.registered, self.unheard = False, {}
        self._studies = tuple(studies)
        self._come: deque[socket.socket] = deque()
        self._answering = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._door_read, self._door_write = os.pipe()  # a byte for everybody who has come
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._door_read, False)
        os.set_blocking(self._wake_read, False)
        self._thread = threading.Thread(target=self._keep, name="coterie-relayed", daemon=True)
        self._thread.start()

    trouble: str
    error: CoterieError | None
    unheard: dict[str, str]

    def fileno(self) -> int:
        return self._door_read

    def accept(self) -> socket.socket:
        """Who has come, of those who wait; a BlockingIOError, if nobody does."""
        with self._changed:
            os.read(self._door_read, 1)
            return self._come.popleft()

    def announce(self, studies: Sequence[str]) -> None:
        """From now on, calls are wanted for these studies."""
        with self._changed:
            same, self._studies = self._studies == tuple(studies), tuple(studies)
            if not same and not self._stopped:
                os.write(self._wake_write, b"x")

    def close(self) -> None:
        with self._changed:
            if self._stopped:
                return
            self._stopped = True
            os.write(self._wake_write, b"x")
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._answering)
            for sock in self._come:
                sock.close()
        for end in (self._door_read, self._door_write, self._wake_read, self._wake_write):
            os.close(end)

    # -- being registered --------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Be registered at the relay, again and again, until this listener is closed."""
        pause = FIRST_PAUSE
        while not self._stopped:
            began = time.monotonic()
            try:
                self._register()
            except (NotYet, FrameError) as problem:
                self._note(str(problem))
                if isinstance(problem, Turned) and problem.why == "taken":
                    self.error = InputError(str(problem))
            except CoterieError as problem:  # a certificate that is not the pinned one, or a proxy that says no
                self.error = problem
                self._note(str(problem))
            self.registered = False
            if time.monotonic() - began > SILENCE:
                pause = FIRST_PAUSE
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, pause)
            pause = min(2 * pause, LAST_PAUSE)

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("not registered at %s", self.relay)
        self.trouble = trouble

    def _register(self) -> None:
        """One connection to the relay, from registering until it ends."""
        try:
            sock = self.relay.connect(self.credentials, self.patience, self.patience)
        except Turned as turned:
            self._bring(self._studies, turned)
            sock = self.relay.connect(self.credentials, self.patience, self.patience)
        with sock, self.relay.understood():
            while not self._stopped:
                studies = self._studies
                recorded = self._record(sock, studies)
                self.error = None
                self.unheard = {
                    study: REASONS["taken" if study in recorded.taken else "unknown"]
                    for study in studies
                    if study not in recorded.studies
                }
                self.registered = True
                self._note("")
                log.info("registered at %s for %d studies", self.relay, len(recorded.studies))
                self._hear(sock)

    def _record(self, sock: ssl.SSLSocket, studies: Sequence[str]) -> Recorded:
        """Say for which studies calls are wanted, and bring those that the relay does not know."""
        recorded = self._listen(sock, studies)
        missing = [study for study in studies if study not in (*recorded.studies, *recorded.taken)]
        if missing:
            try:
                self._bring(missing, Turned(self.relay, "unknown"))
                recorded = self._listen(sock, studies)
            except Turned:
                if not recorded.studies:
                    raise
        if not recorded.studies:
            raise Turned(self.relay, "unknown")
        return recorded

    def _bring(self, studies: Sequence[str], turned: Turned) -> None:
        """Bring what the relay does not know, if there is something to bring; `turned` if there is nothing."""
        brought = 0
        for study in studies:
            one = None if self.bring is None else self.bring(study)
            if one is not None:
                try:
                    bring_study(self.relay, one, self.patience)
                    brought += 1
                except Turned as problem:
                    turned = problem
        if not brought:
            raise turned

    def _listen(self, sock: ssl.SSLSocket, studies: Sequence[str]) -> Recorded:
        """Say for which studies calls are wanted; what the relay says of them."""
        sock.settimeout(self.patience)
        message = exchange(sock, Listen(tuple(studies)))
        while isinstance(message, Call | Ping):  # it was on its way already
            if self._stopped:
                raise NotYet("nobody is expected any more")
            self._hear_one(sock, message)
            message = read_message(sock)
        if isinstance(message, Refused):
            raise Turned(self.relay, message.why)
        if not isinstance(message, Recorded):
            raise ValueError("not what was due")
        return message

    def _hear(self, sock: ssl.SSLSocket) -> None:
        """Answer calls, until this listener is closed, the studies are others or it is time to ask for them again."""
        poller = select.poll()
        poller.register(sock.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        heard = time.monotonic()
        again = heard + LAST_PAUSE if self.unheard else math.inf
        while time.monotonic() < heard + SILENCE:
            if self._stopped:  # however much the relay has to say
                return
            left = again - time.monotonic()
            if left <= 0:
                return
            wait = 1000 * min(SILENCE / 4, left)
            ready = dict(poller.poll(wait)) if not sock.pending() else {sock.fileno(): select.POLLIN}
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    while os.read(self._wake_read, 64):
                        pass
                return
            if sock.fileno() in ready:
                self._hear_one(sock, read_message(sock))
                heard = time.monotonic()
        raise TimeoutError

    def _hear_one(self, sock: ssl.SSLSocket, message: object) -> None:
        if isinstance(message, Ping):
            sock.sendall(pack(Pong()))
        elif isinstance(message, Call):
            with self._changed:
                if self._stopped or self._answering >= CROWD:
                    return
                self._answering += 1
            try:
                threading.Thread(target=self._answer, args=(message,), name="coterie-answer", daemon=True).start()
            except RuntimeError:  # no more threads for now
                self._done_answering()
        else:
            raise ValueError("not what was due")

    # -- answering calls ---------------------------------------------------------------------------------

    def _answer(self, call: Call) -> None:
        """Dial the relay to be joined with somebody who calls."""
        try:
            with contextlib.suppress(NotYet, CoterieError):
                self._let_in(self._take_up(call))
        finally:
            self._done_answering()

    def _take_up(self, call: Call) -> socket.socket:
        sock = self.relay.connect(self.credentials, self.patience, self.patience)
        try:
            with self.relay.understood():
                message = exchange(sock, Answer(call.token))
                if isinstance(message, Refused):
                    raise Turned(self.relay, message.why)
                if not isinstance(message, Joined):
                    raise ValueError("not what was due")
                return self.relay.leave_tls(sock, self.patience)
        except BaseException:
            sock.close()
            raise

    def _let_in(self, plain: socket.socket) -> None:
        with self._changed:
            if self._stopped or len(self._come) >= CROWD:
                plain.close()
                return
            self._come.append(plain)
            os.write(self._door_write, b"x")

    def _done_answering(self) -> None:
        with self._changed:
            self._answering -= 1
            self._changed.notify_all()
