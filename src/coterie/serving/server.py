"""`coterie serve`: it looks at the folder of studies, keeps the front door, and stops in order."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie import __version__
from coterie.errors import InputError
from coterie.events import tell
from coterie.serving.child import Home, Task
from coterie.serving.folder import Found, StudyFolder
from coterie.serving.reception import Place, Reception
from coterie.serving.relays import Relays
from coterie.serving.served import Room, Served
from coterie.serving.status import Running, Status, StatusServer, StudyStatus
from coterie.software import software_digest
from coterie.study.greetings import Purpose
from coterie.study.identity import load_identity, load_key, split_address
from coterie.study.prepare import Known
from coterie.transport.door import Listener
from coterie.transport.proxies import find_proxies
from coterie.transport.wording import say_why

__all__ = ["Server", "Settings", "serve"]

log = logging.getLogger(__name__)

#: Seconds between two looks at the folder; for children to end that were interrupted.
LOOK, FAREWELL = 1.0, 15.0


@dataclass(frozen=True)
class Settings:
    """What the operator has said. `grace`: seconds that running studies have to end when this is stopped; `memory`: the
    most bytes of a study's process; `page`: where the status page is, beside the socket in the state folder; `proxy`:
    as in `Orders`."""

    key: Path
    studies: Path
    state: Path
    listen: str | None = None
    policy: Path | None = None
    most_studies: int = 4
    most_rows: int | None = None
    memory: int | None = None
    page: tuple[str, int] | None = None
    grace: float = 30.0
    wait: float = 3600.0
    patience: float = 10.0
    stall: float | None = None
    passphrase: bytes | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)  # there may be a password in it


class Server:
    """The helper that stays up."""

    def __init__(self, settings: Settings, note: Callable[[str], None]) -> None:
        """`note` hears, in a sentence, what an operator may want to know."""
        self.settings, self.note, self.since = settings, note, time.time()
        self.key = load_key(settings.key, settings.passphrase)
        self.room = Room(settings.most_studies)
        proxies = find_proxies(settings.proxy)
        self.folder = StudyFolder(settings.studies, self.key, settings.key, settings.policy, self._papers, proxies)
        self.refused: Counter[str] = Counter()
        self.served: dict[str, Served] = {}
        self._names: dict[str, tuple[Place, str]] = {}
        self._told: dict[Path, tuple[str, str]] = {}
        self.listener: Listener | None = None
        self._closed = ""
        card = settings.key.with_name(f"{settings.key.stem}.identity.toml")
        self._card = load_identity(card) if card.exists() else None
        self.reception = Reception(lambda name: self._names.get(name), self._count)
        self.relays = Relays(settings.patience, self._papers, self._open_doors)
        try:
            self.folder.look()
            self._follow()
            if self.folder.problem:
                raise InputError(f"{self.folder.problem}; name a folder that can be read with --studies")
            if self._closed:
                raise InputError(self._closed)
            if not self.served and self.listener is None and self._card is None:
                raise InputError("no study says where this helper listens; say it with --listen HOST:PORT")
        except BaseException:
            self.close()
            raise

    # -- studies -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at the folder, and serve what is there now. What runs goes on to its end."""
        if self.folder.look() or self._closed:
            self._follow()

    def _follow(self) -> None:
        """Serve what is in the folder, where its studies say."""
        wanted = {one.known.hash: one for one in self.folder.found if one.answered and one.known is not None}
        with self.room.lock:
            for gone in [hash_ for hash_ in self.served if hash_ not in wanted]:
                if self.served[gone].child is None:
                    del self.served[gone]
            for hash_, one in wanted.items():
                now = self.served.get(hash_)
                if now is None or (now.path != one.path and now.child is None):
                    self.served[hash_] = Served(one, self.home(hash_), self.room, self._task, self.settings.patience)
                else:
                    now.update(one)
            serving = [self.served[hash_] for hash_ in wanted]
            self._names = {name: (one, purpose) for one in serving for name, purpose in one.names.items()}
        self._listen([one.known for one in serving])
        self.relays.follow(one.known for one in serving)
        self._tell(self.folder.found)

    def _tell(self, found: list[Found]) -> None:
        """Say what has changed in the folder."""
        now = {one.path: (one.standing, one.why) for one in found}
        for path, (standing, why) in now.items():
            if self._told.get(path) != (standing, why):
                self.note(f"{path}: {standing}{why and ': '}{why}")
        for path in self._told.keys() - now.keys():
            self.note(f"{path}: no longer there")
        self._told = now

    def home(self, hash_: str) -> Path:
        """A study's own folder."""
        return self.settings.state / "studies" / hash_[:32]

    def _papers(self, hash_: str) -> Path:
        """The copy of a study beside which all its papers are."""
        return Home(self.home(hash_)).study

    def _task(self, study: Path, hash_: str, purpose: Purpose, home: Path) -> Task:
        settings = self.settings
        self.note(f"{study}: its participants have come; starting a {purpose}")
        return Task(
            str(study.absolute()),
            hash_,
            purpose,
            str(home.absolute()),
            str(settings.key.absolute()),
            -1,
            None if settings.policy is None else str(settings.policy.absolute()),
            settings.wait,
            settings.patience,
            settings.stall,
            settings.most_rows,
            settings.memory,
            settings.passphrase,
            settings.proxy,
        )

    # -- the front door ----------------------------------------------------------------------------------

    def _listen(self, served: list[Known]) -> None:
        """Open a port, unless there is one, or none is needed: where all studies are reached by way of relays."""
        if self.listener is not None or self.folder.problem:
            return
        mine = [known.me for known in served] or [one for one in [self._card] if one is not None]
        address = self.settings.listen or next((one.address for one in mine if one.via is None), None)
        if address is None:
            return
        host, port = split_address(address, "--listen" if self.settings.listen else "")
        try:
            self.listener, self._closed = Listener(host, port), ""
        except OSError as error:
            self._closed = f"nothing can listen on {address}: {say_why(error)}; say where with --listen HOST:PORT"

    def _open_doors(self) -> None:
        """Those are taken who come to the port, and by way of relays."""
        port = [] if self.listener is None else [self.listener]
        self.reception.listen_at([*port, *self.relays.listeners.values()])

    @property
    def where(self) -> str:
        """Where participants come to."""
        port = [] if self.listener is None else [f"at {self.listener.host}:{self.listener.port}"]
        return ", ".join([*port, *(f"by way of {one.relay}" for one in self.relays.listeners.values())]) or "nobody yet"

    def _count(self, why: str) -> None:
        with self.room.lock:
            self.refused[why] += 1
        tell(log, logging.WARNING, "refused", f"a connection was refused: {why}", why=why)

    # -- the status --------------------------------------------------------------------------------------

    def status(self) -> Status:
        problems = [text for text in (self.folder.problem, self._closed) if text]
        problems += self.relays.problems
        if not self.reception.thread.is_alive():
            problems.append("nobody answers at the front door")
        if shutil.disk_usage(self.settings.state).free < 1 << 20:
            problems.append(f"the disk of {self.settings.state} is full")
        with self.room.lock:
            studies = [self._study_status(one) for one in self.folder.found]
            listed = {one.hash for one in studies}
            studies += [
                self._study_status(Found(one.path, "removed", "it runs to its end", one.known))
                for hash_, one in self.served.items()
                if hash_ not in listed and one.child is not None
            ]
            return Status(
                _helper_name(self.folder.found, self.settings.key),
                __version__,
                self.where,
                self.since,
                os.getpid(),
                self.room.stopping,
                self.room.most,
                problems,
                studies,
                dict(sorted(self.refused.items())),
                software_digest(),
                self.relays.describe(),
            )

    def _study_status(self, found: Found) -> StudyStatus:
        known = found.known
        served = None if known is None else self.served.get(known.hash)
        running, last = None, None
        if served is not None:
            last = served.last
            if served.child is not None:
                child = served.child
                memory = _resident(child.process.pid)
                running = Running(child.task.purpose, child.began, child.phase, child.sent, child.process.pid, memory)
        return StudyStatus(
            found.called,
            str(found.path),
            "" if known is None else known.hash,
            [] if known is None else [one.name for one in known.others],
            found.standing,
            found.why or ("" if known is None else self.relays.trouble_of(known)),
            running,
            last,
        )

    # -- the end -----------------------------------------------------------------------------------------

    def stop(self, hurry: Callable[[], bool]) -> None:
        """Take nothing new, give what runs its time, then interrupt it: it can be taken up again. `hurry`: whether to
        wait no longer."""
        with self.room.lock:
            self.room.stopping = True
            children = [one.child for one in self.room.running if one.child is not None]
        end = time.monotonic() + self.settings.grace
        while children and time.monotonic() < end and not hurry():
            children = [child for child in children if not child.join(0.1)]
        for child in children:
            child.interrupt()
        end = time.monotonic() + FAREWELL
        for child in children:
            if not child.join(end - time.monotonic()):
                child.kill()
                child.join(FAREWELL)

    def close(self) -> None:
        self.reception.close()
        self.relays.close()
        if self.listener is not None:
            self.listener.close()


