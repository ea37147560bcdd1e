"""Budgets: how often a study is run and a model asked, on which data, and that nobody counts twice or forgets."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading

import msgspec
import numpy as np
import pytest

from coterie.data import Rows
from coterie.errors import FrameError, InputError, PolicyError, StudyError
from coterie.study.audit import Audit, verify_audit
from coterie.study.budget import Budget, Counted, commitment
from coterie.study.greetings import Greeting, greeting
from coterie.study.prepare import prepare
from coterie.transport.certificates import create_credentials
from tests.study.walk import SMALL, Cast

KEY, OTHER_KEY = create_credentials("alice").key, create_credentials("alice").key
POINTS = np.random.default_rng(0).uniform(-5, 5, (40, 2))
IDS = [f"person {i:02d}" for i in range(40)]


# -- commitments -------------------------------------------------------------------------------------------


def rows(values, ids=None):
    return Rows(np.asarray(values, float), ids, "a test")


def test_the_same_data_give_the_same_commitment_in_any_order():
    shuffled = np.random.default_rng(1).permutation(40)
    for ids in (None, IDS):
        first = commitment(KEY, "study", rows(POINTS, ids))
        moved = ids and [ids[i] for i in shuffled]
        assert commitment(KEY, "study", rows(POINTS[shuffled], moved)) == first
        assert len(first) == 64
    assert commitment(KEY, "study", rows([[0.0, 1.0]])) == commitment(KEY, "study", rows([[-0.0, 1.0]]))
    assert commitment(KEY, "study", None) == ""


def test_anything_else_gives_another_commitment():
    changed = POINTS.copy()
    changed[7, 1] = np.nextafter(changed[7, 1], 9)
    swapped = POINTS.copy()
    swapped[[0, 1], 1] = swapped[[1, 0], 1]
    made = [
        commitment(KEY, "study", rows(POINTS)),
        commitment(OTHER_KEY, "study", rows(POINTS)),
        commitment(KEY, "another", rows(POINTS)),
        commitment(KEY, "study", rows(changed)),
        commitment(KEY, "study", rows(swapped)),
        commitment(KEY, "study", rows(POINTS[:-1])),
        commitment(KEY, "study", rows(np.vstack([POINTS, POINTS[:1]]))),
        commitment(KEY, "study", rows(POINTS.reshape(20, 4))),
        commitment(KEY, "study", rows(POINTS, IDS)),
        commitment(KEY, "study", rows(POINTS, IDS[::-1])),
        commitment(KEY, "study", rows(POINTS, [*IDS[:-1], "person 99"])),
    ]
    assert len(set(made)) == len(made)


# -- the ledger --------------------------------------------------------------------------------------------


class Agreement:
    """As much of an agreement as a budget needs."""

    def __init__(self, ready, run, purpose="fit", n=80, model="", **commitments):
        self.run = run
        self.greetings = {
            name: greeting(
                ready.study, purpose, n // 2, 1, model=model,
                commitment="" if purpose == "predict" or name == "helper" else commitments.get(name, "a" * 64),
            )
            for name in ready.study.names
        }  # fmt: skip


@pytest.fixture(scope="module")
def agreed_cast(tmp_path_factory):
    with Cast(tmp_path_factory.mktemp("budget")) as cast:
        cast.agree(*SMALL)
        cast.give("alice", x=POINTS[:, 0], y=POINTS[:, 1])
        yield cast


@pytest.fixture
def desk(agreed_cast, tmp_path):
    """Alice's budget under a policy, made anew as by another process."""

    def make(**rules) -> Budget:
        key = tmp_path / "alice.key"
        if not key.exists():
            shutil.copy(agreed_cast.key("alice"), key)
        policy = agreed_cast.policy("alice", **rules)
        ready = prepare(agreed_cast.orders("alice", policy=policy))
        policy.unlink()
        return Budget(key, ready, Audit(tmp_path / "audit.jsonl", ready.credentials))

    return make


def count(budget: Budget, run: str, purpose: str = "fit", **more) -> None:
    budget.check_greeted(Agreement(budget.ready, run, purpose, **more), purpose)()  # type: ignore[arg-type]


