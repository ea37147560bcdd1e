"""The audit log: one line an event, each with the hash of the one before it, and signed by whoever wrote it.

Whoever can write the file can rewrite all of it, and whoever has the key can sign it anew. So participants show each
other the head of their logs, its last entry, and keep what they were shown: a log that was rewritten no longer holds
the entries that others have heads of.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from coterie.errors import AuthenticationError, InputError, ProtocolError, StudyError
from coterie.events import tell
from coterie.sharing import Disclosure
from coterie.study.files import canonical
from coterie.study.identity import Identity, name_of, public_key, sign, signed_by
from coterie.study.links import Links
from coterie.study.renewals import signer_of
from coterie.transport.certificates import Credentials, fingerprint
from coterie.typed import convert, from_json

__all__ = ["Audit", "Head", "Log", "check_against", "check_head", "verify_audit"]

log = logging.getLogger(__name__)
#: Fields of an entry that the program's own log shows as well.
SHOWN = ("purpose", "run", "epoch", "resumed_after", "what", "to", "iteration", "iterations", "error", "peer", "code")
START = "0" * 64
#: What is read at a time from the end of a log, to find its last line.
STRIDE = 1 << 16
Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Hexadecimal = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{0,200}\Z")]


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last entry of a log, as others keep it. `signer`: the fingerprint of the certificate it is signed with;
    `links`: what vouches for it, if the study pins an older one."""

    signer: Hash
    number: Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
    hash: Hash
    signature: Hexadecimal
    links: Links = ()


class Audit:
    """Appends to a log, from any thread. A line is on the disk before the call returns.

    The first entry that an object writes carries the certificate, so that the log can be checked by itself.
    """

    def __init__(self, path: Path, credentials: Credentials, called: str = "the audit log") -> None:
        self.path, self.credentials, self.called = path, credentials, called
        self._signer = fingerprint(credentials.certificate)
        self._lock = threading.RLock()
        self._handle: int | None = None
        self._introduced = False
        self._head: Head | None = None

    def record(self, event: str, **fields: Any) -> str:
        """One event; returns its hash."""
        with self.exclusively() as handle:
            end, last, torn = _tail(handle)
            number, previous = _number_and_hash(last, self.path)
            lines = b""
            if torn:
                cut = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
                line, head = self._line(number + 1, previous, "torn", cut)
                lines, number, previous = line, head.number, head.hash
            line, head = self._line(number + 1, previous, event, fields)
            self._append(handle, end, lines + line)
            self._head, self._introduced = head, True
        shown = {name: fields[name] for name in SHOWN if fields.get(name) is not None}
        text = " ".join([event, *(f"{name}={value}" for name, value in shown.items())])
        tell(log, logging.INFO, "audit", text, entry=event, **shown)
        return head.hash

    @property
    def head(self) -> Head:
        """Of the last entry that was written here."""
        if self._head is None:
            raise ProtocolError(f"{self.called} {self.path} has no entry yet that could be shown")
        return self._head

    def openings(self, run: str) -> list[Disclosure]:
        """What was opened in a run, in all its attempts, as it was written beforehand."""
        found = []
        for number, line in enumerate(_read(self.path).split(b"\n")[:-1], 1):
            entry = _entry(line, self.path, number)
            if entry.get("event") == "opening" and entry.get("run") == run:
                found.append(_opening(entry, self.path, number))
        return found

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[int]:
        """As long as this lasts, nobody else writes the log: no other thread and no other process. Yields the file."""
        with self._lock:
            if self._handle is not None:
                yield self._handle
                return
            with self._opened() as self._handle:
                try:
                    yield self._handle
                finally:
                    self._handle = None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise InputError(f"{self.called} {self.path} cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two runs may share a log
            yield handle
        finally:
            os.close(handle)

    def _line(self, number: int, previous: str, event: str, fields: Mapping[str, Any]) -> tuple[bytes, Head]:
        entry = {
            "number": number,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "event": event,
            **fields,
            **({} if self._introduced else {"certificate": self.credentials.certificate}),
            "signer": self._signer,
            "previous": previous,
        }
        entry["hash"] = digest = hashlib.sha256(canonical(entry)).hexdigest()
        entry["signature"] = signature = sign(self.credentials.key, _signed(digest)).hex()
        return msgspec.json.encode(entry) + b"\n", Head(self._signer, number, digest, signature, self.credentials.links)

    def _append(self, handle: int, end: int, lines: bytes) -> None:
        """Whole lines behind the last whole line, or, if that fails, none of them."""
        try:
            written = 0
            while written < len(lines):
                written += os.pwrite(handle, lines[written:], end + written)
            os.ftruncate(handle, end + len(lines))
            os.fsync(handle)
            if not end:
                _sync_folder(self.path.parent)
        except BaseException as error:  # the disk is full, say; or this party was told to stop
            with contextlib.suppress(OSError):
                os.ftruncate(handle, end)
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"{self.called} {self.path} cannot be written ({error.strerror}), and what is not logged is not done"
            ) from None


def _signed(digest: str) -> bytes:
    return b"coterie audit entry\n" + digest.encode()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tail(handle: int) -> tuple[int, bytes, bytes]:
    """Where the last whole line ends, that line, and what stands behind it: half a line, if a crash came between."""
    size = begin = os.fstat(handle).st_size
    content = b""
    while begin and content.count(b"\n") < 2:
        begin = max(0, begin - STRIDE)
        content = os.pread(handle, size - begin, begin)
    lines, newline, torn = content.rpartition(b"\n")
    return size - len(torn), lines.rpartition(b"\n")[2] if newline else b"", torn


