"""What parties see of whole fits of `onetime`: the helper nothing, the others what is agreed on and uniform bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from coterie.clustering import Layout
from coterie.errors import ProtocolError
from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime import table as table_module
from coterie.randomness import Dealt, Streams
from coterie.ring import Array, FixedPoint
from coterie.runtime.oracle import run_oracle
from tests.ideal_logs import let_anything_be_opened
from tests.security import test_addresses
from tests.security.fits import DRAWN, disclosed, far, near
from tests.security.fits import STUDIES as SECURENN
from tests.security.onetime_fits import (
    FILLED,
    FILLED_DRAWN,
    RESTLESS,
    STUDIES,
    OneTimeStudy,
    blobs,
    check_dealer_hears_notes_only,
    check_discloses_what_is_allowed,
    check_labels_reach_holders_only,
    check_no_frame_is_sent_twice,
    fitted,
)
from tests.security.onetime_primitives import MANY, assert_random_bytes, outside, raw
from tests.security.primitives import check_sizes
from tests.security.test_canary import CANARY, needles, with_canary
from tests.security.views import KNOWN_BYTES
from tests.support import Ran

ALL = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
derived = test_addresses.derived


@pytest.fixture(scope="module", params=STUDIES)
def fit(request) -> tuple[OneTimeStudy, Ran]:
    """A study, and a fit of it that several tests look at."""
    study = STUDIES[request.param]
    return study, fitted(study)


def test_the_dealer_hears_notes_and_receives_no_array(fit):
    check_dealer_hears_notes_only(*fit)


def test_labels_reach_the_holders_of_a_row_only(fit):
    if fit[0].options.get("labels") != "revealed":
        check_labels_reach_holders_only(*fit)


def test_a_fit_discloses_what_is_allowed(fit):
    check_discloses_what_is_allowed(*fit)


def test_sizes_and_rounds_of_a_fit_depend_on_shapes_alone(fit):
    study, ran = fit
    check_sizes(study.fit(near(study.rows, study.columns)), ran)


@pytest.mark.parametrize("name", ["counts revealed", "restarts", "vertical, labels revealed", *DRAWN])
def test_both_families_disclose_the_same(name):
    data = far(SECURENN[name].rows, SECURENN[name].columns)
    assert disclosed(STUDIES[name].fit(data)) == disclosed(SECURENN[name].fit(data))


# -- uniform bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("viewers", [{1}, {2}, {3}, {1, 2}, {2, 3}], ids=str)
@pytest.mark.parametrize("which", [0, 1], ids=["near", "far"])
@pytest.mark.parametrize("study", [FILLED, FILLED_DRAWN], ids=["given rows", "drawn rows"])
def test_a_data_party_of_a_fit_sees_uniform_bytes(study, viewers, which):
    """Openings of centres included, where somebody else's share of zero hides each share."""
    data = (near(study.rows, 2), far(study.rows, 2) >> 5)[which]
    frames = outside(study.fit(data, frozenset(viewers), KNOWN_BYTES[which]), viewers)
    for sender in {0, 1, 2, 3} - viewers:
        masked = [raw(f) for f in frames if f.sender == sender and (f.array.ndim < 2 or f.array.dtype != np.uint8)]
        if len(viewers) == 2 and sender:  # the one other's shares of what is opened follow from the result
            masked = [part for part in masked if part.size not in {8 * 2 * 8, 16}]
        sent = np.concatenate(masked)
        assert sent.size >= MANY
        assert_random_bytes(sent, f"what P{sender} sends to {viewers}")


# -- different entropy, the same result --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["horizontal, three parties", "mixed", "vertical, labels revealed", "restarts", "lanes", *DRAWN]
)
def test_other_entropy_gives_the_same_result_and_other_frames(name):
    study = STUDIES[name]
    data = far(study.rows, study.columns)
    one, other = (study.fit(data, seed=seed) for seed in (1, 2))
    for a, b in zip(one.results[1:], other.results[1:], strict=True):
        assert np.array_equal(a.outcome.centers, b.outcome.centers)
        assert np.array_equal(a.outcome.labels, b.outcome.labels)
        assert a.outcome.inertia == b.outcome.inertia
    check_sizes(one, other)
    for mine, theirs in zip(one.recordings, other.recordings, strict=True):
        pairs = zip(mine.frames, theirs.frames, strict=True)
        assert not any(np.array_equal(a.array, b.array) for a, b in pairs if a.array.nbytes >= 16)


@pytest.mark.parametrize("study", RESTLESS.values(), ids=RESTLESS)
def test_no_frame_is_sent_twice(study):
    check_no_frame_is_sent_twice(study, blobs(study))


def test_restless_iterations_change_nothing_any_more():
    """So that the test above is about masks."""
    study = RESTLESS["horizontal"]
    shorter = OneTimeStudy(p=3, columns=3, task={"tol": -1.0, "max_iter": 2})
    longer, short = (one.fit(blobs(one)).results[1].outcome for one in (study, shorter))
    assert np.array_equal(longer.centers, short.centers)


# -- addresses ---------------------------------------------------------------------------------------------


def check_addresses(study: OneTimeStudy, derived: Counter[tuple[bytes, bytes]]) -> None:
    """Each holder of a stream starts it once; the lasting masks of data alone are read again, by helper and owner."""
    fitted(study)
    kinds = set()
    for (_, info), times in derived.items():
        holders, purpose = info.split(b"|")[3:5]  # label | session | epoch | holders | purpose | ...
        kinds.add(purpose)
        assert times == 2 or purpose == b"lasting", f"{info!r} was started {times} times"
        assert holders != b"common"
    assert kinds >= {b"run", b"lasting"}


