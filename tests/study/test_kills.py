"""A participant dies, or falls silent, at every moment of a run: the others say who, and stop; later all go on."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.study.hooks import BRIEF, POINTS, Hook, Stage
from tests.study.walk import wait_until

#: `--timeout` where somebody falls silent, and what a loaded machine may take on top of the 15 seconds agreed on.
PATIENCE, AGREED, SLACK = 5, 15, 45
ROLES = ("helper", "alice", "bob")
BEGINNINGS = ("connecting", "met")  # it has not been heard of yet
#: Runs here start from public rows, and so end alike; what happens while rows are drawn is in test_start.py.
MOMENTS = [point for point in POINTS if point != "draw"]
ENDINGS = ("said", "done", "shown", "cleared")  # everybody is ready: the others have their results
#: Iterations done when it happens, where it can happen in any.
LATER = {"dealing": 3, "block": 3, "frame": 3, "iterated": 3, "saving": 3, "named": 3, "saved": 4}


Results = dict[str, dict[str, Any]]


def results_of(folder: Path, *options: object, changed: bool = False, **kwargs: Any) -> Results:
    """Results by party of a run to which nothing happens."""
    with Stage(folder, **kwargs) as stage:
        stage.set(*options)
        if changed:
            change_data(stage)
        stage.begin()
        assert set(stage.finish_all().values()) == {0}, stage.said()
        return {name: stage.result(name) for name in stage.parties}


def change_data(stage: Stage) -> None:
    """Alice has other rows than before, as many."""
    points = stage.points()[: stage.ROWS // 2]
    stage.give("alice", x=points[:, 0] / 2, y=points[:, 1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Results:
    results = results_of(tmp_path_factory.mktemp("undisturbed"))
    assert results["alice"]["n_iter"] >= 8
    return results


@pytest.fixture
def stage(tmp_path):
    with Stage(tmp_path) as stage:
        stage.set()
        yield stage


def stopped_by(stage: Stage, struck: str, codes: tuple[int, ...] = (7,), within: float = AGREED + SLACK) -> None:
    """Everybody else stops in time, with the exit code and a message that names who it was, and leaves nothing
    half-written."""
    began = stage.struck(struck)
    for name in stage.survivors(struck):
        code = stage.finish(stage.processes[name], max(began + within - time.monotonic(), 0.1))
        assert code in codes, stage.said()
    for name in stage.survivors(struck):
        assert struck in stage.err(name), stage.said()
        assert "start it again, all of you" in stage.err(name), stage.said()
        assert not stage.at(name, "results").exists()
        assert set(stage.leftovers(name)) <= stage.litter[name]  # what an earlier kill has left is no news
        last = stage.audit(name)[-1]
        assert (last["event"], last["peer"]) == ("stopped", struck), last
    stage.bury(struck)


def goes_on(stage: Stage, undisturbed: Results, *more: object) -> int | None:
    """Everybody starts again: from the newest checkpoint that all have, to the result of an undisturbed run. Returns
    after which iteration it went on."""
    after = None if "--restart" in more else stage.common()
    stage.begin(*more)
    ended(stage, undisturbed)
    for name in stage.names:
        assert stage.agreed(name)["resumed_after"] == after
    return after


def ended(stage: Stage, undisturbed: Results) -> None:
    """Everybody has the result, and nothing else is left but what opens it once more."""
    assert set(stage.finish_all().values()) == {0}, stage.said()
    for name in stage.names:
        assert not stage.leftovers(name)
        assert {mark.start for mark in stage.checkpoints(name)} <= {stage.study.clustering.restarts}
        assert stage.audit(name)[-1]["event"] == "done"
    for name in stage.parties:
        for folder in stage.shown(name):
            assert stage.result(name, folder) == undisturbed[name]


def replayed(stage: Stage, undisturbed: Results) -> None:
    """Everybody starts again, whether it has results or not: all have those of the same run."""
    stage.begin()
    ended(stage, undisturbed)
    for name in stage.names:
        assert stage.agreed(name)["replayed"]
        assert len(stage.checkpoints(name)) == 1, "for whoever comes next"
    documents = [stage.document(name, "manifest.json", folder) for name in stage.names for folder in stage.shown(name)]
    assert len({document["run"] for document in documents}) == 1


def strike(stage: Stage, undisturbed: Results, role: str, number: str, point: str) -> int | None:
    """One cell of the matrix. Returns after which iteration the run went on."""
    hook = Hook(at=point, iteration=LATER.get(point, 0), signal=number)
    stage.begin(timeout=PATIENCE if number == "SIGSTOP" else 30, **{role: hook})
    if point in BEGINNINGS and number == "SIGKILL":  # it might as well not have been started yet: the others wait
        stage.struck(role)
        stage.start(role, "run", "--timeout", 30)
        ended(stage, undisturbed)
        return None
    if point in ENDINGS:
        began = stage.struck(role)
        for name in stage.survivors(role):
            assert stage.finish(stage.processes[name], max(began + AGREED + SLACK - time.monotonic(), 0.1)) == 0
            assert stage.at(name, "results", "manifest.json").exists()
            assert not stage.leftovers(name)
        assert stage.at(role, "results").exists() == (point in ("shown", "cleared"))
        stage.bury(role)
        replayed(stage, undisturbed)
    else:
        stopped_by(stage, role, (6, 7) if point in BEGINNINGS else (7,))
    return goes_on(stage, undisturbed)


#: One of each kind; the whole matrix takes a quarter of an hour.
QUICK = {
    ("bob", "SIGKILL", "met"),
    ("helper", "SIGKILL", "handshake"),
    ("helper", "SIGKILL", "dealing"),
    ("bob", "SIGSTOP", "block"),
    ("bob", "SIGKILL", "saving"),
    ("alice", "SIGKILL", "half"),
}
MATRIX = [
    pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.slow, id="-".join(cell))
    for cell in itertools.product(ROLES, ("SIGKILL", "SIGSTOP"), MOMENTS)
]


@pytest.mark.parametrize(("role", "number", "point"), MATRIX)
def test_whoever_it_is_and_whenever_it_happens(stage, undisturbed, role, number, point):
    after = strike(stage, undisturbed, role, number, point)
    expected = {"iterated": (3, 4), "saving": (3,), "named": (3, 4), "saved": (4,)}
    if point in expected and role != "helper":
        assert after in expected[point]
    if point in ("writing", "half", "ready"):
        assert after >= 6
    if LATER.get(point):
        assert after in (2, 3, 4), "something was saved of what was done"


# -- being told to stop ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.slow), pytest.param("SIGINT", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("role", [pytest.param("helper", marks=pytest.mark.slow), "alice"])
def test_told_to_stop(stage, undisturbed, role, number):
    stage.begin(**{role: Hook(at="block", iteration=3, signal=number)})
    stopped_by(stage, role)
    assert stage.finish(stage.processes[role]) == 10
    assert f"stopped by {number}; start it again, all of you: it goes on after iteration 3" in stage.err(role)
    for name in stage.survivors(role):
        assert "start it again, all of you: it goes on after iteration 3" in stage.err(name)
    assert not stage.leftovers(role)
    assert not stage.at(role, "results").exists()
    assert goes_on(stage, undisturbed) == 3


@pytest.mark.slow
@pytest.mark.parametrize("point", MOMENTS)
def test_told_to_stop_at_any_moment(stage, undisturbed, point):
    """It says so, and the others say who it was; or all come to the end."""
    wait = 10 if point in BEGINNINGS else 60  # who has not come will not come; all others do, in their own time
    stage.begin("--wait", wait, bob=Hook(at=point, iteration=LATER.get(point, 0), signal="SIGTERM"))
    codes = stage.finish_all()
    if point in ENDINGS:
        assert (codes["helper"], codes["alice"], codes["bob"] in (0, 10)) == (0, 0, True), stage.said()
    else:
        assert codes["bob"] == 10, stage.said()
        for name in stage.survivors("bob"):
            assert codes[name] in ((6, 7) if point in BEGINNINGS else (7,)), stage.said()
            assert "bob" in stage.err(name)
    assert stage.at("bob", "results").exists() == (codes["bob"] == 0 or point in ("shown", "cleared"))
    assert not any(stage.leftovers(name) for name in stage.names)
    goes_on(stage, undisturbed)


@pytest.mark.slow
def test_told_to_stop_while_it_waits_for_the_others(stage, undisturbed):
    stage.start("alice")
    wait_until(lambda: "waiting for helper, bob" in stage.out("alice"), what="waiting")
    stage.processes["alice"].send_signal(signal.SIGTERM)
    assert stage.finish(stage.processes["alice"]) == 10
    assert goes_on(stage, undisturbed) is None


# -- starting over -----------------------------------------------------------------------------------------


def killed(stage: Stage, role: str = "bob", at: str = "saved", iteration: int = 4, **more: Any) -> None:
    """Everybody starts, one is killed, the others stop."""
    stage.begin(**{role: Hook(at=at, iteration=iteration, **more)})
    stopped_by(stage, role)


def test_restart_starts_over(stage, undisturbed):
    killed(stage)
    assert stage.common() == 4
    assert goes_on(stage, undisturbed, "--restart") is None


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_one_who_wants_to_start_over_is_enough(stage, undisturbed, role):
    """And what there was before does not come back, if the new run is killed early."""
    killed(stage)
    for name in stage.names:
        more = ("--restart",) if name == role else ()
        stage.start(name, "run", *more, hook=Hook(at="saved", iteration=1) if name == "bob" else BRIEF)
    stopped_by(stage, "bob")
    assert stage.agreed("alice")["resumed_after"] is None
    assert stage.common() == 1
    assert goes_on(stage, undisturbed) == 1


@pytest.mark.slow
def test_other_data_is_not_gone_on_with(stage, undisturbed, tmp_path_factory):
    killed(stage)
    change_data(stage)
    results = results_of(tmp_path_factory.mktemp("changed"), changed=True)
    assert results != undisturbed
    stage.begin()
    ended(stage, results)
    assert [stage.agreed(name)["resumed_after"] for name in stage.names] == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("how", ["a bit", "cut off", "emptied", "swapped"])
@pytest.mark.parametrize("which", ["newest", "both"])
def test_a_damaged_checkpoint_does_not_count(stage, undisturbed, which, how):
    killed(stage, "bob")
    files = [next(stage.state("alice").glob(f"checkpoint-*-1-0-{i}")) for i in (3, 4)]
    contents = [file.read_bytes() for file in files]
    for file, raw, other in [*zip(files, contents, contents[::-1], strict=True)][which == "newest" :]:
        middle = len(raw) // 2
        damaged = {
            "a bit": raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :],
            "cut off": raw[:-1],
            "emptied": b"",
            "swapped": other,
        }
        file.write_bytes(damaged[how])
    after = 3 if which == "newest" else None
    stage.begin()
    ended(stage, undisturbed)
    assert [stage.agreed(name)["resumed_after"] for name in stage.names] == [after] * 3


@pytest.mark.slow
def test_the_helper_can_do_without_its_checkpoints(stage, undisturbed):
    killed(stage, "alice")
    shutil.rmtree(stage.state("helper"))
    assert goes_on(stage, undisturbed) == 4


def two_attempts(stage: Stage) -> None:
    """Both broken off after the same iteration; the second one knows nothing of the first."""
    for attempt in ("first", "second"):
        for name in stage.names:
            hook = Hook(at="saved", iteration=4) if name == "bob" else BRIEF
            stage.start(name, "run", "--timeout", 30, *of(stage, name, attempt), hook=hook)
        stopped_by(stage, "bob")


def of(stage: Stage, name: str, attempt: str) -> tuple[object, ...]:
    """Where an attempt has its results and checkpoints."""
    return "--out", stage.at(name, f"results-{attempt}"), "--state", stage.at(name, f"results-{attempt}.state")


@pytest.mark.parametrize("helper", ["first", pytest.param("second", marks=pytest.mark.slow)])
def test_checkpoints_of_two_runs_are_not_mixed(stage, undisturbed, helper):
    """Alice goes on from the first attempt and bob from the second one: shares of both together are noise."""
    two_attempts(stage)
    for name, attempt in (("helper", helper), ("alice", "first"), ("bob", "second")):
        stage.start(name, "run", "--timeout", 30, *of(stage, name, attempt))
    assert set(stage.finish_all().values()) == {0}, stage.said()
    for name in stage.names:
        assert stage.agreed(name)["resumed_after"] is None, "it starts over"
    for name in stage.parties:
        assert stage.result(name) == undisturbed[name]


def test_a_run_goes_on_wherever_its_results_are_to_go(stage, undisturbed):
    """Checkpoints are kept beside the key, not beside the results; also if the key is reached through a link."""
    killed(stage)
    link = stage.at("alice", "somewhere", "link.key")
    link.parent.mkdir()
    link.symlink_to(stage.key("alice"))
    for name in stage.names:
        more = ("--key", link, "--audit", stage.at(name, "audit.jsonl")) if name == "alice" else ()
        stage.start(name, "run", "--out", stage.at(name, "results-elsewhere"), *more)
    ended(stage, undisturbed)
    for name in stage.names:
        assert stage.agreed(name)["resumed_after"] == 4
        assert stage.shown(name) == ["results-elsewhere"]


# -- again and again ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_again_before_there_is_another_checkpoint(stage, undisturbed):
    """Alice has saved what bob has not, in both runs: that must not push out what both have."""
    killed(stage, "bob", "iterated", 3)
    assert (stage.newest("alice").iteration, stage.newest("bob").iteration, stage.common()) == (4, 3, 3)
    for _ in range(2):
        killed(stage, "bob", "iterated", 0)
        assert stage.common() == 3
    assert goes_on(stage, undisturbed) == 3


@pytest.mark.slow
def test_killed_again_and_again_by_turns(stage, undisturbed):
    for iteration, (role, point) in enumerate(
        [("bob", "saved"), ("helper", "block"), ("alice", "saving"), ("bob", "frame"), ("helper", "saved")], 1
    ):
        killed(stage, role, point, iteration)
        assert stage.common() in (iteration - 1, iteration)
    killed(stage, "alice", "writing", 0)
    killed(stage, "bob", "half", 0)
    assert goes_on(stage, undisturbed) >= 7
    agreed = [entry for entry in stage.audit("bob") if entry["event"] == "agreed"]
    assert len({entry["session"] for entry in agreed}) == len(agreed) == 8
    assert {entry["run"] for entry in agreed} == {stage.document("bob", "manifest.json")["run"]}


@pytest.mark.slow
def test_two_are_killed_at_once(stage, undisturbed):
    hook = Hook(at="block", iteration=3)
    stage.begin(alice=hook, bob=hook)
    for name in stage.parties:
        stage.struck(name)
    assert stage.finish(stage.processes["helper"], AGREED + SLACK) == 7
    assert "alice" in stage.err("helper") or "bob" in stage.err("helper")
    assert goes_on(stage, undisturbed) in (2, 3)


@pytest.mark.slow
def test_started_again_while_the_others_are_still_there(stage, undisturbed, tmp_path):
    """It is refused for now, waits, and then takes part."""
    word = tmp_path / "go"
    slow = Hook(linger=str(word))
    stage.begin(bob=Hook(at="saved", iteration=4), helper=slow, alice=slow)
    stage.struck("bob")
    stage.start("bob")
    wait_until(lambda: "waiting for helper, alice" in stage.out("bob"), what="waiting")
    word.touch()
    for name in stage.survivors("bob"):
        assert stage.finish(stage.processes[name]) == 7, stage.said()
        assert "bob" in stage.err(name)
        stage.start(name)
    ended(stage, undisturbed)
    assert stage.agreed("bob")["resumed_after"] == 4


# -- one that was only asleep ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("point", ["keys", "block"])
def test_one_that_wakes_up_finds_that_the_others_are_gone(stage, undisturbed, point):
    stage.begin(timeout=PATIENCE, bob=Hook(at=point, signal="SIGSTOP"))
    stage.struck("bob")
    for name in stage.survivors("bob"):
        assert stage.finish(stage.processes[name], AGREED + SLACK) == 7
    os.kill(stage.processes["bob"].pid, signal.SIGCONT)
    assert stage.finish(stage.processes["bob"], AGREED + SLACK) == 7, stage.said()
    assert not stage.at("bob", "results").exists()
    assert not stage.leftovers("bob")
    goes_on(stage, undisturbed)


@pytest.mark.slow
def test_one_that_wakes_up_when_all_were_ready_may_finish_alone(stage, undisturbed):
    """Everybody else was ready, heard nothing of bob and gave up; bob finds in his post that they were ready. Those who
    lack results get them by starting again, bob with them."""
    stage.begin(timeout=PATIENCE, bob=Hook(at="ready", signal="SIGSTOP"))
    stage.struck("bob")
    for name in stage.survivors("bob"):
        assert stage.finish(stage.processes[name], AGREED + SLACK) == 7
        assert "start it again, all of you: it goes on with the results" in stage.err(name)
        assert not stage.shown(name)
    os.kill(stage.processes["bob"].pid, signal.SIGCONT)
    assert stage.finish(stage.processes["bob"], AGREED + SLACK) in (0, 7), stage.said()
    assert not stage.leftovers("bob")
    replayed(stage, undisturbed)


@pytest.mark.slow
def test_one_that_wakes_up_when_all_is_done_has_its_results(stage, undisturbed):
    stage.begin(timeout=PATIENCE, bob=Hook(at="said", signal="SIGSTOP"))
    stage.struck("bob")
    for name in stage.survivors("bob"):
        assert stage.finish(stage.processes[name], AGREED + SLACK) == 0
    os.kill(stage.processes["bob"].pid, signal.SIGCONT)
    ended(stage, undisturbed)


# -- results once more -------------------------------------------------------------------------------------


def test_one_is_killed_when_everybody_else_has_results(stage, undisturbed):
    """And starts again with the others, who are done: twice, and the same bits every time."""
    stage.begin(bob=Hook(at="done"))
    stage.struck("bob")
    for name in stage.survivors("bob"):
        assert stage.finish(stage.processes[name]) == 0, stage.said()
    assert not stage.shown("bob")
    replayed(stage, undisturbed)
    stage.begin(alice=Hook(at="half"))
    stopped_again(stage, "alice")
    replayed(stage, undisturbed)
    assert [len(stage.shown(name)) for name in stage.names] == [3, 3, 2]


def stopped_again(stage: Stage, struck: str) -> None:
    stage.struck(struck)
    for name in stage.survivors(struck):
        assert stage.finish(stage.processes[name], AGREED + SLACK) == 7, stage.said()


@pytest.mark.slow
def test_a_restart_after_the_end_is_another_run(stage, undisturbed):
    stage.begin()
    ended(stage, undisturbed)
    stage.begin("--restart")
    ended(stage, undisturbed)
    runs = [stage.document("alice", "manifest.json", folder)["run"] for folder in stage.shown("alice")]
    assert len(set(runs)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_killed_before_anything_was_opened(stage, undisturbed, role):
    stage.begin(**{role: Hook(at="finished")})
    stopped_by(stage, role)
    replayed(stage, undisturbed)


# -- in time -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_in_time_with_much_on_its_way(tmp_path, role):
    """With the timeout that everybody has; what is on its way to one that has stopped fills every buffer. It takes some
    fifteen seconds on an idle machine."""

    class Large(Stage):
        ROWS = 200_000

    with Large(tmp_path) as stage:
        stage.set()
        stage.begin(timeout=10, **{role: Hook(at="block", iteration=1, signal="SIGSTOP")})
        stopped_by(stage, role)


# -- other studies -----------------------------------------------------------------------------------------

VERTICAL = ("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id")
WAYS: dict[str, tuple[object, ...]] = {
    "SecureNN": ("--protocol", "securenn"),
    "counts revealed": ("--counts", "revealed"),
    "centres shared": ("--centers", "shared"),
    "by columns": VERTICAL,
    "by columns, labels revealed": (*VERTICAL, "--labels", "revealed"),
    "restarts": ("--n-init", 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_kind_of_study_goes_on(tmp_path, way):
    with Stage(tmp_path / "killed") as stage:
        if "revealed" in way:
            stage.policies(least_cluster_size=1)
        stage.set(*way)
        killed(stage, "alice", "saved", 0, count=10 if "--n-init" in way else 3)
        whole = reference(tmp_path / "whole", way)
        goes_on(stage, whole)
        replayed(stage, whole)


def reference(folder: Path, way: tuple[object, ...]) -> Results:
    with Stage(folder) as stage:
        if "revealed" in way:
            stage.policies(least_cluster_size=1)
        stage.set(*way)
        stage.begin()
        assert set(stage.finish_all().values()) == {0}, stage.said()
        return {name: stage.result(name) for name in stage.parties}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["helper", "alice", "dora"])
def test_four_parties(tmp_path, role):
    names = ("alice", "bob", "carol", "dora")
    results = results_of(tmp_path / "whole", parties=names)
    with Stage(tmp_path / "killed", names) as stage:
        stage.set()
        killed(stage, role, "block", 3)
        assert goes_on(stage, results) in (2, 3)


# -- as everybody has it -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_nothing(stage):
    """No hooks: processes started from nothing, and killed when they say how far they are; with their own timeout."""
    for number, patience in ((signal.SIGKILL, ()), (signal.SIGSTOP, ())):
        for name in stage.names:
            stage.start(name, "run", *patience, hook=None)
        wait_until(lambda: "iteration 2" in stage.out("bob"), what="iteration 2")
        os.kill(stage.processes["bob"].pid, number)
        stopped_by(stage, "bob")
        assert stage.common()
    for name in stage.names:
        stage.start(name, "run", hook=None)
    assert set(stage.finish_all().values()) == {0}, stage.said()
    assert stage.agreed("alice")["resumed_after"]
