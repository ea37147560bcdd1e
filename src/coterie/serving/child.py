"""The process of one study at a helper that stays up: it does what `coterie run`, `predict` or `survey` would do there.

It is told what to do on standard input, gets its connections from its parent (`transport.handed`), and says how it goes
on as one JSON object a line on standard output. It has a folder of its own and a limit on its memory, and ends if its
parent does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import CoterieError, Interrupted, StudyError
from coterie.serving.folder import papers_of
from coterie.study.agreement import study_hash
from coterie.study.dumps import no_core_files
from coterie.study.files import write_file
from coterie.study.greetings import Purpose
from coterie.study.prepare import Orders
from coterie.study.renewals import RENEWED
from coterie.study.study_file import load_study
from coterie.study.voice import Voice
from coterie.transport.handed import HandedListener
from coterie.typed import from_json

__all__ = ["MEMORY_MESSAGE", "Home", "Task", "limit_memory", "main"]

#: Seconds to wait for a process that has the same study and is about to end.
LOCKED = 30.0
MEMORY_MESSAGE = "the run needs more memory than a study may have here (--most-memory)"


class Task(msgspec.Struct, frozen=True):
    """What a child is to do. `handle`: of the Unix socket by which connections come; `home`: the study's own folder;
    `memory`: the most bytes; `passphrase`: what opens the key; `proxy`: as in `Orders`."""

    study: str
    hash: str
    purpose: Purpose
    home: str
    key: str
    handle: int
    policy: str | None = None
    wait: float = 3600.0
    patience: float = 10.0
    stall: float | None = None
    most_rows: int | None = None
    memory: int | None = None
    passphrase: bytes | None = None
    proxy: str | None = None

    def __repr__(self) -> str:
        return f"Task({self.study}, {self.purpose})"  # not all of it is for everybody


class Home:
    """A study's own folder: its papers, checkpoints, audit log, ledger, and results by run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.papers, self.checkpoints, self.runs = folder / "papers", folder / "checkpoints", folder / "runs"
        self.audit = folder / "audit.jsonl"
        self.study = self.papers / "study.toml"

    def gather(self, study: Path) -> None:
        """Copy what is new of a study and of what stands beside it, to what was fetched from its participants. What is
        known of renewed keys stays: an older file would let in an older key once more."""
        for folder in (self.papers, self.checkpoints, self.runs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for paper in papers_of(study):
            copy, content = self.papers / f"study{paper.name.removeprefix(study.stem)}", paper.read_bytes()
            learnt = copy.name.endswith(RENEWED)
            if not copy.exists() or (not learnt and copy.read_bytes() != content):
                write_file(copy, content, mode=0o600)

    def prepare(self, study: Path, wanted: str) -> Path:
        """A copy of a study with all its papers, which must be the study that was wanted."""
        self.gather(study)
        if study_hash(load_study(self.study)) != wanted:
            raise StudyError(f"{study} was changed just now; nothing is run before everybody has signed it as it is")
        return self.study

    def bring_ledger(self, key: Path, name: str) -> None:
        """Runs that were counted before this helper stayed up count on: their ledger stands beside the key."""
        before, now = key.resolve().with_name(f"{name}.budget.jsonl"), self.folder / f"{name}.budget.jsonl"
        if before.exists() and not now.exists():
            shutil.copyfile(before, now)

    def next_run(self, purpose: str) -> Path:
        """A place for results, which are numbered."""
        numbers = [int(one.name[:4]) for one in self.runs.iterdir() if one.name[:4].isdigit()]
        return self.runs / f"{max(numbers, default=0) + 1:04}-{purpose}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time: an earlier one may still be about to end."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            end = time.monotonic() + LOCKED
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise StudyError(f"another process runs this study in {self.folder}") from None
                    time.sleep(0.05)
            yield
        finally:
            os.close(handle)


class _Telling(Voice):
    """Tells the parent how a run goes on."""

    def __init__(self, stream: int) -> None:
        self.stream = stream

    def emit(self, event: str, **fields: Any) -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            os.write(self.stream, msgspec.json.encode({"event": event, **fields}) + b"\n")

    def phase(self, text: str) -> None:
        self.emit("phase", text=text)

    def note(self, text: str) -> None:
        self.emit("note", text=text)

    def waiting(self, names: list[str]) -> None:
        self.emit("phase", text=f"waiting for {', '.join(names)}")

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        again = f" of start {start + 1}" if start else ""
        self.emit("phase", text=f"iteration {iteration}{again} of at most {most}", sent=sent)


def limit_memory(most: int) -> None:
    """No more than so many bytes for this process: what it asks for beyond that is refused (a MemoryError), however
    much the machine has. On Linux RLIMIT_DATA counts what a process may write and shares with nobody, and not what is
    merely mapped."""
    for limit in (resource.RLIMIT_DATA, *(() if sys.platform == "linux" else (resource.RLIMIT_AS,))):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def main() -> None:
    """Read the task, do it, and end with its exit code."""
    no_core_files()
    os.umask(0o077)
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not look like an event
    voice = _Telling(out)
    task = from_json(sys.stdin.buffer.read(), Task)
    if task.memory is not None:
        limit_memory(task.memory)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the parent, who stops in order
    try:
        with Home(Path(task.home)).locked():
            where = _work(task, voice)
        voice.emit("end", code=0, text="done", out=where.name)
        code = 0
    except CoterieError as error:
        code = error.exit_code
        voice.emit("end", code=code, text=str(error))
    except Exception as error:  # never a traceback: it may show what a local variable holds
        code = 70
        lacking = isinstance(error, MemoryError) or str(error) == "can't start new thread"
        voice.emit("end", code=code, text=MEMORY_MESSAGE if lacking else f"internal error ({type(error).__name__})")
    os._exit(code)  # threads that still look at a peer are not waited for


def _interrupt(number: int, frame: object) -> None:  # noqa: ARG001
    raise Interrupted("stopped by SIGTERM")


def _work(task: Task, voice: _Telling) -> Path:
    home, key = Home(Path(task.home)), Path(task.key)
    study = home.prepare(Path(task.study), task.hash)
    known = load_study(study)
    assert known.roles.dealer is not None
    home.bring_ledger(key, known.roles.dealer)

    def door() -> HandedListener:
        voice.emit("open")
        handle = os.dup(task.handle)  # after a break of the network, the door is opened once more
        return HandedListener(socket.socket(fileno=handle), lambda: os.kill(os.getpid(), signal.SIGTERM))

    orders = Orders(
        study,
        key,
        out=home.next_run(task.purpose),
        policy=None if task.policy is None else Path(task.policy),
        audit=home.audit,
        state=home.checkpoints,
        wait=task.wait,
        patience=task.patience,
        stall=task.stall,
        door=door,
        ledger=home.folder,
        most_rows=task.most_rows,
        passphrase=task.passphrase,
        proxy=task.proxy,
        own_process=True,
    )
    if task.purpose == "survey":
        from coterie.study.survey import run_survey

        return run_survey(orders, voice)
    if task.purpose == "predict":
        from coterie.study.predict import predict_rows

        return predict_rows(orders, voice)
    from coterie.study.run import run_study

    return run_study(orders, voice)


if __name__ == "__main__":
    main()
