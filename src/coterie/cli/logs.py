"""`--log FILE`: what happens, as JSON lines for operators (docs/operating.md lists the events).

It is a handler on the logger `coterie`. A line that cannot be written is left out and counted: no run stops because of
its log.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from coterie import __version__
from coterie.cli.console import Console, json_line
from coterie.errors import CoterieError, InputError
from coterie.events import tell
from coterie.software import software_digest

__all__ = ["JsonLines", "describe_failure", "logging_to"]

log = logging.getLogger(__name__)
#: Beside the codes of `errors`: interrupted, and what should not have happened.
INTERRUPTED, INTERNAL = 10, 70
#: The one event that names study and participant; later lines repeat them.
RECOGNISED = "recognised"
#: Events that strangers can cause: so many lines of them in so many seconds, and no more.
LIMITED, MOST, PERIOD = "refused", 60, 60.0


class JsonLines(logging.Handler):
    """Appends one JSON object a line to a file. If somebody moves the file away, a new one is begun."""

    def __init__(self, path: Path, command: str) -> None:
        super().__init__(logging.INFO)
        self.path, self.common = path, {"command": command, "pid": os.getpid()}
        self.lost = 0
        self._handle, self._torn = self._open(), False
        self._since, self._seen, self._left_out = 0.0, 0, 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._emit(record)
        except Exception:  # a full disk, a text that is no text: the run goes on
            self.lost += 1

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._handle)
        super().close()

    def _emit(self, record: logging.LogRecord) -> None:
        event, fields = getattr(record, "event", "message"), dict(getattr(record, "fields", {}))
        if event == LIMITED and not self._allowed():
            return
        if event == RECOGNISED:
            self.common |= {name: fields[name] for name in ("study", "study_hash", "participant") if name in fields}
        left_out, self._left_out = self._left_out, 0
        self._write(
            json_line(
                {
                    "time": _iso(record.created),
                    "level": record.levelname.lower(),
                    "event": event,
                    "text": record.getMessage(),
                    **self.common,
                    **fields,
                    **({"left_out": left_out} if left_out else {}),
                }
            )
        )

    def _allowed(self) -> bool:
        """Whoever knocks again and again fills no disk."""
        now = time.monotonic()
        if now - self._since > PERIOD:
            self._since, self._seen = now, 0
        self._seen += 1
        self._left_out += self._seen > MOST
        return self._seen <= MOST

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)

    def _write(self, line: str) -> None:
        """The whole line in one call, so that several processes may share a file."""
        self._follow()
        raw = ("\n" * self._torn + line + "\n").encode()
        written = os.write(self._handle, raw)
        self._torn = written < len(raw)
        if self._torn:
            raise OSError("the line was cut off")

    def _follow(self) -> None:
        """Begin a new file if the old one was moved or removed, as programs do that rotate logs."""
        here = os.fstat(self._handle)
        try:
            there = os.stat(self.path)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                return
        except FileNotFoundError:
            pass
        handle = self._open()
        os.close(self._handle)
        self._handle, self._torn = handle, False


@contextlib.contextmanager
def logging_to(path: Path | None, command: str, console: Console) -> Iterator[None]:
    """While this lasts, events of the loggers of `coterie` go to the file: first the start of the command, last its
    error, if there is one, in the words of the console, and its end. Without a path nothing is written."""
    if path is None:
        yield
        return
    try:
        handler = JsonLines(path, command)
    except OSError as error:
        raise InputError(f"--log: {path} cannot be written ({error.strerror})") from None
    loggers = logging.getLogger("coterie")
    before, began, code = loggers.level, time.monotonic(), 0
    loggers.addHandler(handler)
    loggers.setLevel(min(loggers.getEffectiveLevel(), logging.INFO))
    try:
        tell(log, logging.INFO, "start", f"coterie {command} starts", version=__version__, digest=software_digest())
        yield
    except BaseException as error:
        text, code = describe_failure(error)
        peer = getattr(error, "peer", "") or None
        tell(log, logging.ERROR, "error", text, error=type(error).__name__, code=code, peer=peer)
        raise
    finally:
        seconds = round(time.monotonic() - began, 3)
        tell(log, logging.INFO, "end", f"coterie {command} ends with code {code}", code=code, seconds=seconds)
        loggers.removeHandler(handler)
        loggers.setLevel(before)
        handler.close()
        if handler.lost:
            console.say(f"{handler.lost} lines could not be written to {path}", "log", lost=handler.lost)


def describe_failure(error: BaseException) -> tuple[str, int]:
    """What people are told of an error, and the exit code. Never a traceback: it may show what a variable holds."""
    if isinstance(error, CoterieError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; a run goes on if it is started again, by all of you", INTERRUPTED
    return f"internal error ({type(error).__name__}); please report what you were doing", INTERNAL


def _iso(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="milliseconds")
