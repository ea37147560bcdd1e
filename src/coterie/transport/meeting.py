"""How the roles of a run find each other: everybody listens, everybody dials, certificates are pinned.

A connection begins with a TLS 1.3 handshake in which both sides show their certificate, a hello of the one who
dials (a header with nothing behind it that names the lane), and an answer: the same back, or a refusal that says
why. Whoever is not one of the agreed peers is turned away and changes nothing. A peer that is not there yet is
dialled again and again; one that was there and goes away ends the meeting, by name.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from coterie.errors import (
    AuthenticationError,
    CoterieError,
    FrameError,
    PeerLost,
    PeerUnreachable,
    TransportError,
    WrongSession,
    WrongType,
)
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    HEADER_BYTES,
    Abort,
    Header,
    Letter,
    Refusal,
    Stamp,
    World,
    decode_control,
    encode_control,
    letter,
    raise_for_control,
)
from coterie.transport.tls import LOOK, Inbox, Outbox, TlsChannel, farewell

__all__ = ["MOST_LANES", "Listener", "Meeting", "Peer", "connect", "connect_lanes", "probe"]

#: The most that a handshake may take, in seconds, and the most strangers that may be at it; seconds for a refused one
#: to hear of it.
HANDSHAKE, CROWD, FAREWELL = 10.0, 64, 0.5
#: The most lanes that a peer may open, and the lane of those who only ask who is there.
MOST_LANES, PROBE = 128, 0xFFFF


@dataclass(frozen=True)
class Peer:
    """Where a party listens and the certificate it must show."""

    host: str
    port: int
    certificate: str


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
    ) -> None:
        """`peers` by rank; `patience`: seconds that a peer may be silent; `lanes`: the most that a peer may open, 0 if
        questions are answered and no more; `card`: what to tell those who only ask."""
        self.world, self.rank, self.peers, self.patience = world, rank, peers, patience
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
        try:
            self._wait(wanted, world, deadline, waiting)
        except BaseException as error:
            self._give_up(error)
            if isinstance(error, PeerUnreachable) and any(inbox.peer == error.peer for inbox in self.inboxes.values()):
                raise PeerLost(str(error), error.peer) from error  # it was there
            raise
        return [
            TlsChannel(
                world,
                self.rank,
                {j: self.outboxes[j, lane] for j in world.peers(self.rank)},
                {j: self.inboxes[j, lane] for j in world.peers(self.rank)},
                self.patience,
                lane,
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
                        self.inboxes[one] = Inbox(sock, world, one[0], self.rank, one[1], self.patience)
                if self.error is None and self._missing(wanted):
                    self.changed.wait(min(LOOK, max(deadline - time.monotonic(), 0)))
                if self.error is not None:
                    raise self.error
            for inbox in self.inboxes.values():
                self._look_at(inbox)
            self._look_at_doors(world, deadline)
            missing = self._missing(wanted)
            if not missing:
                return
            if missing != told and waiting is not None:
                waiting(missing)
                told = missing
            if time.monotonic() >= deadline:
                raise PeerUnreachable(f"{', '.join(missing)} did not connect in time", missing[0])

    def _missing(self, wanted: list[tuple[int, int]]) -> list[str]:
        open_ends = [one[0] for one in wanted if one not in self.inboxes or one not in self.outboxes]
        return [self.world.names[j] for j in dict.fromkeys(open_ends)]

    def _look_at(self, inbox: Inbox) -> None:
        message = inbox.glance()
        if message is not None:
            raise_for_control(message, inbox.peer, self.world)

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
        with self.changed:
            self.error = self.error or PeerLost("this party gave up")
        culprit = self.rank
        if isinstance(error, TransportError) and error.peer in self.world.names:
            culprit = self.world.names.index(error.peer)
        message = Abort(culprit, str(error) if isinstance(error, CoterieError) else type(error).__name__)
        with self.changed:
            outboxes, inboxes = list(self.outboxes.values()), list(self.inboxes.values())
        farewell(outboxes, inboxes, message, self.patience)
        self.close()

    # -- dialling ----------------------------------------------------------------------------------------

    def _dial_lanes(self, other: int, lanes: Sequence[int], world: World, deadline: float) -> None:
        try:
            for lane in lanes:
                sock = self._dial(other, lane, deadline)
                with self.changed:
                    if self.error is not None or self.stopped:
                        sock.close()
                        return
                    self.outboxes[other, lane] = Outbox(sock, world, self.rank, other, lane, self.patience)
                    self.changed.notify_all()
        except Exception as error:  # raised where somebody waits
            with self.changed:
                self.error = self.error or error
                self.changed.notify_all()

    def _dial(self, other: int, lane: int, deadline: float) -> ssl.SSLSocket:
        """Connect to a peer, again and again until the deadline while it is not there; a refusal is final, and so
        is a port that is open, with nobody answering, for as long as a peer may be silent."""
        peer, name, pause = self.peers[other], self.world.names[other], 0.01
        silent: float | None = None
        while True:
            with self.changed:
                if self.error is not None or self.stopped:
                    raise self.error or PeerLost("this party has stopped")
            left = max(deadline - time.monotonic(), 0.01)
            sock, problem = _dialled(peer, name, self.dialling, min(self.patience, HANDSHAKE), left)
            silent = (silent or time.monotonic()) if isinstance(problem, TimeoutError) else None
            if sock is not None:
                try:
                    refusal = _greet(sock, self.world, lane, self.rank, other, peer)
                except BaseException:
                    sock.close()
                    raise
                if refusal is None:
                    return sock
                sock.close()
                problem = refusal.reason
            if time.monotonic() + pause > deadline or (silent and time.monotonic() > silent + self.silence):
                raise PeerUnreachable(f"{name} cannot be reached at {peer.host}:{peer.port} ({problem})", name)
            with self.changed:
                self.changed.wait_for(lambda: self.error or self.stopped, pause)
            pause = min(2 * pause, 1.0)

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
        """Give a guest that TLS has refused a moment to read why: were its connection closed at once, with something
        that it has sent unread, it would find it broken instead."""
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
        except (OSError, ValueError):
            plain.close()
            self._see_off()
            return
        sender = None
        try:
            sender = self.by_fingerprint.get(fingerprint(sock.getpeercert(binary_form=True) or b""))
            if sender is None:
                raise AuthenticationError("a stranger connected")
            self._answer(sock, sender)
        except FrameError as error:  # an authenticated peer of another session or version: worth a word here too
            with contextlib.suppress(OSError):
                _say(sock, self.world, self.rank, sender or 0, Refusal(False, str(error)))
            sock.close()
            with self.changed:
                self.error = self.error or error
                self.changed.notify_all()
        except (EOFError, OSError, ValueError, CoterieError):  # gone before TLS began, or since
            sock.close()

    def _answer(self, sock: ssl.SSLSocket, sender: int) -> None:
        header = _read_hello(sock, self.world.names[sender])
        _check_hello(header, self.world, header.lane, sender, self.rank)
        one = (sender, header.lane)
        if header.lane == PROBE:
            sock.sendall(_hello(self.world, PROBE, self.rank, sender))
            _say(sock, self.world, self.rank, sender, letter(self.card()))
            sock.close()
            with self.changed:
                self.asked.add(sender)
                self.changed.notify_all()
            return
        if header.lane >= self.lanes > 0:
            raise WrongSession(f"{self.world.names[sender]} opens lane {header.lane}", self.world.names[sender])
        with self.changed:
            if self.stopped or self.error is not None or one in self.taken or not self.lanes:
                busy = "it is in the middle of a run" if self.lanes else "it only checks who is there"
                _say(sock, self.world, self.rank, sender, Refusal(True, busy))
                sock.close()
                return
            self.taken.add(one)
            sock.sendall(_hello(self.world, header.lane, self.rank, sender))
            self.accepted[one] = sock
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
) -> list[TlsChannel]:
    """Connect to every peer and be connected to by every peer, once per lane, or say who is missing."""
    meeting = Meeting(world, rank, credentials, peers, listener, patience, lanes)
    meeting.silence = timeout  # a process that has its port already may still be loading
    try:
        return meeting.connect(range(lanes), timeout=timeout)
    finally:
        meeting.close()


def probe(
    world: World, rank: int, other: int, credentials: Credentials, peer: Peer, timeout: float, patience: float
) -> bytes:
    """Ask a peer who is there, and nothing more: its card."""
    name = world.names[other]
    sock, problem = _dialled(peer, name, context(False, credentials, [peer.certificate]), patience, timeout)
    if sock is None:
        raise PeerUnreachable(f"{name} cannot be reached at {peer.host}:{peer.port} ({problem})", name)
    try:
        refusal = _greet(sock, world, PROBE, rank, other, peer)
        if refusal is not None:
            raise PeerUnreachable(f"{name} does not want to be asked ({refusal.reason})", name)
        header = _read_hello(sock, name)
        raw = _exactly(sock, header.length if header.kind == CONTROL and header.length <= CONTROL_LIMIT else 0, name)
        message = decode_control(raw, name)
        if not isinstance(message, Letter):
            raise WrongType(f"{name} answers something else than who it is", name)
        return message.body
    except (EOFError, OSError) as error:
        raise PeerUnreachable(f"{name} does not answer ({type(error).__name__})", name) from error
    finally:
        sock.close()


def context(server: bool, credentials: Credentials, trusted: Sequence[str]) -> ssl.SSLContext:
    """TLS 1.3 and nothing older; both sides show a certificate, and it is one of those trusted."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # who it is, is decided by the pinned fingerprint
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata="\n".join(trusted))
    if server:
        made.num_tickets = 0  # the sender never reads, and an unread ticket would turn a close into a reset
    with _private_file() as (file, name):
        file.write((credentials.key + "\n" + credentials.certificate).encode())
        file.flush()
        made.load_cert_chain(name)
    return made


