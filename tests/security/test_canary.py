"""A recognisable number is planted in the data: it must turn up in no frame, no error and no repr."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Outcome
from coterie.data import gather
from coterie.protocols import words
from coterie.protocols.plaintext import in_the_clear
from coterie.randomness import Dealing, Dealt, Material, Streams
from coterie.randomness.material import Elements
from coterie.ring import Array, Words
from coterie.runtime.job import Job, Report
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, Shared
from coterie.transport import Frame, Metered, memory_channels
from tests.security.fits import STUDIES, Study, far
from tests.support import SeededEntropy, world

CANARY = 23_456_789
TEXT = str(CANARY)


def needles() -> Iterator[bytes]:
    """The canary as it could lie in a frame: itself, its negative, double and square; as text, as a float."""
    for value in (CANARY, -CANARY, 2 * CANARY, CANARY**2):
        yield np.int64(value).tobytes()
    yield np.float64(CANARY).tobytes()
    yield TEXT.encode()


def with_canary(study: Study) -> Array:
    """Data of which P1 holds a canary, in the first cell of the second row (the first one is a start)."""
    data = far(study.rows, study.columns)
    data[1, 0] = CANARY
    return data


def check_frames(study: Study) -> None:
    """Nobody but P1 receives the canary."""
    data = with_canary(study)
    assert any((job.block == CANARY).any() for job in study.jobs(data)[1:2]), "P1 holds the canary"
    recordings = study.fit(data).recordings
    frames = [frame for rank, one in enumerate(recordings) if rank != 1 for frame in one.received]
    assert frames
    for frame in frames:
        raw = frame.array.tobytes()
        assert not any(needle in raw for needle in needles()), f"from P{frame.sender} to P{frame.receiver}"


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_no_frame_holds_the_canary(study):
    check_frames(study)


def test_a_frame_that_holds_the_canary_is_found(monkeypatch):
    """Without masks and zero-sharings, P1's share of a difference from P2's row is P1's own row."""
    monkeypatch.setattr(words, "zero_shares", lambda me, ring, shape, purpose: ring.zeros(shape))
    mask = Dealt.mask
    monkeypatch.setattr(Dealt, "mask", lambda self, name: np.zeros_like(mask(self, name)))
    with pytest.raises(AssertionError, match="from P1"):
        check_frames(STUDIES["horizontal"])


# -- errors ------------------------------------------------------------------------------------------------

CELL = float(CANARY)
NAN, INF = np.nan, np.inf
FAILING: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "out of bounds": ({"bounds": [(0, 1), (0, 1)]}, [[[CELL, 1.0]], [[0.0, 1.0]]]),
    "bounds the wrong way round": ({"bounds": [(1, 0), (0, 1)]}, [[[CELL, 1.0]], [[0.0, 1.0]]]),
    "NaN beside it": ({}, [[[CELL, NAN]], [[0.0, 1.0]]]),
    "infinity beside it": ({}, [[[CELL, INF]], [[0.0, 1.0]]]),
    "too many clusters": ({"n_clusters": 9}, [[[CELL, 1.0]], [[0.0, 1.0]]]),
    "not a table": ({}, [[CELL, 1.0], [0.0, 1.0]]),
    "blocks of different widths": ({}, [[[CELL, 1.0]], [[0.0]]]),
    "a cell held twice": ({"partition": "mixed"}, [[[CELL, 1.0]], [[CELL, NAN]]]),
    "a cell held by nobody": ({"partition": "mixed"}, [[[CELL, NAN]], [[NAN, NAN]]]),
    "a narrow column beside it": ({}, [[[CELL * 2.0**40, 1.0]], [[0.0, 1.5]]]),
    "text": ({}, [np.array([[TEXT, "one"]]), [[0.0, 1.0]]]),
    "text among objects": ({}, [np.array([[TEXT, 1.0]], dtype=object), [[0.0, 1.0]]]),
    "bytes": ({}, [np.array([[TEXT.encode() + b"?", b"1"]]), [[0.0, 1.0]]]),
}


