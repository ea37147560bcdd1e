"""What a process leaves when it ends badly: no core dump, and an orderly stop when its terminal hangs up."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import numpy as np
import pytest

from coterie.study.dumps import undumpable
from tests.study.walk import SMALL, Cast, wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux'")
#: The command line, which says before every phase whether it could be dumped, and in the end how large a core file
#: may be.
TELLING = """
import atexit, ctypes, resource, sys
atexit.register(lambda: print("core", resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True))
from coterie.cli.app import main
from coterie.cli.progress import Progress
phase = Progress.phase
def telling(self, text):
    print("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "at", text, flush=True)
    phase(self, text)
Progress.phase = telling
main()
"""


@pytest.fixture
def waiting(cast):
    """A study, and data: whoever starts waits for the others."""
    cast.agree(*SMALL)
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    cast.program = ("-c", TELLING)
    return cast


def test_every_verb_forbids_core_files(cast):
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    if most == 0:
        pytest.skip("core files are forbidden here for everybody")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    command = [sys.executable, "-c", TELLING, "identity", "show", str(cast.identity("alice"))]
    said = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=allow)
    assert said.stdout.splitlines()[-1] == "core 0"


@linux
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_nobody_can_look_into_a_run(waiting, number):
    """From when its keys are loaded. And a hang-up is an orderly stop."""
    alice = waiting.start("alice")
    wait_until(lambda: "waiting for helper, bob" in waiting.out("alice"), what="waiting")
    alice.send_signal(number)
    assert waiting.finish(alice) == 10, waiting.said()
    assert f"stopped by {number.name}; start it again, all of you" in waiting.err("alice")
    said = waiting.out("alice")
    assert "dumpable 1 at checking key" in said
    assert "dumpable 0 at waiting for the others" in said
    assert "core 0" in said
    assert [entry["event"] for entry in waiting.audit("alice")] == ["started", "stopped"]


@pytest.mark.slow
@linux
def test_as_anybody_but_root():
    """Keys are loaded through /proc/self/fd, which is closed to an undumpable process of an ordinary user."""
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("only root can be somebody else; for anybody else the test above is this one")
    if subprocess.run([*become, sys.executable, "-c", "import coterie"], capture_output=True, check=False).returncode:
        pytest.skip("nobody else may read this installation")
    folder = Path(tempfile.mkdtemp())
    try:
        with Cast(folder) as cast:
            cast.agree(*SMALL)
            cast.give("alice", x=np.zeros(20), y=np.zeros(20))
            cast.program, cast.prefix["alice"] = ("-c", TELLING), tuple(become)
            for path in (folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
            alice = cast.start("alice", environment={"NUMBA_CACHE_DIR": str(folder), "HOME": str(folder)})
            wait_until(lambda: "waiting for helper, bob" in cast.out("alice") or alice.poll(), 120, "waiting")
            assert "dumpable 0 at waiting for the others" in cast.out("alice"), cast.said()
            alice.send_signal(signal.SIGHUP)
            assert cast.finish(alice) == 10, cast.said()
    finally:
        shutil.rmtree(folder)


@linux
def test_a_terminal_that_hangs_up(waiting):
    """The others hear of it, the log says so, and the exit code is that of an interruption, though nobody reads why."""
    here, there = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *waiting.arguments("alice")],
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    waiting.processes["alice"] = process
    os.close(there)
    seen = b""
    while b"waiting for" not in seen:
        seen += os.read(here, 4096)
    os.close(here)
    assert waiting.finish(process) == 10
    last = waiting.audit("alice")[-1]
    assert (last["event"], last["error"], last["code"]) == ("stopped", "Interrupted", 10)


def test_nohup_is_left_alone(waiting):
    """Who starts a run so that it outlives the terminal means it."""
    waiting.program = ("-m", "coterie")
    waiting.prefix["alice"] = ("nohup",)
    alice = waiting.start("alice")
    wait_until(lambda: "waiting for helper, bob" in waiting.out("alice"), what="waiting")
    alice.send_signal(signal.SIGHUP)
    alice.send_signal(signal.SIGTERM)
    assert waiting.finish(alice) == 10
    assert "stopped by SIGTERM" in waiting.err("alice")


@linux
def test_afterwards_all_is_as_before():
    import ctypes

    def dumpable() -> int:
        return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)

    before = dumpable()
    with pytest.raises(ValueError, match="within"), undumpable():
        assert dumpable() == 0
        raise ValueError("within")
    assert dumpable() == before
