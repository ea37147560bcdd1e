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
from collections.abc import Callable
from typing import Protocol

from coterie.errors import CoterieError
from coterie.serving.client_hello import MOST, NotTls, wait_for_name
from coterie.study.greetings import card_of
from coterie.study.prepare import Known
from coterie.transport.certificates import fingerprint
from coterie.transport.channel import CONTROL_LIMIT, Refusal, letter
from coterie.transport.door import FAREWELL, Comers
from coterie.transport.hello import DECLINE, ELSEWHERE, HANDSHAKE, PROBE, begin_tls, check_hello, hello, read_hello, say

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


class Reception:
    """Answers whoever connects. `find`: the study and the purpose that a name stands for; `count`: hears, in two or
    three words, of everybody who was refused."""

    def __init__(
        self,
        listener: Comers,
        find: Callable[[str], tuple[Place, str] | None],
        count: Callable[[str], None],
        patience: float = HANDSHAKE,
    ) -> None:
        self.listener, self.find, self.count, self.patience = listener, find, count, patience
        self.lock = threading.Lock()
        self.guests: dict[threading.Thread, tuple[socket.socket, str]] = {}
        self.stopped = False
        self._wake_read, self._wake_write = os.pipe()
        self.thread = threading.Thread(target=self._accept, name="coterie-reception", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stopped = True
        os.write(self._wake_write, b"x")
        self.thread.join()
        with self.lock:
            hosts = list(self.guests)
        for host in hosts:
            self._dismiss(host)
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.listener.close()

    # -- who comes ---------------------------------------------------------------------------------------

    def _accept(self) -> None:
        poller = select.poll()
        poller.register(self.listener.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = poller.poll()
            if (self._wake_read, select.POLLIN) in ready:
                return
            try:
                self._make_room()
                self._attend(self.listener.accept())
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
            ranks = {one.fingerprint: world.names.index(one.name) for one in known.others}
            sender = ranks.get(fingerprint(sock.getpeercert(binary_form=True) or b""))
            if sender is None:
                self.count("strangers")
                return
            try:
                header = read_hello(sock, world.names[sender])
                if header.session != world.session:
                    say(sock, world, known.rank, sender, Refusal(True, ELSEWHERE))
                    return
                check_hello(header, world, header.lane, sender, known.rank)
            except CoterieError:
                self.count("not understood")
                return
            if header.lane in (PROBE, DECLINE):  # nobody waits here for one who will not come
                sock.sendall(hello(world, header.lane, known.rank, sender))
                if header.lane == PROBE:
                    say(sock, world, known.rank, sender, letter(card_of(known.study)))
                return
            reason = place.arrive(purpose, world.names[sender]) if header.lane == 0 else "no run is under way"
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
