"""How participants agree on one run: what differs between them is named at all of them, before any data is sent."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie import __version__
from coterie.clustering import distinct_rows
from coterie.errors import CoterieError, DataError, FrameError, PeerLost, PolicyError, StudyError
from coterie.software import software_digest
from coterie.study import greetings, handshake
from coterie.study.checkpoint import Mark
from coterie.study.greetings import Greeting, card_of, compare_cards, greeting
from coterie.study.handshake import Agreed
from coterie.study.identity import create_identity
from coterie.study.statement import state_disclosures
from coterie.study.study_file import create_study
from coterie.study.tasks import seeds_of
from coterie.transport import World, memory_channels
from coterie.transport.links import Link
from tests.study.agreeing import agree_on_run

NAMES = ("helper", "alice", "bob", "carol")
RUN, OTHER, SESSION = "ab" * 16, "cd" * 16, "ef" * 16


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """A study by rows and one by columns, of three parties."""
    folder = tmp_path_factory.mktemp("people")
    helper, *parties = (create_identity(name, f"{name}:1", folder) for name in NAMES)
    common = {"clusters": 3, "columns": ["x", "y", "z"], "bounds": dict.fromkeys("xyz", (-1.0, 1.0)), "seed": 4}
    holds = {"x": "alice", "y": "bob", "z": "carol"}
    return {
        "rows": create_study("s", parties, helper, partition="horizontal", **common),
        "columns": create_study("s", parties, helper, partition="vertical", holds=holds, id_column="id", **common),
    }


def changed(study, section: str, **fields):
    """The study with another value; what it promises is adapted."""
    study = msgspec.structs.replace(
        study, **{section: msgspec.structs.replace(getattr(study, section), **fields)}
    )  # fmt: skip
    shown = msgspec.structs.replace(study.disclosures, statement=state_disclosures(study))
    return msgspec.structs.replace(study, disclosures=shown)


@dataclass
class Table:
    """Who sits there, and what each brings."""

    study: Any
    purpose: str = "fit"
    rows: tuple[int, ...] = (0, 10, 20, 30)
    least: tuple[int, ...] = (1, 1, 1, 1)
    own: dict[int, Any] = field(default_factory=dict)  # another study, by rank
    purposes: dict[int, str] = field(default_factory=dict)
    more: dict[int, dict[str, Any]] = field(default_factory=dict)
    said: dict[int, Any] = field(default_factory=dict)  # greetings that are not genuine, by rank
    intercept: Any = None  # what rank 1 posts, changed on its way

    def agree(self) -> list[Agreed | CoterieError]:
        """What everybody came to, or the error that it stopped with."""
        channels = memory_channels(World(NAMES), patience=30)
        ended: dict[int, Any] = {}

        def one(rank: int) -> None:
            channel, study = channels[rank], self.own.get(rank, self.study)
            purpose = self.purposes.get(rank, self.purpose)
            if self.intercept is not None and rank == 1:
                post = channel.post
                channel.post = lambda to, body: post(to, self.intercept(body))
            own = greeting(study, purpose, self.rows[rank], self.least[rank], **self.more.get(rank, {}))
            try:
                ended[rank] = agree_on_run(channel, study, purpose, self.said.get(rank, lambda g: g)(own))
            except CoterieError as error:
                ended[rank] = error
                channel.abort(rank, type(error).__name__)

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(len(NAMES))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert set(ended) == set(range(len(NAMES)))
        return [ended[rank] for rank in range(len(NAMES))]


def test_everybody_comes_to_the_same(studies):
    agreed = Table(studies["rows"], least=(99, 5, 12, 1)).agree()
    first = agreed[0]
    assert all(one == first for one in agreed)
    task = first.task
    assert (task.layout.n, task.layout.rows, task.clusters) == (60, (10, 20, 30), 3)
    assert task.least == 12, "the strictest among the parties; the helper has none to protect"
    assert (task.starts, task.seeds) == ((), seeds_of(studies["rows"], first.run))
    assert (first.epoch, first.mark, first.run) == (1, None, first.world.session.hex())
    assert first.world.names == NAMES
    assert first.world.session != World(NAMES).session


def test_random_rows_follow_from_the_study_alone(studies):
    random = changed(studies["rows"], "clustering", init="random", restarts=2)
    state = np.random.RandomState(4)
    expected = tuple(distinct_rows(state, 60, 3) for _ in range(2))
    for _ in range(2):
        (first, *rest) = Table(random).agree()
        assert all(one == first for one in rest)
        assert (first.task.starts, first.task.seeds) == (expected, ())


def test_what_draws_rows_follows_from_everybody_who_begins_a_run(studies):
    """A run that is taken up again has the same numbers, another run others; and so has another start or study."""
    study = changed(studies["rows"], "clustering", restarts=3)
    begun = [Table(study).agree()[0] for _ in range(2)]
    for one in begun:
        assert one.task.seeds == seeds_of(study, one.run)
        assert len(set(one.task.seeds)) == one.task.restarts == 3
    assert not set(begun[0].task.seeds) & set(begun[1].task.seeds)
    other = changed(study, "clustering", seed=5)
    assert not set(seeds_of(study, "a run")) & set(seeds_of(other, "a run"))
    assert seeds_of(changed(study, "clustering", init="random"), "a run") == ()


def test_a_run_that_is_taken_up_again_has_the_same_numbers(studies):
    mark = Mark(RUN, SESSION, 1, 0, 4)
    marks = {rank: {"marks": [mark], "epoch": 1} for rank in (1, 2, 3)}
    agreed = Table(studies["rows"], more=marks).agree()
    assert (agreed[0].mark, agreed[0].run) == (mark, mark.run)
    assert {one.task.seeds for one in agreed} == {seeds_of(studies["rows"], mark.run)}
    marks[2]["restart"] = True
    again = Table(studies["rows"], more=marks).agree()
    assert again[0].run != mark.run
    assert {one.task.seeds for one in again} == {seeds_of(studies["rows"], again[0].run)}


def test_columns_and_scale(studies):
    (first, *rest) = Table(changed(studies["columns"], "clustering", scale="bounds"), rows=(0, 20, 20, 20)).agree()
    assert all(one == first for one in rest)
    assert first.task.layout.columns == ((0,), (1,), (2,))
    assert first.task.layout.n == 20
    assert first.task.encoding.scaled


def test_every_run_is_a_session_of_its_own(studies):
    sessions = {Table(studies["rows"]).agree()[0].world.session for _ in range(3)}
    assert len(sessions) == 3


@pytest.mark.parametrize("odd", [0, 1, 3])
@pytest.mark.parametrize(
    ("section", "fields"),
    [
        ("study", {"name": "another"}),
        ("clustering", {"max_iter": 7}),
        ("data", {"id": "person"}),
        ("disclosures", {"counts": "revealed"}),
    ],
)
def test_another_study_is_named_at_everybody(studies, odd, section, fields):
    ended = Table(studies["rows"], own={odd: changed(studies["rows"], section, **fields)}).agree()
    for rank, error in enumerate(ended):
        assert isinstance(error, StudyError), (rank, error)
        who = NAMES[odd] if rank != odd else NAMES[0 if odd else 1]
        assert str(error) == f"{who} has another study: section [{section}] differs; compare the study files"


def test_all_sections_that_differ_are_named(studies):
    other = changed(changed(studies["rows"], "clustering", seed=5), "disclosures", centers="shared")
    for error in Table(studies["rows"], own={2: other}).agree():
        assert "section [clustering], [disclosures] differs" in str(error)


def other_version(own: Greeting) -> Greeting:
    return msgspec.structs.replace(own, card=msgspec.structs.replace(own.card, version="9.9"))


def test_another_version(studies, monkeypatch):
    ended = Table(studies["rows"], said={2: other_version}).agree()
    for rank in (0, 1, 3):
        assert isinstance(ended[rank], StudyError)
        said = f"bob runs Coterie 9.9, here runs {__version__}; all must run the same version"
        assert str(ended[rank]) == said
    assert isinstance(ended[2], PeerLost), "only pretends to be another version, so that it has nothing to object to"
    theirs = msgspec.msgpack.decode(card_of(studies["rows"]), type=greetings.Card)
    monkeypatch.setattr(greetings, "__version__", "9.9")
    with pytest.raises(StudyError, match=f"alice runs Coterie {__version__}, here runs 9.9"):
        compare_cards(studies["rows"], theirs, "alice", "bob")


def other_files(own: Greeting) -> Greeting:
    return msgspec.structs.replace(own, card=msgspec.structs.replace(own.card, digest="0123456789abcdef" * 4))


def without_digest(own: Greeting) -> Greeting:
    return msgspec.structs.replace(own, card=msgspec.structs.replace(own.card, digest=""))


@pytest.mark.parametrize(("said", "shown"), [(other_files, "0123456789ab"), (without_digest, "unknown")])
def test_other_files_of_the_same_version(studies, said, shown):
    """Whoever hears of it names both, with both digests."""
    ended = Table(studies["rows"], said={2: said}).agree()
    for rank in (0, 1, 3):
        assert isinstance(ended[rank], StudyError)
        assert str(ended[rank]) == (
            f"bob and {NAMES[rank]} run different files of Coterie {__version__}: digest {shown} at bob, "
            f"{software_digest()[:12]} at {NAMES[rank]}; install the same release at both (coterie --version shows the "
            "digest)"
        )
    assert isinstance(ended[2], PeerLost), "only pretends, so that it has nothing to object to"


@pytest.mark.parametrize("said", [other_files, without_digest])
def test_a_study_may_leave_it_at_the_version(studies, said):
    study = changed(studies["rows"], "participants", software="version")
    ended = Table(study, said={2: said}).agree()
    assert all(one == ended[0] for one in ended)
    assert isinstance(ended[0], Agreed)
    for error in (ended := Table(study, said={2: other_version}).agree())[:2]:
        assert "bob runs Coterie 9.9" in str(error)


def test_a_section_that_only_one_side_knows(studies):
    card = msgspec.msgpack.decode(card_of(studies["rows"]), type=greetings.Card)
    compare_cards(studies["rows"], card, "bob", "alice")
    for sections in ({}, card.sections | {"extra": "0" * 64}, {**card.sections, "data": "0" * 64}):
        with pytest.raises(StudyError, match="bob has another study"):
            compare_cards(studies["rows"], msgspec.structs.replace(card, sections=sections), "bob", "alice")


def test_another_purpose(studies):
    ended = Table(studies["columns"], rows=(0, 5, 5, 5), purposes={3: "predict"}).agree()
    for rank in (0, 1, 2):
        assert isinstance(ended[rank], StudyError)
        assert "carol has started a predict, not a fit" in str(ended[rank])
    assert isinstance(ended[3], StudyError)
    assert "helper has started a fit, not a predict" in str(ended[3])


def test_different_models(studies):
    model = {"model": "ab" * 16, "fractional_bits": 16, "clusters": 3}
    study = studies["columns"]
    fine = Table(study, "predict", (0, 5, 5, 5), more=dict.fromkeys((1, 2, 3), model)).agree()
    assert {one.task.seeds for one in fine} == {()}
    assert all(one == fine[0] for one in fine)
    assert fine[0].task.encoding.f == 16
    for change in ({"model": "cd" * 16}, {"fractional_bits": 15}, {"clusters": 4}):
        more = {1: model, 2: model, 3: {**model, **change}}
        for error in Table(study, "predict", (0, 5, 5, 5), more=more).agree():
            assert isinstance(error, StudyError)
            assert "carol brings the model of another run than alice" in str(error)


def test_different_numbers_of_rows_by_columns(studies):
    for error in Table(studies["columns"], rows=(0, 20, 20, 21)).agree():
        assert isinstance(error, DataError)
        assert "carol has 21 rows where alice has 20" in str(error)


def test_too_few_rows(studies):
    for error in Table(studies["rows"], rows=(0, 1, 1, 0)).agree():
        assert isinstance(error, StudyError)
        assert "there are 2 rows in all, fewer than the 3 clusters" in str(error)


def test_the_strictest_policy_holds_for_everybody(studies):
    """What one party's least size forbids, nobody takes part in, though their own policies allow it."""
    for error in Table(changed(studies["rows"], "disclosures", counts="revealed"), least=(1, 1, 2, 1)).agree():
        assert isinstance(error, PolicyError)
        assert "the strictest policy among the participants: the rule `least_cluster_size` = 2" in str(error)