@contextlib.contextmanager
def _private_file() -> Iterator[tuple[IO[bytes], str]]:
    """OpenSSL takes a key from a file only: one in memory where there is such a thing, else one of mode 0600."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("key"), "wb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("wb", suffix=".pem") as kept:
            yield kept, kept.name


def _dialled(
    peer: Peer, name: str, own: ssl.SSLContext, patience: float, left: float
) -> tuple[ssl.SSLSocket | None, object]:
    """A connection with the TLS handshake done; or None and why, where the peer is not there yet."""
    try:
        plain = socket.create_connection((peer.host, peer.port), timeout=min(patience, left))
    except (OSError, UnicodeError) as error:  # UnicodeError: what cannot be the name of a host
        return None, error
    try:
        plain.settimeout(patience)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return own.wrap_socket(plain), None
    except (ssl.SSLEOFError, ConnectionError) as error:
        plain.close()
        return None, error
    except (ssl.SSLError, ValueError) as error:
        plain.close()
        raise AuthenticationError(f"{name} does not show the certificate that was agreed ({error})", name) from error
    except OSError as error:  # a TimeoutError: somebody listens, and nobody answers
        plain.close()
        return None, error


def _greet(sock: ssl.SSLSocket, world: World, lane: int, rank: int, other: int, peer: Peer) -> Refusal | None:
    """Say hello and hear the answer: a refusal for now, if it is one; a refusal for good is an error here."""
    name = world.names[other]
    try:
        if fingerprint(sock.getpeercert(binary_form=True) or b"") != fingerprint(peer.certificate):
            raise AuthenticationError(f"{name} shows a certificate that is not the pinned one", name)
        sock.sendall(_hello(world, lane, rank, other))
        header = _read_hello(sock, name)
        if header.kind == CONTROL and 0 < header.length <= CONTROL_LIMIT:
            message = decode_control(_exactly(sock, header.length, name), name)
            if not isinstance(message, Refusal):
                raise WrongType(f"{name} sent a {type(message).__name__.lower()} where a hello was due", name)
            if not message.busy:
                raise WrongSession(f"{name} refused the connection: {message.reason}", name)
            return message
        _check_hello(header, world, lane, other, rank)
    except TimeoutError as error:
        raise PeerUnreachable(f"{name} does not answer", name) from error
    except (EOFError, ssl.SSLEOFError, ConnectionError):  # it stops, or others crowd its door: no reason to give up
        return Refusal(True, "it hung up")
    except OSError as error:  # a TLS alert
        raise AuthenticationError(f"{name} refused this party's certificate ({error})", name) from error
    return None


def _hello(world: World, lane: int, sender: int, receiver: int) -> bytes:
    """The first frame of a connection, and the receiver's answer: a header with nothing behind it."""
    return Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()).pack()


def _say(sock: ssl.SSLSocket, world: World, sender: int, receiver: int, message: Refusal | Letter) -> None:
    body = encode_control(message)
    sock.sendall(Header(CONTROL, 0, sender, receiver, world.session, 0, len(body), Stamp()).pack() + body)


def _read_hello(sock: ssl.SSLSocket, peer: str) -> Header:
    return Header.unpack(_exactly(sock, HEADER_BYTES, peer), peer)


def _check_hello(header: Header, world: World, lane: int, sender: int, receiver: int) -> None:
    peer = world.names[sender]
    header.check(Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()), peer)
    if header.kind != CONTROL or header.length:
        raise WrongType(f"{peer} sent something else than a hello", peer)


def _exactly(sock: ssl.SSLSocket, count: int, peer: str) -> bytearray:
    raw = bytearray()
    while len(raw) < count:
        part = sock.recv(count - len(raw))
        if not part:
            raise EOFError(f"{peer} hung up")
        raw += part
    return raw
