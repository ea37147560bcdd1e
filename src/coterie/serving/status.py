"""What a helper that stays up tells its operator: over a Unix socket in its state folder, and on a small page.

Both speak HTTP and answer three questions: `/` (a page), `/status.json`, `/health` (200 or 503). Nothing can be changed
there, and nothing secret is told: names of studies and participants, hashes, what runs and how runs ended.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import InputError, PeerUnreachable
from coterie.serving.children import Ending
from coterie.serving.relays import RelayStatus
from coterie.transport.wording import say_why
from coterie.typed import from_json

__all__ = ["SOCKET", "Running", "Status", "StatusServer", "StudyStatus", "ask_status"]

SOCKET = "status.sock"
#: The most questions at a time; seconds for each step of one, and for all of it.
CROWD, PATIENCE, ALL = 16, 5.0, 10.0


class Running(msgspec.Struct, frozen=True):
    """What runs. `memory`: bytes that its process holds."""

    purpose: str
    since: float
    phase: str
    sent: int
    pid: int
    memory: int | None


class StudyStatus(msgspec.Struct, frozen=True):
    """A study in the folder. `standing`: "served", or why not; `running` and `last`: now, and how it ended last."""

    name: str
    file: str
    hash: str
    participants: list[str]
    standing: str
    why: str
    running: Running | None = None
    last: Ending | None = None


class Status(msgspec.Struct, frozen=True):
    """All that is told. `listen`: where participants come to; `problems`: why it is not healthy; `refused`: how many
    connections, by reason."""

    helper: str
    version: str
    listen: str
    since: float
    pid: int
    stopping: bool
    most_studies: int
    problems: list[str]
    studies: list[StudyStatus]
    refused: dict[str, int]
    digest: str = ""
    relays: list[RelayStatus] = []

    @property
    def healthy(self) -> bool:
        return not self.problems and not self.stopping


def _handler(status: Callable[[], Status], local: bool) -> type[BaseHTTPRequestHandler]:
    from coterie.serving.page import make_page

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE
        server_version, sys_version = "coterie", ""

        def do_GET(self) -> None:  # as http.server calls it
            if local and not _is_local(self.headers.get("Host", "")):
                self._send(403, "text/plain", b"ask by address: this page is for this machine\n")
                return
            now = status()
            if self.path == "/health":
                text = "healthy" if now.healthy else "; ".join(now.problems) or "stopping"
                self._send(200 if now.healthy else 503, "text/plain; charset=utf-8", text.encode() + b"\n")
            elif self.path == "/status.json":
                self._send(200, "application/json", msgspec.json.encode(now))
            elif self.path == "/":
                self._send(200, "text/html; charset=utf-8", make_page(now).encode())
            else:
                self._send(404, "text/plain", b"there are /, /status.json and /health\n")

        do_HEAD = do_GET

        def _send(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *said: Any) -> None:
            """Questions are not logged."""

        def address_string(self) -> str:
            return ""

    return Handler


def _is_local(host: str) -> bool:
    """A page of another site must not get at it by a name that leads here."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        return name in ("localhost", "") or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


class _Bounded(socketserver.ThreadingMixIn):
    """A thread for each question, and no more than `CROWD`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.BoundedSemaphore(CROWD)
        super().__init__(*arguments)

    def process_request(self, request: Any, address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, address)
        else:
            self.shutdown_request(request)  # type: ignore[attr-defined]

    def process_request_thread(self, request: Any, address: Any) -> None:
        end = threading.Timer(ALL, _hang_up, (request,))  # however slowly it goes on asking
        end.daemon = True
        try:
            with contextlib.suppress(RuntimeError):  # no more threads for now
                end.start()
            super().process_request_thread(request, address)
        finally:
            end.cancel()
            self._room.release()

    def handle_error(self, request: Any, address: Any) -> None:
        """Who asks and goes away is no news."""


def _hang_up(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Page(_Bounded, socketserver.TCPServer):
    allow_reuse_address = True


class _Page6(_Page):
    address_family = socket.AF_INET6


class _Local(_Bounded, socketserver.UnixStreamServer):
    pass


class StatusServer:
    """Answers questions until it is closed."""

    def __init__(self, state: Path, status: Callable[[], Status], page: tuple[str, int] | None) -> None:
        """`page`: where else than at the socket in the state folder."""
        self.path = state / SOCKET
        self.servers: list[socketserver.TCPServer] = []
        try:
            self.path.unlink(missing_ok=True)
            with _short(state) as near:
                before = os.umask(0o177)
                try:
                    self.servers.append(_Local(f"{near}/{SOCKET}", _handler(status, local=False)))
                finally:
                    os.umask(before)
            if page is not None:
                kind = _Page6 if ":" in page[0] else _Page
                self.servers.append(kind(page, _handler(status, local=_is_local(page[0]))))
        except OSError as error:
            self.close()
            where = self.path if page is None or not self.servers else f"{page[0]}:{page[1]} (--status)"
            raise InputError(f"the status cannot be told at {where} ({say_why(error)})") from None
        for server in self.servers:
            threading.Thread(target=server.serve_forever, name="coterie-status", daemon=True).start()

    @property
    def page(self) -> str:
        """Where the page is, if there is one."""
        if len(self.servers) < 2:
            return ""
        host, port = self.servers[1].socket.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The folder by a short name: the address of a Unix socket has at most some hundred bytes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        short = f"/proc/self/fd/{handle}"
        yield short if os.path.isdir(short) else str(folder)
    finally:
        os.close(handle)


class _Asking(http.client.HTTPConnection):
    def __init__(self, state: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self.state = state

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        with _short(self.state) as near:
            self.sock.connect(f"{near}/{SOCKET}")


def ask_status(state: Path) -> Status:
    """What the helper with this state folder says of itself."""
    connection = _Asking(state)
    try:
        connection.request("GET", "/status.json")
        answer = connection.getresponse()
        return from_json(answer.read(1 << 26), Status)
    except PermissionError:
        raise InputError(f"{state / SOCKET} is for the user who runs `coterie serve`; ask as that user") from None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        raise PeerUnreachable(f"no `coterie serve` answers in {state}; is it running, with --state {state}?") from None
    finally:
        connection.close()
