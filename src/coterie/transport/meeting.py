"""How the roles of a run find each other: everybody listens, everybody dials, certificates are pinned.

How a connection begins, `hello` says. Whoever is not one of the agreed peers is turned away and changes nothing, and
so is a peer that comes for another study. A peer that is not there yet, or is busy, is dialled again and again. If a
connected peer disconnects, or if one says that it will not take part, the meeting ends with an error that names it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence

from coterie.errors import (
    AuthenticationError,
    CoterieError,
    FrameError,
    PeerLost,
    PeerUnreachable,
    TransportError,
    WrongSession,
)
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.channel import CONTROL_LIMIT, Abort, Header, Refusal, World, letter, trouble
from coterie.transport.hello import (
    DECLINE,
    ELSEWHERE,
    PROBE,
    NotYet,
    Peer,
    check_hello,
    context,
    dial,
    greet,
    hello,
    read_hello,
    say,
)
from coterie.transport.inbox import Inbox
from coterie.transport.tls import LOOK, Outbox, TlsChannel, farewell, time_to_watch
from coterie.transport.visits import decline, probe

__all__ = ["MOST_LANES", "PROBE", "Listener", "Meeting", "Peer", "connect", "connect_lanes", "decline", "probe"]

log = logging.getLogger(__name__)
#: The most that a handshake may take, in seconds, and the most strangers that may be at it; seconds for a refused one
#: to hear of it.
HANDSHAKE, CROWD, FAREWELL = 10.0, 64, 0.5
#: The most lanes that a peer may open.
MOST_LANES = 128
#: Seconds, when a peer goes away while others are waited for, for the reason to arrive here too.
GRACE = 1.0
#: Among the lanes on which this party waits for somebody: no lane yet.
CONNECTING = -1


class Listener:
    """A listening socket, on a port that the operating system chooses unless told."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, port), family=family, backlog=CROWD)
        self.host, self.port = self.socket.getsockname()[:2]

    def close(self) -> None:
        self.socket.close()


