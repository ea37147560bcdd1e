"""What roles see of a survey: the agreed openings, nothing else that depends on the data; and planted leaks.

Two tables give the same results. In the first column, values of the honest parties lie in other cells; the second is
closed in both, for the sake of another party.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from coterie.clustering.allowed import roles_of
from coterie.errors import ProtocolError
from coterie.ideal import learnt
from coterie.protocols import FAMILIES
from coterie.protocols.interface import Part
from coterie.runtime.surveys import run_survey_oracle
from coterie.sharing import Party, Shared
from coterie.surveys import Surveyed, SurveyTask, program, take_survey
from coterie.surveys.program import terms_of_survey
from coterie.surveys.task import WHOLE
from tests.ideal_logs import let_anything_be_opened
from tests.security.onetime_fits import check_no_letters
from tests.security.onetime_primitives import run_conditioned
from tests.security.transcripts import View, compare, openings
from tests.security.views import KNOWN_BYTES, conditioned
from tests.support import Ran, run, world
from tests.surveys.by_hand import ask, tallies_of

NAN = float("nan")
P, SEEDS = 3, 12
#: Of P1, P2 and P3: six values each; in the second column 1, 5 and 1 of them are there.
FIRST = [[1.1, 2.1, 3.1, 5.1, 6.1, 7.1], [0.5, 1.5, 4.5, 4.6, 6.5, 7.5], [0.6, 2.6, 4.6, 4.7, 5.6, 6.6]]
THERE = {"data": (1, 5, 1), "twin": (1, 1, 5)}
OPTIONS = {"cells": 8, "least": 4, "quantiles": (WHOLE // 2,)}


def blocks_of(which: str) -> list[np.ndarray]:
    """In the twin P2 and P3 have moved two values each, away from the median, which stays, and so does the mean."""
    values = [list(row) for row in FIRST]
    if which == "twin":
        values[1][1], values[1][4] = 0.5, 7.5
        values[2][1], values[2][4] = 1.6, 6.6
    second = [[3.0] * there + [NAN] * (6 - there) for there in THERE[which]]
    return [np.column_stack(pair) for pair in zip(values, second, strict=True)]


DATA, TWIN = blocks_of("data"), blocks_of("twin")


def task_of(protocol: str, blocks: list[np.ndarray] = DATA, **more: Any) -> SurveyTask:
    return ask(blocks, protocol=protocol, **{**OPTIONS, **more})


def survey(protocol: str, blocks: list[np.ndarray], viewers: set[int], seed: int, **more: Any) -> Ran:
    task = task_of(protocol, blocks, **more)
    tallies = tallies_of(task, blocks)

    def role(me: Party) -> Surveyed:
        own = tallies[me.rank - 1] if me.owns else None
        return take_survey(FAMILIES[protocol](me, task.problem), task, own)

    how = run_conditioned if protocol == "onetime" else conditioned
    return how(P, role, viewers, KNOWN_BYTES[1], seed)


@contextmanager
def everything_opened(protocol: str) -> Iterator[dict[int, list[np.ndarray]]]:
    """What masked openings add up to at each role, and what shares do that are put together, by whatever name."""
    family = FAMILIES[protocol]
    bring_together = family.bring_together
    with openings() as sums:

        def noted(self: Any, value: Any, parts: Any, what: str) -> Any:
            found = bring_together(self, value, parts, what)
            sums[self.me.rank] += [np.array(one) for one in found if one is not None]
            return found

        with patch.object(family, "bring_together", noted):
            yield sums


def views(protocol: str, blocks: list[np.ndarray], viewers: set[int], seeds: range, **more: Any) -> list[View]:
    made = []
    for seed in seeds:
        with everything_opened(protocol) as sums:
            ran = survey(protocol, blocks, viewers, seed, **more)
        check_no_letters(ran)
        assert not any(recording.notes for recording in ran.recordings)
        if protocol == "onetime":
            assert ran.recordings[0].received == [], "the helper received an array"
        made.append(View.of(ran, viewers, sums))
    return made


def check_transcripts(protocol: str, coalition: set[int], seeds: int = SEEDS) -> None:
    one = views(protocol, DATA, coalition, range(seeds))
    two = views(protocol, TWIN, coalition, range(seeds, 2 * seeds))
    compare(one, two)


def test_the_two_tables_have_the_same_results():
    task = task_of("onetime")
    first, second = (run_survey_oracle(task, tallies_of(task, blocks)) for blocks in (DATA, TWIN))
    for name in ("closed", "missing", "means", "places"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert first.closed.tolist() == [False, True]
    assert (first.places[0] > 0).all()
    a, b = (np.sum(tallies_of(task, blocks), axis=0) for blocks in (DATA, TWIN))
    assert (a != b).any()


CASES = [
    ("onetime", {1}),
    ("onetime", {0}),
    pytest.param("securenn", {1}, marks=pytest.mark.slow),
    pytest.param("securenn", {0}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("protocol", "coalition"), CASES, ids=str)
def test_nobody_can_tell_the_tables_apart(protocol, coalition):
    check_transcripts(protocol, coalition)


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_a_survey_opens_what_the_ideal_functionality_says(protocol):
    ran = survey(protocol, DATA, set(), 0)
    allowed = Counter(
        (one.item.what, one.to)
        for one in learnt(terms_of_survey(task_of(protocol)), roles_of(world(P)))
        if one.item.kind == "opened"
    )
    for found in ran.results:
        assert Counter((entry.what, entry.to) for entry in found.disclosures) == allowed
    helper = ran.results[0]
    assert helper.closed is helper.missing is helper.means is helper.places is None


def test_what_is_sent_does_not_depend_on_the_data():
    """All columns open, or all closed: the same frames of the same lengths."""
    task = task_of("onetime")
    sizes = []
    for blocks in (DATA, [np.full((6, 2), NAN)] * 3):
        tallies = tallies_of(task, blocks)

        def role(me: Party, tallies: Any = tallies) -> Surveyed:
            own = tallies[me.rank - 1] if me.owns else None
            return take_survey(FAMILIES["onetime"](me, task.problem), task, own)

        ran = run(P, role)
        sizes.append([[(f.sender, f.receiver, f.array.nbytes) for f in one.frames] for one in ran.recordings])
    assert sizes[0] == sizes[1]


def test_no_repr_shows_what_was_found():
    assert repr(Surveyed(closed=np.array([True]))) == "<Surveyed>"


# -- planted leaks -----------------------------------------------------------------------------------------


def open_histogram(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts by cell of all parties together are opened, under a name of its own."""
    few = program.too_few

    def then(family: Any, task: SurveyTask, counts: Any) -> Shared:
        family.open(counts.upto[0], family.me.world.owners, "histogram", "curiosity")
        return few(family, task, counts)

    monkeypatch.setattr(program, "too_few", then)


