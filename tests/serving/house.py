"""A helper's house for tests: one helper, several studies with parties of their own, one `coterie serve`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coterie.serving.status import Status, ask_status
from coterie.study.agreement import study_hash
from coterie.study.prepare import Known, recognise
from tests.relay.places import reach_by_relay
from tests.study.hooks import BRIEF as WITHOUT_PICTURES
from tests.study.hooks import Stage
from tests.study.walk import LIMIT, Cast, coterie, free_addresses, wait_until

__all__ = ["House", "StudyCast"]

#: `coterie serve`, with reports that take no time to draw, also in the processes that it starts.
QUICK_REPORTS = "import coterie.report.write as w; w.write_report = lambda path, *facts: path.write_text('a report')\n"


class StudyCast(Stage):
    """The parties of one study at the house."""

    ROWS = 200
    seed = 4

    def __init__(self, house: House, name: str, parties: tuple[str, ...] = ("alice", "bob")) -> None:
        self.house, self.name = house, name
        super().__init__(house.folder / name, parties, addresses=[house.address, *free_addresses(len(parties))])
        for file in (f"{self.helper}.key", f"{self.helper}.identity.toml"):
            shutil.copy(house.folder / "keys" / file, self.at("helper", file))
        for name in parties if house.relay else ():
            reach_by_relay(self, name, house.relay)

    @classmethod
    def points_of(cls, seed: int) -> np.ndarray:
        return np.random.RandomState(seed).uniform(-cls.BOUND, cls.BOUND, (cls.ROWS, 2))

    def points(self) -> np.ndarray:
        return self.points_of(self.seed)

    def orders_known(self, name: str) -> Known:
        return recognise(self.orders(name))

    @property
    def hash(self) -> str:
        return study_hash(self.study)

    def bring(self, *without: str) -> None:
        """Everybody's papers come to the house, signed by all; but for those of some."""
        place = self.house.studies / self.name
        place.mkdir(exist_ok=True)
        for paper in self.at("helper").glob("study*.toml"):
            if not any(f".{name}." in paper.name for name in without):
                shutil.copy(paper, place)

    def begin_parties(self, *more: object, **hooks: Any) -> None:
        for name in self.parties:
            self.start(name, "run", "--timeout", 30, *more, hook=hooks.get(name, WITHOUT_PICTURES))

    @property
    def home(self) -> Path:
        return self.house.state / "studies" / self.hash[:32]


class House:
    """One helper. `start` begins `coterie serve` in a process of its own."""

    def __init__(self, folder: Path, relay: Path | None = None) -> None:
        """`relay`: the identity of one by way of which everybody is reached."""
        self.folder, self.studies, self.state, self.relay = folder, folder / "studies", folder / "state", relay
        self.studies.mkdir(parents=True)
        self.address = free_addresses(1)[0]
        where = ("--via", relay) if relay else ("--address", self.address)
        made = coterie("identity", "create", "helper", *where, "--folder", folder / "keys")
        assert made.code == 0, made.err
        self.process: subprocess.Popen[bytes] | None = None
        self.casts: list[Cast] = []

    def __enter__(self) -> House:
        return self

    def __exit__(self, *error: object) -> None:
        for cast in self.casts:
            cast.__exit__()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def key(self) -> Path:
        return self.folder / "keys" / "helper.key"

    def parties(self, name: str) -> StudyCast:
        """Parties who have not agreed on anything yet."""
        (self.folder / name).mkdir(exist_ok=True)
        cast = StudyCast(self, name)
        self.casts.append(cast)
        return cast

    def cast(self, name: str, *options: object, seed: int = 4, without: Sequence[str] = ()) -> StudyCast:
        """A study with parties of its own, agreed on and brought to the house, `without` the signatures of some."""
        cast = self.parties(name)
        cast.seed = seed
        cast.set(*options)
        cast.bring(*without)
        return cast

    def arguments(self, *more: object) -> list[str]:
        given = ["serve", "--key", self.key, "--studies", self.studies, "--state", self.state, "--timeout", 30, *more]
        return [str(word) for word in given]

    def start(self, *more: object) -> None:
        """`coterie serve`, until it is up. What it says goes to FOLDER/out.txt and err.txt."""
        site = self.folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(QUICK_REPORTS)
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self.folder / "out.txt").open("wb") as out, (self.folder / "err.txt").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "coterie", *self.arguments(*more)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "PYTHONPATH": path},
            )
        wait_until(lambda: self.process.poll() is not None or "serving " in self.out(), 120, "serving")  # type: ignore[union-attr]
        assert self.process.poll() is None, self.said()

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(LIMIT)

    def out(self) -> str:
        return (self.folder / "out.txt").read_text(encoding="utf-8")

    def said(self) -> str:
        parts = [self.out(), (self.folder / "err.txt").read_text(encoding="utf-8")]
        return "\n".join([*parts, *(cast.said() for cast in self.casts)])

    def status(self) -> Status:
        return ask_status(self.state)

    def study(self, cast: StudyCast) -> Any:
        """What the status says of a study."""
        return next(one for one in self.status().studies if one.hash == cast.hash)

    def manifest(self, cast: StudyCast, run: str) -> dict[str, Any]:
        return msgspec.json.decode((cast.home / "runs" / run / "manifest.json").read_bytes())
