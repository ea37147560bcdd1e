"""The answering side of a meeting: who connects is let in, answered or turned away.

Strangers are turned away and change nothing, and so are peers that come for another study.
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
from collections.abc import Callable, Mapping
from typing import Protocol

from coterie.errors import AuthenticationError, CoterieError, FrameError, PeerLost, WrongSession
from coterie.events import tell
from coterie.transport.certificates import fingerprint
from coterie.transport.channel import CONTROL, CONTROL_LIMIT, Header, Letter, Refusal, decode_control, letter
from coterie.transport.hello import (
    DECLINE,
    ELSEWHERE,
    HANDSHAKE,
    PROBE,
    Peer,
    begin_tls,
    check_hello,
    hello,
    read_exactly,
    read_hello,
    recognise_peer,
    say,
)
from coterie.transport.register import Register
from coterie.transport.wording import say_kind, say_why

__all__ = ["Comers", "Door", "Listener", "read_proof"]

log = logging.getLogger(__name__)

#: The most strangers that may be attended to at a time; seconds for a refused one to hear of it.
CROWD, FAREWELL = 64, 0.5


class Comers(Protocol):
    """Where those who connect come from: a port (`Listener`), a relay (`RelayedListener`), or another process
    (`HandedListener`). `trouble`: why nobody can come at the moment, in words, if that is so; `error`: why nobody ever
    will."""

    trouble: str
    error: CoterieError | None

    def fileno(self) -> int:
        """What to look at for somebody who comes."""

    def accept(self) -> socket.socket:
        """Who has connected. This does not wait: if nobody is there, or no longer, it is an OSError."""

    def close(self) -> None:
        """Nobody is taken any more."""


class Listener:
    """A listening socket, on a port that the operating system chooses unless told."""

    trouble: str = ""
    error: CoterieError | None = None

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, port), family=family, backlog=CROWD)
        self.socket.setblocking(False)  # whoever was announced may be gone before it is accepted
        self.host, self.port = self.socket.getsockname()[:2]

    def fileno(self) -> int:
        return self.socket.fileno()

    def accept(self) -> socket.socket:
        return self.socket.accept()[0]

    def close(self) -> None:
        self.socket.close()


class Door:
    """Answers whoever connects, from the start until it is closed, and puts peers into the register.

    A *guest* is somebody who has connected and is not let in yet; each has a thread, and the socket's handle is kept so
    that it can be sent away.
    """

    def __init__(
        self,
        register: Register,
        listener: Comers,
        context: ssl.SSLContext,
        peers: Mapping[int, Peer],
        lanes: int,
        card: Callable[[], bytes],
        told: Callable[[int, bytes], Exception | None],
    ) -> None:
        """`peers`: by rank; `lanes`: the most that a peer may open, 0 if questions are answered
        and no more; `card`: what to tell those who only ask; `told`: hears the proof of who declines, and says what to
        make of it."""
        self.register, self.world, self.rank = register, register.world, register.rank
        self.listener, self.context = listener, context
        self.known = {fingerprint(peer.certificate): peer for peer in peers.values()}
        self.ranks = {fingerprint(peer.certificate): rank for rank, peer in peers.items()}
        self.lanes, self.card, self.told = lanes, card, told
        self.guests: dict[threading.Thread, socket.socket] = {}
        self._wake_read, self._wake_write = os.pipe()
        self.thread = threading.Thread(target=self._accept, name="coterie-accept", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Answer nobody any more. The register has been stopped."""
        os.write(self._wake_write, b"x")
        self.thread.join()
        with self.register.changed:
            waiting = list(self.guests)
        self._dismiss(waiting)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.listener.close()

    # -- guests ------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        poller = select.poll()
        poller.register(self.listener.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = poller.poll()
            if self.register.stopped or (self._wake_read, select.POLLIN) in ready:
                return
            with self.register.changed:
                crowd = list(self.guests)
            if len(crowd) >= CROWD:
                self._dismiss([random.choice(crowd)])  # by chance, so that a flood cannot push all others out
            try:
                self._attend(self.listener.accept())
            except (OSError, RuntimeError):  # the guest is gone, or there are no more sockets or threads for now
                time.sleep(0.05)

    def _attend(self, plain: socket.socket) -> None:
        """Give a guest a thread, until it is let in or sent away."""
        host = threading.Thread(target=self._receive, args=(plain,), name="coterie-greet", daemon=True)
        try:
            with self.register.changed:
                self.guests[host] = plain.dup()
            host.start()
        except (OSError, RuntimeError):
            plain.close()
            with self.register.changed:
                handle = self.guests.pop(host, None)
            if handle is not None:
                handle.close()
            raise

    def _dismiss(self, hosts: list[threading.Thread]) -> None:
        """Send away guests who are not let in yet."""
        for host in hosts:
            with self.register.changed:
                if host in self.guests:
                    with contextlib.suppress(OSError):
                        self.guests[host].shutdown(socket.SHUT_RDWR)
            host.join()

    def _receive(self, plain: socket.socket) -> None:
        try:
            self._let_in(plain, _find_address(plain))
        finally:
            self._forget()

    def _see_off(self) -> None:
        """Give a guest that is refused a moment to read why: were its connection closed at once, with something that it
        has sent unread, it would find it broken instead."""
        with self.register.changed:
            handle = self.guests[threading.current_thread()]
        end = time.monotonic() + FAREWELL
        with contextlib.suppress(OSError):
            handle.shutdown(socket.SHUT_WR)
            handle.settimeout(FAREWELL)
            while handle.recv(CONTROL_LIMIT) and time.monotonic() < end:
                pass

    def _forget(self) -> None:
        with self.register.changed:
            handle = self.guests.pop(threading.current_thread(), None)
            if handle is not None:
                handle.close()

    def _let_in(self, plain: socket.socket, where: str) -> None:
        plain.settimeout(HANDSHAKE)
        try:
            sock = begin_tls(self.context, plain, server=True)
        except (OSError, ValueError) as error:
            known = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)
            why = f"the TLS handshake failed: {say_why(error)}"
            self._note_refused(where, why, level=logging.WARNING if known else logging.INFO)
            self._see_off()
            return
        sender = None
        try:
            sender = self.ranks.get(recognise_peer(sock, self.known) or "")
            if sender is None:
                self._note_refused(where, "its certificate is not one of the study's")
                raise AuthenticationError("a stranger connected")
            self._answer(sock, sender, where)
        except FrameError as error:  # a peer that cannot be understood: this ends the meeting
            with contextlib.suppress(OSError):
                say(sock, self.world, self.rank, sender or 0, Refusal(False, str(error)))
            sock.close()
            self._note_refused(where, f"it cannot be understood: {say_kind(type(error).__name__)}", sender)
            with self.register.changed:
                if (sender, 0) not in self.register.taken:  # unless that peer is connected already
                    self.register.end(error)
        except AuthenticationError:
            sock.close()
            self._see_off()
        except (EOFError, OSError, ValueError, CoterieError):  # gone before TLS began, or since
            sock.close()

    def _note_refused(self, where: str, why: str, sender: int | None = None, level: int = logging.WARNING) -> None:
        """Operators want to know who was turned away."""
        peer = "a stranger" if sender is None else self.world.names[sender]
        fields = {} if sender is None else {"peer": peer}
        tell(log, level, "refused", f"{peer} at {where} was refused: {why}", address=where, why=why, **fields)

    # -- peers -------------------------------------------------------------------------------------------

    def _answer(self, sock: ssl.SSLSocket, sender: int, where: str) -> None:
        """Read what an authenticated peer says first, and answer it."""
        header = read_hello(sock, self.world.names[sender])
        here = header.session == self.world.session
        if here:
            check_hello(header, self.world, header.lane, sender, self.rank)
        if header.lane == PROBE:
            self._show_card(sock, sender, here)
        elif not here:
            say(sock, self.world, self.rank, sender, Refusal(True, ELSEWHERE))
            sock.close()
            self._note_refused(where, "it comes for another study", sender, logging.INFO)
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
            with self.register.changed:
                self.register.asked.add(sender)
                self.register.changed.notify_all()

    def _hear_no(self, sock: ssl.SSLSocket, sender: int) -> None:
        """A peer will not take part: nobody need wait for it. If it is connected already, the run goes on."""
        sock.sendall(hello(self.world, DECLINE, self.rank, sender))
        name = self.world.names[sender]
        proof = read_proof(sock, name)
        sock.close()
        why = self.told(sender, proof) if proof else None
        with self.register.changed:
            if self.lanes and (sender, 0) not in self.register.taken:
                said = "its own data or policy does not allow this run"
                self.register.end(why or PeerLost.stopped(f"{name} declined: {said}; ask there", name))

    def _take(self, sock: ssl.SSLSocket, sender: int, header: Header) -> None:
        """A peer opens a lane."""
        one, register = (sender, header.lane), self.register
        if header.lane >= self.lanes > 0:
            raise WrongSession(f"{self.world.names[sender]} opens lane {header.lane}", self.world.names[sender])
        with register.changed:
            if register.stopped or register.error is not None or one in register.taken or not self.lanes:
                busy = "it is in the middle of a run" if self.lanes else "it only checks who is there"
                say(sock, self.world, self.rank, sender, Refusal(True, busy))
                sock.close()
                return
            sock.sendall(hello(self.world, header.lane, self.rank, sender))
            register.taken.add(one)  # after the answer: if this fails, the peer may come again
            register.accepted[one] = sock
            log.debug("%s has let in %s, lane %d", self.world.names[self.rank], self.world.names[sender], header.lane)
            self._forget()
            register.changed.notify_all()


def read_proof(sock: ssl.SSLSocket, name: str) -> bytes:
    """The letter that may follow a no."""
    try:
        header = read_hello(sock, name)
        if header.kind != CONTROL or not 0 < header.length <= CONTROL_LIMIT:
            return b""
        message = decode_control(read_exactly(sock, header.length, name), name)
    except (EOFError, OSError):
        return b""
    return message.body if isinstance(message, Letter) else b""


def _find_address(plain: socket.socket) -> str:
    """Where a guest comes from, as people write it."""
    try:
        host, port = plain.getpeername()[:2]
    except (OSError, ValueError):  # it is gone already, or came by no network
        return "nowhere"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
