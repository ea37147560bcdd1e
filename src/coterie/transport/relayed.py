"""Dialling by way of a relay, of an HTTP proxy, or of both.

A connection to a relay begins with TLS 1.3 in which the relay shows the certificate that the study pins, and the
participant its own. When the relay has joined two participants, that TLS is ended on both sides (`unwrap`), and their
own TLS begins on the same connections, with the certificates that the study pins for them. The relay has no part in it
and none of its keys. What passes is encrypted once, not twice.
"""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from coterie.errors import AuthenticationError, FrameError
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.hello import NotYet, Peer, begin_tls, context
from coterie.transport.proxies import Proxy, tunnel
from coterie.transport.relay_messages import (
    LENGTH_BYTES,
    NOBODY,
    Ask,
    Bring,
    Dial,
    Joined,
    Message,
    Recorded,
    Refused,
    RelaySays,
    label_of,
    pack,
    read_length,
    unpack,
)
from coterie.transport.wording import say_why

__all__ = ["REASONS", "UNKNOWN", "ByRelay", "RelayAt", "ThroughProxy", "ask_relay", "bring_study", "read_message"]

#: Of the time that an answer may take here: how long the relay may wait for the one who is dialled, and then for its
#: answer.
SHARE = 1 / 3
UNKNOWN = (
    "it does not know the study, or not this participant; its operator registers studies (coterie relay --study), or "
    "lets participants bring theirs (--open)"
)
#: What a relay's refusals mean; a relay's own words are never shown.
REASONS = {
    "unknown": UNKNOWN,
    "absent": "not connected to it",
    "elsewhere": "it is not by way of this relay that this participant is reached",
    "taken": "another process with the same key is connected to it for this study",
    "busy": "it has too many connections for now",
    "closed": "it does not know the study; its operator registers studies (coterie relay --study)",
    "invalid": "it does not take the study for one that all participants have signed",
    "other": "the study names another relay",
    "full": "too many studies were brought to it",
}


@dataclass(frozen=True)
class ThroughProxy:
    """Peers that are dialled through an HTTP proxy."""

    proxy: Proxy

    def connect(self, peer: Peer, name: str, patience: float, left: float) -> socket.socket:
        return tunnel(self.proxy, peer.host, peer.port, name, min(patience, left))

    def __str__(self) -> str:
        return f"through the proxy {self.proxy}"


@dataclass(frozen=True)
class RelayAt:
    """Where a relay is, the certificate that it must show, and the proxy that leads there, if one does."""

    host: str
    port: int
    certificate: str = field(repr=False)
    proxy: Proxy | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"the relay {host}:{self.port}"

    def connect(self, credentials: Credentials | None, patience: float, left: float, name: str = "") -> ssl.SSLSocket:
        """TLS with the relay, as a participant or as nobody. `name`: of the peer on whose account it is, for errors."""
        own = _anonymous(self.certificate) if credentials is None else context(False, credentials, [self.certificate])
        known, asked = fingerprint(self.certificate), NOBODY
        if credentials is not None:
            asked = label_of(known, credentials.known_as)
        try:
            if self.proxy is not None:
                plain = tunnel(self.proxy, self.host, self.port, name or str(self), min(patience, left))
            else:
                plain = socket.create_connection((self.host, self.port), timeout=min(patience, left))
        except (OSError, UnicodeError) as error:
            raise NotYet(f"{self} cannot be reached: {say_why(error)}") from error
        plain.settimeout(patience)
        try:
            sock = begin_tls(own, plain, asked=asked)
        except (ssl.SSLEOFError, ConnectionError) as error:
            raise NotYet(f"{self} hung up") from error
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", None) == "TLSV1_UNRECOGNIZED_NAME":
                raise Turned(self, "unknown") from error
            raise AuthenticationError(
                f"{self} does not show the certificate that was agreed: {say_why(error)}", name
            ) from error
        except OSError as error:
            raise NotYet(f"{self} does not answer", mute=isinstance(error, TimeoutError)) from error
        if fingerprint(sock.getpeercert(binary_form=True) or b"") != known:
            sock.close()
            raise AuthenticationError(f"{self} shows a certificate that is not the pinned one", name)
        return sock

    @contextlib.contextmanager
    def understood(self, name: str = "") -> Iterator[None]:
        """What goes wrong while one talks to the relay, as errors that name it."""
        try:
            yield
        except TimeoutError as error:
            raise NotYet(f"{self} does not answer", mute=True) from error
        except (EOFError, ssl.SSLEOFError, ConnectionError) as error:
            raise NotYet(f"{self} hung up") from error
        except ssl.SSLError as error:  # an alert: it does not like this certificate
            raise Turned(self, "unknown") from error
        except OSError as error:
            raise NotYet(f"{self}: {say_why(error)}") from error
        except ValueError as error:
            raise FrameError(f"{self} sent something that makes no sense", name) from error

    def leave_tls(self, sock: ssl.SSLSocket, patience: float) -> socket.socket:
        """The plain connection, once the relay has said its last word."""
        sock.unwrap()
        plain = socket.socket(fileno=sock.detach())
        plain.settimeout(patience)
        return plain