def compare_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parties put the differences together that should be compared in secret, past the gate."""
    count = program._count_negative

    def indiscreet(family: Any, numbers: list[Shared]) -> list[Shared]:
        flat = numbers[0].reshape(numbers[0].size)
        family.bring_together(flat, [Part(..., family.me.world.owners)], "differences")
        return count(family, numbers)

    monkeypatch.setattr(program, "_count_negative", indiscreet)


def open_bits_of_each_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of a bit a column, a bit for each column and coalition is opened: it names the party."""

    def indiscreet(family: Any, task: SurveyTask, counts: Any) -> Shared:
        few = family.at_most(counts.total.reshape(counts.total.size), task.least - 1)
        family.open(few, family.me.world.players, "closed columns", program.CLOSED)
        return family.any_of(few, task.columns)

    monkeypatch.setattr(program, "too_few", indiscreet)


@pytest.mark.parametrize("plant", [open_histogram, open_bits_of_each_party])
def test_a_planted_opening_is_refused_and_would_be_seen(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(ProtocolError, match="was to be opened"):
        survey("onetime", DATA, {1}, 0)
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError):
        check_transcripts("onetime", {1}, 6)


def test_a_comparison_in_the_clear_would_be_seen(monkeypatch):
    compare_in_the_clear(monkeypatch)
    with pytest.raises(AssertionError):
        check_transcripts("onetime", {1}, 6)


def test_bits_of_each_party_in_one_opening_would_be_seen(monkeypatch):
    """Under the agreed name, to the agreed recipients, once: the log finds nothing, the transcripts do."""

    def indiscreet(family: Any, task: SurveyTask, counts: Any) -> Shared:
        return family.at_most(counts.total.reshape(counts.total.size), task.least - 1)

    opened = FAMILIES["onetime"].open

    def first_columns(self: Any, value: Shared, to: Any, what: str, reason: str) -> Any:
        found = opened(self, value, to, what, reason)
        if what != "closed columns" or found is None:
            return found
        return found.reshape(-1, 2).any(axis=0).astype(np.int64)

    monkeypatch.setattr(program, "too_few", indiscreet)
    monkeypatch.setattr(FAMILIES["onetime"], "open", first_columns)
    with pytest.raises(AssertionError):
        check_transcripts("onetime", {1}, 6)
