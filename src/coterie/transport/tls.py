"""Channels over TLS 1.3 sockets, both sides authenticated by pinned certificates.

One connection per direction: the sender dials, and from then on only writes; the receiver only reads.
(An OpenSSL object is not for two threads at once, and a party must be able to read while it writes.)
`send` writes what the socket takes at once and leaves the rest to the connection's own thread, so that
two parties who send to each other never wait for each other. The helper alone is held back when a
party's backlog grows. A connection that has nothing to send sends a heartbeat; a receiver that hears
nothing for `patience` seconds declares the peer lost.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from coterie.errors import (
    AuthenticationError,
    CoterieError,
    FrameError,
    PeerLost,
    PeerUnreachable,
    TransportError,
)
from coterie.ring import Array
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    HEADER_BYTES,
    Abort,
    Channel,
    Control,
    Goodbye,
    Header,
    Heartbeat,
    Note,
    Stamp,
    World,
    as_bytes,
    decode_control,
    dtype_code,
    encode_control,
    raise_for_control,
)

__all__ = ["Listener", "Peer", "TlsChannel", "connect", "connect_lanes"]

#: How many bytes the helper may be ahead of a party, beyond what TCP holds.
HELPER_AHEAD = 32 << 20
#: Bytes handed to OpenSSL at once.
CHUNK = 1 << 18
#: Seconds that a stranger, or a peer, has for its handshake.
HANDSHAKE = 10.0


@dataclass(frozen=True)
class Peer:
    """Where a party listens and the certificate it must show."""

    host: str
    port: int
    certificate: str


class Listener:
    """A listening socket, on a port that the operating system chooses unless told."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.socket = socket.create_server((host, port), backlog=64)
        self.host, self.port = self.socket.getsockname()[:2]

    def close(self) -> None:
        self.socket.close()