def _number_and_hash(line: bytes, path: Path) -> tuple[int, str]:
    if not line:
        return 0, START
    entry = _entry(line, path, None)
    number, digest = entry.get("number"), entry.get("hash")
    if not isinstance(number, int) or not isinstance(digest, str):
        raise StudyError(f"{path}, the last line, is not an entry of a log; keep it for inspection, begin a new one")
    return number, digest


def _entry(line: bytes, path: Path, number: int | None) -> dict[str, Any]:
    try:
        return from_json(line, dict[str, Any])
    except (ValueError, RecursionError):
        where = "the last line" if number is None else f"line {number}"
        raise StudyError(f"{path}, {where}, is not an entry of a log") from None


def _opening(entry: dict[str, Any], path: Path, number: int) -> Disclosure:
    try:
        return convert({name: entry[name] for name in Disclosure.__struct_fields__}, Disclosure)
    except (KeyError, msgspec.ValidationError):
        raise StudyError(f"{path}, line {number}: the opening was changed after it was written") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f"the log {path} cannot be read ({error.strerror})") from None


# -- looking back ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """A log that holds. `signers`: fingerprint to certificate; `torn`: bytes of half a line at the end, which count
    for nothing."""

    path: Path
    entries: list[dict[str, Any]]
    signers: dict[str, str]
    torn: int

    @property
    def names(self) -> dict[str, str]:
        """Fingerprint to the name on the certificate. Compare the fingerprint: anybody can write a name."""
        return {print_: name_of(certificate) for print_, certificate in self.signers.items()}


def verify_audit(path: Path) -> Log:
    """The log, if chain and signatures hold: nothing was changed, inserted, removed or moved between its entries.

    That entries were cut off at the end, or that all was written and signed anew, cannot be seen from the log alone;
    `check_against` another's log can.
    """
    previous, entries = START, []
    signers: dict[str, str] = {}
    *lines, torn = _read(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        whole = _entry(line, path, number)
        entry = {name: value for name, value in whole.items() if name not in ("hash", "signature")}
        if entry.get("previous") != previous or entry.get("number") != number:
            raise StudyError(f"{path}, line {number}: the chain is broken; a line is missing, added or moved here")
        if not _unchanged(entry, whole, line):
            raise StudyError(f"{path}, line {number}: the entry was changed after it was written")
        _introduce(entry, signers, f"{path}, line {number}")
        certificate = signers.get(str(entry.get("signer")))
        if certificate is None:
            raise StudyError(f"{path}, line {number}: no entry so far holds the certificate that it is signed with")
        if not _holds(certificate, whole["hash"], whole.get("signature")):
            raise StudyError(f"{path}, line {number}: the entry is not signed by {name_of(certificate)}")
        previous = whole["hash"]
        entries.append(whole)
    return Log(path, entries, signers, len(torn))


def _unchanged(entry: dict[str, Any], whole: dict[str, Any], line: bytes) -> bool:
    """Does the line hold what its hash is of, and nothing that reading it leaves out?"""
    try:
        return hashlib.sha256(canonical(entry)).hexdigest() == whole.get("hash") and msgspec.json.encode(whole) == line
    except (ValueError, OverflowError, RecursionError):  # what can be read and not be written
        return False


def _introduce(entry: dict[str, Any], signers: dict[str, str], where: str) -> None:
    """Remember the certificate that an entry carries."""
    certificate = entry.get("certificate")
    if certificate is None:
        return
    try:
        found = fingerprint(certificate)
        public_key(certificate)
        name_of(certificate)
    except (ValueError, TypeError, AttributeError):
        raise StudyError(f"{where}: the certificate cannot be read") from None
    if found != entry.get("signer"):
        raise StudyError(f"{where}: the certificate is not that of the signer")
    signers[found] = certificate


def _holds(certificate: str, digest: str, signature: Any) -> bool:
    try:
        raw = bytes.fromhex(signature)
    except (ValueError, TypeError):
        return False
    return raw.hex() == signature and signed_by(certificate, raw, _signed(digest))


def check_head(head: Head | None, one: Identity, renewals: bool = False) -> Head:
    """The head that a participant shows must be signed with the certificate that the study pins, or with a newer one
    that it vouches for, if the study accepts such (`renewals`)."""
    certificate = None if head is None else signer_of(one, head.signer, head.links, renewals)
    if head is None or certificate is None or not _holds(certificate, head.hash, head.signature):
        raise AuthenticationError(
            f"the head of the audit log that {one.name} shows is not signed by {one.name}", one.name
        )
    return head


def _heads(entry: dict[str, Any], where: str) -> list[Head]:
    try:
        return list(convert(entry.get("heads", {}), dict[str, Head]).values())
    except msgspec.ValidationError:
        raise StudyError(f"{where}: the heads that are recorded there make no sense") from None


def check_against(log: Log, other: Log) -> int:
    """Every head of this log's signers that another log has recorded must stand in this log. Returns how many."""
    standing = {(entry["signer"], entry["number"], entry["hash"]) for entry in log.entries}
    checked = 0
    for entry in other.entries:
        where = f"{other.path}, line {entry['number']}"
        for head in _heads(entry, where):
            certificate = log.signers.get(head.signer)
            if certificate is None:
                continue
            name = name_of(certificate)
            if not _holds(certificate, head.hash, head.signature):
                raise StudyError(f"{where}: {name} never signed the head recorded there; that log is wrong, not this")
            if (head.signer, head.number, head.hash) not in standing:
                raise StudyError(
                    f"{log.path} is not the log that {name} showed at {entry.get('time')} ({where}): entry "
                    f"{head.number} was another one then. Entries were changed or cut off since, or it was logged "
                    "elsewhere"
                )
            checked += 1
    if not checked:
        raise StudyError(f"{other.path} has recorded nothing of whoever signed {log.path}: nothing can be compared")
    return checked
