"""Participants for campaigns over TLS: each a thread of this process, with files of its own that are cleared between
runs."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.study.run import run_study
from coterie.study.voice import Voice
from tests.fuzz.material import give_data
from tests.study.walk import SMALL, Cast

__all__ = ["Troupe"]


class _Heard(Voice):
    """Remembers who is waited for."""

    def __init__(self) -> None:
        self.missing: list[str] | None = None

    def waiting(self, names: list[str]) -> None:
        self.missing = names


class Troupe(Cast):
    """A cast with data, whose members start one by one."""

    def __init__(self, parties: Sequence[str]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="coterie-fuzz-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        super().__init__(folder, parties)
        self.agree(*SMALL)
        give_data(self)
        self.threads: dict[str, threading.Thread] = {}
        self.voices: dict[str, _Heard] = {}
        self.ended: dict[str, Any] = {}

    def clear(self) -> None:
        """As if nothing had been run yet."""
        self.threads, self.voices, self.ended = {}, {}, {}
        for name in self.names:
            for leftover in (self.at(name, "results"), self.at(name, f"{name}.state")):
                shutil.rmtree(leftover, ignore_errors=True)
            for log in self.at(name).glob("*.jsonl"):
                log.unlink()

    def enter(self, name: str, **changes: Any) -> None:
        """A participant starts."""
        self.voices[name] = voice = _Heard()

        def act() -> None:
            try:
                self.ended[name] = run_study(self.orders(name, **changes), voice)
            except BaseException as error:
                self.ended[name] = error

        self.threads[name] = threading.Thread(target=act, name=name, daemon=True)
        self.threads[name].start()

    def leave(self, within: float) -> list[str]:
        """Wait for everybody; who is still there after so many seconds for each."""
        for thread in self.threads.values():
            thread.join(within)
        return [name for name, thread in self.threads.items() if thread.is_alive()]
