"""Shares fit together if one session has made them: what is mixed from several attempts is never gone on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import Interrupted, PolicyError, StudyError
from coterie.study import run
from coterie.study.agreement import study_hash
from coterie.study.audit import verify_audit
from coterie.study.checkpoint import Checkpoints
from tests.study.walk import SMALL, Cast, Stopping

pytestmark = pytest.mark.usefixtures("no_pictures")

#: Of a start in a corner of nothing: some ten iterations.
POINTS = np.random.default_rng(4).uniform(-10, 10, (120, 2))


def begin(cast: Cast, *options: object) -> None:
    cast.agree(*SMALL, "--init", "random", "--tol", 0, "--max-iter", 12, *options)
    for name, rows in zip(cast.parties, np.array_split(POINTS, len(cast.parties)), strict=True):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])


def state(cast: Cast, name: str) -> Path:
    return cast.orders(name).state_path(study_hash(cast.study))


def broken_off(cast: Cast, after: int = 2) -> None:
    ended = cast.take_part(voices={name: Stopping(after) for name in cast.names})
    assert all(isinstance(error, Exception) for error in ended.values()), ended


def whole(folder: Path, *options: object) -> list[dict[str, str]]:
    """What a run that nothing happens to finds."""
    with Cast(folder) as cast:
        begin(cast, *options)
        cast.run()
        return cast.centers("alice")


def test_two_attempts_from_copies_of_one_checkpoint_do_not_mix(cast, tmp_path):
    """The attack: all go on from the same checkpoint twice, each time in a copy of their folders. Then Alice brings the
    first copy and Bob the second: marks of the same run, epoch and iteration, and shares that do not fit."""
    begin(cast)
    broken_off(cast)
    copies = {}
    for name in cast.names:
        for copy in ("first", "second"):
            copies[name, copy] = cast.at(name, copy)
            shutil.copytree(state(cast, name), copies[name, copy])
    for copy in ("first", "second"):
        ended = cast.take_part(
            each={name: {"state": copies[name, copy]} for name in cast.names},
            voices={name: Stopping(2) for name in cast.names},
        )
        assert all(isinstance(error, Exception) for error in ended.values()), ended
        assert cast.entry("alice", "agreed")["resumed_after"] == 2
    mixed = {"helper": "first", "alice": "first", "bob": "second"}
    cast.run(each={name: {"state": copies[name, copy]} for name, copy in mixed.items()})
    assert cast.entry("alice", "agreed")["resumed_after"] is None, "nothing fits together: from the start"
    assert cast.centers("alice") == cast.centers("bob") == whole(tmp_path / "whole")


def lie(monkeypatch, rows: int, **changes) -> None:
    """Whoever brings so many rows says something else of the rest than its policy and its checkpoints do."""
    honest = run.greeting

    def say(study, purpose, count, least, **more):
        if count == rows:
            least = changes.get("least", least)
            more |= {name: change(more[name]) for name, change in changes.items() if name != "least"}
        return honest(study, purpose, count, least, **more)

    monkeypatch.setattr(run, "greeting", say)


def uneven(cast: Cast) -> None:
    """Bob has 50 rows, Alice 70."""
    for name, rows in (("alice", POINTS[:70]), ("bob", POINTS[70:])):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])


def test_one_who_breaks_off_when_results_are_open_gets_no_others(cast, monkeypatch):
    """The attack: Bob has read the centres, breaks off, says that he has no last checkpoint, and goes on from the
    one before it, with other data: other results, of a run that is counted already."""
    cast.policies(runs=1)
    begin(cast)
    uneven(cast)
    honest = run.write_results

    def read(folder, ready, *rest):
        if ready.me.name == "bob":
            raise Interrupted("bob has seen enough")
        honest(folder, ready, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_results", read)
        patch.setattr(Checkpoints, "keep", _for_all_but(state(cast, "bob"), Checkpoints.keep))
        assert all(isinstance(error, Exception) for error in cast.take_part().values())
    held = [file.name.split("-")[4] for file in state(cast, "alice").iterdir()]
    assert held == ["1"], "the last checkpoint alone"
    lie(monkeypatch, 50, marks=lambda marks: [mark for mark in marks if not mark.start])
    before = cast.events("alice").count("opening")
    ended = cast.take_part()
    assert isinstance(ended["alice"], PolicyError), ended
    assert "the rule `runs` = 1 allows no further run of this study" in str(ended["alice"])
    assert cast.events("alice").count("opening") == before
    assert len(verify_audit(cast.at("alice", "alice.budget.jsonl")).entries) == 1


def _for_all_but(folder: Path, act):
    return lambda checkpoints, *given: None if checkpoints.folder == folder else act(checkpoints, *given)


@pytest.mark.parametrize("changes", [{"least": 30}, {"coalition": lambda _: 200}, {"contribution": lambda _: "off"}])
def test_one_who_goes_on_under_other_rules_is_refused(cast, monkeypatch, changes):
    """The attack: Bob asks for another least size each time that the run is taken up, and so learns sizes."""
    cast.policies(contribution="none-or-least")
    cast.policy("bob", contribution="least")
    begin(cast, "--contribution", "none-or-least")
    uneven(cast)
    broken_off(cast)
    lie(monkeypatch, 50, **changes)
    ended = cast.take_part()
    assert isinstance(ended["alice"], StudyError), ended
    assert "was begun under other rules" in str(ended["alice"])


def test_counts_of_every_iteration_make_a_run_count(cast):
    """The attack: break off before the end, over and over, and read the counts of each iteration."""
    cast.policies(least_cluster_size=1, runs=1)
    begin(cast, "--counts", "revealed")
    broken_off(cast)
    assert len(verify_audit(cast.at("alice", "alice.budget.jsonl")).entries) == 1
    ended = cast.take_part(restart=True)
    assert all(isinstance(error, PolicyError) for error in ended.values()), ended
    cast.run()
    assert cast.entry("alice", "agreed")["resumed_after"] == 2, "the same run goes on"
    assert len(verify_audit(cast.at("alice", "alice.budget.jsonl")).entries) == 1


def test_restarts_and_rules_across_an_interruption_and_a_replay(cast, tmp_path):
    """In the middle of the second of two starts; how many rows made the best centres so far is carried along."""
    options = ("--n-init", 2, "--resolution", "x=1,y=1", "--sizes", "rounded")
    begin(cast, *options)
    broken_off(cast, after=14)
    cast.run()
    assert cast.entry("alice", "agreed")["resumed_after"] is not None
    assert cast.centers("alice") == cast.centers("bob") == whole(tmp_path / "whole", *options)
    cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names})
    assert cast.entry("alice", "agreed")["replayed"]
    for name in cast.parties:
        for file in ("centers.csv", "labels.parquet", "model.json"):
            assert cast.at(name, "again", file).read_bytes() == cast.at(name, "results", file).read_bytes()
