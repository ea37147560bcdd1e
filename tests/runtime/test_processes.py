"""Roles as processes: the same result as anywhere else; a process that dies or fails is named, and none is left."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import InputError, PartyFailed, PeerLost
from coterie.protocols import SecureNN
from coterie.runtime import processes
from coterie.runtime.job import Job, do, write_package
from coterie.runtime.oracle import run_oracle
from coterie.runtime.processes import Usage, run_processes
from coterie.runtime.threads import run_threads
from coterie.runtime.worker import main
from coterie.transport import World
from coterie.transport.certificates import create_credentials
from tests.runtime.tasks import NAMES, TABLE, endless, jobs, task
from tests.support import world

pytestmark = pytest.mark.timeout(120)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.fixture
def workers(monkeypatch):
    """The worker processes by rank, as they are started. All must have ended when the test does."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(processes.subprocess, "Popen", Recorded)
    yield started
    left = [worker.pid for worker in started if worker.poll() is None]
    for worker in started:
        worker.kill()
        worker.wait()
    assert left == []


def same_results(reports, others):
    for report, other in zip(reports, others, strict=True):
        one, two = report.outcome, other.outcome
        for name in ("centers", "rows", "labels", "counts"):
            assert np.array_equal(getattr(one, name), getattr(two, name)), name
        for name in ("n_iter", "center_columns", "inertia", "disclosures", "traffic"):
            assert getattr(one, name) == getattr(two, name), name


@pytest.mark.parametrize("lanes", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_fit_equals_the_oracle_and_a_fit_by_threads(workers, lanes):
    """Results, disclosures and traffic: none depends on the transport."""
    given = jobs(counts="revealed", lanes=lanes, block_rows=5)
    usage = Usage()
    reports = run_processes(World(NAMES), given, usage)
    wanted = run_oracle(given[0].task, TABLE)
    for rank, own in ((1, slice(0, 5)), (2, slice(5, None))):
        outcome = reports[rank].outcome
        assert np.array_equal(outcome.centers, wanted.centers)
        assert np.array_equal(outcome.labels, wanted.labels[own])
        assert np.array_equal(outcome.counts, [4, 4, 4])
        assert (outcome.n_iter, outcome.inertia) == (wanted.n_iter, wanted.inertia)
    same_results(reports, run_threads(world(2), lambda me: do(me, given[me.rank]), lanes=lanes))
    assert len(usage.seconds) == len(usage.busy) == len(usage.peak) == 3
    assert min(usage.seconds) > 0
    assert min(usage.busy) > 0
    assert min(usage.peak) > 1 << 20


def test_iterations_are_told_while_they_pass(workers):
    """By one alone; a run that was cut short after three of them could not tell them afterwards."""
    said, most = [], 400

    def say(text):
        said.append(text)
        if len(said) == 4:
            workers[2].kill()

    with pytest.raises((PartyFailed, PeerLost)):
        run_processes(World(NAMES), jobs(tol=-1.0, max_iter=most), say=say)
    begun, *others = said
    assert len(others) < most - 1
    assert begun == "Initialization complete, start 1"
    for number, text in enumerate(others, 1):
        assert text.startswith(f"Iteration {number}, inertia not opened, of at most {most}, ")


def test_the_failure_of_a_job_is_that_party_s(workers):
    """P2 brings a block that does not fit the agreed layout."""
    with pytest.raises(InputError, match="party P2: the block has shape") as caught:
        run_processes(World(NAMES), [*jobs()[:2], Job(task(), block=TABLE[:2])])
    assert caught.value.party == "P2"


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_process_that_ends_before_it_has_its_orders_is_named(monkeypatch, rank):
    """Some cannot even start: no memory, a library that is missing."""
    real, started = subprocess.Popen, []

    def failing(command, **kwargs):
        started.append(real([sys.executable, "-c", ""] if len(started) == rank else command, **kwargs))
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", failing)
    with pytest.raises(PartyFailed, match=f"process of P{rank} ended") as caught:
        run_processes(World(NAMES), jobs())
    assert caught.value.party == f"P{rank}"
    assert all(worker.poll() is not None for worker in started)


def test_a_worker_loads_the_kernels_of_its_family_before_it_listens(monkeypatch):
    """Nobody waits for somebody else's compiler."""

    class Stop(Exception):
        pass

    def fail(family, *, alone):
        assert (family, alone) == (SecureNN, True)
        raise Stop

    told, names, credentials = io.BytesIO(), ("P0", "P1"), create_credentials("P1")
    fields = {"names": names, "session": "00" * 16, "serving": (), "rank": 1, "protocol": "securenn", "key": "key"}
    write_package(told, fields | {"certificates": {1: credentials.certificate}, "patience": 1.0}, {})
    told.seek(0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(told))
    monkeypatch.setattr(sys, "stdout", answers := io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr("coterie.runtime.worker.load_family", fail)
    monkeypatch.setattr("coterie.runtime.worker.Listener", lambda: pytest.fail("it listens"))
    with pytest.raises(Stop):
        main()
    assert answers.buffer.getvalue() == b""


# -- processes that are killed -------------------------------------------------------------------------------


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


def sockets(pid):
    links = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(entry))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def listening():
    """The inodes of all sockets that listen."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {row[9] for row in rows if row[3] == "0A"}


def at_work(pid, connections):
    """Whether a worker has all its connections, and listens no more: the roles are at work."""
    own = sockets(pid)
    return len(own) == connections and not own & listening()


def kill_at_work(workers, rank, lanes):
    """Wait until all three are at work, and kill one."""
    connections = 2 * 2 * (1 + lanes)
    until(lambda: len(workers) == 3)
    until(lambda: all(at_work(worker.pid, connections) for worker in workers))
    os.kill(workers[rank].pid, signal.SIGKILL)


@linux_only
@pytest.mark.parametrize(("rank", "lanes"), [(0, 0), (1, 2), (2, 0)])
def test_a_process_that_is_killed_is_named_and_the_others_end(workers, rank, lanes):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_processes, World(NAMES), endless(lanes=lanes, block_rows=5))
        try:
            kill_at_work(workers, rank, lanes)
            error = running.exception(30)
        finally:
            for worker in workers:
                worker.kill()
    assert isinstance(error, PartyFailed | PeerLost)
    assert error.party == f"P{rank}"
    assert f"P{rank}" in str(error)


@linux_only
@pytest.mark.slow
def test_workers_end_with_their_parent():
    """The caller's process is killed: whoever has started nothing else must find nothing of it left."""
    code = "from tests.runtime.tasks import *; from coterie.runtime.processes import *; "
    code += "from coterie.transport import World; "
    code += "run_processes(World(NAMES), endless())"
    parent = subprocess.Popen([sys.executable, "-c", code])

    def children():
        return [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]

    def gone(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    try:
        until(lambda: len(children()) == 3)
        pids = children()
        until(lambda: all(at_work(pid, 4) for pid in pids))
    finally:
        parent.kill()
        parent.wait()
    until(lambda: all(gone(pid) for pid in pids), 30)
