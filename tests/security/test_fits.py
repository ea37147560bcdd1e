"""What parties see of whole fits: the agreed disclosures, sizes that say nothing, masked words."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from coterie.errors import ProtocolError
from coterie.protocols.securenn import SecureNN
from coterie.transport import Frame
from tests.ideal_logs import let_anything_be_opened
from tests.security.fits import STUDIES, Study, check_disclosures, far, near
from tests.security.primitives import check_sizes
from tests.security.views import (
    KNOWN_BYTES,
    Q,
    assert_comparison_view,
    assert_random_words,
    assert_uniform,
    comparisons,
    seen_by,
)

ALL = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


@ALL
def test_a_fit_discloses_what_is_allowed(study):
    check_disclosures(study)


def test_a_planted_opening_of_the_counts_is_caught(monkeypatch):
    means = SecureNN.means

    def indiscreet(self, sums, counts, old):
        self.open(counts, self.me.world.owners, "counts", "curiosity")
        return means(self, sums, counts, old)

    monkeypatch.setattr(SecureNN, "means", indiscreet)
    with pytest.raises(ProtocolError, match="was to be opened"):
        check_disclosures(STUDIES["horizontal"])
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError):
        check_disclosures(STUDIES["horizontal"])


def test_a_planted_opening_of_the_rows_that_were_drawn_is_caught(monkeypatch):
    draw = SecureNN.draw

    def indiscreet(self, *given):
        found, numbers = draw(self, *given)
        self.open(numbers, self.me.world.owners, "start rows", "curiosity")
        return found, numbers

    monkeypatch.setattr(SecureNN, "draw", indiscreet)
    for name in ("drawn", "drawn, labels revealed"):
        with monkeypatch.context() as patch:
            with pytest.raises(ProtocolError, match="was to be opened"):
                check_disclosures(STUDIES[name])
            let_anything_be_opened(patch)
            with pytest.raises(AssertionError):
                check_disclosures(STUDIES[name])


def test_a_planted_extra_recipient_is_caught(monkeypatch):
    opening = SecureNN.open_parts

    def generous(self, value, parts, *args):
        everybody = self.me.world.owners
        return opening(
            self, value, [part._replace(to=everybody) if len(part.to) == 1 else part for part in parts], *args
        )

    monkeypatch.setattr(SecureNN, "open_parts", generous)
    with pytest.raises(ProtocolError, match="was to be opened"):
        check_disclosures(STUDIES["vertical"])
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError):
        check_disclosures(STUDIES["vertical"])


@ALL
def test_sizes_and_rounds_of_a_fit_depend_on_shapes_alone(study):
    """Every role's frames, in their order: the multiset of what the helper receives is part of that."""
    shape = study.rows, study.columns
    check_sizes(study.fit(near(*shape)), study.fit(far(*shape)))


def width_of(study: Study) -> int:
    """Bits at which distances are compared."""
    problem = study.jobs(far(study.rows, study.columns))[0].task.problem
    assert problem.compared_bits + 2 < 64
    return problem.compared_bits + 2


def view_of(study: Study, viewer: int, which: int) -> list[Frame]:
    data = (near, far)[which](study.rows, study.columns)
    return seen_by(study.fit(data, frozenset({viewer}), KNOWN_BYTES[which]), {viewer})


@pytest.mark.parametrize(
    "name", ["horizontal, three parties", "counts revealed", "vertical, labels revealed", "drawn, three parties"]
)
@pytest.mark.parametrize("which", [0, 1], ids=["near", "far"])
def test_the_helper_of_a_fit_sees_what_a_simulator_makes_up(name, which):
    """All comparisons of a fit together, at full width and at that of distances: nothing but fair coins and masked
    words."""
    study = STUDIES[name]
    frames, width = view_of(study, 0, which), width_of(study)
    assert_random_words([f.array for f in frames if f.array.dtype == np.uint64], "what the helper adds up", width)
    by_length = defaultdict(list)
    for messages in comparisons(frames, study.p):
        by_length[messages[0].shape[1]].append(messages)
    revealed = "revealed" in name  # then nothing but stop bits is compared at full width, which are too few
    for length in (width,) if revealed else (width, 64):
        together = [np.concatenate(one_party) for one_party in zip(*by_length[length], strict=True)]
        assert_comparison_view(together)


@pytest.mark.parametrize(
    "name", ["horizontal, three parties", "vertical, labels revealed", "drawn, three parties", "drawn, labels revealed"]
)
@pytest.mark.parametrize("viewer", [1, 2, 3])
@pytest.mark.parametrize("which", [0, 1], ids=["near", "far"])
def test_a_data_party_of_a_fit_sees_masked_words(name, viewer, which):
    """Openings included: what two others send is uniform, each on its own, and so is what was dealt."""
    frames, width = view_of(STUDIES[name], viewer, which), width_of(STUDIES[name])
    for sender in {0, 1, 2, 3} - {viewer}:
        words = [f.array for f in frames if f.sender == sender and f.array.dtype == np.uint64]
        assert_random_words(words, f"what P{sender} sends to P{viewer}", width)
    if bits := [f.array.ravel() for f in frames if f.array.dtype == np.uint8]:  # not everybody's turn comes
        assert_uniform(np.concatenate(bits), Q, "shares of bits")