def _context(server: bool, credentials: Credentials, trusted: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # who it is, is decided by the pinned fingerprint
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata="\n".join(trusted))
    if server:
        context.num_tickets = 0  # the sender never reads, and an unread ticket would turn a close into a reset
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # created with mode 0600
        file.write(credentials.key + "\n" + credentials.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class _Outbox:
    """The sending side of one connection: at once if the socket takes it, else by its own thread."""

    def __init__(self, sock: ssl.SSLSocket, channel: TlsChannel, to: int, heartbeat: float, limit: int | None) -> None:
        sock.setblocking(False)
        self.sock, self.channel, self.to = sock, channel, to
        self.heartbeat, self.limit = heartbeat, limit
        self.sequence = 0
        self.pending: deque[memoryview[Any]] = deque()
        self.backlog = 0
        self.error: OSError | None = None
        self.closing = False
        self.changed = threading.Condition()
        self.last = time.monotonic()
        self.thread = threading.Thread(target=self._run, name=f"coterie-send-{to}", daemon=True)
        self.thread.start()

    def put(self, kind: int, body: memoryview[Any], stamp: Stamp) -> None:
        with self.changed:
            if self.limit is not None and kind != CONTROL:
                self.changed.wait_for(lambda: self.error or self.backlog <= (self.limit or 0))
            if self.error:
                raise self.error
            header = self.channel._outgoing(self.to, self.sequence, kind, len(body), stamp).pack()
            self.sequence += 1
            if len(body) <= CHUNK // 16:  # one record rather than two
                parts = [memoryview(header + bytes(body))]
            else:
                parts = [memoryview(header), *(body[at : at + CHUNK] for at in range(0, len(body), CHUNK))]
            self.pending.extend(parts)
            self.backlog += HEADER_BYTES + len(body)
            self._write()
            if self.error:
                raise self.error
            if self.pending:
                self.changed.notify_all()

    def _write(self) -> None:
        """Write what the socket takes now. The caller holds the lock."""
        try:
            while self.pending:
                part = self.pending[0]
                count = self.sock.send(part)
                self.backlog -= count
                if count == len(part):
                    self.pending.popleft()
                else:
                    self.pending[0] = part[count:]
            self.last = time.monotonic()
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = error
        self.pending.clear()
        self.changed.notify_all()

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self.sock.fileno(), select.POLLOUT)
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.pending or self.closing or self.error, self.heartbeat / 4)
                if self.error or (self.closing and not self.pending):
                    return
                idle = not self.pending and time.monotonic() - self.last >= self.heartbeat
            if idle:
                with contextlib.suppress(OSError):
                    self.put(CONTROL, memoryview(encode_control(Heartbeat())), Stamp())
                continue
            if self.pending and poller.poll(1000 * self.heartbeat / 4):
                with self.changed:
                    self._write()
                    self.changed.notify_all()  # somebody may wait for the backlog to shrink

    def close(self, patience: float) -> None:
        """Send what is pending, as long as the peer takes some of it every `patience` seconds, and close."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        before = None
        while self.thread.is_alive() and self.backlog != before:
            before = self.backlog
            self.thread.join(patience)
        with self.changed:
            if self.thread.is_alive():
                self._fail(OSError("closed with frames pending"))
        self.thread.join()
        self.sock.close()


class TlsChannel(Channel):
    """One party's connections to all the others."""

    def __init__(
        self,
        world: World,
        rank: int,
        outgoing: dict[int, ssl.SSLSocket],
        incoming: dict[int, ssl.SSLSocket],
        patience: float,
        lane: int = 0,
    ) -> None:
        self.world, self.rank, self.lane = world, rank, lane
        self._patience = patience
        self._incoming = incoming
        self._due = dict.fromkeys(incoming, 0)
        for sock in incoming.values():
            sock.settimeout(patience)
        limit = HELPER_AHEAD if rank == 0 else None
        self._outgoing_to = {to: _Outbox(sock, self, to, patience / 5, limit) for to, sock in outgoing.items()}
        self._closed = False

    def send(self, to: int, array: Array, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        self._put(to, dtype_code(array.dtype), as_bytes(array), stamp)

    def tell(self, to: int, value: bool) -> None:
        self._put(to, CONTROL, memoryview(encode_control(Note(value))), Stamp())

    def _put(self, to: int, kind: int, body: memoryview[Any], stamp: Stamp) -> None:
        try:
            self._outgoing_to[to].put(kind, body, stamp)
        except OSError as error:
            self._raise_last_words(to)
            raise PeerLost(f"{self._name(to)} has closed its connection", self._name(to)) from error

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[Array, Stamp]:
        peer = self._name(sender)
        while True:
            header = self._header(sender)
            header.check(self._expected(sender, self._due[sender], dtype, shape), peer)
            self._due[sender] += 1
            if header.kind != CONTROL:
                array = np.empty(shape, dtype)
                self._fill(sender, as_bytes(array))
                return array, header.stamp
            raise_for_control(self._control(sender, header), peer, self.world)

    def hear(self, sender: int) -> bool:
        peer = self._name(sender)
        while True:
            header = self._header(sender)
            header.check(self._expected_control(sender, self._due[sender]), peer)
            self._due[sender] += 1
            message = self._control(sender, header)
            if isinstance(message, Note):
                return message.value
            raise_for_control(message, peer, self.world)

    def abort(self, culprit: int, reason: str) -> None:
        self._farewell(Abort(culprit, reason))

    def close(self) -> None:
        self._farewell(Goodbye())

    def _farewell(self, message: Control) -> None:
        if self._closed:
            return
        self._closed = True
        for outbox in self._outgoing_to.values():
            with contextlib.suppress(OSError):
                outbox.put(CONTROL, memoryview(encode_control(message)), Stamp())
        for outbox in self._outgoing_to.values():
            outbox.close(2.0 if isinstance(message, Abort) else self._patience)
        for sock in self._incoming.values():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads
            sock.close()

    def _header(self, sender: int) -> Header:
        raw = bytearray(HEADER_BYTES)
        self._fill(sender, memoryview(raw))
        return Header.unpack(raw, self._name(sender))

    def _control(self, sender: int, header: Header) -> Control:
        raw = bytearray(header.length)
        self._fill(sender, memoryview(raw))
        return decode_control(raw, self._name(sender))

    def _fill(self, sender: int, buffer: memoryview[Any]) -> None:
        sock, peer = self._incoming[sender], self._name(sender)
        at, size = 0, len(buffer)
        try:
            while at < size:
                count = sock.read(size - at, buffer[at:])  # recv_into with fewer layers: one call a TLS record
                if not count:
                    raise PeerLost(f"{peer} has closed its connection without a word", peer)
                at += cast(int, count)
        except TimeoutError as error:
            raise PeerLost(f"{peer} has been silent for {self._patience:g} seconds", peer) from error
        except (OSError, ValueError) as error:  # ValueError: this side has closed it
            raise PeerLost(f"the connection from {peer} broke ({type(error).__name__})", peer) from error

    def _raise_last_words(self, peer: int) -> None:
        """A peer that closed has said why, behind what it sent before: look for that."""
        message = self._last_words(peer)
        if message is not None:
            raise_for_control(message, self._name(peer), self.world)

    def _last_words(self, peer: int) -> Abort | None:
        deadline = time.monotonic() + 1.0
        scrap = memoryview(bytearray(CHUNK))
        with contextlib.suppress(PeerLost, FrameError, OSError):
            self._incoming[peer].settimeout(1.0)
            while time.monotonic() < deadline:
                header = self._header(peer)
                if header.kind == CONTROL and header.length <= CONTROL_LIMIT:
                    message = self._control(peer, header)
                    if isinstance(message, Abort):
                        return message
                else:
                    for at in range(0, header.length, CHUNK):
                        self._fill(peer, scrap[: min(CHUNK, header.length - at)])
        return None


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
    deadline = time.monotonic() + timeout
    accepting = _Accepting(world, rank, credentials, peers, listener, lanes)
    outgoing: dict[tuple[int, int], ssl.SSLSocket] = {}
    try:
        context = _context(False, credentials, [peers[r].certificate for r in world.peers(rank)])
        for other in world.peers(rank):
            for lane in range(lanes):
                outgoing[other, lane] = _dial(world, rank, other, lane, peers[other], context, deadline, accepting)
        incoming = accepting.wait(deadline)
    except BaseException:
        for sock in outgoing.values():
            sock.close()
        accepting.stop(close=True)
        raise
    accepting.stop(close=False)
    others = world.peers(rank)
    return [
        TlsChannel(
            world, rank, {j: outgoing[j, lane] for j in others}, {j: incoming[j, lane] for j in others}, patience, lane
        )
        for lane in range(lanes)
    ]


def _hello(world: World, lane: int, sender: int, receiver: int) -> bytes:
    """The first frame of a connection, and the receiver's answer: a header with nothing behind it."""
    return Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()).pack()


