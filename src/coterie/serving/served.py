"""A study that a helper serves: whether it runs, whether it may be started, and how it ended last.

A study that waits for signatures is not started: those who come are asked for theirs, as `coterie preflight` would do.
One from which somebody has withdrawn is not either, and those who come are told.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import CoterieError
from coterie.events import tell
from coterie.serving.child import Home, Task
from coterie.serving.children import Child, Ending
from coterie.serving.folder import Found
from coterie.study.files import write_file
from coterie.study.greetings import Purpose
from coterie.study.papers import ask_card, card_with_papers, hear_withdrawal, pack_withdrawal, take_papers
from coterie.study.prepare import Known
from coterie.transport.hello import FULL, HANDSHAKE, context, server_name
from coterie.transport.visits import decline
from coterie.typed import from_json

__all__ = ["PURPOSES", "Room", "Served"]

log = logging.getLogger(__name__)

PURPOSES: tuple[Purpose, ...] = ("fit", "predict", "survey")
#: What those hear who come while a study is not running.
STARTING, STOPPING = "it is starting", "it is being stopped; it will be back"
TROUBLED = "the last run did not start there; it tries again in a moment"
WAITING, WITHDRAWN = "it waits for signatures of this study", "somebody has withdrawn from this study"
#: Seconds to reach a participant that has just come.
REACH = 5.0
#: Seconds before a study whose process failed at once is started again: at first and at most; and what "at once" is.
FIRST_PAUSE, LAST_PAUSE, AT_ONCE = 1.0, 60.0, 5.0


class Room:
    """How many studies may run at once, for all of them together."""

    def __init__(self, most: int) -> None:
        self.most, self.lock = most, threading.RLock()
        self.running: set[Served] = set()
        self.stopping = False

    @property
    def full(self) -> bool:
        return len(self.running) >= self.most


class Served:
    """One study. `found`: how it stands; `make_task`: what its process is told to do; `patience`: seconds that a
    participant may be silent."""

    def __init__(
        self,
        found: Found,
        home: Path,
        room: Room,
        make_task: Callable[[Path, str, Purpose, Path], Task],
        patience: float = HANDSHAKE,
    ) -> None:
        assert found.known is not None
        self.known: Known = found.known
        self.path, self.home, self.room, self._make_task = found.path, home, room, make_task
        self.patience, self.papers = patience, Home(home).study
        self.update(found)
        session = self.known.world.session
        self.names: dict[str, str] = {server_name(session, purpose): purpose for purpose in ("", *PURPOSES)}
        self.child: Child | None = None
        self.last = self._read_last()
        self._failures, self._not_before = 0, 0.0
        self._visiting: set[str] = set()

    def update(self, found: Found) -> None:
        """How it stands now, with the papers and the renewed keys that are there now."""
        self.found = found
        with contextlib.suppress(OSError, CoterieError):  # a full disk: the status says so
            Home(self.home).gather(found.path)
        certificates = [self.known.newest(one).certificate for one in self.known.others]
        self.context: ssl.SSLContext = context(True, self.known.credentials, certificates)

    # -- at the front door -------------------------------------------------------------------------------

    def hand(self, plain: socket.socket) -> bool | None:
        with self.room.lock:
            child = self.child
            return child.hand(plain) if child is not None and child.open else None

    def arrive(self, purpose: str, who: str) -> str:
        """Start the study, unless it is starting, or must wait. What the participant is told."""
        with self.room.lock:
            if self.child is not None:
                return STARTING
            if not self.found.served:
                self.meet(who)
                return WAITING if self.found.withdrawal is None else WITHDRAWN
            if self.room.stopping:
                return STOPPING
            if time.monotonic() < self._not_before:
                return TROUBLED
            if self.room.full:
                return FULL
            task = self._make_task(self.path, self.known.hash, self._choose(purpose), self.home)
            try:
                self.child = Child(task, self._hear, self._end)
            except OSError:  # no more processes
                return FULL
            self.room.running.add(self)
            return STARTING

    def card(self) -> bytes:
        return card_with_papers(self.papers, self.known.study, self.known.me.name)

    def meet(self, who: str) -> None:
        """A participant is up: it is asked for its signature, if that is missing, and told who has withdrawn."""
        found = self.found
        if found.withdrawal is not None:
            known, proof = self.known, pack_withdrawal(found.withdrawal)
            self._visit(who, lambda: decline(known.world, known.rank, known.credentials, known.peers, proof=proof))
        elif found.known is not None and who in found.known.missing:
            self._visit(who, lambda: self._fetch(who))

    def hear_no(self, who: str, proof: bytes) -> None:
        """One who will not come is not waited for; a withdrawal is kept, and ends the study here."""
        if proof:
            error = hear_withdrawal(self.papers, self.known.study, proof, who)
            self._tell(logging.WARNING, "papers", f"{who} says no: {error}", peer=who)

    def _visit(self, who: str, act: Callable[[], object]) -> None:
        """Dial a participant, which may be up, and does not wait for it here: not twice at a time."""

        def visit() -> None:
            try:
                act()
            except (CoterieError, OSError) as error:
                self._tell(logging.WARNING, "papers", str(error), peer=who)
            finally:
                with self.room.lock:
                    self._visiting.discard(who)

        with self.room.lock:
            if who in self._visiting or self.room.stopping:
                return
            with contextlib.suppress(RuntimeError):  # no more threads for now: it will come again
                threading.Thread(target=visit, name="coterie-visit", daemon=True).start()
                self._visiting.add(who)

    def _fetch(self, who: str) -> None:
        """A participant's signature, or a withdrawal, which ends the study here; nothing is kept that does not hold."""
        card = ask_card(self.known, self.known.world.names.index(who), REACH, self.patience)
        if take_papers(self.papers, self.known.study, card, who):
            self._tell(logging.INFO, "papers", f"the signature of {who} was fetched, and is valid", peer=who)

    def _choose(self, purpose: str) -> Purpose:
        """What to start: a survey's study has nothing else, and no other study has one."""
        if self.known.study.survey is not None:
            return "survey"
        return "predict" if purpose == "predict" else "fit"

    # -- in the child's thread ---------------------------------------------------------------------------

    def _hear(self, said: dict[str, Any]) -> None:
        """The child keeps what is shown of it; the log for operators gets its words."""
        if said.get("event") in ("phase", "note"):
            self._tell(logging.INFO, "run", str(said.get("text", "")))

    def _tell(self, level: int, event: str, text: str, **fields: object) -> None:
        name = self.known.study.study.name
        tell(log, level, event, f"{name}: {text}", study=name, study_hash=self.known.hash, **fields)

    def _end(self, ending: Ending) -> None:
        with self.room.lock:
            failed = ending.code != 0 and ending.ended - ending.began < AT_ONCE
            self._failures = self._failures + 1 if failed else 0
            pause = min(FIRST_PAUSE * 2 ** (self._failures - 1), LAST_PAUSE) if failed else 0.0
            self._not_before = time.monotonic() + pause
            self.child, self.last = None, ending
            self.room.running.discard(self)
        level = logging.WARNING if ending.code else logging.INFO
        self._tell(level, "run ends", ending.text, code=ending.code)
        with contextlib.suppress(CoterieError):  # a full disk: it is shown as long as this process lives
            write_file(self._last_path, msgspec.json.encode(ending), mode=0o600)

    # -- how it ended last, also before a restart --------------------------------------------------------

    @property
    def _last_path(self) -> Path:
        return self.home / "last.json"

    def _read_last(self) -> Ending | None:
        try:
            return from_json(self._last_path.read_bytes(), Ending)
        except (OSError, ValueError, RecursionError):
            return None
