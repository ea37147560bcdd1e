"""The audit log: one line an event, each with the hash of the one before it."""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import InputError, StudyError
from coterie.study.files import canonical

__all__ = ["Audit", "verify_audit"]

START = "0" * 64


class Audit:
    """Appends to a log. Lines are on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, event: str, **fields: Any) -> str:
        """One event; returns its hash."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o640)
        except OSError as error:
            raise InputError(f"the audit log {self.path} cannot be written ({error.strerror})") from None
        with os.fdopen(handle, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two runs may share a log
            number, previous = _last(file.read(), self.path)
            entry = {
                "number": number + 1,
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
                "event": event,
                **fields,
                "previous": previous,
            }
            entry["hash"] = hashlib.sha256(canonical(entry)).hexdigest()
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return str(entry["hash"])


def _last(content: bytes, path: Path) -> tuple[int, str]:
    lines = content.split(b"\n")
    if lines[-1]:
        raise StudyError(
            f"the audit log {path} ends in the middle of a line; keep it for inspection and begin a new one"
        )
    if len(lines) == 1:
        return 0, START
    return _number_and_hash(_entry(lines[-2], path, len(lines) - 1))


def _number_and_hash(entry: dict[str, Any]) -> tuple[int, str]:
    return int(entry.get("number", 0)), str(entry.get("hash", ""))


def _entry(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise StudyError(f"{path}, line {number}, is not an entry of an audit log") from None


def verify_audit(path: Path) -> list[dict[str, Any]]:
    """All entries, if the chain holds: nothing was changed, inserted, removed or put elsewhere between them.

    That entries were cut off at the end cannot be seen from the log alone; results keep the hash of the last one
    that they knew (`manifest.json`).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"the audit log {path} cannot be read ({error.strerror})") from None
    previous, entries = START, []
    lines = content.split(b"\n")
    if lines[-1]:
        raise StudyError(f"{path} ends in the middle of line {len(lines)}")
    for number, line in enumerate(lines[:-1], 1):
        entry = _entry(line, path, number)
        claimed = entry.pop("hash", None)
        if entry.get("previous") != previous or entry.get("number") != number:
            raise StudyError(f"{path}, line {number}: the chain is broken; a line is missing, added or moved here")
        whole = {**entry, "hash": claimed}
        if hashlib.sha256(canonical(entry)).hexdigest() != claimed or msgspec.json.encode(whole) != line:
            raise StudyError(f"{path}, line {number}: the entry was changed after it was written")
        previous = str(claimed)
        entries.append(whole)
    return entries