def serve(settings: Settings, note: Callable[[str], None], ready: Callable[[Server, str], None]) -> None:
    """Serve until told to stop (SIGTERM, SIGINT, SIGHUP); told twice, without waiting. `ready` hears when it is up, and
    where the page is."""
    told: list[int] = []
    changed = threading.Event()

    def hear(number: int, frame: object) -> None:  # noqa: ARG001
        told.append(number)
        changed.set()

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        with _alone(settings.state):
            server = Server(settings, note)
            try:
                status = StatusServer(settings.state, server.status, settings.page)
                try:
                    ready(server, status.page)
                    while not told:
                        server.look()
                        changed.wait(LOOK)
                    note(f"stopping: running studies have {settings.grace:g} seconds to end")
                    server.stop(lambda: len(told) > 1)
                finally:
                    status.close()
            finally:
                server.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """A state folder belongs to one process."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(state / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"--state {state} cannot be written ({error.strerror})") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(f"another `coterie serve` uses --state {state}; stop it, or name another folder") from None
    try:
        yield
    finally:
        os.close(handle)


def _helper_name(found: list[Found], key: Path) -> str:
    names = [one.known.me.name for one in found if one.known is not None]
    return names[0] if names else key.stem


def _resident(pid: int) -> int | None:
    """Bytes of memory that a process holds."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
