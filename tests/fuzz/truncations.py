"""Every truncation of every message of a run: the sender is gone in the middle of a frame."""

from __future__ import annotations

import bisect
import socket
import ssl
from itertools import accumulate
from pathlib import Path

from coterie.errors import PeerLost
from coterie.transport import HEADER_BYTES, Stamp, World
from coterie.transport.certificates import Credentials
from coterie.transport.channel import CONTROL, CONTROL_LIMIT, Header
from coterie.transport.hello import context
from coterie.transport.tls import Inbox
from tests.fuzz.campaign import Campaign, Finding
from tests.fuzz.frames import FedWatched
from tests.fuzz.material import Sent, sent_frames
from tests.transport.network import credentials

__all__ = ["CutOff", "Truncations"]

SAMPLE = 1000


def read_frame(box: Inbox, frame: Sent) -> None:
    """As a channel does."""
    box.due = frame.sequence
    _, message = box.next(frame.kind, len(frame.body))
    if message is None:
        box.fill(memoryview(bytearray(len(frame.body))))


class Truncations(Campaign):
    """Case i is cut i of all: frames in the order in which they were sent, each cut before its first byte, its second
    byte and so on."""

    name = "truncations"
    chunk = 20_000

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.frames = sent_frames(material)
        self.starts = [0, *accumulate(HEADER_BYTES + len(frame.body) for frame in self.frames)]
        self.names = ("helper", "alice", "bob")
        self.whole: tuple[int, bytes] = (-1, b"")

    def total(self) -> int:
        return self.starts[-1]

    def cut(self, number: int) -> tuple[Sent, bytes]:
        """Of which frame, and what is left of it."""
        at = bisect.bisect_right(self.starts, number) - 1
        frame = self.frames[at]
        if self.whole[0] != at:
            header = Header(
                frame.kind, frame.lane, frame.sender, frame.to, frame.session, frame.sequence, len(frame.body), Stamp()
            )
            self.whole = at, header.pack() + frame.body
        return frame, self.whole[1][: number - self.starts[at]]

    def case(self, number: int) -> str:
        frame, raw = self.cut(number)
        most = max(len(frame.body), CONTROL_LIMIT, HEADER_BYTES)
        world = World(self.names, frame.session)
        return self.lost(frame, Inbox(FedWatched(raw, most=most), world, frame.sender, frame.to, frame.lane, 10.0))

    def lost(self, frame: Sent, box: Inbox) -> str:
        kind = "a control message" if frame.kind == CONTROL else "an array"
        try:
            read_frame(box, frame)
        except PeerLost as error:
            if error.peer != self.names[frame.sender]:
                raise Finding(f"the error names {error.peer!r}: {error}") from error
            return f"PeerLost in {kind}"
        raise Finding(f"a part of {kind} was taken for the whole")


class CutOff(Truncations):
    """Some of them over TLS, spread evenly over the run: the connection ends there."""

    name = "truncations-tls"
    chunk = 100

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.ends = {name: (context(False, own, [own.certificate]), context(True, own, [own.certificate]))
                     for name in self.names for own in [_own(name)]}  # fmt: skip

    def total(self) -> int:
        return SAMPLE

    def case(self, number: int) -> str:
        frame, raw = self.cut(number * super().total() // SAMPLE + self.random(number).randrange(HEADER_BYTES))
        client, server = self.ends[self.names[frame.sender]]
        here, there = socket.socketpair()
        mouth, ear = _joined(client, server, here, there)
        with mouth, ear:
            world = World(self.names, frame.session)
            box = Inbox(ear, world, frame.sender, frame.to, frame.lane, 10.0)
            _send_and_go(mouth, raw)
            return self.lost(frame, box)


def _own(name: str) -> Credentials:
    return credentials(name)


def _joined(
    client: ssl.SSLContext, server: ssl.SSLContext, here: socket.socket, there: socket.socket
) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """The TLS handshake of both ends, in one thread."""
    mouth = client.wrap_socket(here, do_handshake_on_connect=False)
    ear = server.wrap_socket(there, server_side=True, do_handshake_on_connect=False)
    ends = [mouth, ear]
    for end in ends:
        end.setblocking(False)
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    for end in (mouth, ear):
        end.settimeout(10.0)
    return mouth, ear


def _send_and_go(mouth: ssl.SSLSocket, raw: bytes) -> None:
    """From a thread, since a socket holds less than a large frame."""
    import threading

    def go() -> None:
        mouth.sendall(raw)
        mouth.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=go, daemon=True).start()
