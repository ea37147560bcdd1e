"""What the transport tests share: TLS among threads, a peer that keeps no rule, and a check for leftovers."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.errors import FrameError
from coterie.transport import HEADER_BYTES, Channel, Stamp, World
from coterie.transport.certificates import Credentials, create_credentials
from coterie.transport.channel import CONTROL, Header, Heartbeat, dtype_code, encode_control
from coterie.transport.door import Listener
from coterie.transport.hello import Peer, begin_tls
from coterie.transport.meeting import connect_lanes
from coterie.transport.tls import TlsChannel

#: The session of the rogue (rank 0) and the honest party (rank 1).
DUEL = World(("Rogue", "Honest"), bytes(range(16)))
#: What the honest party expects of the rogue.
EXPECTED = (np.uint64, (3,))


_made: dict[str, Credentials] = {}
_making = threading.Lock()


def credentials(name: str) -> Credentials:
    """The same for a name every time, also for two threads that ask at once: `functools.cache` would make two."""
    with _making:
        if name not in _made:
            _made[name] = create_credentials(name)
        return _made[name]


def named(value: Any) -> str:
    """A test's id from its parameter: an error, or what is wrong with a header."""
    if isinstance(value, type):
        return value.__name__
    return ",".join(key if isinstance(wrong, bytes) else f"{key}={wrong}" for key, wrong in value.items())


def attempt(*calls: Callable[[], Any]) -> list[Future[Any]]:
    """Make the calls at the same time, each in a thread, and wait for all to end."""
    with ThreadPoolExecutor(max(len(calls), 1)) as pool:
        return [pool.submit(call) for call in calls]


def together(*calls: Callable[[], Any]) -> list[Any]:
    return [made.result() for made in attempt(*calls)]


def wait_until(done: Callable[[], bool], what: str, within: float = 60.0) -> None:
    """Wait for something that another thread brings about."""
    end = time.monotonic() + within
    while not done():
        assert time.monotonic() < end, f"{what}: waited {within:g} seconds"
        time.sleep(0.01)


def peer_of(listener: Listener, name: str) -> Peer:
    return Peer(listener.host, listener.port, credentials(name).certificate)


def connect(*arguments: Any, **more: Any) -> TlsChannel:
    """One lane to every peer."""
    return connect_lanes(1, *arguments, **more)[0]


def connecting(
    world: World,
    timeout: float = 20.0,
    patience: float = 10.0,
    own: dict[str, Credentials] | None = None,
    lanes: int = 1,
    progress: float | None = None,
) -> list[functools.partial[list[TlsChannel]]]:
    """By rank, the call that connects it. `own`: who shows something else than the pinned certificate."""
    listeners = [Listener() for _ in world.names]
    peers = [peer_of(listener, name) for listener, name in zip(listeners, world.names, strict=True)]
    shown = {name: credentials(name) for name in world.names} | (own or {})
    return [
        functools.partial(
            connect_lanes,
            lanes,
            world,
            rank,
            shown[name],
            peers,
            listener=listeners[rank],
            timeout=timeout,
            patience=patience,
            progress=progress,
        )
        for rank, name in enumerate(world.names)
    ]


def tls_channels(world: World, patience: float = 10.0, progress: float | None = None) -> list[TlsChannel]:
    """A channel for every rank, all connected."""
    return tls_lanes(world, 1, patience, progress)[0]


def tls_lanes(
    world: World, lanes: int, patience: float = 10.0, progress: float | None = None
) -> list[list[TlsChannel]]:
    """By lane, a channel for every rank."""
    by_rank = together(*connecting(world, patience=patience, lanes=lanes, progress=progress))
    return [list(channels) for channels in zip(*by_rank, strict=True)]


def close_all(channels: Sequence[Channel]) -> None:
    attempt(*(channel.close for channel in channels))


