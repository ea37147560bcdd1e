"""What one iteration of a fit sends and expands, taken from a real one: for `floor.py`.

All roles run as threads of this process, on channels in memory that note the size of every frame, and the *round* that
its stamp says: frames of one round depend on those of earlier rounds only. So lanes and blocks fold together. What is
dealt depends on nothing, and belongs to the round of what its receiver sends or receives next.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import DTypeLike

from coterie.clustering import Watch, fit
from coterie.planning import Forecast, forecast
from coterie.protocols import FAMILIES
from coterie.randomness.streams import Stream, Streams
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.transport import HEADER_BYTES, Channel, Stamp
from coterie.transport.links import LINKS
from coterie.transport.recording import Recording
from measure import Workload, points, prepare

__all__ = ["Iteration", "steady_iteration"]

#: The fit goes on for so many iterations; the one with this number (from 0) is looked at: neither first nor last.
ITERATIONS, STEADY = 4, 2
#: Bytes of a public bit, which the meter does not count.
NOTE_BYTES = HEADER_BYTES + 16


@dataclass(frozen=True)
class Iteration:
    """`rounds`: in each, how many bytes go from one rank to another. `expanded`: bytes of AES streams, by rank.
    `forecast`: of that task, with that plan."""

    ranks: Sequence[int]
    rounds: list[Counter[tuple[int, int]]]
    expanded: Counter[int]
    forecast: Forecast

    @property
    def sent(self) -> int:
        return sum(round_.total() for round_ in self.rounds)


class Noted(NamedTuple):
    """A frame: received from somebody, or sent (`sender` is None). `round`: None if its stamp says none."""

    round: int | None
    sender: int | None
    size: int
    counted: bool = True


class Notes:
    """What a role does, iteration by iteration; by lane, since each lane has an order of its own."""

    def __init__(self) -> None:
        self.iteration = 0
        self.frames: defaultdict[int, list[Noted]] = defaultdict(list)  # of the steady iteration, by lane
        self.expanded = 0
        self.lock = threading.Lock()

    def add(self, lane: int, *noted: Any) -> None:
        if self.iteration == STEADY:
            self.frames[lane].append(Noted(*noted))

    def expand(self, count: int) -> None:
        with self.lock:
            self.expanded += count * (self.iteration == STEADY)


class Noting(Recording):
    """A channel that notes sizes and rounds, and no content."""

    def __init__(self, inner: Channel, role: Notes) -> None:
        super().__init__(inner)
        self.role = role

    def send(self, to: int, array: np.ndarray, stamp: Stamp = Stamp()) -> None:  # noqa: B008
        if stamp.rounds >= 0:
            self.role.add(self.lane, stamp.rounds, None, 0)
        super().send(to, array, stamp)

    def receive(self, sender: int, dtype: DTypeLike, shape: Sequence[int]) -> tuple[np.ndarray, Stamp]:
        array, stamp = super().receive(sender, dtype, shape)
        size = HEADER_BYTES + array.nbytes
        self.role.add(self.lane, stamp.rounds if stamp.rounds >= 0 else None, sender, size)
        return array, stamp

    def hear(self, sender: int) -> bool:
        value = super().hear(sender)
        self.role.add(self.lane, None, sender, NOTE_BYTES, False)
        return value

    def _keep_array(self, *_: Any) -> None:
        """Nothing is kept."""


class Turn(Watch):
    """Tells the notes that an iteration is over."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def iterated(self, point: Callable[[], Any]) -> None:  # noqa: ARG002
        self.notes.iteration += 1


@contextmanager
def counting_streams(notes: dict[int, Notes]) -> Iterator[None]:
    """While this lasts, every stream that is read is noted at the role that reads it."""
    make, read = Streams._at, Stream.read

    def at(self: Streams, *address: str) -> Stream:
        stream = make(self, *address)
        stream.notes = notes[self.rank]  # type: ignore[attr-defined]
        return stream

    def counted(self: Stream, count: int) -> np.ndarray:
        self.notes.expand(count)  # type: ignore[attr-defined]
        return read(self, count)

    with mock.patch.object(Streams, "_at", at), mock.patch.object(Stream, "read", counted):
        yield


def steady_iteration(work: Workload) -> Iteration:
    """What an iteration in the middle of a fit sends and expands."""
    x, start = points(work.n, work.d, work.k)
    task, world, jobs = prepare(work, x, start, ITERATIONS)
    notes = {rank: Notes() for rank in world.ranks}

    def role(me: Party) -> int:
        family = FAMILIES[task.protocol](me, task.problem)
        return fit(family, task, jobs[me.rank].block, Turn(notes[me.rank])).n_iter

    with counting_streams(notes):
        done = run_threads(world, role, wrap=lambda inner: Noting(inner, notes[inner.rank]), lanes=task.lanes)
    if set(done) != {ITERATIONS}:
        raise RuntimeError(f"k-means converges after {done[0]} iterations")
    expected = forecast(task, work.parties, ITERATIONS, LINKS[work.link], "max_iter")
    expanded = Counter({rank: one.expanded for rank, one in notes.items()})
    found = Iteration(world.ranks, in_rounds(notes), expanded, expected)
    check(found, notes, world.names)
    return found


def in_rounds(notes: dict[int, Notes]) -> list[Counter[tuple[int, int]]]:
    """The frames that were received, in the rounds that they belong to, these in their order."""
    stamps = {one.round for role in notes.values() for lane in role.frames.values() for one in lane}
    order = sorted(stamp for stamp in stamps if stamp is not None)
    rounds: dict[int, Counter[tuple[int, int]]] = {stamp: Counter() for stamp in order}
    for rank, role in notes.items():
        for lane in role.frames.values():
            following = order[-1]
            for noted in reversed(lane):
                following = following if noted.round is None else noted.round
                if noted.sender is not None:
                    rounds[following][noted.sender, rank] += noted.size
    return list(rounds.values())


def check(found: Iteration, notes: dict[int, Notes], names: Sequence[str]) -> None:
    """The notes hold every byte that the forecast counts, and streams were counted."""
    sent: Counter[str] = Counter()
    for role in notes.values():
        for one in (one for lane in role.frames.values() for one in lane):
            if one.sender is not None and one.counted:
                sent[names[one.sender]] += one.size
    expected = {name: size for name, size in found.forecast.bytes_per_iteration.items() if size}
    if dict(sent) != expected:
        raise RuntimeError(f"frames of {dict(sent)} bytes were noted where {expected} are forecast")
    if not all(found.expanded[rank] for rank in found.ranks):
        raise RuntimeError("a role was not seen to expand a stream: has `Stream` another way to be read?")