def own(budget: Budget, purpose="fit", rows=40, **more) -> Greeting:
    more.setdefault("commitment", "a" * 64 if purpose == "fit" else "")
    return greeting(budget.ready.study, purpose, rows, 1, **more)


def test_runs_are_counted_once_each_and_refused_beyond_the_limit(desk):
    budget = desk(runs=2)
    budget.check_own(own(budget))
    count(budget, "first")
    count(budget, "first")
    count(desk(runs=2), "first")  # taken up again, by another process
    budget.check_own(own(budget))
    count(budget, "second")
    entries = verify_audit(budget.log.path).entries
    assert [(entry["event"], entry["run"], entry["purpose"]) for entry in entries] == [
        ("counted", "first", "fit"),
        ("counted", "second", "fit"),
    ]
    assert entries[0]["commitments"] == {"alice": "a" * 64, "bob": "a" * 64}
    assert entries[0]["rows"] == 80
    with pytest.raises(PolicyError, match=r"the rule `runs` = 2 allows no further run of this study; 2 used, the last"):
        budget.check_own(own(budget))
    with pytest.raises(PolicyError, match="the rule `runs` = 2"):
        count(budget, "third")
    count(budget, "second")
    desk().check_own(own(budget))
    with pytest.raises(PolicyError, match="the rule `runs` = 0 allows no further run of this study; 2 used"):
        desk(runs=0).check_own(own(budget))


def test_a_run_that_was_counted_may_be_taken_up_again(desk):
    """Whoever holds a checkpoint of it greets; that it is this run is checked when all have greeted."""
    budget = desk(runs=1)
    count(budget, "first")

    class Mark:
        run = "first"

    resuming = msgspec.structs.replace(own(budget), marks=[Mark()])
    budget.check_own(resuming)
    count(budget, "first")
    with pytest.raises(PolicyError, match="the rule `runs` = 1"):
        count(budget, "second")
    with pytest.raises(PolicyError, match="the rule `runs` = 1"):
        budget.check_own(msgspec.structs.replace(resuming, restart=True))


def test_a_run_counts_when_its_first_result_is_opened_and_not_before(desk):
    budget = desk(runs=1)
    unopened = budget.check_greeted(Agreement(budget.ready, "first"), "fit")  # type: ignore[arg-type]
    assert not budget.log.path.exists()
    other = desk(runs=1).check_greeted(Agreement(budget.ready, "second"), "fit")  # type: ignore[arg-type]
    unopened()
    with pytest.raises(PolicyError, match="the rule `runs` = 1"):
        other()  # at the same time, in another process


def test_predicted_rows(desk):
    budget = desk(predicted_rows=100)
    budget.check_own(own(budget, "predict", 40, model="m"))
    count(budget, "p1", "predict", n=60, model="m")
    count(budget, "p1", "predict", n=60, model="m")
    count(budget, "q1", "predict", n=100, model="another")
    budget.check_own(own(budget, "predict", 40, model="m"))
    with pytest.raises(PolicyError, match=r"`predicted_rows` = 100 does not allow 41 more rows .*; 60 used"):
        budget.check_own(own(budget, "predict", 41, model="m"))
    with pytest.raises(PolicyError, match="`predicted_rows` = 100 does not allow 50 more rows"):
        count(budget, "p2", "predict", n=50, model="m")
    count(budget, "p3", "predict", n=40, model="m")
    with pytest.raises(PolicyError, match="; 100 used"):
        budget.check_own(own(budget, "predict", 1, model="m"))
    desk(runs=1).check_own(own(budget))  # predictions are no runs


def test_one_who_returns_with_other_data(desk):
    budget = desk()
    count(budget, "first")
    count(budget, "second")
    with pytest.raises(
        PolicyError, match=r"`other_data` = 'refuse': bob returns to this study with other data than in"
    ):
        count(budget, "third", bob="b" * 64)
    with pytest.raises(PolicyError, match="`other_data` = 'refuse': alice returns"):
        budget.check_own(own(budget, commitment="b" * 64))
    logged = [entry for entry in verify_audit(budget.audit.path).entries if entry["event"] == "other data"]
    assert [(entry["party"], entry["since"], entry["rule"]) for entry in logged] == [
        ("bob", "second", "refuse"),
        ("alice", "second", "refuse"),
    ]
    lenient = desk(other_data="log")
    count(lenient, "third", bob="b" * 64)
    assert verify_audit(lenient.audit.path).entries[-1]["rule"] == "log"
    count(desk(), "fourth", bob="b" * 64)  # known by now