def test_the_newest_checkpoint_of_all(studies):
    old, new = Mark(RUN, SESSION, 3, 0, 4), Mark(RUN, SESSION, 3, 0, 5)
    held = {
        0: {"marks": [], "epoch": 0},
        1: {"marks": [old, new], "epoch": 3},
        2: {"marks": [old], "epoch": 3},
        3: {"marks": [old, new], "epoch": 7},
    }
    for one in Table(studies["rows"], more=held).agree():
        assert one.mark == old, "the helper need not hold it"
        assert (one.epoch, one.run, one.replayed) == (8, RUN, False)
    for restarter in range(4):
        more = {**held, restarter: {**held[restarter], "restart": True}}
        assert {(one.mark, one.epoch) for one in Table(studies["rows"], more=more).agree()} == {(None, 8)}


def test_checkpoints_of_different_runs_are_not_mixed(studies):
    """The same iteration of the same epoch, twice: of a run that alice has kept, and of one that bob and carol have."""
    held = {rank: {"marks": [Mark(OTHER if rank == 1 else RUN, SESSION, 1, 0, 4)], "epoch": 1} for rank in (1, 2, 3)}
    for one in Table(studies["rows"], more=held).agree():
        assert (one.mark, one.replayed) == (None, False)
        assert one.run == one.world.session.hex()


