"""The name that a TLS client asks for: whole, in pieces, cut short, rubbish, or never said."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading

import pytest

from coterie.serving.client_hello import MOST, MOST_RECORDS, NotTls, find_name, wait_for_name

NAME = "0123456789abcdef0123456789abcdef"


def client_hello(name: str | None = NAME) -> bytes:
    """What OpenSSL says first."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = client_hello()


def in_records(hello: bytes, size: int) -> bytes:
    """The same message in records of so many bytes."""
    message = hello[5:]
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts)


def test_the_name_is_found():
    assert find_name(HELLO) == NAME
    assert find_name(HELLO + b"more") == NAME


def test_without_its_end_there_is_no_name_yet():
    for length in range(len(HELLO)):
        assert find_name(HELLO[:length]) is None


@pytest.mark.parametrize("size", [16, 40, 100])
def test_a_message_in_several_records(size):
    pieces = in_records(HELLO, size)
    assert find_name(pieces) == NAME
    assert find_name(pieces[:-1]) is None


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH",
        b"\x16\x02\x00\x00\x05",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03",
        client_hello(None),
    ],
    ids=["http", "ssh", "SSL 2", "empty", "long record", "server hello", "long message", "short message", "no name"],
)
def test_what_is_no_beginning_is_refused(said):
    with pytest.raises(NotTls):
        find_name(said)


def test_a_message_in_a_great_many_records_is_refused():
    """Whoever sends it again and again, a byte more each time, would keep a processor busy."""
    pieces = in_records(HELLO, 1)
    assert len(HELLO) > MOST_RECORDS
    assert find_name(pieces[: 6 * (MOST_RECORDS - 1)]) is None
    with pytest.raises(NotTls, match="too many pieces"):
        find_name(pieces[: 6 * MOST_RECORDS])


def test_a_beginning_that_never_ends_is_refused():
    with pytest.raises(NotTls):
        find_name(b"\x16\x03\x01\x00\x01\x01" + b"\x16\x03\x01\x00\x01\x00" * MOST)


def test_changed_bytes_give_a_name_or_are_refused():
    """Nothing else is raised, whatever is said."""
    rng = random.Random(1)
    for _ in range(3000):
        raw = bytearray(HELLO)
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            found = find_name(bytes(raw[: rng.randrange(len(raw) + 1)]))
        except NotTls:
            continue
        assert found is None or isinstance(found, str)


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mine = socket.create_connection(listener.getsockname())
        theirs = listener.accept()[0]
    theirs.settimeout(10)
    with mine, theirs:
        yield mine, theirs


def test_nothing_is_taken_from_the_connection(pair):
    mine, theirs = pair
    mine.sendall(HELLO)
    assert wait_for_name(theirs, 10) == NAME
    assert theirs.recv(1 << 16) == HELLO


def test_a_name_that_comes_in_pieces_is_waited_for(pair):
    mine, theirs = pair
    halfway = threading.Event()

    def speak() -> None:
        mine.sendall(HELLO[:20])
        halfway.wait(10)
        mine.sendall(HELLO[20:])

    speaker = threading.Thread(target=speak)
    speaker.start()
    threading.Timer(0.1, halfway.set).start()
    assert wait_for_name(theirs, 10) == NAME
    speaker.join()


@pytest.mark.parametrize("said", [b"", HELLO[:50]], ids=["nothing", "half"])
def test_one_who_is_silent_is_not_waited_for(pair, said):
    mine, theirs = pair
    mine.sendall(said)
    with pytest.raises(TimeoutError):
        wait_for_name(theirs, 0.2)


def test_one_who_hangs_up_is_noticed(pair):
    mine, theirs = pair
    mine.close()
    with pytest.raises(NotTls, match="hung up"):
        wait_for_name(theirs, 10)
