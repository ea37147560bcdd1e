"""Fits and predictions of `onetime` with injected entropy, every lane recorded, and checks of who receives what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.randomness import Streams
from coterie.ring import Array, FixedPoint
from coterie.runtime.job import Job, do
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.transport import Channel, Frame, Recording, Traffic
from tests.security.fits import STUDIES as SECURENN
from tests.security.fits import Study, allowed, disclosed, far, near
from tests.security.onetime_primitives import condition_all
from tests.support import Ran, SeededEntropy, world


def run_recorded(p: int, role: Callable[[Party], Any], lanes: int = 0, seed: int = 0) -> Ran:
    """As `tests.support.run`, on lanes: a role's recording is that of all its lanes, one after the other."""
    made: defaultdict[int, list[Recording]] = defaultdict(list)

    def wrap(channel: Channel) -> Channel:
        made[channel.rank].append(Recording(channel))
        return made[channel.rank][-1]

    def counted(me: Party) -> tuple[Any, Traffic]:
        made[me.rank][0].frames.clear()  # the agreement on keys is not the protocol
        return role(me), me.channel.traffic()

    results = run_threads(world(p), counted, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap, lanes=lanes)
    recordings = []
    for rank in range(p + 1):
        whole = Recording(made[rank][0].inner)
        for one in made[rank]:
            whole.frames += one.frames
            whole.notes += one.notes
            whole.letters += one.letters
        recordings.append(whole)
    return Ran([one for one, _ in results], recordings, Traffic.together([traffic for _, traffic in results]))


@dataclass(frozen=True)
class OneTimeStudy(Study):
    """A study that runs `onetime`; `task` changes what is agreed on further."""

    lanes: int = 0
    task: dict[str, Any] = field(default_factory=dict)

    def jobs(self, data: Array) -> list[Job]:
        jobs = super().jobs(data)
        task = msgspec.structs.replace(jobs[0].task, protocol="onetime", **self.task)
        return [msgspec.structs.replace(job, task=task) for job in jobs]

    def fit(self, data: Array, viewers: frozenset[int] = frozenset(), byte: int = 0, seed: int = 0) -> Ran:
        jobs = self.jobs(data)

        def role(me: Party) -> Any:
            condition_all(me.streams, set(viewers), byte)
            return do(me, jobs[me.rank])

        ran = run_recorded(self.p, role, self.lanes, seed)
        assert ran.results[0].outcome.n_iter == jobs[0].task.max_iter, "the data are such that no run stops early"
        return ran

    def predict(self, fitted: Ran, data: Array) -> Ran:
        """Label the data anew by the centres of a fit, revealed or shared."""
        jobs = self.jobs(data)
        for rank, job in enumerate(jobs):
            job.predicting = True
            if rank and self.options.get("centers") == "shared":
                job.kept_centers = fitted.results[rank].kept["centers"]
            elif rank:
                outcome = fitted.results[rank].outcome
                job.centers = np.zeros((self.clusters, self.columns), np.int64)
                job.centers[:, outcome.center_columns] = outcome.centers
        return run_recorded(self.p, lambda me: do(me, jobs[me.rank]), self.lanes)


def onetime(study: Study, lanes: int = 0) -> OneTimeStudy:
    changed = {field.name: getattr(study, field.name) for field in fields(study)}
    return OneTimeStudy(**changed, lanes=lanes)


TWO_STARTS = ((0, 25, 50), (5, 20, 40))
STUDIES = {
    **{name: onetime(study) for name, study in SECURENN.items()},
    "horizontal, five parties": OneTimeStudy(p=5),
    "vertical, five parties": OneTimeStudy("vertical", p=5, columns=6),
    "mixed, five parties, counts revealed": OneTimeStudy("mixed", p=5, options={"counts": "revealed"}),
    "mixed, three parties": OneTimeStudy("mixed", p=3),
    "restarts, counts revealed": OneTimeStudy(starts=TWO_STARTS, options={"counts": "revealed"}),
    "restarts, centers shared": OneTimeStudy("vertical", starts=TWO_STARTS, options={"centers": "shared"}),
    "lanes": OneTimeStudy(rows=200, options={"block_rows": 64}, lanes=2),
    "lanes, three parties": OneTimeStudy("mixed", p=3, rows=200, options={"block_rows": 64}, lanes=2),
    "lanes, labels revealed": OneTimeStudy(
        "vertical", rows=200, options={"block_rows": 64, "labels": "revealed"}, lanes=2
    ),
    "lanes, restarts": OneTimeStudy(rows=200, starts=TWO_STARTS, options={"block_rows": 64}, lanes=3),
    "drawn, lanes": OneTimeStudy("mixed", p=3, rows=200, drawn=True, options={"block_rows": 64}, lanes=2),
    "drawn, five parties": OneTimeStudy("vertical", p=5, columns=6, drawn=True),
    "all pairs": OneTimeStudy(task={"schedule": (3,)}),
    "one cluster": OneTimeStudy(starts=((7,),)),
}