def test_all_restarts_are_done(studies):
    """What is left is to open the results; there is no restart after the last."""
    last = {
        rank: {"marks": [Mark(RUN, SESSION, 1, 0, 4), Mark(RUN, SESSION, 1, 1, 9)], "epoch": 1} for rank in (1, 2, 3)
    }
    for one in Table(studies["rows"], more=last).agree():
        assert (one.mark, one.run, one.replayed) == (Mark(RUN, SESSION, 1, 1, 9), RUN, True)
    for mark in (Mark(RUN, SESSION, 1, 2, 4), Mark(RUN, SESSION, 1, 1 << 61, 4), Mark(RUN, SESSION, 1, 0, 301)):
        held = {rank: {"marks": [mark], "epoch": 1} for rank in (1, 2, 3)}
        for error in Table(studies["rows"], more=held).agree():
            assert isinstance(error, FrameError)
            assert "holds a checkpoint that makes no sense" in str(error)


def test_the_session_depends_on_what_is_gone_on_from(studies, monkeypatch):
    """With the same nonces, even: so that who takes another mark for agreed, or a restart, finds nobody there."""
    monkeypatch.setattr(greetings.secrets, "token_bytes", bytes)
    held = [
        {"marks": marks, "epoch": 3} for marks in ([], [Mark(RUN, SESSION, 3, 0, 4)], [Mark(OTHER, SESSION, 3, 0, 4)])
    ]
    held.append({**held[1], "restart": True})
    held.append({**held[0], "restart": True})
    sessions = [Table(studies["rows"], more=dict.fromkeys((1, 2, 3), one)).agree()[0].world.session for one in held]
    assert len(set(sessions)) == 4, "what there was before does not matter to a restart"
    assert sessions[3] == sessions[4]