def raw_context(server: bool, own: Credentials | None, newest: ssl.TLSVersion) -> ssl.SSLContext:
    """TLS with no check of the other side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    if own is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(own.key + "\n" + own.certificate)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def raw_dial(
    host: str, port: int, own: Credentials | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLSocket:
    plain = socket.create_connection((host, port), timeout=20)
    return begin_tls(raw_context(False, own, newest), plain)


def raw_accept(listener: Listener, own: Credentials) -> ssl.SSLSocket:
    listener.socket.settimeout(20)
    plain, _ = listener.socket.accept()
    plain.settimeout(20)
    return begin_tls(raw_context(True, own, ssl.TLSVersion.TLSv1_3), plain, server=True)


def read_exactly(sock: ssl.SSLSocket, count: int) -> bytes:
    raw = b""
    while len(raw) < count:
        part = sock.recv(count - len(raw))
        if not part:
            raise EOFError
        raw += part
    return raw


def hello(world: World, sender: int, receiver: int, lane: int = 0) -> bytes:
    return Header(CONTROL, lane, sender, receiver, world.session, 0, 0, Stamp()).pack()


@dataclass
class Rogue:
    """A peer whose certificate is in order, and nothing else."""

    mouth: ssl.SSLSocket
    ear: ssl.SSLSocket

    def header(self, **wrong: Any) -> Header:
        """The header that the honest party expects next at first, but for what is wrong with it."""
        dtype, shape = EXPECTED
        right = Header(dtype_code(dtype), 0, 0, 1, DUEL.session, 0, 8 * shape[0], Stamp())
        return right._replace(**wrong)

    def say(self, *parts: bytes) -> None:
        self.mouth.sendall(b"".join(parts))

    def control(self, body: bytes, **wrong: Any) -> None:
        self.say(self.header(**{"kind": CONTROL, "length": len(body), **wrong}).pack(), body)

    def close(self) -> None:
        self.mouth.close()
        self.ear.close()


def answer(listener: Listener, world: World, me: int, other: int) -> ssl.SSLSocket:
    """Be dialled by an honest party, and be polite."""
    ear = raw_accept(listener, credentials(world.names[me]))
    read_exactly(ear, HEADER_BYTES)
    ear.sendall(hello(world, me, other))
    return ear


def meet(rogues: Listener, honest: Listener) -> Rogue:
    """The rogue's side of connecting with the honest party, in good order."""
    ear = answer(rogues, DUEL, 0, 1)
    mouth = raw_dial(honest.host, honest.port, credentials("Rogue"))
    mouth.sendall(hello(DUEL, 0, 1))
    read_exactly(mouth, HEADER_BYTES)
    return Rogue(mouth, ear)


@contextlib.contextmanager
def duel(patience: float = 10.0, progress: float | None = None) -> Iterator[tuple[TlsChannel, Rogue]]:
    """The honest party's channel, and the rogue it is connected with."""
    rogues, honest = Listener(), Listener()
    peers = [peer_of(rogues, "Rogue"), peer_of(honest, "Honest")]
    with ThreadPoolExecutor(1) as pool:
        connected = pool.submit(
            connect_lanes, 1, DUEL, 1, credentials("Honest"), peers, honest, 20.0, patience, progress
        )
        rogue = meet(rogues, honest)
        (channel,) = connected.result()
    rogues.close()
    try:
        yield channel, rogue
    finally:
        with contextlib.suppress(FrameError):  # what a rogue has sent need not have been read
            channel.close()
        rogue.close()


@contextlib.contextmanager
def beating(rogue: Rogue, **says: bool) -> Iterator[None]:
    """The rogue sends heartbeats, and nothing else."""
    done = threading.Event()

    def chatter() -> None:
        sequence = 0
        with contextlib.suppress(OSError):
            while not done.wait(0.05):
                rogue.control(encode_control(Heartbeat(**says)), sequence=sequence)
                sequence += 1

    with ThreadPoolExecutor(1) as pool:
        talking = pool.submit(chatter)
        try:
            yield
        finally:
            done.set()
        talking.result()


def open_handles() -> set[str]:
    """The sockets and pipes that this process has open (on Linux; elsewhere nothing is known of them)."""
    handles = set()
    for entry in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            handles.add(os.readlink(entry))
    return {handle for handle in handles if handle.startswith(("socket:", "pipe:"))}


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if a thread, a socket or a pipe outlives the block."""
    threads, handles = set(threading.enumerate()), open_handles()
    yield
    end = time.monotonic() + 10
    while set(threading.enumerate()) - threads and time.monotonic() < end:  # some may only be about to start
        time.sleep(0.01)
    assert [thread.name for thread in set(threading.enumerate()) - threads] == []
    assert open_handles() <= handles