def test_a_party_that_does_not_commit_is_named(desk):
    budget = desk()
    for made_up in ("", "x" * 64, "A" * 64):
        agreement = Agreement(budget.ready, "run")
        agreement.greetings["bob"] = msgspec.structs.replace(agreement.greetings["bob"], commitment=made_up)
        with pytest.raises(FrameError, match="bob sent a greeting that makes no sense") as caught:
            budget.check_greeted(agreement, "fit")  # type: ignore[arg-type]
        assert caught.value.peer == "bob"


def test_a_ledger_that_was_tampered_with_stops_everything(desk):
    budget = desk(runs=2)
    count(budget, "first")
    genuine = budget.log.path.read_bytes()
    budget.log.path.write_bytes(genuine.replace(b'"fit"', b'"fat"'))
    with pytest.raises(StudyError, match="line 1: the entry was changed"):
        budget.check_own(own(budget))
    budget.log.path.write_bytes(genuine)
    Audit(budget.log.path, create_credentials("alice")).record("counted")
    with pytest.raises(StudyError, match="is not the ledger of alice: it is signed by somebody else"):
        budget.check_own(own(budget))


def test_a_ledger_that_cannot_be_written_is_found_out_before_greeting(desk, monkeypatch):
    budget = desk()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(InputError, match=r"the ledger of runs .*alice\.budget\.jsonl cannot be written"):
            budget.check_own(own(budget))

    def full(handle, data, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError, match=r"the ledger of runs .* cannot be written \(No space left"):
        count(budget, "first")


def test_the_ledger_stands_beside_the_key_itself(desk, tmp_path):
    budget = desk()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.key").symlink_to(tmp_path / "alice.key")
    assert Budget(tmp_path / "elsewhere" / "link.key", budget.ready, budget.audit).log.path == budget.log.path


def test_other_studies_have_budgets_of_their_own(desk, agreed_cast):
    budget = desk(runs=1)
    count(budget, "first")
    other = Budget(budget.log.path.with_name("alice.key"), budget.ready, budget.audit)
    other.ready = type("Ready", (), {**vars(budget.ready), "hash": "0" * 64, "me": budget.ready.me})()
    assert other._counted() == []
    assert [one.run for one in budget._counted()] == ["first"]
    assert isinstance(budget._counted()[0], Counted)


def test_two_at_once_do_not_both_use_the_last_run(desk, monkeypatch):
    """The attack: two processes with one key have both found that a run is left, and count theirs at the same time.
    Whoever looks at the ledger waits for the other to look, too; it does not come while the ledger is held."""
    counts = [
        budget.check_greeted(Agreement(budget.ready, run), "fit")  # type: ignore[arg-type]
        for budget, run in ((desk(runs=1), "first"), (desk(runs=1), "second"))
    ]
    both = threading.Barrier(2)
    honest = Budget._counted

    def looks(budget):
        found = honest(budget)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1.0)
        return found

    monkeypatch.setattr(Budget, "_counted", looks)
    refused = []

    def use(one):
        try:
            one()
        except PolicyError as error:
            refused.append(error)

    threads = [threading.Thread(target=use, args=(one,)) for one in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 1
    assert len(verify_audit(desk().log.path).entries) == 1


def test_a_log_is_held_across_reading_and_writing(tmp_path):
    """Another writer of the same file waits until the one who holds it is done."""
    path, order = tmp_path / "log.jsonl", []
    one, other = (Audit(path, create_credentials("alice")) for _ in range(2))
    thread = threading.Thread(target=lambda: (other.record("after"), order.append("other")))
    with one.exclusively():
        thread.start()
        one.record("before")
        thread.join(0.2)
        order.append("one")
    thread.join(60)
    assert order == ["one", "other"]
    assert [entry["event"] for entry in verify_audit(path).entries] == ["before", "after"]
