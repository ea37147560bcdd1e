"""How one connection begins: TCP, then TLS 1.3 with pinned certificates, then a hello and the answer to it.

A hello is a header with nothing behind it, which names the session and the lane. The answer is the same back, or a
refusal: for now, so that the one who dials may come again, or for good.

The TLS handshake begins with a name, in the clear, that says which study the connection is for (`server_name`): one
who serves several studies at one address must know before it answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from coterie.errors import AuthenticationError, PeerUnreachable, WrongSession, WrongType
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    HEADER_BYTES,
    Header,
    Letter,
    Refusal,
    Stamp,
    World,
    decode_control,
    encode_control,
)
from coterie.transport.wording import say_why

__all__ = [
    "DECLINE",
    "ELSEWHERE",
    "FULL",
    "HANDSHAKE",
    "PROBE",
    "UNSERVED",
    "NotYet",
    "Peer",
    "Way",
    "begin_tls",
    "check_hello",
    "context",
    "dial",
    "greet",
    "hello",
    "read_exactly",
    "read_hello",
    "recognise_peer",
    "say",
    "server_name",
    "shown_chain",
]

#: The lanes of those who only ask who is there, and of those who say that they will not come.
PROBE, DECLINE = 0xFFFF, 0xFFFE
#: The most that a handshake may take, in seconds.
HANDSHAKE = 10.0
#: Why a hello of another session is refused.
ELSEWHERE = "it takes part in another study"
#: Why one who serves several studies refuses for now.
FULL = "it is busy with as many other studies as it may serve at once"
UNSERVED = "it does not serve this study; has its operator signed it?"


class Way(Protocol):
    """A way to a peer that is not simply dialled: a proxy, a relay."""

    def connect(self, peer: Peer, name: str, patience: float, left: float) -> socket.socket:
        """A connection on which TLS with the peer can begin, within `left` seconds for TCP and `patience` for each step
        after it. OSError or `NotYet`: not now."""


@dataclass(frozen=True)
class Peer:
    """Where a party listens and the certificate it must show; by way of a relay, host and port are the relay's.
    `pinned`: the fingerprint under which a relay knows it, if that is another certificate's; `renewed`: is told the
    links, the newest first, if it shows a newer certificate that this one vouches for, and says whether that is taken;
    None: it never is."""

    host: str
    port: int
    certificate: str
    way: Way | None = None
    pinned: str = ""
    renewed: Callable[[list[str]], bool] | None = None

    @property
    def known_as(self) -> str:
        return self.pinned or fingerprint(self.certificate)

    def __str__(self) -> str:
        """How it is dialled, for messages."""
        return f"at {self.host}:{self.port}" if self.way is None else str(self.way)


class NotYet(Exception):
    """A peer cannot be talked to now, and may be later. `mute`: its port takes connections, and nobody answers."""

    def __init__(self, problem: str, mute: bool = False) -> None:
        super().__init__(problem)
        self.mute = mute


def context(server: bool, credentials: Credentials, trusted: Sequence[str]) -> ssl.SSLContext:
    """TLS 1.3 and nothing older; both sides show a certificate, and it is one of those trusted."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # who it is, is decided by the pinned fingerprint
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a link may be trusted by itself
    made.load_verify_locations(cadata="\n".join(trusted))
    if server:
        made.num_tickets = 0  # the sender never reads, and an unread ticket would turn a close into a reset
    once = secrets.token_bytes(32).hex().encode()
    key = load_pem_private_key(credentials.key.encode(), None)
    hidden = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(once))
    with _private_file() as (file, name):
        file.write(hidden + "".join((credentials.certificate, *credentials.older)).encode())
        file.flush()
        made.load_cert_chain(name, password=once)
    return made


@contextlib.contextmanager
def _private_file() -> Iterator[tuple[IO[bytes], str]]:
    """OpenSSL takes a key from a file only: one in memory where there is such a thing, else one of mode 0600. What is
    written there is protected by a password that is used this once."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("key"), "wb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("wb", suffix=".pem") as kept:
            yield kept, kept.name


class _Socket(ssl.SSLSocket):
    """A TLS socket that is closed if its peer turns out to be gone before TLS began. `wrap_socket` tries `recv` then,
    and raises what comes of it: the new socket would stay open, and out of the caller's reach."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except ConnectionError:
            if self.version() is None:
                self.close()
            raise


def server_name(session: bytes, purpose: str = "") -> str:
    """The name that a connection asks for, in the clear: a hash of the session of hellos, which follows from the study,
    and of what is to be done. Who has the study can compute it; others see that two connections ask for the same."""
    return hashlib.sha256(b"coterie name " + purpose.encode() + b" " + session).hexdigest()[:32]


def begin_tls(
    own: ssl.SSLContext, plain: socket.socket, server: bool = False, asked: str | None = None
) -> ssl.SSLSocket:
    """The TLS handshake over a connection, which is closed if that fails. `asked`: the name to ask for (SNI)."""
    own.sslsocket_class = _Socket
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = own.wrap_socket(plain, server_side=server, do_handshake_on_connect=False, server_hostname=asked)
    except BaseException:
        plain.close()
        raise
    try:
        sock.do_handshake()  # an OSError, too, if the peer was gone before
    except BaseException:
        sock.close()
        raise
    return sock


