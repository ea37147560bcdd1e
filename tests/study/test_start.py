"""Studies that start by k-means++: as the oracle from the numbers of the run, resumed or not; and nothing tells which
rows were drawn, but where labels are revealed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.clustering import Outcome, Task
from coterie.errors import Interrupted, PolicyError
from coterie.protocols.onetime import OneTime
from coterie.protocols.sampling import Sampling, plus_plus, public_draws
from coterie.runtime.oracle import run_oracle
from coterie.study.audit import verify_audit
from coterie.study.greetings import greeting
from coterie.study.tasks import make_study_task, seeds_of
from coterie.study.voice import Voice
from tests.study.hooks import Hook, Stage
from tests.study.walk import SMALL, Cast, coterie

X = np.random.default_rng(4).uniform(-10, 10, (90, 2))
IDS = np.array([f"{i:03d}" for i in range(len(X))])
WAYS: dict[str, tuple[object, ...]] = {
    "rows": (),
    "columns": ("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id"),
}
WAYS["revealed labels"] = (*WAYS["columns"], "--labels", "revealed")
REVEALED = "revealed labels"


def agree(cast: Cast, way: str, *options: object) -> None:
    if way == REVEALED:
        cast.policies(least_cluster_size=1)
    cast.agree(*SMALL, "--tol", 0, "--max-iter", 4, "--n-init", 2, "--seed", 3, *WAYS[way], *options)
    if way == "rows":
        for name, rows in zip(cast.parties, np.array_split(X, len(cast.parties)), strict=True):
            cast.give(name, x=rows[:, 0], y=rows[:, 1])
    else:
        cast.give("alice", id=IDS, x=X[:, 0])
        cast.give("bob", id=IDS[::-1], y=X[::-1, 1])


def run_of(cast: Cast, folder: str = "results") -> str:
    (run,) = {cast.document(name, "manifest.json", folder)["run"] for name in cast.names}
    return run


def expected(
    cast: Cast, run: str, x: np.ndarray, least: int, folder: str = "results"
) -> tuple[Task, Outcome, list[list[int]]]:
    """The oracle's outcome from the numbers of a run, and the rows that they draw."""
    study = cast.study
    by_rows, parties = study.clustering.partition == "horizontal", study.roles.owners
    parts = np.array_split(x, len(parties)) if by_rows else [x] * len(parties)
    said = {name: greeting(study, "fit", len(rows), least) for name, rows in zip(parties, parts, strict=True)}
    task = cast.with_homes(
        msgspec.structs.replace(make_study_task(study, "fit", said), seeds=seeds_of(study, run)), folder
    )
    table = task.encoding.encode(x, range(2))
    layout, k = Sampling.of(task.problem), task.clusters
    outcome = run_oracle(task, table)
    drawn = [plus_plus(layout, table, *public_draws(seed, len(x), k), outcome.scales) for seed in task.seeds]
    return task, outcome, drawn


def labels_of(cast: Cast, folder: str = "results") -> list[int]:
    """In the table's order, at everybody who has them."""
    if cast.study.clustering.partition == "horizontal":
        return [label for name in cast.parties for label in cast.labels(name, folder)["label"]]
    one, other = cast.labels("alice", folder)["label"], cast.labels("bob", folder)["label"][::-1]
    assert one == other
    return one


def check_results(cast: Cast, folder: str = "results") -> list[list[int]]:
    """Bit for bit the oracle's. Returns the rows that were drawn."""
    revealed = cast.study.disclosures.labels == "revealed"
    task, oracle, drawn = expected(cast, run_of(cast, folder), X, 1 if revealed else 10, folder)
    assert labels_of(cast, folder) == oracle.labels.tolist()
    for rank, name in enumerate(cast.parties, start=1):
        model = cast.document(name, "model.json", folder)
        assert model["centers"] == oracle.centers[:, task.layout.own_columns(rank)].tolist()
        assert cast.at(name, folder, "report.html").read_text() == repr(oracle.inertia)
    return drawn


@pytest.fixture(autouse=True)
def inertia_for_a_report(monkeypatch):
    monkeypatch.setattr(
        "coterie.report.write.write_report", lambda path, facts, *more: path.write_text(repr(facts.inertia))
    )


def openings(cast: Cast, name: str = "alice") -> list[dict[str, Any]]:
    return [e for e in cast.audit(name) if e["event"] == "opening" and e["what"] == "start rows"]