def test_more_rows_than_the_study_allows(studies):
    """Who says so is named at everybody, and nothing is set aside for its rows."""
    study = changed(studies["rows"], "data", most_rows=30)
    assert isinstance(Table(study).agree()[0], Agreed)
    for claim in (31, 1 << 27):
        said = {2: lambda own, claim=claim: msgspec.structs.replace(own, rows=claim)}
        tracemalloc.start()
        try:
            ended = Table(study, said=said).agree()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        for error in ended:
            assert isinstance(error, DataError)
            assert str(error) == f"bob says that it has {claim} rows; the study allows each party at most 30"
        assert peak < 8 << 20
    with pytest.raises(DataError, match="there are 31 rows; at most 30 are allowed"):
        greeting(study, "fit", 31, 1)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x00", b"\xc1", b"\xff" * 100, msgspec.msgpack.encode({"card": 1}), msgspec.msgpack.encode([1, 2])],
)
def test_a_greeting_that_cannot_be_read(studies, raw):
    ended = Table(studies["rows"], intercept=lambda body: raw).agree()
    for rank in (0, 2, 3):
        assert isinstance(ended[rank], FrameError | StudyError)
        assert str(ended[rank]).startswith("alice sent a greeting that")


@pytest.mark.parametrize(
    "forged",
    [
        {"rows": -1},
        {"rows": 1 << 62},
        {"least": 0},
        {"least": 1 << 62},
        {"epoch": -1},
        {"epoch": 1 << 63},
        {"nonce": b""},
        {"marks": [("ab", 1, 0, 1)]},
        {"marks": [("AB" * 16, 1, 0, 1)]},
        {"marks": [(RUN, -1, 0, 1)]},
        {"marks": [(RUN, 1, 1 << 62, 1)]},
        {"marks": [(RUN, 1, 0)]},
        {"purpose": "chat"},
    ],
)
def test_a_greeting_that_makes_no_sense(studies, forged):
    ended = Table(studies["rows"], said={2: lambda own: msgspec.structs.replace(own, **forged)}).agree()
    for rank in (0, 1, 3):
        assert isinstance(ended[rank], CoterieError)
        assert ended[rank].exit_code in (4, 9)
        assert "bob" in str(ended[rank])


