"""What happened between two parties is said in plain words, whatever the operating system and OpenSSL call it."""

from __future__ import annotations

import builtins
import errno
import os
import socket
import ssl

import pytest

from coterie import errors
from coterie.errors import PeerLost, PeerUnreachable
from coterie.transport import World
from coterie.transport.certificates import create_credentials
from coterie.transport.channel import Abort, blamed
from coterie.transport.hello import Peer
from coterie.transport.inbox import Inbox
from coterie.transport.visits import probe
from coterie.transport.wording import TLS, Said, broken, say_kind, say_why
from tests.plain import FOREIGN

WORLD = World(("helper", "alice", "bob"))


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_error_of_the_operating_system(number):
    said = say_why(OSError(number, os.strerror(number)))
    assert said
    assert not FOREIGN.search(said)
    assert errno.errorcode[number] not in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "nothing listens there"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "it closed the connection"),
        (ConnectionResetError(), "it closed the connection"),
        (EOFError("bob hung up"), "it closed the connection"),
        (ssl.SSLEOFError(8, "[SSL] x (_ssl.c:1)"), "it closed the connection"),
        (ssl.SSLError(1, "[SSL] x (_ssl.c:1)"), "TLS failed"),
        (TimeoutError("timed out"), "no answer came in time"),
        (TimeoutError("_ssl.c:989: The handshake operation timed out"), "no answer came in time"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "no host is known by that name"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "the name of its host cannot be looked up now"),
        (UnicodeError("label too long"), "that cannot be the name of a host"),
        (ValueError("Read on closed or unwrapped SSL socket."), "it was closed here"),
        (Said("the proxy hung up"), "the proxy hung up"),
        (OSError("words of a library"), "something went wrong here"),
        (RuntimeError("words of a library"), "something went wrong here"),
    ],
)
def test_what_became_of_a_connection(error, said):
    assert say_why(error) == said


def test_a_peer_that_goes_away_is_named():
    assert broken("bob", ConnectionResetError()) == "bob closed the connection"
    assert broken("bob", TimeoutError()) == "the connection from bob broke: no answer came in time"


@pytest.mark.parametrize("said", TLS.values())
def test_tls_is_put_plainly(said):
    assert not FOREIGN.search(said)


@pytest.mark.parametrize(
    "name", [*errors.__all__, *(n for n in dir(builtins) if n.endswith(("Error", "Exit", "Interrupt")))]
)
def test_a_peer_that_stops_says_why_in_words(name):
    """All that a peer tells is the kind of its error; nobody is shown the name that it has here."""
    assert not FOREIGN.search(say_kind(name))
    assert name not in say_kind(name)
    for culprit in (0, 1, 2):
        message = str(blamed(Abort(culprit, name), 1, 2, WORLD, lambda _: None))
        assert name not in message
        assert message.startswith("alice stopped")


def test_words_of_a_peer_stay():
    assert say_kind("over") == "over"


class Reset:
    """A connection that its peer has reset."""

    def settimeout(self, _):
        pass

    setblocking = settimeout

    def read(self, *_):
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    recv = read


@pytest.mark.parametrize("use", [lambda box: box.next(1, 8), Inbox.glance, lambda box: box.watch(1.0)])
def test_a_reset_is_no_riddle(use):
    with pytest.raises(PeerLost, match=r"^bob closed the connection$"):
        use(Inbox(Reset(), WORLD, 2, 1, 0, 1.0))


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = f"^bob cannot be reached at 127.0.0.1:{port}: nothing listens there$"
    with pytest.raises(PeerUnreachable, match=said):
        ask("127.0.0.1", port)


def test_no_such_host():
    with pytest.raises(PeerUnreachable, match=r"^bob cannot be reached at nowhere\.invalid:1: "):
        ask("nowhere.invalid", 1)


def ask(host: str, port: int) -> bytes:
    mine, other = create_credentials("alice"), create_credentials("bob")
    return probe(WORLD, 1, 2, mine, Peer(host, port, other.certificate), 2.0, 2.0)
