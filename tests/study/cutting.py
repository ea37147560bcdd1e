"""Participants whose connections go through a place where they can be cut, all at once, or stopped without a word."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.study.identity import split_address
from coterie.study.voice import Voice
from tests.study.walk import Cast, free_addresses

__all__ = ["Cut", "CutCast", "Wires"]


class Wires:
    """Listens for each participant in its stead and passes everything on, byte by byte."""

    def __init__(self, targets: list[str]) -> None:
        self.flowing, self.lock = threading.Event(), threading.Lock()
        self.flowing.set()
        self.closed, self.sockets = False, set[socket.socket]()
        self.listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in targets]
        self.addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in self.listeners]
        self.threads = list[threading.Thread]()
        for listener, target in zip(self.listeners, targets, strict=True):
            self._begin(self._accept, listener, split_address(target))

    def cut(self) -> None:
        """Break every connection that there is. New ones are let through."""
        with self.lock:
            sockets, self.sockets = self.sockets, set()
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.closed = True
        for listener in self.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.flowing.set()
        self.cut()
        for thread in list(self.threads):
            thread.join(30)

    def _begin(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, target: tuple[str, int]) -> None:
        while not self.closed:
            try:
                inside, _ = listener.accept()
            except OSError:
                return
            try:
                outside = socket.create_connection(target, 5)
            except OSError:
                inside.close()
                continue
            outside.settimeout(None)
            ends = threading.Semaphore(0)
            with self.lock:
                self.sockets |= {inside, outside}
            self._begin(self._pump, inside, outside, ends)
            self._begin(self._pump, outside, inside, ends)
            self._begin(self._tidy, inside, outside, ends)

    def _pump(self, source: socket.socket, target: socket.socket, ended: threading.Semaphore) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.flowing.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        ended.release()

    def _tidy(self, inside: socket.socket, outside: socket.socket, ended: threading.Semaphore) -> None:
        ended.acquire()
        ended.acquire()
        with self.lock:
            self.sockets -= {inside, outside}
        inside.close()
        outside.close()


class CutCast(Cast):
    """Everybody dials everybody through `wires`."""

    def __init__(self, folder: Path, **more: Any) -> None:
        count = len(more.get("parties", ("alice", "bob"))) + 1
        self.listening = free_addresses(count)
        self.wires = Wires(self.listening)
        super().__init__(folder, addresses=self.wires.addresses, **more)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.wires.close()

    def orders(self, name: str, **changes: Any) -> Any:
        listen = self.listening[self.names.index(name)]
        return super().orders(name, **{"listen": listen, **changes})


class Cut(Voice):
    """Does something once, when a phase begins or an iteration is done; keeps what it hears."""

    def __init__(self, at: str | int, act: Callable[[], None]) -> None:
        self.at, self.act, self.done = at, act, False
        self.notes: list[str] = []
        self.phases: list[str] = []

    def phase(self, text: str) -> None:
        self.phases.append(text)
        self._reached(text)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        self._reached(iteration)

    def _reached(self, point: str | int) -> None:
        if point == self.at and not self.done:
            self.done = True
            self.act()