def _read_hello(sock: ssl.SSLSocket, world: World, lanes: range, sender: int, receiver: int) -> int:
    """Read a hello and return its lane, which must be one of those given."""
    peer = world.names[sender]
    raw = bytearray()
    while len(raw) < HEADER_BYTES:
        part = sock.recv(HEADER_BYTES - len(raw))
        if not part:
            raise AuthenticationError(
                f"{peer} refused the connection: it does not accept this party's certificate or session", peer
            )
        raw += part
    header = Header.unpack(raw, peer)
    lane = header.lane if header.lane in lanes else lanes.start
    header.check(Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()), peer)
    return lane


def _dial(
    world: World,
    rank: int,
    other: int,
    lane: int,
    peer: Peer,
    context: ssl.SSLContext,
    deadline: float,
    accepting: _Accepting,
) -> ssl.SSLSocket:
    """Connect to a peer, again and again until the deadline while it does not answer; a refusal is final."""
    name, pause = world.names[other], 0.01
    while True:
        if accepting.error:
            raise accepting.error
        try:
            left = max(deadline - time.monotonic(), 0.01)
            plain = socket.create_connection((peer.host, peer.port), timeout=min(HANDSHAKE, left))
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock = context.wrap_socket(plain)
            except BaseException:
                plain.close()
                raise
            sock.settimeout(HANDSHAKE)
            break
        except (ssl.SSLError, ValueError) as error:
            if not isinstance(error, ssl.SSLEOFError):
                raise AuthenticationError(
                    f"{name} does not show the certificate that was agreed ({error})", name
                ) from error
            problem: Exception = error
        except OSError as error:
            problem = error
        if time.monotonic() + pause > deadline:
            raise PeerUnreachable(f"{name} cannot be reached at {peer.host}:{peer.port} ({problem})", name) from problem
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
    try:
        if fingerprint(sock.getpeercert(binary_form=True) or b"") != fingerprint(peer.certificate):
            raise AuthenticationError(f"{name} shows a certificate that is not the pinned one", name)
        sock.sendall(_hello(world, lane, rank, other))
        _read_hello(sock, world, range(lane, lane + 1), other, rank)
    except TimeoutError as error:
        sock.close()
        raise PeerUnreachable(f"{name} does not answer", name) from error
    except OSError as error:
        sock.close()
        raise AuthenticationError(f"{name} refused this party's certificate ({error})", name) from error
    except CoterieError:
        sock.close()
        raise
    return sock


