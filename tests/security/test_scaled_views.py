"""What parties see of standardised fits, of measures of quality and of the choice of k: what is agreed on, and uniform
bytes. Each check fails once the protection it is about is taken away."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.errors import ProtocolError
from coterie.protocols.interface import Part
from coterie.protocols.onetime import OneTime
from coterie.protocols.securenn import SecureNN
from coterie.randomness import Dealt, Streams
from coterie.ring import Array
from tests.ideal_logs import ideal_log, let_anything_be_opened
from tests.security.fits import disclosed
from tests.security.onetime_fits import check_no_frame_is_sent_twice, check_no_letters, repeat_addresses
from tests.security.onetime_primitives import MANY, Primitive, assert_random_bytes, check_view, outside, raw
from tests.security.primitives import check_sizes
from tests.security.scaled_fits import (
    FILLED,
    PRIMITIVES,
    RESTLESS,
    SECURENN,
    SQUARES,
    STUDIES,
    TWICE_WEIGHED,
    WEIGHED,
    ScaledStudy,
    close_by,
    fitted,
    spread_out,
)
from tests.security.test_onetime_planted import again, one_element_for_all
from tests.security.views import KNOWN_BYTES
from tests.support import Ran

BOTH = {**STUDIES, **{f"{name}, securenn": study for name, study in SECURENN.items()}}


def named(value: object) -> str | None:
    return value.name if isinstance(value, Primitive) else None


# -- steps of their own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "viewers"), [(2, {1}), (2, {2}), (3, {1}), (3, {2, 3})], ids=str)
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_data_parties_see_uniform_bytes(primitive, p, viewers):
    check_view(primitive, p, viewers)


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=named)
def test_the_helper_receives_nothing_and_sizes_depend_on_shapes_alone(primitive):
    one, other = primitive.ran(2, 0), primitive.ran(2, 1)
    check_sizes(one, other)
    assert one.recordings[0].received == []
    assert one.recordings[0].notes == []


@pytest.mark.parametrize("p", [2, 3])
def test_one_mask_for_all_weighed_centres_is_caught(monkeypatch, p):
    one_element_for_all(monkeypatch, "weighed centers", "B")
    with pytest.raises(AssertionError, match="not uniform"):
        check_view(WEIGHED, p, {1})


@pytest.mark.parametrize("p", [2, 3])
def test_one_mask_for_centres_by_two_weights_is_caught(monkeypatch, p):
    again(monkeypatch, "weighed centers", "B")
    with pytest.raises(AssertionError, match=r"frames of .* not uniform"):
        check_view(TWICE_WEIGHED, p, {1})


@pytest.mark.parametrize("p", [2, 3])
def test_the_mask_of_centres_on_the_weighed_ones_is_caught(monkeypatch, p):
    """C - B and w C - B: their difference is (1 - w) C."""
    give, kept = Dealt.mask, {}

    def lazy(self: Dealt, name: str) -> Array:
        fresh = give(self, name)
        if self.material.purpose == "centers" and len(fresh) > 1:
            kept[self._from.streams] = fresh
        return kept[self._from.streams] if self.material.purpose == "weighed centers" else fresh

    monkeypatch.setattr(Dealt, "mask", lazy)
    with pytest.raises(AssertionError, match=r"frames of .* not uniform"):
        check_view(WEIGHED, p, {1})


def test_the_masks_of_cells_on_their_squares_are_caught(monkeypatch):
    """x - A and x^2 - A."""
    monkeypatch.setattr(Streams, "new_value", lambda self: 1)
    with pytest.raises(AssertionError, match="frames of"):
        check_view(SQUARES, 2, {1})


# -- whole fits --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=BOTH)
def fit(request) -> tuple[ScaledStudy, Ran]:
    """A study, and a fit of it that several tests look at."""
    study = BOTH[request.param]
    return study, fitted(study)


def check_disclosures(study: ScaledStudy, ran: Ran) -> None:
    (job, *_) = study.jobs(spread_out(study))
    assert disclosed(ran) == ideal_log(job.task, study.p, [2] * len(study.starts))


def test_a_fit_discloses_what_is_allowed(fit):
    check_disclosures(*fit)


def test_sizes_and_rounds_of_a_fit_depend_on_shapes_alone(fit):
    """On which k is chosen, too: then what is opened of it has another size."""
    study, ran = fit
    other = study.fit(close_by(study))
    if other.results[1].outcome.chosen == ran.results[1].outcome.chosen:
        check_sizes(other, ran)


def test_the_dealer_of_onetime_hears_notes_and_receives_no_array(fit):
    """A note for each stop test, and for each bit of which k is chosen."""
    study, ran = fit
    if study.protocol != "onetime":
        return
    check_no_letters(ran)
    assert ran.recordings[0].received == []
    choices = study.task.get("choices", ())
    assert len(ran.recordings[0].notes) == len(study.starts) + (len(choices) - 1).bit_length() * bool(choices)
    assert {(sender, receiver) for sender, receiver, _ in ran.recordings[0].notes} == {(1, 0)}


@pytest.mark.parametrize("name", SECURENN)
def test_both_families_disclose_the_same(name):
    one, other = SECURENN[name], replace(SECURENN[name], protocol="onetime")
    found, same = (study.fit(spread_out(study)) for study in (one, other))
    assert disclosed(found) == disclosed(same)
    for a, b in zip(found.results[1:], same.results[1:], strict=True):
        assert (a.outcome.silhouette, a.outcome.chosen, a.outcome.k_measures) == (
            b.outcome.silhouette, b.outcome.chosen, b.outcome.k_measures,
        )  # fmt: skip


@pytest.mark.parametrize("viewer", [1, 2, 3])
@pytest.mark.parametrize("which", [0, 1], ids=["near", "far"])
def test_a_data_party_of_a_standardised_fit_sees_uniform_bytes(viewer, which):
    """Openings of centres, scales and quality included, where somebody else's share of zero hides each share."""
    data = (close_by, spread_out)[which](FILLED)
    frames = outside(FILLED.fit(data, frozenset({viewer}), KNOWN_BYTES[which]), {viewer})
    for sender in {0, 1, 2, 3} - {viewer}:
        masked = [raw(f) for f in frames if f.sender == sender and (f.array.ndim < 2 or f.array.dtype != np.uint8)]
        sent = np.concatenate(masked)
        assert sent.size >= MANY
        assert_random_bytes(sent, f"what P{sender} sends to P{viewer}")


