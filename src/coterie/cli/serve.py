"""`coterie serve`, a helper that stays up, and `coterie status`, what it does."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.console import Console
from coterie.cli.logs import logging_to
from coterie.cli.options import Key, LogFile, PassphraseFd, Patience, PolicyFile, ProxyUrl, Stall, Wait, check_times
from coterie.cli.passphrases import passphrase_for
from coterie.errors import InputError, PeerUnreachable
from coterie.events import tell

if TYPE_CHECKING:
    from coterie.serving.status import Status

LOG = logging.getLogger(__name__)

__all__ = ["parse_place", "parse_size", "serve", "status"]

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: A study's process does not start with less.
LEAST_MEMORY = 256 << 20
State = Annotated[Path, typer.Option("--state", help="The folder for all that is kept: of its own, and written to.")]
STATE = Path("serve")


def parse_size(text: str | None) -> int | None:
    """Bytes: 2G, 512M, 1500000000."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,15})([KMGTkmgt]?)(?:i?[Bb])?", text.strip())
    size = int(found[1]) * UNITS[found[2].lower()] if found else 0
    if size < LEAST_MEMORY:
        raise InputError(f"--most-memory {text}: write a size such as 2G or 512M, at least 256M")
    return size


def parse_place(text: str | None) -> tuple[str, int] | None:
    """HOST:PORT, or a PORT of this machine alone."""
    from coterie.study.identity import split_address

    if text is None:
        return None
    return split_address(f"127.0.0.1:{text}" if text.isdigit() else text, "--status")


def serve(
    context: typer.Context,
    key: Key,
    studies: Annotated[Path, typer.Option("--studies", help="The folder of the studies, with signatures beside them.")],
    state: State = STATE,
    listen: Annotated[str | None, typer.Option("--listen", help="HOST:PORT; the studies' address if left out.")] = None,
    proxy: ProxyUrl = None,
    policy: PolicyFile = None,
    passphrase_fd: PassphraseFd = None,
    most_studies: Annotated[int, typer.Option("--most-studies", help="The most studies that run at once.")] = 4,
    most_rows: Annotated[
        int | None, typer.Option("--most-rows", help="The most rows of a run, of all parties.")
    ] = None,
    most_memory: Annotated[
        str | None, typer.Option("--most-memory", help="The most memory of each study's process, such as 2G.")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="PORT, or HOST:PORT, for a page; PORT is for this machine alone.")
    ] = None,
    grace: Annotated[float, typer.Option("--grace", help="Seconds that running studies have, when stopped.")] = 30.0,
    wait: Wait = 3600.0,
    timeout: Patience = 10.0,
    stall: Stall = None,
    log: LogFile = None,
) -> None:
    """Be the helper of many studies: those in a folder that you have signed. Each runs in a process of its own, started
    when its participants come.

    SIGTERM stops it in order: nothing new is begun, what runs has --grace seconds to end, and is then interrupted so
    that it goes on when everybody starts again.
    """
    from coterie.serving.server import Server, Settings
    from coterie.serving.server import serve as keep_serving
    from coterie.study.policy import load_policy

    console: Console = context.obj
    if most_studies < 1 or (most_rows is not None and most_rows < 1):
        raise InputError("--most-studies and --most-rows are at least 1")
    check_times(timeout, wait, stall)
    if not grace >= 0:
        raise InputError("--grace is a number of seconds, at least 0")
    load_policy(policy, key)
    memory, page = parse_size(most_memory), parse_place(status)
    settings = Settings(
        key, studies, state, listen, policy, most_studies, most_rows, memory, page, grace, wait, timeout, stall,
        passphrase_for(key, passphrase_fd), proxy,
    )  # fmt: skip

    def note(text: str) -> None:
        console.say(f"{time.strftime('%H:%M:%S')} {text}", "note")
        tell(LOG, logging.INFO, "note", text)

    def ready(server: Server, where: str) -> None:
        said = f"serving {server.where}; status: coterie status --state {state}"
        console.say(said, "serving", listen=server.where)
        if where:
            console.say(f"status page: {where}", "page", page=where)

    with logging_to(log, "serve", console):
        keep_serving(settings, note, ready)
    console.say("stopped", "stopped")


def status(
    context: typer.Context,
    state: State = STATE,
    health: Annotated[bool, typer.Option("--health", help="Say only whether it is well; exit code 6 if not.")] = False,
) -> None:
    """Say what a `coterie serve` on this machine does: which studies it serves, what runs, how runs ended."""
    import msgspec

    from coterie.serving.status import ask_status

    console: Console = context.obj
    now = ask_status(state)
    if health:
        if not now.healthy:
            raise PeerUnreachable(f"{now.helper} is not well: {'; '.join(now.problems) or 'it is stopping'}")
        console.say("healthy", "health", healthy=True)
        return
    console.say("\n".join(_describe(now)), "status", healthy=now.healthy, **msgspec.to_builtins(now))


def _describe(now: Status) -> list[str]:
    from coterie.report.formats import format_bytes, format_duration

    running = sum(one.running is not None for one in now.studies)
    well = "healthy" if now.healthy else f"not healthy: {'; '.join(now.problems) or 'stopping'}"
    lines = [
        f"{now.helper}: {well}, reached {now.listen}, up for {format_duration(time.time() - now.since)}; "
        f"{running} of at most {now.most_studies} studies run"
    ]
    for relay in now.relays:
        trouble = "registered" if relay.registered else f"not registered{relay.trouble and ': '}{relay.trouble}"
        lines.append(f"  {relay.relay}: {trouble}")
    for one in now.studies:
        lines.append(f"  {one.name} ({one.file}): {one.standing}{one.why and ': '}{one.why}")
        if one.running is not None:
            took = format_duration(time.time() - one.running.since)
            held = f", {format_bytes(one.running.memory)} of memory" if one.running.memory else ""
            lines.append(f"    {one.running.purpose}: {one.running.phase}, for {took}{held}")
        elif one.last is not None:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last.ended))
            lines.append(f"    last: {one.last.purpose}, {when}: {one.last.text} {one.last.out}".rstrip())
    for why, count in now.refused.items():
        lines.append(f"  refused connections, {why}: {count}")
    return lines