class _Accepting:
    """Takes the peers' connections in the background; a stranger is refused and changes nothing."""

    def __init__(
        self,
        world: World,
        rank: int,
        credentials: Credentials,
        peers: Sequence[Peer],
        listener: Listener,
        lanes: int,
    ) -> None:
        self.world, self.rank, self.listener, self.lanes = world, rank, listener, range(lanes)
        self.by_fingerprint = {fingerprint(peers[r].certificate): r for r in world.peers(rank)}
        self.context = _context(True, credentials, [peers[r].certificate for r in world.peers(rank)])
        self.accepted: dict[tuple[int, int], ssl.SSLSocket] = {}
        self.error: TransportError | None = None
        self.changed = threading.Condition()
        self.stopped = False
        self._wake_read, self._wake_write = os.pipe()
        self.greeters: dict[threading.Thread, socket.socket] = {}
        self.thread = threading.Thread(target=self._run, name="coterie-accept", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self.listener.socket.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = poller.poll()
            if self.stopped or (self._wake_read, select.POLLIN) in ready:
                return
            try:
                plain, _ = self.listener.socket.accept()
            except OSError:
                continue
            with self.changed:
                crowd = list(self.greeters)[: max(len(self.greeters) - 63, 0)]
            self._dismiss(crowd)  # who has taken longest makes room
            greeter = threading.Thread(target=self._greet, args=(plain,), name="coterie-greet", daemon=True)
            with self.changed:
                self.greeters[greeter] = plain.dup()
            greeter.start()

    def _dismiss(self, greeters: list[threading.Thread]) -> None:
        """End greeters whose guest is not let in yet."""
        for greeter in greeters:
            with self.changed:
                if greeter in self.greeters:
                    with contextlib.suppress(OSError):
                        self.greeters[greeter].shutdown(socket.SHUT_RDWR)
            greeter.join()

    def _greet(self, plain: socket.socket) -> None:
        try:
            self._let_in(plain)
        finally:
            self._forget()

    def _forget(self) -> None:
        with self.changed:
            handle = self.greeters.pop(threading.current_thread(), None)
            if handle is not None:
                handle.close()

    def _let_in(self, plain: socket.socket) -> None:
        plain.settimeout(HANDSHAKE)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = self.context.wrap_socket(plain, server_side=True)
        except (OSError, ValueError):
            plain.close()
            return
        sender = self.by_fingerprint.get(fingerprint(sock.getpeercert(binary_form=True) or b""))
        try:
            if sender is None:
                raise AuthenticationError("a stranger connected")
            lane = _read_hello(sock, self.world, self.lanes, sender, self.rank)
            with self.changed:
                if self.stopped or (sender, lane) in self.accepted:
                    raise AuthenticationError(f"{self.world.names[sender]} connected twice")
                sock.sendall(_hello(self.world, lane, self.rank, sender))
                self.accepted[sender, lane] = sock
                self._forget()
                self.changed.notify_all()
        except FrameError as error:
            with self.changed:  # an authenticated peer of another session or version: worth a word here too
                self.error = error
                self.changed.notify_all()
            sock.close()
        except (OSError, CoterieError):
            sock.close()

    def wait(self, deadline: float) -> dict[tuple[int, int], ssl.SSLSocket]:
        wanted = [(other, lane) for other in self.world.peers(self.rank) for lane in self.lanes]
        with self.changed:
            self.changed.wait_for(
                lambda: self.error or len(self.accepted) == len(wanted), max(deadline - time.monotonic(), 0)
            )
            if self.error:
                raise self.error
            missing = list(dict.fromkeys(self.world.names[one[0]] for one in wanted if one not in self.accepted))
        if missing:
            raise PeerUnreachable(f"{', '.join(missing)} did not connect in time", missing[0])
        return self.accepted

    def stop(self, close: bool) -> None:
        with self.changed:
            self.stopped = True
        os.write(self._wake_write, b"x")
        self.thread.join()
        with self.changed:
            waiting = list(self.greeters)
        self._dismiss(waiting)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.listener.close()
        if close:
            for sock in self.accepted.values():
                sock.close()