@ALL
def test_every_stream_is_started_once_by_each_holder(study, derived):
    check_addresses(study, derived)


def test_blocks_that_share_a_stream_are_caught(monkeypatch, derived):
    monkeypatch.setattr(Streams, "dealt_run", lambda self, party: self._at(f"dealt {party}", f"run|{self._phase}"))
    with pytest.raises(AssertionError, match="times"):
        check_addresses(STUDIES["lanes"], derived)


# -- the canary --------------------------------------------------------------------------------------------


def more_needles() -> Iterator[bytes]:
    """Words of fewer bytes travel in planes, the lowest four bytes first."""
    yield from needles()
    for value in (CANARY, -CANARY, 2 * CANARY, -2 * CANARY):
        yield np.int64(value).tobytes()[:4]


def check_canary(study: OneTimeStudy) -> None:
    """Nobody but P1 receives the canary."""
    for rank, recording in enumerate(study.fit(with_canary(study)).recordings):
        for frame in recording.received if rank != 1 else []:
            sent = frame.array.tobytes()
            assert not any(needle in sent for needle in more_needles()), f"from P{frame.sender} to P{frame.receiver}"


@ALL
def test_no_frame_holds_the_canary(study):
    check_canary(study)


def no_data_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "data_mask", lambda me, owner, table, block, count: np.zeros(count, np.uint64))


def no_step_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = Dealt.mask
    monkeypatch.setattr(Dealt, "mask", lambda self, name: np.zeros_like(mask(self, name)))


@pytest.mark.parametrize(
    ("unmask", "study"),
    [(no_data_mask, STUDIES["horizontal"]), (no_step_mask, OneTimeStudy(starts=((1, 25, 50),)))],
    ids=["the data", "the centres"],
)
def test_a_frame_that_holds_the_canary_is_found(monkeypatch, unmask, study):
    """Data without their mask are the canary; so is P1's share of a centre that starts from its row."""
    unmask(monkeypatch)
    with pytest.raises(AssertionError, match="from P1"):
        check_canary(study)


# -- planted leaks -----------------------------------------------------------------------------------------


def test_a_planted_opening_of_the_counts_is_caught(monkeypatch):
    means = OneTime.new_centers

    def indiscreet(self, rows, labels, old):
        self.open(self.sums(rows, labels)[1], self.me.world.owners, "counts", "curiosity")
        return means(self, rows, labels, old)

    monkeypatch.setattr(OneTime, "new_centers", indiscreet)
    with pytest.raises(ProtocolError, match="was to be opened"):
        fitted(STUDIES["horizontal"])
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError):
        check_discloses_what_is_allowed(STUDIES["horizontal"], fitted(STUDIES["horizontal"]))


def the_rows(self, found):
    """The numbers of the rows that were drawn."""
    return found[1]


def the_choice(self, found):
    """Which candidate stays."""
    return self.to_words(found)


def the_group(self, found):
    """The distances of the group that was drawn."""
    return found[:, 0]


@pytest.mark.parametrize(("method", "part"), [("draw", the_rows), ("one_hot_least", the_choice), ("spread", the_group)])
@pytest.mark.parametrize("study", [STUDIES["drawn"], STUDIES["drawn, labels revealed"]], ids=["drawn", "SVK-means"])
def test_a_planted_opening_of_a_draw_is_caught(monkeypatch, study, method, part):
    """Under a name of its own, and under the one that SVK-means opens rows by."""
    honest = getattr(OneTime, method)
    for what in ("debugging", "start rows"):
        with monkeypatch.context() as patch:

            def indiscreet(self, *given, what=what):
                found = honest(self, *given)
                self.open(part(self, found), self.me.world.owners, what, "curiosity")
                return found

            patch.setattr(OneTime, method, indiscreet)
            with pytest.raises(ProtocolError, match="was to be opened"):
                fitted(study)
            let_anything_be_opened(patch)
            with pytest.raises(AssertionError):
                check_discloses_what_is_allowed(study, fitted(study))


# -- tiny sizes --------------------------------------------------------------------------------------------


def tiny(rows: int, half: int, clusters: int) -> tuple[OneTimeStudy, Array]:
    bound = float(half)
    study = OneTimeStudy(
        rows=rows,
        columns=1,
        starts=(tuple(range(clusters)),),
        task={"encoding": FixedPoint((-bound,), (bound,), ("a",), 0), "tol": -100.0},  # of variances below 1, too
    )
    return study, np.random.default_rng(rows).integers(-half, half + 1, (rows, 1))


@pytest.mark.parametrize(("rows", "half", "clusters"), [(2, 1, 2), (3, 1, 2), (3, 1, 3), (3, 2, 2), (7, 1, 3)])
def test_the_smallest_fits_equal_the_oracle(rows, half, clusters):
    """Words of four or five bits: no table and no kernel may need more of them."""
    study, data = tiny(rows, half, clusters)
    task = study.jobs(data)[0].task
    expected = run_oracle(msgspec.structs.replace(task, layout=Layout("horizontal", rows, 1, rows=(rows,))), data)
    for seed in range(4):
        outcome = study.fit(data, seed=seed).results[1].outcome
        assert outcome.centers.tolist() == expected.centers.tolist()