class Meeting:
    """One role's connections to its peers, from the first to the last."""

    def __init__(
        self,
        world: World,
        rank: int,
        credentials: Credentials,
        peers: Sequence[Peer],
        listener: Listener,
        patience: float = 10.0,
        lanes: int = MOST_LANES,
        card: Callable[[], bytes] = bytes,
        progress: float | None = None,
    ) -> None:
        """`peers` by rank; `patience`: seconds that a peer may be silent; `lanes`: the most that a peer may open, 0 if
        questions are answered and no more; `card`: what to tell those who only ask; `progress`: seconds for which
        nothing but heartbeats may come of a peer that is waited for, 30 times `patience` unless told."""
        self.world, self.rank, self.peers, self.patience = world, rank, peers, patience
        self.progress = progress
        self.listener, self.lanes, self.card = listener, lanes, card
        listener.socket.setblocking(False)  # who was announced may be gone when it is asked in
        certificates = [peers[r].certificate for r in world.peers(rank)]
        self.by_fingerprint = {fingerprint(peers[r].certificate): r for r in world.peers(rank)}
        self.dialling = context(False, credentials, certificates)
        self.answering = context(True, credentials, certificates)
        self.silence = patience
        self.changed = threading.Condition()
        self.accepted: dict[tuple[int, int], ssl.SSLSocket] = {}
        self.taken: set[tuple[int, int]] = set()
        self.asked: set[int] = set()
        self.elsewhere: set[int] = set()  # peers that take part in another study now
        self.strayed: set[int] = set()  # peers that did when they were last there
        self.waits: set[int] = set()  # lanes on which this party waits for somebody
        self.outboxes: dict[tuple[int, int], Outbox] = {}
        self.inboxes: dict[tuple[int, int], Inbox] = {}
        self.error: Exception | None = None
        self.stopped = False
        self.guests: dict[threading.Thread, socket.socket] = {}
        self._wake_read, self._wake_write = os.pipe()
        self.thread = threading.Thread(target=self._accept, name="coterie-accept", daemon=True)
        self.thread.start()

    # -- connecting --------------------------------------------------------------------------------------

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
        world = world or self.world
        wanted = [(other, lane) for other in world.peers(self.rank) for lane in lanes]
        deadline = time.monotonic() + timeout
        threads = [
            threading.Thread(
                target=self._dial_lanes, args=(other, lanes, world, deadline), name=f"coterie-dial-{other}", daemon=True
            )
            for other in world.peers(self.rank)
        ]
        for thread in threads:
            thread.start()
        self.waits.add(CONNECTING)
        try:
            self._wait(wanted, world, deadline, waiting)
        except BaseException as error:
            self._give_up(error)
            if isinstance(error, PeerUnreachable) and any(inbox.peer == error.peer for inbox in self.inboxes.values()):
                raise PeerLost(str(error), error.peer) from error  # it was there
            raise
        finally:
            self.waits.discard(CONNECTING)
        return [
            TlsChannel(
                world,
                self.rank,
                {j: self.outboxes[j, lane] for j in world.peers(self.rank)},
                {j: self.inboxes[j, lane] for j in world.peers(self.rank)},
                self.patience,
                lane,
                self.waits,
            )
            for lane in lanes
        ]

    def _wait(
        self,
        wanted: list[tuple[int, int]],
        world: World,
        deadline: float,
        waiting: Callable[[list[str]], None] | None,
    ) -> None:
        told: list[str] = []
        while True:
            with self.changed:
                for one in wanted:
                    if one in self.accepted and one not in self.inboxes:
                        sock = self.accepted.pop(one)
                        box = Inbox(sock, world, one[0], self.rank, one[1], self.patience, self.progress)
                        self.inboxes[one] = box
                if self.error is None and self._missing(wanted):
                    self.changed.wait(min(LOOK, max(deadline - time.monotonic(), 0)))
                if self.error is not None:
                    raise self.error
            try:
                for inbox in self.inboxes.values():
                    self._look_at(inbox)
            except PeerLost as error:
                raise self._sooner(error) from None
            self._look_at_doors(world, deadline)
            missing = self._missing(wanted)
            if not missing:
                return
            described = [self._describe(name) for name in missing]
            if described != told and waiting is not None:
                waiting(described)
                told = described
            if time.monotonic() >= deadline:
                last = ", ".join(self._describe(name, ever=True) for name in missing)
                raise PeerUnreachable(f"{last} did not connect in time", missing[0])

    def _missing(self, wanted: list[tuple[int, int]]) -> list[str]:
        open_ends = [one[0] for one in wanted if one not in self.inboxes or one not in self.outboxes]
        return [self.world.names[j] for j in dict.fromkeys(open_ends)]

    def _describe(self, name: str, ever: bool = False) -> str:
        """A peer that is missing, and why where people can do something about it. `ever`: also if it is gone since."""
        other = self.world.names.index(name)
        if other in self.elsewhere or (ever and other in self.strayed):
            return f"{name} (takes part in another study)"
        return name

    def _sooner(self, error: PeerLost) -> Exception:
        """A peer is gone. It may have heard first what this party is about to hear, that another one declines."""
        with self.changed:
            self.changed.wait_for(lambda: self.error is not None, GRACE)
            return self.error or error

    def _look_at(self, inbox: Inbox) -> None:
        message = inbox.glance()
        if message is not None:
            raise trouble(message, inbox.sender, self.rank, self.world, self._look_for)

    def _look_for(self, accused: int) -> Abort | None:
        """See to a peer that another one blames; here, it may never have come."""
        for inbox in self.inboxes.values():
            if inbox.sender == accused:
                return inbox.watch(time_to_watch(self.patience))
        name = self.world.names[accused]
        raise PeerUnreachable(f"{self._describe(name, ever=True)} is not there", name)

    def _look_at_doors(self, world: World, deadline: float) -> None:
        """Peers that have let this one in. If one went away before it dialled, another process may come in its place:
        it is dialled as if it had never been there. One that stays and does not dial is not waited for."""
        own = self.peers[self.rank]
        with self.changed:
            here = {other for other, _ in (*self.inboxes, *self.accepted)}
            for (other, lane), outbox in list(self.outboxes.items()):
                if outbox.gone():
                    del self.outboxes[other, lane]
                    outbox.close(0)
                    again = other, [lane], world, deadline
                    threading.Thread(target=self._dial_lanes, args=again, daemon=True).start()
                elif other not in here and time.monotonic() > outbox.begun + self.silence:
                    name = self.world.names[other]
                    raise PeerUnreachable(
                        f"{name} does not dial, though it can be reached; can it reach {own.host}:{own.port}?", name
                    )

    def _give_up(self, error: BaseException) -> None:
        """Tell those who are there, and close everything."""
        log.info("%s leaves the meeting: %s", self.world.names[self.rank], type(error).__name__)
        with self.changed:
            self.error = self.error or (error if isinstance(error, Exception) else PeerLost("this party gave up"))
            outboxes, inboxes = list(self.outboxes.values()), list(self.inboxes.values())
        farewell(outboxes, inboxes, self._last_word(error), self.patience)
        self.close()

    def _last_word(self, error: BaseException) -> Abort:
        """What others hear of an error: whose fault it is, and its kind. What it says of files and addresses stays."""
        culprit = self.rank
        if isinstance(error, TransportError) and error.peer in self.world.names:
            culprit = self.world.names.index(error.peer)
        return Abort(culprit, type(error).__name__)

    # -- dialling ----------------------------------------------------------------------------------------

    def _dial_lanes(self, other: int, lanes: Sequence[int], world: World, deadline: float) -> None:
        try:
            for lane in lanes:
                sock = self._dial(other, lane, deadline)
                outbox = Outbox(sock, world, self.rank, other, lane, self.patience, self.waits)
                with self.changed:
                    over = self.error or (PeerLost("this party has stopped") if self.stopped else None)
                    if over is None:
                        self.outboxes[other, lane] = outbox
                        self.changed.notify_all()
                if over is None:
                    log.debug("%s is connected to %s, lane %d", world.names[self.rank], world.names[other], lane)
                else:
                    farewell([outbox], [], self._last_word(over), self.patience)
                    return
        except Exception as error:  # raised where somebody waits
            with self.changed:
                self.error = self.error or error
                self.changed.notify_all()

    def _dial(self, other: int, lane: int, deadline: float) -> ssl.SSLSocket:
        """Connect to a peer, again and again until the deadline while it is not there or busy; a refusal for good is
        final, and so is a port that takes connections, with nobody answering, for as long as a peer may be silent."""
        peer, name, pause = self.peers[other], self.world.names[other], 0.01
        mute: float | None = None  # since when nobody answers
        while True:
            with self.changed:
                if self.error is not None or self.stopped:
                    raise self.error or PeerLost("this party has stopped")
            left = max(deadline - time.monotonic(), 0.01)
            try:
                sock = self._try(other, lane, left)
                self._note_elsewhere(other, False)
                self.strayed.discard(other)
                return sock
            except NotYet as again:
                problem = again
            self._note_elsewhere(other, str(problem) == ELSEWHERE)
            mute = (mute or time.monotonic()) if problem.mute else None
            if time.monotonic() + pause > deadline or (mute and time.monotonic() > mute + self.silence):
                why = ELSEWHERE if other in self.strayed else problem
                raise PeerUnreachable(f"{name} cannot be reached at {peer.host}:{peer.port} ({why})", name)
            with self.changed:
                self.changed.wait_for(lambda: self.error or self.stopped, pause)
            pause = min(2 * pause, 1.0)

    def _try(self, other: int, lane: int, left: float) -> ssl.SSLSocket:
        """One attempt to connect to a peer."""
        peer, name = self.peers[other], self.world.names[other]
        sock = dial(peer, name, self.dialling, min(self.patience, HANDSHAKE), left)
        try:
            refusal = greet(sock, self.world, lane, self.rank, other, peer)
            if refusal is not None:
                raise NotYet(refusal.reason)
        except BaseException:
            sock.close()
            raise
        return sock

    def _note_elsewhere(self, other: int, elsewhere: bool) -> None:
        """Whether a peer takes part in another study, as the last attempt has shown."""
        with self.changed:
            if elsewhere != (other in self.elsewhere):
                (self.elsewhere.add if elsewhere else self.elsewhere.discard)(other)
                self.strayed |= self.elsewhere
                self.changed.notify_all()

    # -- answering ---------------------------------------------------------------------------------------

    def _accept(self) -> None:
        poller = select.poll()
        poller.register(self.listener.socket.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = poller.poll()
            if self.stopped or (self._wake_read, select.POLLIN) in ready:
                return
            with self.changed:
                crowd = list(self.guests)
            if len(crowd) >= CROWD:
                self._dismiss([random.choice(crowd)])  # anyone: who comes in haste must not push all others out
            try:
                plain, _ = self.listener.socket.accept()
                self._attend(plain)
            except (OSError, RuntimeError):  # gone again; or no more sockets, no more threads: later, perhaps
                time.sleep(0.05)

    def _attend(self, plain: socket.socket) -> None:
        """A thread for a guest, until it is let in or sent away."""
        host = threading.Thread(target=self._receive, args=(plain,), name="coterie-greet", daemon=True)
        try:
            with self.changed:
                self.guests[host] = plain.dup()
            host.start()
        except (OSError, RuntimeError):
            plain.close()
            with self.changed:
                handle = self.guests.pop(host, None)
            if handle is not None:
                handle.close()
            raise

    def _dismiss(self, hosts: list[threading.Thread]) -> None:
        """Send away guests who are not let in yet."""
        for host in hosts:
            with self.changed:
                if host in self.guests:
                    with contextlib.suppress(OSError):
                        self.guests[host].shutdown(socket.SHUT_RDWR)
            host.join()

    def _receive(self, plain: socket.socket) -> None:
        try:
            self._let_in(plain)
        finally:
            self._forget()

    def _see_off(self) -> None:
        """Give a guest that is refused a moment to read why: were its connection closed at once, with something that it
        has sent unread, it would find it broken instead."""
        with self.changed:
            handle = self.guests[threading.current_thread()]
        end = time.monotonic() + FAREWELL
        with contextlib.suppress(OSError):
            handle.shutdown(socket.SHUT_WR)
            handle.settimeout(FAREWELL)
            while handle.recv(CONTROL_LIMIT) and time.monotonic() < end:
                pass

    def _forget(self) -> None:
        with self.changed:
            handle = self.guests.pop(threading.current_thread(), None)
            if handle is not None:
                handle.close()

    def _let_in(self, plain: socket.socket) -> None:
        plain.settimeout(HANDSHAKE)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = self.answering.wrap_socket(plain, server_side=True)
        except (OSError, ValueError) as error:
            log.info("a connection ended in the handshake: %s", type(error).__name__)
            plain.close()
            self._see_off()
            return
        sender = None
        try:
            sender = self.by_fingerprint.get(fingerprint(sock.getpeercert(binary_form=True) or b""))
            if sender is None:
                log.warning("a stranger was refused")
                raise AuthenticationError("a stranger connected")
            self._answer(sock, sender)
        except FrameError as error:  # an authenticated peer that cannot be understood: worth a word here too
            with contextlib.suppress(OSError):
                say(sock, self.world, self.rank, sender or 0, Refusal(False, str(error)))
            sock.close()
            with self.changed:
                if (sender, 0) not in self.taken:  # whoever is in already speaks for that peer
                    self._end(error)
        except AuthenticationError:
            sock.close()
            self._see_off()
        except (EOFError, OSError, ValueError, CoterieError):  # gone before TLS began, or since
            sock.close()

    def _end(self, error: TransportError) -> None:
        """End the meeting with an error, if there is none yet. The caller holds the lock."""
        self.error = self.error or error
        self.changed.notify_all()

    def _answer(self, sock: ssl.SSLSocket, sender: int) -> None:
        """What an authenticated peer says first, and what it hears."""
        header = read_hello(sock, self.world.names[sender])
        here = header.session == self.world.session
        if here:
            check_hello(header, self.world, header.lane, sender, self.rank)
        if header.lane == PROBE:
            self._show_card(sock, sender, here)
        elif not here:
            say(sock, self.world, self.rank, sender, Refusal(True, ELSEWHERE))
            sock.close()
        elif header.lane == DECLINE:
            self._hear_no(sock, sender)
        else:
            self._take(sock, sender, header)

    def _show_card(self, sock: ssl.SSLSocket, sender: int, here: bool) -> None:
        """Whoever only asks is answered, also about another study: how it differs from this one, the card tells."""
        sock.sendall(hello(self.world, PROBE, self.rank, sender))
        say(sock, self.world, self.rank, sender, letter(self.card()))
        sock.close()
        if here:
            with self.changed:
                self.asked.add(sender)
                self.changed.notify_all()

    def _hear_no(self, sock: ssl.SSLSocket, sender: int) -> None:
        """A peer will not take part: nobody need wait for it. If it is in, this is none of the run's business."""
        sock.sendall(hello(self.world, DECLINE, self.rank, sender))
        sock.close()
        name = self.world.names[sender]
        with self.changed:
            if self.lanes and (sender, 0) not in self.taken:
                self._end(PeerLost(f"{name} declined: its own data or policy does not allow this run; ask there", name))

    def _take(self, sock: ssl.SSLSocket, sender: int, header: Header) -> None:
        """A peer opens a lane."""
        one = (sender, header.lane)
        if header.lane >= self.lanes > 0:
            raise WrongSession(f"{self.world.names[sender]} opens lane {header.lane}", self.world.names[sender])
        with self.changed:
            if self.stopped or self.error is not None or one in self.taken or not self.lanes:
                busy = "it is in the middle of a run" if self.lanes else "it only checks who is there"
                say(sock, self.world, self.rank, sender, Refusal(True, busy))
                sock.close()
                return
            sock.sendall(hello(self.world, header.lane, self.rank, sender))
            self.taken.add(one)  # only now: if it is gone already, another process may come in its place
            self.accepted[one] = sock
            log.debug("%s has let in %s, lane %d", self.world.names[self.rank], self.world.names[sender], header.lane)
            self._forget()
            self.changed.notify_all()

    def stay(self, seconds: float) -> None:
        """Be there until every peer has asked who is here, or for so long."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.asked) == len(self.world.names) - 1, seconds)

    def close(self) -> None:
        """Answer nobody any more. Channels that were made stay."""
        with self.changed:
            if self.stopped:
                return
            self.stopped = True
            self.changed.notify_all()
        os.write(self._wake_write, b"x")
        self.thread.join()
        with self.changed:
            waiting = list(self.guests)
        self._dismiss(waiting)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.listener.close()
        for sock in self.accepted.values():
            sock.close()


def connect(
    world: World,
    rank: int,
    credentials: Credentials,
    peers: Sequence[Peer],
    listener: Listener,
    timeout: float = 60.0,
    patience: float = 10.0,
) -> TlsChannel:
    """One lane: connect to every peer (`peers` by rank) and be connected to by every peer."""
    return connect_lanes(1, world, rank, credentials, peers, listener, timeout, patience)[0]


def connect_lanes(
    lanes: int,
    world: World,
    rank: int,
    credentials: Credentials,
    peers: Sequence[Peer],
    listener: Listener,
    timeout: float = 60.0,
    patience: float = 10.0,
    progress: float | None = None,
) -> list[TlsChannel]:
    """Connect to every peer and be connected to by every peer, once per lane, or say who is missing."""
    meeting = Meeting(world, rank, credentials, peers, listener, patience, lanes, progress=progress)
    meeting.silence = timeout  # a process that has its port already may still be loading
    try:
        return meeting.connect(range(lanes), timeout=timeout)
    finally:
        meeting.close()
