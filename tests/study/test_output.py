"""What leaves a study, attacked by one of its parties: real studies over TLS, read from the files that it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coterie.clustering import Outcome, Task, opening
from coterie.errors import ProtocolError
from coterie.runtime.oracle import run_oracle
from coterie.study.greetings import greeting
from coterie.study.tasks import make_study_task
from tests.clustering.test_output_rules import OUTLIER, STOP_AT_ONCE, duplicate_heavy, planted_rows
from tests.study.walk import BRIEF, Cast

NO_PICTURES = pytest.mark.usefixtures("no_pictures")
CORNERS = np.array([[0.0, 0], [6, 6]])
#: Seeds whose public choice of rows starts a cluster at home and one beside the outlier, or one in each corner.
BESIDE, TWO, THREE = 22, 0, 4


def give(cast: Cast, blocks: list[np.ndarray]) -> None:
    for name, rows in zip(cast.parties, blocks, strict=True):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])


def agree(cast: Cast, clusters: int, bounds: str, seed: int, *more: object) -> None:
    columns = ("--columns", "x,y", "--bounds", f"x={bounds},y={bounds}")
    cast.agree("--clusters", clusters, *columns, "--init", "random", "--seed", seed, *more)


def task_of(cast: Cast, blocks: list[np.ndarray], least: int = 10) -> Task:
    """What the participants agree on, if their policies say nothing but the least size."""
    study = cast.study
    brought = {name: greeting(study, "fit", len(r), least) for name, r in zip(cast.parties, blocks, strict=True)}
    return make_study_task(study, "fit", brought)


def oracle(task: Task, blocks: list[np.ndarray]) -> Outcome:
    """Raises if an opened centre is no mean of enough rows."""
    return run_oracle(task, task.encoding.encode(np.concatenate(blocks), range(2)))


def model(cast: Cast, name: str, folder: str = "results") -> dict[str, Any]:
    return cast.document(name, "model.json", folder)


def closed(cast: Cast) -> list[bool]:
    found = [model(cast, name)["suppressed"] for name in cast.parties]
    assert all(one == found[0] for one in found)
    return found[0]


# -- 1. which labelling is counted -------------------------------------------------------------------------


def lured(monkeypatch, cast: Cast, seed: int) -> tuple[list[np.ndarray], Outcome]:
    """Data of which the final labelling alone would let a centre of too few rows pass, and what is to come out."""
    x = duplicate_heavy(seed)
    blocks = [x[:150], x[150:]]
    agree(cast, 8, "0:0.04", seed, "--tol", STOP_AT_ONCE, "--scale", "none")
    give(cast, blocks)
    task = task_of(cast, blocks)
    honest = opening.small_clusters
    with monkeypatch.context() as patch:
        patch.setattr(opening, "small_clusters", lambda family, rules, _, final: honest(family, rules, final, final))
        with pytest.raises(ProtocolError, match="no labelling of enough rows made it"):
            oracle(task, blocks)
    return blocks, oracle(task, blocks)


def check_rare_rows(cast: Cast, blocks: list[np.ndarray], expected: Outcome) -> None:
    """No row that fewer than ten share stands in a model; and what does is what the oracle has vouched for."""
    rows, counts = np.unique(np.concatenate(blocks), axis=0, return_counts=True)
    rare = rows[counts < 10]
    for name in cast.parties:
        found = model(cast, name)
        assert found["centers"] == expected.centers.tolist()
        assert found["suppressed"] == expected.suppressed.tolist()
        shown = np.array([row for row in found["centers_in_data_units"] if row[0] is not None])
        distances = np.abs(shown[:, None] - rare[None]).max(axis=2)
        assert distances.min() > 2.0 ** -found["fractional_bits"], "somebody's row"


@NO_PICTURES
@pytest.mark.parametrize("seed", [280, 351])
def test_no_rare_row_stands_in_a_model(cast, monkeypatch, seed):
    blocks, expected = lured(monkeypatch, cast, seed)
    cast.run()
    check_rare_rows(cast, blocks, expected)


def test_no_rare_row_stands_in_a_model_of_real_processes(cast, monkeypatch):
    blocks, expected = lured(monkeypatch, cast, 552)
    cast.program = BRIEF
    for name in cast.names:
        cast.start(name)
    assert set(cast.finish_all().values()) == {0}, cast.said()
    check_rare_rows(cast, blocks, expected)


# -- 2. contributions --------------------------------------------------------------------------------------


@NO_PICTURES
@pytest.mark.parametrize("rule", ["off", "none-or-least", "least"])
def test_nine_rows_beside_an_outlier(cast, rule):
    """With the rule off, the other's outlier can be read off the centre; a policy that says nothing has it on."""
    if rule != "least":
        cast.policies(contribution=rule)
    agree(cast, 2, "-3:9", BESIDE, "--contribution", rule)
    give(cast, planted_rows())
    cast.run()
    if rule == "off":
        centre = np.array(model(cast, "bob")["centers_in_data_units"][1])
        np.testing.assert_allclose(centre * 10 - 9 * np.array([7.0, 6.0]), OUTLIER, atol=1e-2)
        return
    assert closed(cast) == [False, True]
    for name in cast.parties:
        assert model(cast, name)["centers"][1] == [0, 0]
        assert model(cast, name)["centers_in_data_units"][1] == [None, None]
        assert set(cast.labels(name)["label"]) == {0}