def every_file(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


# -- results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_study_equals_the_oracle_and_its_logs_say_what_was_opened(cast, way):
    agree(cast, way)
    cast.run()
    drawn = check_results(cast)
    for name in cast.names:
        found = [(e["restart"], e["iteration"], set(e["to"])) for e in openings(cast, name)]
        assert found == ([(0, None, {"alice", "bob"}), (1, None, {"alice", "bob"})] if way == REVEALED else [])
        lines = cast.at(name, "results", "disclosures.jsonl").read_bytes().splitlines()
        assert sum(msgspec.json.decode(line)["what"] == "start rows" for line in lines) == len(found)
        kept = every_file(cast.at(name))
        for rows in drawn:
            for text in (", ".join(map(str, rows)), ",".join(map(str, rows)), "start_rows", "init_rows"):
                assert text not in kept, f"{name} keeps {text}"


def test_so_does_one_by_the_papers_protocols(cast):
    agree(cast, "rows", "--protocol", "securenn")
    cast.run()
    check_results(cast)


# -- interruptions -----------------------------------------------------------------------------------------


def break_off(cast: Cast, monkeypatch: pytest.MonkeyPatch, step: str, times: int, odd: int = 1) -> None:
    """One participant stops when it comes to a step of a start for so many times."""
    genuine, left = getattr(OneTime, step), [times]

    def interrupted(family, *given):
        if family.me.rank == odd:
            left[0] -= 1
            if not left[0]:
                raise Interrupted("stopped by a test")
        return genuine(family, *given)

    with monkeypatch.context() as patch:
        patch.setattr(OneTime, step, interrupted)
        ended = cast.take_part()
    assert all(isinstance(error, Exception) for error in ended.values()), ended
    assert not left[0]


@pytest.mark.parametrize("odd", [0, 2])
@pytest.mark.parametrize("way", ["rows", REVEALED])
@pytest.mark.parametrize("step", ["consider", "spread"])
def test_broken_off_while_the_second_start_is_drawn(cast, monkeypatch, way, step, odd):
    """Three more centres a start: it is the fifth of its kind. The same run goes on, with the same numbers."""
    agree(cast, way)
    break_off(cast, monkeypatch, step, 5, odd)
    cast.run()
    begun, resumed = (e for e in cast.audit("alice") if e["event"] == "agreed")
    assert resumed["run"] == begun["run"] == run_of(cast)
    assert resumed["resumed_after"] is not None
    check_results(cast)


def test_broken_off_while_the_first_start_is_drawn(cast, monkeypatch):
    """Nothing was kept: it is another run, which has other numbers. Nothing was opened, and nothing counts."""
    cast.policies(runs=1)
    agree(cast, "rows")
    break_off(cast, monkeypatch, "consider", 2)
    assert "opening" not in cast.events("alice")
    cast.run()
    begun, again = (e for e in cast.audit("alice") if e["event"] == "agreed")
    assert again["run"] != begun["run"]
    assert again["resumed_after"] is None
    check_results(cast)


class Stopping(Voice):
    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        raise Interrupted("stopped by a test")


def test_rows_that_were_opened_make_a_run_count(cast, monkeypatch):
    """The attack: break off once the rows are open, begin another run, and see more of who lies far from whom."""
    agree(cast, REVEALED)
    cast.policies(least_cluster_size=1, runs=1)
    break_off(cast, monkeypatch, "arg_min", 1)
    assert len(openings(cast)) == 1
    assert len(verify_audit(cast.at("alice", "alice.budget.jsonl")).entries) == 1
    assert isinstance(cast.take_part(restart=True)["alice"], PolicyError)
    assert len(openings(cast)) == 1


def test_a_restart_draws_other_rows(cast):
    agree(cast, "rows")
    cast.take_part(voices={name: Stopping() for name in cast.names})
    cast.run(restart=True)
    begun, again = (e["run"] for e in cast.audit("alice") if e["event"] == "agreed")
    assert again == run_of(cast) != begun
    assert not set(seeds_of(cast.study, begun)) & set(seeds_of(cast.study, again))
    assert check_results(cast) != expected(cast, begun, X, 10)[2]


def test_results_once_more_are_of_the_same_rows(cast):
    agree(cast, "rows")
    cast.run()
    cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names})
    assert cast.entry("alice", "agreed")["replayed"]
    assert run_of(cast) == run_of(cast, "again")
    check_results(cast, "again")


@pytest.mark.slow
@pytest.mark.parametrize("role", ["bob", pytest.param("helper", marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [5, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_while_rows_are_drawn(tmp_path, role, count):
    """As processes. In the second start, which goes on; or in the first, which begins anew."""
    with Stage(tmp_path) as stage:
        stage.set("--init", "k-means++", "--n-init", 2, "--max-iter", 5)
        stage.begin(**{role: Hook(at="draw", count=count)})
        stage.struck(role)
        for name in stage.survivors(role):
            assert stage.finish(stage.processes[name]) == 7, stage.said()
        stage.bury(role)
        assert (stage.common() is None) == (count == 2)
        stage.begin()
        assert set(stage.finish_all().values()) == {0}, stage.said()
        for name in stage.names:
            runs = [e["run"] for e in stage.audit(name) if e["event"] == "agreed"]
            assert len(set(runs)) == (1 if count == 5 else 2)
        _, oracle, _ = expected(stage, run_of(stage, "results"), stage.points(), 10)
        assert labels_of(stage, "results") == oracle.labels.tolist()
        assert stage.document("alice", "model.json")["centers"] == oracle.centers.tolist()


# -- words -------------------------------------------------------------------------------------------------


def test_what_is_said_before_and_after(cast):
    """`explain` and the statement that is signed."""
    agree(cast, "rows")
    told = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    assert "2 starts by k-means++, which draws rows in secret, far from each other (seed 3)" in told
    assert "Which rows k-means++ has drawn for the centres to start from, but for the first." in told
    assert "start rows" not in told
    assert not any("drawn" in line for line in cast.study.disclosures.statement)


def test_revealed_labels_are_said_to_reveal_the_start(cast):
    agree(cast, REVEALED)
    line = "At each start alice, bob learn the numbers of the rows that k-means++ has drawn."
    assert line in cast.study.disclosures.statement
    told = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    assert "At each start, alice and bob learn the numbers of the rows that k-means++ has drawn." in told
    assert "Which rows k-means++ has drawn" not in told


def test_random_rows_are_said_to_be_public(cast):
    agree(cast, "rows", "--init", "random")
    told = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    assert "2 starts from rows with public numbers (seed 3)" in told
    assert "k-means++ has drawn" not in told


def test_a_start_that_nobody_knows_is_refused(cast):
    made = cast.create(*SMALL, "--init", "first")
    assert made.code != 0
    assert "init" in made.err
