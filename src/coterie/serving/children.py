"""The processes of the studies that run: started, told of connections, listened to, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from coterie.serving.child import Task
from coterie.transport.handed import hand_over
from coterie.typed import from_json

__all__ = ["Child", "Ending"]

#: What a child may know of its parent's environment: where things are, and nothing that concerns a study.
KEPT = (
    *("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "NUMBA_CACHE_DIR", "CREDENTIALS_DIRECTORY"),
    *("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"),
)
#: The longest line that a child may say.
LINE = 1 << 16
#: Threads of numeric libraries set memory aside each; the program has its own lanes.
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class Ending(msgspec.Struct, frozen=True):
    """How a run ended here, for people to read. `out`: the folder with its results, if there are any."""

    purpose: str
    began: float
    ended: float
    code: int
    text: str
    out: str = ""


class Child:
    """A process that runs one study. `open`: connections can be handed over; `phase`: what it does."""

    def __init__(self, task: Task, told: Callable[[dict[str, Any]], None], ended: Callable[[Ending], None]) -> None:
        """`told` hears what the child says, and `ended` how it ended, once; both in a thread of the child's."""
        self.task, self.began = task, time.time()
        self.open, self.phase, self.sent = False, "starting", 0
        self._told, self._ended = told, ended
        self._end: dict[str, Any] = {}
        self._mine, theirs = socket.socketpair()
        self._mine.setblocking(False)
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "coterie.serving.child"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**{name: os.environ[name] for name in KEPT if name in os.environ}, **ALONE},
                    start_new_session=True,
                )
                self._give(msgspec.structs.replace(task, handle=theirs.fileno()))
        except BaseException:
            self._mine.close()
            raise
        self._thread = threading.Thread(target=self._listen, name="coterie-child", daemon=True)
        self._thread.start()

    def _give(self, task: Task) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError), self.process.stdin as stream:
            stream.write(msgspec.json.encode(task))

    def hand(self, plain: socket.socket) -> bool:
        """Hand over a connection; False if the child does not take it."""
        return hand_over(plain, self._mine)

    def interrupt(self) -> None:
        """It stops as if told so by its operator: the others hear of it, and the run can be taken up again."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()

    def join(self, seconds: float) -> bool:
        """Has it ended, at the latest after so many seconds?"""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while line := stream.readline(LINE):
                self._hear(line)
        code = self.process.wait()
        self.open = False
        self._mine.close()
        text = str(self._end.get("text", ""))[:500]
        if not text:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(code)
            text = (
                f"the study's process was ended by {name}" if code < 0 else "the study's process ended without a word"
            )
        out = str(self._end.get("out", ""))[:100] if not code else ""
        self._ended(Ending(self.task.purpose, self.began, time.time(), code, text, out))

    def _hear(self, line: bytes) -> None:
        """A child that says what cannot be understood is not believed, and nothing else happens."""
        try:
            said = from_json(line, dict[str, Any])
        except (ValueError, RecursionError):
            return
        event = said.get("event")
        if event == "open":
            self.open = True
        elif event == "phase":
            self.phase = str(said.get("text", ""))[:200]
            sent = said.get("sent")
            self.sent = sent if isinstance(sent, int) else self.sent
        elif event == "end":
            self._end = said
        self._told(said)