def dial(peer: Peer, name: str, own: ssl.SSLContext, patience: float, left: float, asked: str) -> ssl.SSLSocket:
    """A connection with the TLS handshake done, within `left` seconds for TCP and `patience` for each step of TLS.
    `asked`: the name to ask for (`server_name`)."""
    try:
        if peer.way is not None:
            plain = peer.way.connect(peer, name, patience, left)
        else:
            plain = socket.create_connection((peer.host, peer.port), timeout=min(patience, left))
    except (OSError, UnicodeError) as error:  # refused, or no answer; UnicodeError: what cannot be the name of a host
        raise NotYet(say_why(error)) from error
    plain.settimeout(patience)
    try:
        return begin_tls(own, plain, asked=asked)
    except (ssl.SSLEOFError, ConnectionError) as error:
        raise NotYet(say_why(error)) from error
    except (ssl.SSLError, ValueError) as error:
        if getattr(error, "reason", "") == "TLSV1_UNRECOGNIZED_NAME":  # anybody may say so: a reason to come again
            raise NotYet(UNSERVED) from error
        raise AuthenticationError(
            f"{name} does not show the certificate that was agreed: {say_why(error)}", name
        ) from error
    except OSError as error:
        raise NotYet(say_why(error), mute=isinstance(error, TimeoutError)) from error


def shown_chain(tls: ssl.SSLSocket | ssl.SSLObject) -> list[bytes]:
    """The certificate that the other side has shown, then those that vouch for it, as TLS has checked them (DER)."""
    if not tls.getpeercert(binary_form=True):
        return []
    if hasattr(tls, "get_verified_chain"):  # since Python 3.13
        return list(tls.get_verified_chain())
    found = tls._sslobj.get_verified_chain()  # type: ignore[union-attr]
    return [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in found]


def recognise_peer(tls: ssl.SSLSocket | ssl.SSLObject, peers: Mapping[str, Peer]) -> str | None:
    """Which of the peers, by fingerprint, has shown its certificate, or a newer one that it vouches for if that is
    allowed; None, if it is a stranger."""
    chain = shown_chain(tls)
    for place, one in enumerate(chain):
        peer = peers.get(fingerprint(one))
        if peer is None:
            continue
        links = [ssl.DER_cert_to_PEM_cert(link) for link in chain[:place]]
        taken = not links or (peer.renewed is not None and peer.renewed(links))
        return fingerprint(one) if taken else None
    return None


def greet(sock: ssl.SSLSocket, world: World, lane: int, rank: int, other: int, peer: Peer) -> Refusal | None:
    """Say hello and hear the answer: a refusal for now, if it is one; a refusal for good is an error here."""
    name = world.names[other]
    try:
        if recognise_peer(sock, {fingerprint(peer.certificate): peer}) is None:
            raise AuthenticationError(f"{name} shows a certificate that is not the pinned one", name)
        sock.sendall(hello(world, lane, rank, other))
        header = read_hello(sock, name)
        if header.kind == CONTROL and 0 < header.length <= CONTROL_LIMIT:
            message = decode_control(read_exactly(sock, header.length, name), name)
            if not isinstance(message, Refusal):
                raise WrongType(f"{name} sent a {type(message).__name__.lower()} where a hello was due", name)
            if not message.busy:
                raise WrongSession(f"{name} refused the connection: {message.reason}", name)
            return message
        if lane == PROBE:  # who asks may have another study than the one who answers, in which ranks are others
            header = header._replace(session=world.session, sender=other, receiver=rank)
        check_hello(header, world, lane, other, rank)
    except TimeoutError as error:
        raise PeerUnreachable(f"{name} does not answer", name) from error
    except (EOFError, ssl.SSLEOFError, ConnectionError):  # it stops, or others crowd its door: no reason to give up
        return Refusal(True, "it hung up")
    except OSError as error:  # a TLS alert
        raise AuthenticationError(f"{name} refused this party's certificate: {say_why(error)}", name) from error
    return None


def hello(world: World, lane: int, sender: int, receiver: int) -> bytes:
    """The first frame of a connection, and the receiver's answer."""
    return Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()).pack()


def say(sock: ssl.SSLSocket, world: World, sender: int, receiver: int, message: Refusal | Letter) -> None:
    body = encode_control(message)
    sock.sendall(Header(CONTROL, 0, sender, receiver, world.session, 0, len(body), Stamp()).pack() + body)


def read_hello(sock: ssl.SSLSocket, peer: str) -> Header:
    return Header.unpack(read_exactly(sock, HEADER_BYTES, peer), peer)


def check_hello(header: Header, world: World, lane: int, sender: int, receiver: int) -> None:
    peer = world.names[sender]
    header.check(Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()), peer)
    if header.kind != CONTROL or header.length:
        raise WrongType(f"{peer} sent something else than a hello", peer)


def read_exactly(sock: ssl.SSLSocket, count: int, peer: str) -> bytearray:
    raw = bytearray()
    while len(raw) < count:
        part = sock.recv(count - len(raw))
        if not part:
            raise EOFError(f"{peer} hung up")
        raw += part
    return raw