@pytest.mark.parametrize("name", ["standardised, drawn", "several k, standardised, drawn"])
def test_other_entropy_gives_the_same_result_and_other_frames(name):
    study = STUDIES[name]
    one, other = (study.fit(spread_out(study), seed=seed) for seed in (1, 2))
    for a, b in zip(one.results[1:], other.results[1:], strict=True):
        assert np.array_equal(a.outcome.centers, b.outcome.centers)
        assert np.array_equal(a.outcome.scales, b.outcome.scales)
        assert (a.outcome.silhouette, a.outcome.scatter) == (b.outcome.silhouette, b.outcome.scatter)
    check_sizes(one, other)
    for mine, theirs in zip(one.recordings, other.recordings, strict=True):
        pairs = zip(mine.frames, theirs.frames, strict=True)
        assert not any(np.array_equal(a.array, b.array) for a, b in pairs if a.array.nbytes >= 16)


def blobs(study: ScaledStudy) -> Array:
    """Far clusters, found in one iteration."""
    which = np.arange(study.rows) * 3 // study.rows
    return 600_000 * (which[:, None] - 1) + close_by(study)


@pytest.mark.parametrize("study", RESTLESS.values(), ids=RESTLESS)
def test_no_frame_is_sent_twice(study):
    check_no_frame_is_sent_twice(study, blobs(study))


@pytest.mark.parametrize("study", RESTLESS.values(), ids=RESTLESS)
def test_iterations_that_repeat_addresses_are_caught(monkeypatch, study):
    repeat_addresses(monkeypatch)
    with pytest.raises(AssertionError, match="sent twice"):
        check_no_frame_is_sent_twice(study, blobs(study))


# -- planted openings --------------------------------------------------------------------------------------------------


def the_weights(family: Any, found: Any) -> Any:
    return found[0]


def the_scatter(family: Any, found: Any) -> Any:
    return found[0]


