"""The front door: who connects is brought to the process of the study that it asks for, or told why not.

1. The name that a connection asks for is read without taking anything (`client_hello`). It says study and purpose.
2. If the study's process takes connections, this one is handed over as it is: TLS begins there.
3. If not, the TLS handshake takes place here, so that only participants of the study get on. Whoever asks who is there
   gets an answer; whoever comes to take part is told to come again, and the study is started if it may be.
4. Whoever asks for a study that is not served is told so by a TLS alert; whoever says nothing in time is cut off.

Each connection has a thread while it is here, and there are at most `CROWD`. If there are more, one of those that ask
for the same study as most do is cut off, by chance: a flood for one study does not push out another's participants.
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
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from coterie.errors import CoterieError
from coterie.serving.client_hello import MOST, NotTls, wait_for_name
from coterie.study.prepare import Known
from coterie.transport.certificates import fingerprint
from coterie.transport.channel import CONTROL_LIMIT, Refusal, letter
from coterie.transport.door import FAREWELL, Comers, read_proof
from coterie.transport.hello import (
    DECLINE,
    ELSEWHERE,
    HANDSHAKE,
    PROBE,
    begin_tls,
    check_hello,
    hello,
    read_hello,
    recognise_peer,
    say,
)

__all__ = ["CROWD", "Place", "Reception"]

log = logging.getLogger(__name__)

CROWD = 128
#: What TLS says to a client that asks for a name that is not served here (RFC 6066, 3): fatal, unrecognized_name.
UNRECOGNISED = bytes.fromhex("15 03 03 00 02 02 70")


class Place(Protocol):
    """A study that is served, as the front door sees it."""

    known: Known
    context: ssl.SSLContext

    def hand(self, plain: socket.socket) -> bool | None:
        """Hand a connection to the study's process: False if that failed, None if there is no process to take it; only
        then the connection is still open here."""

    def arrive(self, purpose: str, who: str) -> str:
        """A participant has come; what it is told, while it is not let in."""

    def card(self) -> bytes:
        """What whoever asks is told."""

    def meet(self, who: str) -> None:
        """A participant is up, and has asked who is here."""

    def hear_no(self, who: str, proof: bytes) -> None:
        """A participant will not take part; `proof`: why, if it says so."""


class Reception:
    """Answers whoever connects, at any of its listeners. `find`: the study and the purpose that a name stands for;
    `count`: hears, in two or three words, of everybody who was refused."""

    def __init__(
        self,
        find: Callable[[str], tuple[Place, str] | None],
        count: Callable[[str], None],
        patience: float = HANDSHAKE,
    ) -> None:
        self.find, self.count, self.patience = find, count, patience
        self.lock = threading.Lock()
        self.listeners: dict[int, Comers] = {}  # by handle
        self.guests: dict[threading.Thread, tuple[socket.socket, str]] = {}
        self.stopped = False
        self._wake_read, self._wake_write = os.pipe()
        self.thread = threading.Thread(target=self._accept, name="coterie-reception", daemon=True)
        self.thread.start()

    def listen_at(self, listeners: Iterable[Comers]) -> None:
        """From now on those are taken who come here, and nobody else: the caller closes what it leaves out."""
        with self.lock:
            self.listeners = {one.fileno(): one for one in listeners}
        os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Take nobody any more, and send away who is here. Listeners are the caller's to close."""
        if self.stopped:
            return
        self.stopped = True
        os.write(self._wake_write, b"x")
        self.thread.join()
        with self.lock:
            hosts = list(self.guests)
        for host in hosts:
            self._dismiss(host)
        os.close(self._wake_read)
        os.close(self._wake_write)

    # -- who comes ---------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self.stopped:
            poller = select.poll()
            poller.register(self._wake_read, select.POLLIN)
            with self.lock:
                listeners = dict(self.listeners)
            for handle in listeners:
                poller.register(handle, select.POLLIN)
            self._accept_from(poller, listeners)

    def _accept_from(self, poller: select.poll, listeners: dict[int, Comers]) -> None:
        """Take who comes, until the listeners are others."""
        while True:
            for handle, _ in poller.poll():
                if handle == self._wake_read:
                    os.read(self._wake_read, 64)
                    return
                try:
                    self._make_room()
                    with self.lock:  # so that no listener is closed meanwhile
                        if self.listeners.get(handle) is not listeners[handle]:
                            return
                        plain = listeners[handle].accept()
                    self._attend(plain)
                except (OSError, RuntimeError):  # it is gone, or there are no more sockets or threads for now
                    time.sleep(0.05)

    def _attend(self, plain: socket.socket) -> None:
        host = threading.Thread(target=self._receive, args=(plain,), name="coterie-guest", daemon=True)
        try:
            with self.lock:
                self.guests[host] = plain.dup(), ""
            host.start()
        except (OSError, RuntimeError):
            plain.close()
            self._forget(host)
            raise

    def _make_room(self) -> None:
        with self.lock:
            if len(self.guests) < CROWD:
                return
            most, _ = Counter(name for _, name in self.guests.values()).most_common(1)[0]
            host = random.choice([host for host, (_, name) in self.guests.items() if name == most])
        self.count("crowded out")
        self._dismiss(host)

    def _dismiss(self, host: threading.Thread) -> None:
        with self.lock:
            handle, _ = self.guests.get(host, (None, ""))
            if handle is not None:
                with contextlib.suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
        host.join()

    def _forget(self, host: threading.Thread | None = None) -> None:
        with self.lock:
            handle, _ = self.guests.pop(host or threading.current_thread(), (None, ""))
        if handle is not None:
            handle.close()

    # -- what becomes of it ------------------------------------------------------------------------------

    def _receive(self, plain: socket.socket) -> None:
        try:
            plain.settimeout(self.patience)
            name = wait_for_name(plain, self.patience)
            found = self.find(name)
            if found is None:
                self.count("not served here")
                _turn_away(plain)
                return
            with self.lock:
                self.guests[threading.current_thread()] = self.guests[threading.current_thread()][0], name
            self._bring(plain, *found)
        except NotTls:
            self.count("not TLS, or no name")
        except TimeoutError:
            self.count("silent")
        except (OSError, EOFError, ValueError):
            self.count("gone")
        finally:
            plain.close()
            self._forget()

    def _bring(self, plain: socket.socket, place: Place, purpose: str) -> None:
        with self.lock:  # from here on it is not crowded out: it is another process's
            handle, name = self.guests.pop(threading.current_thread())
        try:
            handed = place.hand(plain)
        finally:
            if plain.fileno() == -1:
                handle.close()
        if handed is None:
            with self.lock:
                self.guests[threading.current_thread()] = handle, name
            self._answer(plain, place, purpose)
        elif not handed:
            handle.close()
            self.count("not taken by the study's process")

    def _answer(self, plain: socket.socket, place: Place, purpose: str) -> None:
        """TLS here: for participants alone, and only to tell them something."""
        try:
            sock = begin_tls(place.context, plain, server=True)
        except TimeoutError:
            raise
        except (OSError, ValueError):
            self.count("strangers")
            self._see_off()
            return
        known, world = place.known, place.known.world
        with sock:
            peers = known.peers
            ranks = {fingerprint(peers[rank].certificate): rank for rank in world.peers(known.rank)}
            sender = ranks.get(recognise_peer(sock, {shown: peers[rank] for shown, rank in ranks.items()}) or "")
            if sender is None:
                self.count("strangers")
                return
            try:
                self._converse(sock, place, purpose, sender)
            except CoterieError:
                self.count("not understood")

    def _converse(self, sock: ssl.SSLSocket, place: Place, purpose: str, sender: int) -> None:
        """Hear what a participant comes for, and tell it what there is to tell."""
        known, world = place.known, place.known.world
        name = world.names[sender]
        header = read_hello(sock, name)
        if header.session != world.session:
            say(sock, world, known.rank, sender, Refusal(True, ELSEWHERE))
            return
        check_hello(header, world, header.lane, sender, known.rank)
        if header.lane == PROBE:
            sock.sendall(hello(world, PROBE, known.rank, sender))
            say(sock, world, known.rank, sender, letter(place.card()))
            place.meet(name)
        elif header.lane == DECLINE:
            sock.sendall(hello(world, DECLINE, known.rank, sender))
            place.hear_no(name, read_proof(sock, name))
        else:
            reason = place.arrive(purpose, name) if header.lane == 0 else "no run is under way"
            say(sock, world, known.rank, sender, Refusal(True, reason))
            self._see_off()

    def _see_off(self) -> None:
        """Give who is refused a moment to read why."""
        with self.lock:
            handle, _ = self.guests[threading.current_thread()]
        end = time.monotonic() + FAREWELL
        with contextlib.suppress(OSError):
            handle.shutdown(socket.SHUT_WR)
            handle.settimeout(FAREWELL)
            while handle.recv(CONTROL_LIMIT) and time.monotonic() < end:
                pass


def _turn_away(plain: socket.socket) -> None:
    """Take what was sent, so that closing is no reset that overtakes the alert."""
    with contextlib.suppress(OSError):
        plain.recv(MOST)
        plain.sendall(UNRECOGNISED)
        plain.shutdown(socket.SHUT_WR)
