"""Every role as an operating-system process of its own, over mutual TLS on loopback."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie import errors
from coterie.errors import CoterieError, PartyFailed, TransportError
from coterie.local.job import Job, Report, read_package, report_of, write_job, write_package
from coterie.local.threads import attributed, root_cause
from coterie.transport import World
from coterie.transport.certificates import create_credentials
from coterie.transport.links import Link, Relay

__all__ = ["Usage", "run_processes"]

#: No worker needs BLAS, whose threads would only be in the way.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Usage:
    """What a run cost, by rank: seconds from the first connection to the end, seconds of processor time, and
    peak memory in bytes."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)


def run_processes(
    world: World | Sequence[str],
    jobs: Sequence[Job],
    usage: Usage | None = None,
    patience: float = 10.0,
    link: Link | None = None,
) -> list[Report]:
    """Do the jobs, by rank, and return the reports in the order of ranks. Names alone are those of a helper and of
    parties that all serve.

    Keys and certificates are made for this run alone. If a role fails, its exception is raised here
    with the party's name, after all processes have ended. `link` simulates slower connections.
    """
    world = world if isinstance(world, World) else World(tuple(world))
    names, ranks = world.names, world.ranks
    relays: list[Relay] = []
    credentials = {rank: create_credentials(names[rank]) for rank in ranks}
    session = secrets.token_bytes(16).hex()
    workers: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for rank in ranks:
            workers[rank] = subprocess.Popen(
                [sys.executable, "-m", "coterie.local.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**ENVIRONMENT, **os.environ},
            )
            fields: dict[str, Any] = {
                "names": list(names),
                "serving": list(world.serving),
                "session": session,
                "rank": rank,
                "key": credentials[rank].key,
                "certificates": [credentials[j].certificate if j in ranks else b"" for j in range(len(names))],
                "patience": patience,
            }
            _tell(workers[rank], names[rank], lambda stdin, f=fields: write_package(stdin, f, {}))
        addresses = [("", 0)] * len(names)
        for rank in ranks:
            fields, _ = _answer(workers[rank], names[rank])
            addresses[rank] = fields["host"], fields["port"]
        dialled = [list(addresses) for _ in names]  # by who dials
        if link is not None:
            for i in ranks:
                for j in ranks:
                    relays.append(Relay(*addresses[j], link))
                    dialled[i][j] = (relays[-1].host, relays[-1].port)

        outcomes: dict[int, Report | BaseException] = {}
        details: dict[int, dict[str, Any]] = {}

        def follow(rank: int) -> None:
            try:
                worker, name = workers[rank], names[rank]
                _tell(worker, name, lambda stdin: write_package(stdin, {"addresses": dialled[rank]}, {}))
                _tell(worker, name, lambda stdin: write_job(stdin, jobs[rank]))
                fields, _ = _answer(worker, name)
                if not fields["done"]:
                    raise _rebuilt(fields)
                details[rank] = fields
                outcomes[rank] = report_of(*_answer(worker, name))
            except BaseException as error:  # raised below, in the caller's thread
                outcomes[rank] = error

        followers = [threading.Thread(target=follow, args=(rank,), daemon=True) for rank in ranks]
        for thread in followers:
            thread.start()
        for thread in followers:
            thread.join()
    finally:
        for worker in workers.values():
            _end(worker)
        for relay in relays:
            relay.close()
    failed = {names[rank]: out for rank, out in outcomes.items() if isinstance(out, BaseException)}
    if failed:
        name = root_cause(failed)
        raise attributed(failed[name], name)
    if usage is not None:
        usage.seconds = [details[rank]["seconds"] for rank in ranks]
        usage.busy = [details[rank]["busy"] for rank in ranks]
        usage.peak = [details[rank]["peak"] for rank in ranks]
    return [report for _, report in sorted(outcomes.items()) if isinstance(report, Report)]


def _tell(worker: subprocess.Popen[bytes], name: str, write: Any) -> None:
    try:
        write(worker.stdin)
    except BrokenPipeError as error:
        raise attributed(PartyFailed(f"the process of {name} ended before it had its orders"), name) from error


def _answer(worker: subprocess.Popen[bytes], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    assert worker.stdout is not None
    package = read_package(worker.stdout)
    if package is None:
        raise attributed(PartyFailed(f"the process of {name} ended without a word (exit code {worker.wait()})"), name)
    return package


def _rebuilt(fields: dict[str, Any]) -> CoterieError:
    """The exception that a worker described."""
    kind = getattr(errors, fields["kind"], None) if fields["known"] else None
    if kind is None:
        return PartyFailed(f"{fields['kind']}: {fields['message']}")
    if issubclass(kind, TransportError):
        lost: TransportError = kind(fields["message"], fields["peer"] or "")
        return lost
    rebuilt: CoterieError = kind(fields["message"])
    return rebuilt


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Let a worker that is done go, and end one that is not."""
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        worker.wait(5)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