def itself(family: Any, found: Any) -> Any:
    return found


#: A step, what of its result is opened to all owners, under which name that sounds right, and in which study.
LEAKS = {
    "the weights, as they are made": ("column_weights", the_weights, "scales", "standardised, quality"),
    "the weights, where they are secret": ("column_weights", the_weights, "scales", "standardised, a patchwork"),
    "the variances": ("scatter", the_scatter, "scatter", "standardised"),
    "the variance that a tolerance is made of": ("tolerated", itself, "scatter", "a tolerance"),
    "rows' distances to their next centre": ("least_of", itself, "silhouette", "silhouette"),
    "a block's levels of the silhouette": ("levels_of", itself, "silhouette", "standardised, quality"),
    "a measure of each k": ("silhouette", itself, "measures of k", "several k, by silhouette, in secret"),
    "the inertia of each k": ("objective", itself, "inertia", "several k, in secret"),
    "the inertia of each column": ("scatter_within", itself, "inertia", "several k, standardised"),
}


def check_that_it_is_caught(monkeypatch: pytest.MonkeyPatch, leak: str, family: Any, study: ScaledStudy) -> None:
    """By the check of the log, before the fit has ended; and without that by the log itself."""
    step, part, called, _ = LEAKS[leak]
    honest = getattr(family, step)
    for what in ("debugging", called):
        with monkeypatch.context() as patch:

            def indiscreet(self, *given, what=what, **more):
                found = honest(self, *given, **more)
                self.open(part(self, found), self.me.world.owners, what, "curiosity")
                return found

            patch.setattr(family, step, indiscreet)
            with pytest.raises(ProtocolError, match="was to be opened"):
                fitted(study)
            let_anything_be_opened(patch)
            with pytest.raises(AssertionError):
                check_disclosures(study, fitted(study))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_opening_is_caught(monkeypatch, leak):
    check_that_it_is_caught(monkeypatch, leak, OneTime, STUDIES[LEAKS[leak][3]])


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_opening_is_caught_in_the_other_family(monkeypatch, leak):
    study = STUDIES[LEAKS[leak][3]]
    starts = ((0, 10), (5, 20, 25)) if study.task.get("choices") else ((0, 10),)
    small = replace(study, rows=30, starts=starts, protocol="securenn")
    check_that_it_is_caught(monkeypatch, leak, SecureNN, small)


def check_openings_are_logged(monkeypatch: pytest.MonkeyPatch, study: ScaledStudy) -> None:
    """Shares come together as often as the log says, and under the same names."""
    brought: Counter[str] = Counter()
    family = {"onetime": OneTime, "securenn": SecureNN}[study.protocol]
    bring = family.bring_together

    def counted(self: Any, value: Any, parts: list[Part], what: str) -> Any:
        if self.me.rank == 1:
            brought[what] += len(parts)
        return bring(self, value, parts, what)

    with monkeypatch.context() as patch:
        patch.setattr(family, "bring_together", counted)
        log = fitted(study).results[1].outcome.disclosures
    logged = Counter(entry.what for entry in log)
    if study.task.get("metric") is None:  # an exact inertia is wider than a word
        logged.pop("inertia", None)
        brought.pop("inertia", None)
    assert brought == logged


UNGATED = ["standardised, quality", "several k, by silhouette, in secret", "several k, in secret"]


@pytest.mark.parametrize("name", [*UNGATED, "several k, in secret, securenn"])
def test_every_opening_is_logged(monkeypatch, name):
    check_openings_are_logged(monkeypatch, BOTH[name])


@pytest.mark.parametrize("name", UNGATED)
def test_a_measure_that_is_opened_without_the_gate_is_caught(monkeypatch, name):
    step = "truncate" if name == "several k, in secret" else "silhouette"
    honest = getattr(OneTime, step)

    def ungated(self, *given, **more):
        found = honest(self, *given, **more)
        if found.shape == (1,):
            self.bring_together(found, [Part(..., self.me.world.owners)], "silhouette")
        return found

    monkeypatch.setattr(OneTime, step, ungated)
    with pytest.raises(AssertionError):
        check_openings_are_logged(monkeypatch, STUDIES[name])