class Turned(NotYet):
    """A relay refuses, for now; `why` as in `Refused`."""

    def __init__(self, relay: RelayAt, why: str) -> None:
        super().__init__(f"{relay}: {REASONS[why]}")
        self.why = why


@dataclass(frozen=True)
class ByRelay:
    """Peers that are dialled by way of a relay: as whom, and in which study."""

    relay: RelayAt
    credentials: Credentials
    study: str

    def connect(self, peer: Peer, name: str, patience: float, left: float) -> socket.socket:
        sock = self.relay.connect(self.credentials, patience, left, name)
        try:
            with self.relay.understood(name):
                dial = Dial(self.study, peer.known_as, min(SHARE * patience, 60.0))
                _hear_joined(self.relay, exchange(sock, dial))
                return self.relay.leave_tls(sock, patience)
        except BaseException:
            sock.close()
            raise

    def __str__(self) -> str:
        through = f", through the proxy {self.relay.proxy}" if self.relay.proxy else ""
        return f"by way of {self.relay}{through}"


def _hear_joined(relay: RelayAt, message: object) -> None:
    if isinstance(message, Refused):
        raise Turned(relay, message.why)
    if not isinstance(message, Joined):
        raise ValueError("not what was due")


def exchange(sock: ssl.SSLSocket, message: Message) -> RelaySays:
    """Say something to a relay and hear its answer."""
    sock.sendall(pack(message))
    return read_message(sock)


def read_message(sock: ssl.SSLSocket) -> RelaySays:
    """What the relay says next. All of it, not each byte, has to come within about the socket's time-out."""
    end = time.monotonic() + (sock.gettimeout() or math.inf)
    length = read_length(_read(sock, LENGTH_BYTES, end))
    found: RelaySays = unpack(_read(sock, length, end), RelaySays)  # type: ignore[arg-type]
    return found


def _read(sock: ssl.SSLSocket, count: int, end: float) -> bytes:
    raw = bytearray()
    while len(raw) < count:
        if time.monotonic() > end:
            raise TimeoutError("the relay is too slow")
        part = sock.recv(count - len(raw))
        if not part:
            raise EOFError("the relay hung up")
        raw += part
    return bytes(raw)


def ask_relay(relay: RelayAt, credentials: Credentials, study: str, patience: float) -> bool:
    """Does a relay know this study, and this participant as one of it?"""
    try:
        sock = relay.connect(credentials, patience, patience)
        with sock, relay.understood():
            message = exchange(sock, Ask((study,)))
            if not isinstance(message, Recorded):
                raise ValueError("not what was due")
            return study in message.studies
    except Turned:
        return False


def bring_study(relay: RelayAt, brought: Bring, patience: float) -> None:
    """Have a relay register a study that everybody has signed; raises `Turned` if it does not."""
    sock = relay.connect(None, patience, patience)
    with sock, relay.understood():
        message = exchange(sock, brought)
        if isinstance(message, Refused):
            raise Turned(relay, message.why)
        if not isinstance(message, Recorded):
            raise ValueError("not what was due")


def _anonymous(certificate: str) -> ssl.SSLContext:
    """TLS in which only the other side shows a certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # it is pinned
    made.load_verify_locations(cadata=certificate)
    return made
