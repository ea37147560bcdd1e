"""What the tests of meetings share: a party that waits, and frames as a rogue sends them."""

from __future__ import annotations

import contextlib
import ssl
from concurrent.futures import ThreadPoolExecutor

from coterie.transport import HEADER_BYTES, Stamp, World
from coterie.transport.channel import CONTROL, Header, decode_control, encode_control
from coterie.transport.door import Listener
from coterie.transport.meeting import Meeting
from coterie.transport.visits import probe
from tests.transport.network import DUEL, close_all, credentials, peer_of, raw_dial, read_exactly

#: The same two, in another session.
OTHER = World(DUEL.names, bytes(16))


def frame(message, sequence=0, sender=0, receiver=1, in_world=DUEL, **wrong) -> bytes:
    body = message if isinstance(message, bytes) else encode_control(message)
    header = Header(CONTROL, 0, sender, receiver, in_world.session, sequence, len(body), Stamp())
    return header._replace(**wrong).pack() + body


def read_control(sock, peer="Honest"):
    header = Header.unpack(read_exactly(sock, HEADER_BYTES), peer)
    return decode_control(bytearray(read_exactly(sock, header.length)), peer)


@contextlib.contextmanager
def held(rank, listeners, in_world=DUEL, patience=10.0, **more):
    """A meeting of one rank, with everybody at the listeners, which is closed in the end."""
    peers = [peer_of(listener, name) for listener, name in zip(listeners, in_world.names, strict=True)]
    made = Meeting(in_world, rank, credentials(in_world.names[rank]), peers, listeners[rank], patience, **more)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def waiting_meeting(patience=10.0, timeout=20.0, **more):
    """The honest party's meeting, which waits for the rogue: yields it, the rogue's listener, its future channels."""
    rogues, mine = Listener(), Listener()
    with (
        ThreadPoolExecutor(1) as pool,
        contextlib.closing(rogues),
        held(1, [rogues, mine], patience=patience, **more) as met,
    ):
        future = pool.submit(met.connect, [0], None, timeout)
        yield met, rogues, future
        with contextlib.suppress(Exception):
            close_all(future.result(0.01 if future.done() else 20))


def dialled(met: Meeting, first: bytes) -> ssl.SSLSocket:
    """The rogue, with its own certificate, connects to an honest party and says something first."""
    sock = raw_dial(met.door.listener.host, met.door.listener.port, credentials("Rogue"))
    sock.sendall(first)
    return sock


def versioned(raw: bytes, version: int) -> bytes:
    return raw[:4] + bytes([version]) + raw[5:]


def hold_and_connect(rank, listeners, timeout=20.0):
    with held(rank, listeners) as met:
        return met.connect([0], timeout=timeout)[0]


def ask(listener, own="Rogue", in_world=DUEL, name="Honest"):
    return probe(in_world, 0, 1, credentials(own), peer_of(listener, name), 5.0, 1.0)