SMALL = float(1 << 21)
#: Scores of 48 bits, sums of 32, counts of 8 and an even number of everything: every bit of every frame is used.
FILLED = OneTimeStudy(
    p=3,
    rows=200,
    starts=((0, 25, 50, 75, 100, 125, 150, 175),),
    options={"block_rows": 64},
    task={"encoding": FixedPoint((-SMALL,) * 2, (SMALL,) * 2, ("a", "b"), 0)},
)
FILLED_DRAWN = replace(FILLED, drawn=True)

#: Iterations that go on where nothing moves any more.
RESTLESS = {
    name: OneTimeStudy(partition, p=3, columns=3, lanes=lanes, options=options, task={"tol": -1.0, "max_iter": 4})
    for name, partition, lanes, options in [
        ("horizontal", "horizontal", 0, {}),
        ("counts revealed", "mixed", 0, {"counts": "revealed"}),
        ("lanes", "vertical", 2, {}),
    ]
}
RESTLESS["drawn"] = replace(RESTLESS["horizontal"], drawn=True)


def blobs(study: OneTimeStudy) -> Array:
    """As many far clusters as there are starts, one after the other: found in one iteration."""
    which = np.arange(study.rows) * study.clusters // study.rows
    return 1_000_000 * which[:, None] + near(study.rows, study.columns)


def fitted(study: OneTimeStudy) -> Ran:
    return study.fit(far(study.rows, study.columns))


def label_frames(ran: Ran) -> list[Frame]:
    """Openings of labels: the only frames of bits with two axes, but for the stop bit."""
    frames = [frame for recording in ran.recordings for frame in recording.received]
    return [f for f in frames if f.array.dtype == np.uint8 and f.array.ndim == 2 and f.array.shape != (1, 1)]


def check_no_letters(ran: Ran) -> None:
    """Letters are for roles that agree what to run; while a protocol runs, none is written."""
    for recording in ran.recordings:
        for sender, receiver, body in recording.letters:
            raise AssertionError(f"P{sender} posted a letter of {len(body)} bytes to P{receiver}")


def check_dealer_hears_notes_only(study: OneTimeStudy, ran: Ran) -> None:
    """A note from P1 for every stop test, if there are any, and not one array; nobody else sends or receives a note. No
    letters."""
    check_no_letters(ran)
    helper = ran.recordings[0]
    assert helper.received == [], "the helper received an array"
    stops = 0 if study.options.get("private") else len(study.starts)
    assert helper.notes == [(1, 0, False)] * stops
    assert ran.recordings[1].notes == helper.notes, "P1 wrote or heard another note"
    assert not any(recording.notes for recording in ran.recordings[2:])
    if study.options.get("private"):
        return  # nothing is predicted
    predicted = study.predict(ran, far(study.rows, study.columns))
    check_no_letters(predicted)
    assert not any(recording.notes for recording in predicted.recordings)
    assert predicted.recordings[0].received == [], "the helper received an array"


def check_labels_reach_holders_only(study: OneTimeStudy, ran: Ran) -> None:
    """At the end, of every row to those that hold cells of it, from everybody else; and never before. With private
    matching, never."""
    layout = study.jobs(far(study.rows, study.columns))[0].task.layout
    width = (study.clusters - 1).bit_length()
    expected: Counter[tuple[int, int, tuple[int, int]]] = Counter()
    groups = [] if study.options.get("private") else layout.label_groups(study.p)
    for rows, holders in groups:
        for j in holders:
            expected.update((i, j, (len(rows), width)) for i in range(1, study.p + 1) if i != j)
    found = Counter((f.sender, f.receiver, f.array.shape) for f in label_frames(ran))
    assert found == expected


def check_discloses_what_is_allowed(study: OneTimeStudy, ran: Ran) -> None:
    """The ideal functionality; where cells are held in a patchwork, labels go to the holders of each kind of row."""
    assert disclosed(ran) == allowed(study)


def check_no_frame_is_sent_twice(study: OneTimeStudy, data: Array) -> None:
    """Between any two roles, although nothing changes any more from one iteration to the next."""
    for recording in study.fit(data).recordings:
        sent = Counter((frame.receiver, frame.array.tobytes()) for frame in recording.sent if frame.array.nbytes >= 16)
        assert sent
        assert max(sent.values()) == 1, "a frame was sent twice"


def repeat_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the iteration is not part of the address of what is dealt."""

    def begin(self: Streams, phase: int) -> None:
        self._steps.clear()
        self._runs.clear()
        self._blocks = 0

    monkeypatch.setattr(Streams, "begin", begin)
