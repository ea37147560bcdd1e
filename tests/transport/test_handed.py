"""Connections that one process accepts and another one answers, and the name that says which one."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from coterie.transport.handed import HandedListener, hand_over
from coterie.transport.hello import UNSERVED, NotYet, Peer, context, dial, server_name
from tests.transport.network import credentials, wait_until


@pytest.fixture
def pair():
    giving, taking = socket.socketpair()
    giving.setblocking(False)
    with giving, taking:
        yield giving, taking


def connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mine = socket.create_connection(listener.getsockname())
        return mine, listener.accept()[0]


def test_a_connection_is_handed_over_with_what_it_has_sent(pair):
    giving, taking = pair
    mine, theirs = connection()
    with mine:
        mine.sendall(b"said before")
        assert theirs.recv(4, socket.MSG_PEEK) == b"said"
        assert hand_over(theirs, giving)
        assert theirs.fileno() == -1
        with HandedListener(taking, lambda: None).accept() as taken:
            assert taken.recv(100) == b"said before"
            taken.sendall(b"answer")
            assert mine.recv(100) == b"answer"
            assert not taken.get_inheritable()


def test_nobody_there_is_no_wait(pair):
    with pytest.raises(BlockingIOError):
        HandedListener(pair[1], lambda: None).accept()


def test_a_process_that_is_gone_is_noticed_once(pair):
    giving, taking = pair
    left = []
    listener = HandedListener(taking, lambda: left.append("gone"))
    giving.close()
    for _ in range(3):
        with pytest.raises(OSError, match="any more"):
            listener.accept()
    assert left == ["gone"]


def test_what_is_not_taken_is_closed_and_told(pair):
    giving, taking = pair
    taking.close()
    mine, theirs = connection()
    with mine:
        assert not hand_over(theirs, giving)
        assert mine.recv(1) == b""


def test_one_who_does_not_look_is_not_waited_for(pair):
    """The queue of a process that hangs is bounded, and so is the time."""
    giving, _ = pair
    taken = 0
    while True:
        mine, theirs = connection()
        mine.close()
        if not hand_over(theirs, giving):
            break
        taken += 1
        assert taken < 10_000
    assert taken > 1


def test_names_differ_by_study_and_purpose_and_tell_nothing():
    session = bytes(16)
    names = {server_name(one, purpose) for one in (session, b"x" * 16) for purpose in ("", "fit", "predict")}
    assert len(names) == 6
    assert all(len(name) == 32 and session.hex() not in name for name in names)


def test_a_dialler_asks_for_the_name():
    asked = []
    own = context(True, credentials("Honest"), [credentials("Rogue").certificate])
    own.sni_callback = lambda sock, name, _: asked.append(name)
    mine, theirs = (credentials(name) for name in ("Rogue", "Honest"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=lambda: own.wrap_socket(listener.accept()[0], server_side=True).close())
        answering.start()
        peer = Peer(*listener.getsockname(), theirs.certificate)
        dial(peer, "Honest", context(False, mine, [theirs.certificate]), 10, 10, server_name(b"s")).close()
        answering.join()
    assert asked == [server_name(b"s")]


def test_a_name_that_is_not_served_is_a_reason_to_come_again():
    mine, theirs = (credentials(name) for name in ("Rogue", "Honest"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            with listener.accept()[0] as plain:
                assert plain.recv(1 << 14)
                plain.sendall(bytes.fromhex("15 03 03 00 02 02 70"))
                plain.shutdown(socket.SHUT_WR)
                wait_until(lambda: not plain.recv(1 << 14), "the other's end")

        answering = threading.Thread(target=refuse)
        answering.start()
        peer = Peer(*listener.getsockname(), theirs.certificate)
        with pytest.raises(NotYet, match=UNSERVED[:30]) as refused:
            dial(peer, "Honest", context(False, mine, [theirs.certificate]), 10, 10, "0" * 32)
        answering.join()
    assert isinstance(refused.value.__cause__, ssl.SSLError)
