"""What a fuzzing campaign is: numbered cases, each of which ends in an outcome of a known kind or is a finding.

A case depends on its number, the seed and the material in the state folder, and on nothing else: it can be run alone.
"""

from __future__ import annotations

import random
import signal
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import msgspec

from coterie.errors import CoterieError

__all__ = ["Campaign", "Finding", "Found", "Hang", "Tally"]


class Finding(Exception):
    """Something happened that must not."""


class Hang(BaseException):
    """A case takes too long. No `except Exception` in what is tested may catch it."""


class Found(msgspec.Struct, frozen=True):
    """A finding, as it is kept."""

    case: int
    what: str


class Tally(msgspec.Struct):
    """Outcomes of cases by kind, and findings."""

    outcomes: dict[str, int] = msgspec.field(default_factory=dict)
    findings: list[Found] = msgspec.field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.outcomes = dict(sorted((Counter(self.outcomes) + Counter(other.outcomes)).items()))
        self.findings = [*self.findings, *other.findings]


class Campaign(ABC):
    """`chunk`: so many cases are run, and counted as done, together; `abreast`: so many of them at the same time.
    `limit`: seconds that a chunk may take."""

    name: str
    chunk: int = 1000
    abreast: int = 1
    limit: int = 300

    def __init__(self, material: Path, seed: int) -> None:
        self.material, self.seed = material, seed

    @abstractmethod
    def total(self) -> int:
        """How many cases there are."""

    @abstractmethod
    def case(self, number: int) -> str:
        """Run one case; the kind of its outcome. Any exception but those of coterie.errors is a finding."""

    def begin(self) -> None:
        """Before the cases of a chunk."""

    def end(self) -> str | None:
        """After them; an outcome to count, if there is one."""
        return None

    def random(self, number: int) -> random.Random:
        return random.Random(self.seed << 40 | number)

    def run(self, numbers: Iterable[int]) -> Tally:
        """One chunk, with a watchdog."""
        tally, met = Tally(), Counter[str]()
        pool = ThreadPoolExecutor(self.abreast)
        before = signal.signal(signal.SIGALRM, _hang)
        signal.alarm(self.limit)
        number = -1
        try:
            self.begin()
            tries = map(self._try, numbers) if self.abreast == 1 else pool.map(self._try, numbers)
            for number, end in tries:
                met["finding" if isinstance(end, Found) else end] += 1
                if isinstance(end, Found):
                    tally.findings.append(end)
            outcome = self.end()
            if outcome is not None:
                met[outcome] += 1
        except Hang:
            tally.findings.append(Found(number, f"after this case: no end within {self.limit} s"))
        except Exception as error:
            tally.findings.append(Found(number, f"at the end of the chunk: {_describe(error)}"))
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            pool.shutdown(wait=False, cancel_futures=True)
        tally.outcomes = dict(met)
        return tally

    def _try(self, number: int) -> tuple[int, str | Found]:
        try:
            return number, self.case(number)
        except CoterieError as error:
            return number, type(error).__name__
        except Exception as error:
            return number, Found(number, _describe(error))


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def _describe(error: Exception) -> str:
    if isinstance(error, Finding):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}, {where.name})"