@NO_PICTURES
@pytest.mark.parametrize("strict", [None, "study", "alice", "bob"])
def test_the_weaker_rule_holds_if_everybody_names_it(cast, strict):
    """Clusters of 12 + 12 and of 12 + 0 rows: the second one is Alice's alone, whom the strict rule protects."""
    for name in cast.parties:
        if name != strict:
            cast.policy(name, contribution="none-or-least")
    agree(cast, 2, "-1:7", TWO, *(() if strict == "study" else ("--contribution", "none-or-least")))
    give(cast, [np.repeat(CORNERS, (12, 12), axis=0), np.repeat(CORNERS, (12, 0), axis=0)])
    cast.run()
    assert closed(cast) == [False, strict is not None]


@NO_PICTURES
@pytest.mark.parametrize("coalition", [1, 2, 255])
def test_a_coalition_from_one_policy(tmp_path, coalition):
    """5 + 5 + 5 and 5 + 5 + 1 rows: without any two parties five are left, or one. Carol alone asks for it."""
    with Cast(tmp_path, ("alice", "bob", "carol")) as cast:
        for name in ("alice", "bob"):
            cast.policy(name, least_cluster_size=5)
        cast.policy("carol", least_cluster_size=5, coalition=coalition)
        agree(cast, 2, "-1:7", THREE)
        give(cast, [np.repeat(CORNERS, sizes, axis=0) for sizes in ((5, 5), (5, 5), (5, 1))])
        cast.run()
        assert closed(cast) == [False, coalition > 1]


# -- 3. the grid -------------------------------------------------------------------------------------------


def whole_numbers() -> list[np.ndarray]:
    """Three clusters of whole numbers, about half of each with Alice."""
    random = np.random.RandomState(2)
    corners = np.array([[10.0, 10], [60, 20], [30, 80]])
    x = np.concatenate([random.normal(c, 4, (s, 2)) for c, s in zip(corners, (47, 62, 35), strict=True)])
    return np.array_split(random.permutation(x.round().clip(0, 100)), 2)


@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_rounded_centres_sizes_and_the_labels_that_go_with_them(cast, centers):
    blocks = whole_numbers()
    options = ("--resolution", "x=1,y=1", "--sizes", "rounded", "--centers", centers)
    agree(cast, 3, "0:100", 1, *options)
    give(cast, blocks)
    cast.run()
    task = task_of(cast, blocks)
    assert min(task.grid) > 0
    assert not any(closed(cast))
    encoded = np.array(model(cast, "alice")["centers"]) if centers == "revealed" else added_up(cast)
    assert not (encoded % 2 ** np.array(task.grid)).any()
    labels = {name: cast.labels(name)["label"] for name in cast.parties}
    sizes = np.bincount([label for found in labels.values() for label in found], minlength=3)
    rounded = [int(10 * np.floor(size / 10 + 0.5)) for size in sizes]
    for name in cast.parties:
        if centers == "revealed":
            assert [int(row["size"]) for row in cast.centers(name)] == rounded
        report = cast.at(name, "results", "report.html").read_text(encoding="utf-8")
        assert all(f">{size}<" in report for size in rounded)
    together = {} if centers == "revealed" else {cast.helper: {"data": None}}
    cast.predict({**together, **{name: {} for name in cast.parties}})
    for name in cast.parties:
        assert cast.labels(name, "predictions")["label"] == labels[name]


# -- 4. closed clusters of shared models -------------------------------------------------------------------


def added_up(cast: Cast) -> np.ndarray:
    """The centres, from the shares of all parties' models: nobody has them all."""
    shares = [np.array(model(cast, name)["share"], np.uint64) for name in cast.parties]
    return np.add.reduce(shares).view(np.int64)


@NO_PICTURES
def test_made_up_rows_do_not_find_a_closed_centre(cast):
    """The attack: label a grid of rows that nobody has, and see where the labels change."""
    agree(cast, 2, "-3:9", BESIDE, "--centers", "shared")
    give(cast, planted_rows())
    cast.run()
    assert closed(cast) == [False, True]
    centers = added_up(cast)
    np.testing.assert_array_equal(centers[1], centers[0])
    grid = np.stack(np.meshgrid(np.linspace(-3, 9, 25), np.linspace(-3, 9, 25)), axis=-1).reshape(-1, 2)
    data = cast.write("bob", "grid.csv", x=grid[:, 0], y=grid[:, 1])
    cast.predict({cast.helper: {"data": None}, "alice": {"data": None}, "bob": {"data": str(data)}})
    assert cast.labels("bob", "predictions")["label"] == [0] * len(grid)


@NO_PICTURES
def test_where_all_are_closed_there_is_no_label(cast):
    agree(cast, 2, "-3:9", TWO, "--centers", "shared")
    cast.policy("alice", least_cluster_size=25)
    give(cast, [np.repeat(CORNERS, (15, 15), axis=0), np.repeat(CORNERS, (15, 15), axis=0)])
    cast.run()
    assert closed(cast) == [True, True]
    assert not added_up(cast).any()
    assert set(cast.labels("bob")["label"]) == {-1}
    cast.predict({cast.helper: {"data": None}, "alice": {}, "bob": {}})
    assert set(cast.labels("bob", "predictions")["label"]) == {-1}