def proposals(change):
    """Changes P1's plan on its way, and nothing else."""

    def intercept(body: bytes) -> bytes:
        try:
            found = msgspec.msgpack.decode(body, type=handshake.Proposal)
        except msgspec.DecodeError:
            return body
        made = change(found)
        return made if isinstance(made, bytes) else msgspec.msgpack.encode(made)

    return intercept


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: msgspec.structs.replace(plan, task="0" * 64),
        lambda plan: msgspec.structs.replace(plan, task=""),
        lambda plan: msgspec.structs.replace(plan, link=Link(float("nan"), 1.0)),
        lambda plan: msgspec.structs.replace(plan, link=Link(-1.0, 1e9)),
        lambda plan: msgspec.structs.replace(plan, link=Link(0.1, 0.0)),
        lambda plan: msgspec.msgpack.encode({"link": 1}),
        lambda plan: b"",
        lambda plan: b"\xff" * 50,
    ],
    ids=["task", "no task", "nan", "negative", "no width", "other", "empty", "garbage"],
)
def test_a_plan_that_was_tampered_with(studies, change):
    ended = Table(studies["rows"], intercept=proposals(change)).agree()
    for rank in (0, 2, 3):
        assert isinstance(ended[rank], FrameError)
        assert ended[rank].exit_code == 9
        assert "alice" in str(ended[rank])


def test_untouched_by_the_same_means_all_agree(studies):
    """So that the test above sees what it says."""
    seen = []
    ended = Table(studies["rows"], intercept=proposals(lambda plan: seen.append(plan) or plan)).agree()
    assert all(one == ended[0] for one in ended)
    assert len(seen) == 3


def test_an_epoch_that_nothing_follows_stops_nobody_for_good(studies):
    """The attack: one claims the last epoch that there is. What everybody then keeps can be greeted with again."""
    claimed = {2: {"epoch": greetings.MOST_EPOCH}}
    (epoch,) = {one.epoch for one in Table(studies["rows"], more=claimed).agree()}
    again = {rank: {"epoch": epoch} for rank in range(4)}
    assert {one.epoch for one in Table(studies["rows"], more=again).agree()} == {greetings.MOST_EPOCH}


def test_no_more_rows_than_are_served_here():
    """Whatever others than the parties say does not count."""
    brought = {"alice": 60, "bob": 40, "helper": 7}
    greeted: Any = SimpleNamespace(greetings={name: SimpleNamespace(rows=rows) for name, rows in brought.items()})
    study: Any = SimpleNamespace(roles=SimpleNamespace(owners=("alice", "bob")))
    for most in (None, 100):
        handshake.check_brought(greeted, study, most)
    with pytest.raises(PolicyError, match=r"--most-rows 99\): alice 60, bob 40; 100 in all"):
        handshake.check_brought(greeted, study, 99)