def told(error: BaseException) -> str:
    """All that a user gets to read: the error, what caused it, and the lines of code in between."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(("arguments", "blocks"), FAILING.values(), ids=FAILING)
def test_no_error_tells_the_canary(arguments, blocks):
    with pytest.raises(ValueError) as caught:
        SecureKMeans(**{"n_clusters": 2, **arguments}).fit_parties(blocks)
    assert TEXT not in told(caught.value)


def test_what_an_error_says_stays_at_home():
    """Even if an exception's text is careless, the peers learn that there was one, and no more."""
    heard: dict[int, str] = {}

    def role(me: Party) -> None:
        if me.rank == 1:
            raise ValueError(TEXT)
        try:
            me.channel.receive(1, np.uint8, (1,))
        except Exception as error:
            heard[me.rank] = told(error)
            raise

    with pytest.raises(Exception):
        run_threads(world(3), role, entropy=lambda rank: SeededEntropy(0, rank))
    assert set(heard) == {0, 2, 3}
    assert all("an internal error" in text and TEXT not in text for text in heard.values())


# -- what is printed or pickled ----------------------------------------------------------------------------

CELLS = np.full((2, 2), CANARY)
WORDS = CELLS.astype(np.uint64)
SECRETS = {name: TEXT.encode() * 4 for name in ("common", "pair 1-2", "dealt 1", "private")}


def party() -> Party:
    channel = Metered(memory_channels(world(2))[1])
    streams = Streams(world(2), 1, SECRETS)
    return Party(channel, streams, Dealing(channel, streams))


HOLDERS: dict[str, Callable[[], Any]] = {
    "Shared": lambda: Shared(Words(64), (WORDS,), (True,)),
    "Plaintext": lambda: in_the_clear(CELLS),
    "Dealt": lambda: party().deal(Material("a test", {"m": Elements(Words(64), 2, 2)})),
    "Streams": lambda: Streams(world(2), 1, SECRETS),
    "Stream": lambda: Streams(world(2), 1, SECRETS).common("a test"),
    "Dealing": lambda: party().dealt,
    "Party": party,
    "Frame": lambda: Frame(1, 2, WORDS),
    "Table": lambda: gather([CELLS, CELLS], "horizontal", ["P1", "P2"]),
    "Outcome": lambda: Outcome(kept={"centers": Shared(Words(64), (WORDS,), (True,))}),
    "Job": lambda: study_jobs()[1],
    "Job that predicts": lambda: Job(study_jobs()[0].task, predicting=True, kept_centers={"words": WORDS}),
    "Report": lambda: Report(Outcome(), {"centers": {"words": WORDS}}),
}


def study_jobs() -> list[Job]:
    return STUDIES["horizontal"].jobs(with_canary(STUDIES["horizontal"]))


@pytest.mark.parametrize("name", HOLDERS)
def test_no_repr_shows_the_canary(name):
    holder = HOLDERS[name]()
    with np.printoptions(threshold=1 << 20):
        assert TEXT not in f"{holder!r} {holder!s} {holder} {[holder]}"


@pytest.mark.parametrize("name", ["Shared", "Plaintext", "Dealt", "Streams", "Party"])
def test_what_is_secret_cannot_be_pickled(name):
    with pytest.raises(TypeError):
        pickle.dumps(HOLDERS[name]())


def test_a_pickled_model_holds_no_row_of_the_data():
    data = np.random.default_rng(0).normal(size=(20, 2))
    data[3] = CANARY, -CANARY
    data[4] = data[3] + 7
    model = SecureKMeans(2, bounds=[(-1e8, 1e8)] * 2, random_state=0, max_iter=3).fit(data)
    raw = pickle.dumps(model)
    assert not any(needle in raw for needle in needles())
