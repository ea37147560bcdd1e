"""A relay in a thread, an HTTP proxy, and organisations that are reached by way of a relay: for tests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from coterie.relay import Limits, Registry, Relay
from coterie.relay.operate import listen_at, load_relay
from coterie.study.identity import load_identity
from tests.study.walk import Cast, coterie, free_addresses, wait_until

__all__ = [
    "RelayCast",
    "RelayProcess",
    "RunningRelay",
    "TinyProxy",
    "hang_up",
    "make_relay",
    "passing",
    "reach_by_relay",
]

T = TypeVar("T")


def make_relay(folder: Path, name: str = "relay") -> Path:
    """A relay's identity, at a free port: the identity file, with the key beside it."""
    (address,) = free_addresses(1)
    made = coterie("identity", "create", name, "--address", address, "--folder", folder)
    assert made.code == 0, made.err
    return folder / f"{name}.identity.toml"


class RunningRelay:
    """A relay in a thread of this process, at the address of its identity."""

    def __init__(
        self,
        identity: Path,
        files: Sequence[Path] = (),
        folder: Path | None = None,
        open_: bool = False,
        limits: Limits = Limits(look=0.1),
        kind: Callable[[Registry, Limits], Relay] = Relay,
    ) -> None:
        key = identity.with_name(identity.name.replace(".identity.toml", ".key"))
        self.registry = Registry(load_relay(key), files, folder, open_)
        self.limits, self.kind = limits, kind
        self.identity = load_identity(identity)
        self.listener = listen_at(self.identity.address)
        self.up = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()
        assert self.up.wait(60)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.relay = self.kind(self.registry, self.limits)
        self.serving = asyncio.create_task(self.relay.serve(self.listener, self.up.set))
        with contextlib.suppress(asyncio.CancelledError):
            await self.serving

    def look(self, at: Callable[[Relay], T]) -> T:
        """What is so in the relay's own thread."""

        async def seen() -> T:
            return at(self.relay)

        return asyncio.run_coroutine_threadsafe(seen(), self.loop).result(60)

    def close(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.serving.cancel)
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.listener.close()

    def __enter__(self) -> RunningRelay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RelayProcess:
    """`coterie relay` in a process of its own, which can be killed and started again."""

    def __init__(self, identity: Path, files: Sequence[Path], *more: object) -> None:
        self.identity, self.said = identity, identity.with_name("relay.out")
        self.line = ["relay", "--listen", load_identity(identity).address, "--key"]
        self.line += [str(identity).replace(".identity.toml", ".key")]
        self.line += [word for file in files for word in ("--study", str(file))]
        self.line += map(str, more)
        self.start()

    def start(self) -> None:
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "coterie", *self.line], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        wait_until(lambda: self.process.poll() is not None or b"listens at" in self.said.read_bytes(), 120, "a relay")
        assert self.process.poll() is None, self.said.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> RelayProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


class RelayCast(Cast):
    """Organisations of which some are reached by way of a relay."""

    def __init__(self, folder: Path, relay: Path, parties: Sequence[str] = ("alice", "bob"),
                 direct: Sequence[str] = (), relays: dict[str, Path] | None = None,
                 addresses: Sequence[str] | None = None) -> None:  # fmt: skip
        """`relays`: others than `relay`, by participant."""
        super().__init__(folder, parties, addresses=addresses)
        for name in self.names:
            if name not in direct:
                reach_by_relay(self, name, (relays or {}).get(name, relay))


def reach_by_relay(cast: Cast, name: str, relay: Path) -> None:
    """A participant has another identity: without an address of its own."""
    cast.key(name).unlink()
    cast.identity(name).unlink()
    made = coterie("identity", "create", name, "--via", relay, "--folder", cast.at(name))
    assert made.code == 0, made.err


class TinyProxy:
    """An HTTP proxy that knows CONNECT. `answer`: what it says instead; `wants`: the authorization it asks for."""

    def __init__(self, wants: str = "", answer: bytes = b"", host: str = "127.0.0.1", port: int = 0) -> None:
        self.listener = socket.create_server((host, port))
        self.port = self.listener.getsockname()[1]
        self.wants, self.answer = wants, answer
        self.asked: list[str] = []
        self.url = f"http://{host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, inside: socket.socket) -> None:
        with inside, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = inside.recv(1)
                if not part:
                    return
                head += part
            lines = head.decode().split("\r\n")
            self.asked.append(lines[0])
            if self.answer:
                inside.sendall(self.answer)
                inside.settimeout(5)
                inside.recv(1)
                return
            if self.wants and f"Proxy-Authorization: {self.wants}" not in lines:
                inside.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            host, _, port = lines[0].split(" ")[1].rpartition(":")
            try:
                outside = socket.create_connection((host.strip("[]"), int(port)))
            except OSError:
                inside.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            inside.sendall(b"HTTP/1.1 200 Connection established\r\nVia: tiny\r\n\r\n")
            passing(inside, outside)

    def close(self) -> None:
        hang_up(self.listener)  # wakes the one who accepts
        self.listener.close()

    def __enter__(self) -> TinyProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def hang_up(*sockets: socket.socket) -> None:
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def passing(inside: socket.socket, outside: socket.socket) -> None:
    """Pass bytes on, both ways, until both have ended."""

    def one_way(source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(1 << 16):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            hang_up(source, target)

    back = threading.Thread(target=one_way, args=(outside, inside), daemon=True)
    back.start()
    one_way(inside, outside)
    back.join()
    outside.close()


@contextlib.contextmanager
def at_a_relay(folder: Path, cast: Callable[[Path], Cast], **given: Any) -> Iterator[tuple[RunningRelay, Cast]]:
    """A relay that has a study's file, and everybody, who have signed it."""
    identity = make_relay(folder)
    made = cast(identity)
    made.agree(*given.pop("study"))
    with RunningRelay(identity, [made.study_file(made.parties[0])], **given) as running, made:
        yield running, made
