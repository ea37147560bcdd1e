"""A simulated link: a proxy that delays and throttles the bytes of a TLS connection, without reading them.

For tests and benchmarks on one machine. A relay stands between one party and another's port, which it dials
in its stead. Every connection gets half the round trip as delay in each direction; all connections through one
relay share its bandwidth, each direction apart.
"""

from __future__ import annotations

import contextlib
import heapq
import select
import socket
import threading
import time
from collections import deque
from itertools import count

import msgspec

__all__ = ["LINKS", "Link", "Relay"]

CHUNK = 1 << 16


class Link(msgspec.Struct, frozen=True):
    """Round-trip time in seconds, bandwidth in bytes a second."""

    round_trip: float
    bandwidth: float


LINKS = {
    "loopback": Link(round_trip=1e-4, bandwidth=2e9),
    "lan": Link(round_trip=5e-4, bandwidth=1e9 / 8),
    "wan": Link(round_trip=4e-2, bandwidth=1e8 / 8),
}


class _Flow:
    """Bytes on their way from one socket to another."""

    def __init__(self, source: socket.socket, target: socket.socket, wire: _Wire) -> None:
        self.source, self.target, self.wire = source, target, wire
        self.arriving: deque[tuple[float, bytes]] = deque()  # when, and what
        self.ready = b""
        self.held = 0
        self.ended = False


class _Wire:
    """One direction of a link: what is sent leaves one after another, at the bandwidth."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.free_at = 0.0

    def arrival(self, size: int) -> float:
        now = time.monotonic()
        self.free_at = max(self.free_at, now) + size / self.link.bandwidth
        return self.free_at + self.link.round_trip / 2


class Relay:
    """Listens on a port that the operating system chooses and passes everything on to (host, port), slowly."""

    def __init__(self, host: str, port: int, link: Link) -> None:
        self.target, self.link = (host, port), link
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.host, self.port = self.listener.getsockname()[:2]
        self._there, self._back = _Wire(link), _Wire(link)
        self._wake_read, self._wake_write = socket.socketpair()
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name="coterie-relay", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self._stopped = True
        self._wake_write.send(b"x")
        self.thread.join()
        for sock in (self.listener, self._wake_read, self._wake_write):
            sock.close()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        by_source: dict[int, _Flow] = {}
        by_target: dict[int, _Flow] = {}
        due: list[tuple[float, int, _Flow]] = []
        order = count()
        while not self._stopped:
            wait = max(due[0][0] - time.monotonic(), 0.0) if due else None
            for fd, event in poll.poll(None if wait is None else 1000 * wait):
                if fd == self.listener.fileno():
                    self._accept(poll, by_source, by_target)
                elif fd in by_source and event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    flow = by_source[fd]
                    at = self._read(flow)
                    if at is not None:
                        heapq.heappush(due, (at, next(order), flow))
                    self._watch(poll, by_source, by_target, fd)
                if fd in by_target and event & select.POLLOUT:
                    flow = by_target[fd]
                    self._write(flow)
                    for sock in (flow.source, flow.target):
                        if sock.fileno() >= 0:
                            self._watch(poll, by_source, by_target, sock.fileno())
            now = time.monotonic()
            while due and due[0][0] <= now:
                _, _, flow = heapq.heappop(due)
                flow.ready += flow.arriving.popleft()[1]
                self._write(flow)
                for sock in (flow.source, flow.target):
                    if sock.fileno() >= 0:
                        self._watch(poll, by_source, by_target, sock.fileno())
        for flow in by_source.values():
            for sock in (flow.source, flow.target):
                sock.close()

    def _accept(self, poll: select.poll, by_source: dict[int, _Flow], by_target: dict[int, _Flow]) -> None:
        inside, _ = self.listener.accept()
        try:
            outside = socket.create_connection(self.target, timeout=5)
        except OSError:
            inside.close()
            return
        for sock in (inside, outside):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for flow in (_Flow(inside, outside, self._there), _Flow(outside, inside, self._back)):
            by_source[flow.source.fileno()] = flow
            by_target[flow.target.fileno()] = flow
        for sock in (inside, outside):
            poll.register(sock, select.POLLIN)

    def _read(self, flow: _Flow) -> float | None:
        """Take what has come in and say when it arrives; the end of the stream travels, too."""
        try:
            data = flow.source.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        flow.ended |= not data
        at = flow.wire.arrival(len(data))
        flow.arriving.append((at, data))
        flow.held += len(data)
        return at

    def _write(self, flow: _Flow) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            sent = flow.target.send(flow.ready) if flow.ready else 0
            flow.ready = flow.ready[sent:]
            flow.held -= sent
            if flow.ended and not flow.ready and not flow.arriving:
                flow.target.shutdown(socket.SHUT_WR)

    def _watch(self, poll: select.poll, by_source: dict[int, _Flow], by_target: dict[int, _Flow], fd: int) -> None:
        """Read while the wire holds no more than a moment's worth, write while something is ready."""
        source, target = by_source.get(fd), by_target.get(fd)
        events = 0
        most = max(4 * CHUNK, self.link.bandwidth * (self.link.round_trip + 0.02))
        if source is not None and not source.ended and source.held < most:
            events |= select.POLLIN
        if target is not None and target.ready:
            events |= select.POLLOUT
        if source is not None and source.ended and events == 0:
            with contextlib.suppress(KeyError):
                poll.unregister(fd)
        else:
            poll.register(fd, events)  # again, if it was registered before
