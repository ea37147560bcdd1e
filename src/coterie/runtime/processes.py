"""Every role as an operating-system process of its own, over mutual TLS on loopback."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie import errors
from coterie.errors import CoterieError, PartyFailed, TransportError
from coterie.runtime.job import Job, Report, read_package, report_of, write_job, write_package
from coterie.runtime.threads import attributed, root_cause
from coterie.transport import World
from coterie.transport.certificates import create_credentials
from coterie.transport.links import Link, Relay

__all__ = ["Usage", "run_processes"]

#: No worker needs BLAS, whose threads would only be in the way.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
#: What a worker tells of what it took; the fields of `Usage`.
COSTS = ("seconds", "busy", "peak")
Worker = subprocess.Popen[bytes]


@dataclass
class Usage:
    """What a run cost, by rank: seconds from the first connection to the end, seconds of processor time, and
    peak memory in bytes."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)


def run_processes(
    world: World,
    jobs: Sequence[Job],
    usage: Usage | None = None,
    patience: float = 10.0,
    link: Link | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Report]:
    """Do the jobs, by rank, and return the reports in the order of ranks.

    Keys and certificates are made for this run alone. If a role fails, its exception is raised here
    with the party's name, after all processes have ended. `link` simulates slower connections. `say`: told of each
    iteration that another one follows, by the first who owns data.
    """
    workers: dict[int, Worker] = {}
    relays: list[Relay] = []
    try:
        _start(world, workers)
        _introduce(world, workers, jobs, patience)
        addresses = {rank: _listens_at(workers[rank], world.names[rank]) for rank in world.ranks}
        dialled = dict.fromkeys(world.ranks, addresses)  # by who dials
        if link is not None:
            for rank in world.ranks:
                between = {other: Relay(*addresses[other], link) for other in world.ranks}
                relays += between.values()
                dialled[rank] = {other: (relay.host, relay.port) for other, relay in between.items()}
        outcomes = _follow(world, workers, jobs, dialled, say)
    finally:
        for worker in workers.values():
            _end(worker)
        for relay in relays:
            relay.close()
    failed = {world.names[rank]: out for rank, out in outcomes.items() if isinstance(out, BaseException)}
    if failed:
        name = root_cause(failed)
        raise attributed(failed[name], name)
    done = [outcomes[rank] for rank in world.ranks]
    reports = [one for one in done if not isinstance(one, BaseException)]
    if usage is not None:
        usage.seconds, usage.busy, usage.peak = ([cost[name] for _, cost in reports] for name in COSTS)
    return [report for report, _ in reports]


def _start(world: World, workers: dict[int, Worker]) -> None:
    """A process for everybody. All of them are started before any is told something: they load at once."""
    for rank in world.ranks:
        workers[rank] = subprocess.Popen(
            [sys.executable, "-m", "coterie.runtime.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ENVIRONMENT, **os.environ},
        )


def _introduce(world: World, workers: dict[int, Worker], jobs: Sequence[Job], patience: float) -> None:
    """Tell everybody who it is, and which family's kernels it will need."""
    credentials = {rank: create_credentials(world.names[rank]) for rank in world.ranks}
    session = secrets.token_bytes(16).hex()
    for rank in world.ranks:
        fields: dict[str, Any] = {
            "names": list(world.names),
            "serving": list(world.serving),
            "session": session,
            "rank": rank,
            "key": credentials[rank].key,
            "certificates": {other: one.certificate for other, one in credentials.items()},
            "patience": patience,
            "protocol": jobs[rank].task.protocol,
        }
        _tell(workers[rank], world.names[rank], lambda stdin, f=fields: write_package(stdin, f, {}))


def _listens_at(worker: Worker, name: str) -> tuple[str, int]:
    fields, _ = _answer(worker, name)
    return fields["host"], fields["port"]


def _follow(
    world: World,
    workers: dict[int, Worker],
    jobs: Sequence[Job],
    dialled: dict[int, dict[int, tuple[str, int]]],
    say: Callable[[str], None] | None,
) -> dict[int, tuple[Report, dict[str, Any]] | BaseException]:
    """Give everybody its job; by rank, what came of it, with what it cost."""
    outcomes: dict[int, tuple[Report, dict[str, Any]] | BaseException] = {}

    def follow(rank: int) -> None:
        try:
            worker, name = workers[rank], world.names[rank]
            says = say is not None and rank == world.owners[0]
            _tell(worker, name, lambda stdin: write_package(stdin, {"addresses": dialled[rank], "says": says}, {}))
            _tell(worker, name, lambda stdin: write_job(stdin, jobs[rank]))
            fields, _ = _answer(worker, name)
            while "said" in fields and say is not None:
                say(fields["said"])
                fields, _ = _answer(worker, name)
            if not fields["done"]:
                raise _rebuilt(fields)
            outcomes[rank] = report_of(*_answer(worker, name)), fields
        except BaseException as error:  # raised in the caller's thread
            outcomes[rank] = error

    followers = [threading.Thread(target=follow, args=(rank,), daemon=True) for rank in world.ranks]
    for thread in followers:
        thread.start()
    for thread in followers:
        thread.join()
    return outcomes


def _tell(worker: Worker, name: str, write: Any) -> None:
    try:
        write(worker.stdin)
    except BrokenPipeError as error:
        raise attributed(PartyFailed(f"the process of {name} ended before it had its orders"), name) from error


def _answer(worker: Worker, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
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


def _end(worker: Worker) -> None:
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
