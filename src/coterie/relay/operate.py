"""A relay as a program: its identity, its port, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from coterie.errors import InputError, StudyError
from coterie.relay.registry import Registry
from coterie.relay.server import Limits, Relay
from coterie.study.identity import load_identity, load_key, same_key, split_address
from coterie.study.lifetimes import check_lifetimes, find_endings
from coterie.study.protected import Passphrase
from coterie.transport.certificates import Credentials
from coterie.transport.wording import say_why

__all__ = ["listen_at", "load_relay", "operate"]

#: The most files that the relay asks the system for.
FILES = 1 << 16


def load_relay(
    key: Path,
    identity: Path | None = None,
    passphrase: Passphrase = None,
    warn: Callable[[str], object] = str,
) -> Credentials:
    """The relay's key, and the certificate that belongs to it; `warn` hears if that ends soon."""
    text = load_key(key, passphrase)
    card = identity or key.with_name(f"{key.stem}.identity.toml")
    found = load_identity(card)
    if not same_key(text, found.certificate):
        raise StudyError(f"{card} does not belong to the key {key}; say which identity file does with --identity")
    check_lifetimes([found], found.name)
    for ending in find_endings([found], found.name):
        warn(ending)
    return Credentials(found.certificate, text)


def listen_at(address: str) -> socket.socket:
    host, port = split_address(address, "--listen")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        hint = "; ports below 1024 need a permission of their own (docs/relay.md)" if port < 1024 else ""
        raise InputError(f"--listen: the relay cannot listen at {address} ({say_why(error)}){hint}") from None


def operate(
    address: str,
    credentials: Credentials,
    files: Sequence[Path],
    folder: Path | None,
    open_: bool,
    limits: Limits,
    started: Callable[[str, int, str], None],
) -> str:
    """Run a relay until a signal says that it is to stop; which one."""
    if not files and folder is None and not open_:
        raise InputError("say for which studies the relay works: --study FILE, --studies FOLDER, or --open")
    if folder is not None and not folder.is_dir():
        raise InputError(f"--studies: {folder} is not a folder")
    if min(limits.connections, limits.per_study, limits.per_participant) < 1:
        raise InputError("--most-connections, --most-per-study and --most-per-participant are at least 1")
    registry = Registry(credentials, files, folder, open_)
    _allow_files(limits)
    with listen_at(address) as listener:
        tell = lambda: started(address, len(registry.entries), registry.fingerprint)  # noqa: E731
        return asyncio.run(_until_signal(registry, limits, listener, tell))


async def _until_signal(
    registry: Registry,
    limits: Limits,
    listener: socket.socket,
    ready: Callable[[], None],
) -> str:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    serving = asyncio.create_task(Relay(registry, limits).serve(listener, ready))

    def stop(number: signal.Signals) -> None:
        told.append(number.name)
        serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    return told[0] if told else "itself"


def _allow_files(limits: Limits) -> None:
    """A connection is a file: as many as there may be, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(max(soft, limits.connections + limits.half_open + 64), FILES)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, soft), hard))
