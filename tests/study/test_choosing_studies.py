"""Studies that choose the number of clusters: by which measure, told or not; taken up again after every checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import calinski_harabasz_score

from coterie import SecureKMeans
from coterie.errors import Interrupted, StudyError
from coterie.study import openings
from coterie.study.predict import predict_rows
from tests.study.hooks import Hook, Stage
from tests.study.scaled import (
    COLUMNS,
    GROUPS,
    OPTIONS,
    X,
    agree,
    blocks,
    by_columns,
    capture_facts,
    check_results,
    check_words,
    opened,
    quick,
    run_of,
)
from tests.study.walk import BRIEF, Cast, Stopping, coterie

SEVERAL = ("--clusters", "2:4")
SECRET = ("--measures", "secret")
SILHOUETTE = ("--choose", "silhouette")
#: Starts that are the same in every run.
PUBLIC = ("--init", "random", "--seed", 2)
#: Nobody's least size: labels or sizes of every iteration are told.
OPEN = {"least_cluster_size": 1}


@pytest.fixture
def facts(monkeypatch):
    return capture_facts(monkeypatch)


def chosen_to(cast: Cast, name: str = "alice") -> dict[str, set[str]]:
    """To whom what was opened of the choice."""
    return {what: set(to) for what, to in opened(cast, name) if what in ("measures of k", "chosen k")}


# -- results -----------------------------------------------------------------------------------------------

WAYS: dict[str, tuple[object, ...]] = {
    "2 by rows": (),
    "2 by rows, secret": SECRET,
    "2 by rows, silhouette": SILHOUETTE,
    "3 by rows, silhouette, secret": (*SILHOUETTE, *SECRET),
    "2 by columns": by_columns(2),
    "3 by columns, silhouette, secret": (*by_columns(3), *SILHOUETTE, *SECRET),
    "2 by rows, secret scales": ("--scales", "secret", "--column-weights", "age=2"),
    "2 by rows, bounds": ("--scale", "bounds"),
    "2 by rows, shared": ("--centers", "shared", *SECRET),
    "2 by rows, no quality": ("--quality", ""),
    "2 by rows, secret, no quality": (*SECRET, "--quality", ""),
}


@pytest.mark.parametrize("way", quick(WAYS, "2 by rows", "3 by rows, silhouette, secret", "2 by columns"))
def test_a_study_equals_the_oracle_and_says_so(tmp_path, facts, way):
    """The chosen number, what each comes to, centres and labels of the chosen alone; and labels for new rows."""
    with Cast(tmp_path, ("alice", "bob", "carol")[: int(way[0])]) as cast:
        agree(cast, *SEVERAL, *WAYS[way])
        cast.run()
        task, oracle = check_results(cast, facts)
        terms = check_words(cast, facts)
        assert task.clusters == oracle.chosen
        told = "--measures" not in WAYS[way]
        assert (terms.chooses, terms.measures == "revealed") == (True, told)
        for name in cast.names:
            owners = set(cast.parties)
            wanted = {"chosen k": {*cast.names}, **({"measures of k": owners} if told else {})}
            assert chosen_to(cast, name) == wanted
            assert set(facts[name].k_measures) == (({2, 3, 4} & set(oracle.k_measures)) if name in owners else set())
            assert facts[name].options["chosen"] == "2, 3, 4"
            assert facts[name].k == oracle.chosen
        for name in cast.parties:
            model = cast.document(name, "model.json")
            for held in (model["centers"], model["share"]):
                assert held is None or len(held) == oracle.chosen
            assert len(model["suppressed"]) == oracle.chosen
            assert max(cast.labels(name)["label"]) < oracle.chosen
            assert not any(key in str(model) for key in ("chosen", "measure", "k_"))
        alone = cast.study.clustering.partition == "horizontal" and not {"shared", "secret"} & {
            cast.study.disclosures.centers,
            cast.study.disclosures.scales,
        }
        cast.predict({**({} if alone else {cast.helper: {"data": None}}), **{name: {} for name in cast.parties}})
        for name in cast.parties:
            assert cast.labels(name, "predictions") == cast.labels(name)


def test_the_number_that_is_right_is_chosen(cast, facts):
    """Three groups, which the income does not tell apart; and the index is scikit-learn's."""
    agree(cast, "--clusters", "2:6", "--column-weights", "income=0.01", *PUBLIC, "--n-init", 4)
    cast.run()
    _, oracle = check_results(cast, facts)
    assert oracle.chosen == GROUPS
    z = (X - X.mean(axis=0)) / X.std(axis=0) * [1, 0.1, 1]
    theirs = KMeans(GROUPS, n_init=3, random_state=0).fit(z)
    assert facts["alice"].k_measures[GROUPS] == pytest.approx(calinski_harabasz_score(z, theirs.labels_), rel=0.01)
    assert facts["alice"].calinski_harabasz == pytest.approx(facts["alice"].k_measures[GROUPS], rel=1e-9)
    told = {k: measure for k, measure in oracle.k_measures.items() if not np.isnan(measure)}
    assert max(told, key=told.__getitem__) == GROUPS


@pytest.mark.slow
@pytest.mark.parametrize("choose", ["calinski-harabasz", "silhouette"])
def test_told_or_not_the_same_is_chosen(tmp_path, facts, choose):
    """From public rows, so that all runs are alike; and as the estimator has it."""
    found = []
    for measures in ("revealed", "secret"):
        with Cast(tmp_path / measures) as cast:
            agree(cast, *SEVERAL, "--choose", choose, "--measures", measures, *PUBLIC)
            cast.run()
            check_results(cast, facts)
            found.append((cast.labels("alice"), cast.centers("alice")))
    assert found[0] == found[1]
    model = SecureKMeans(
        range(2, 5),
        init="random",
        random_state=2,
        choose=choose,
        scale="standard",
        bounds=[(0, 120), (0, 200_000), (0, 60)],
        least_cluster_size=10,
    ).fit_parties(blocks(2))
    assert found[0][0]["label"] == model.labels_[: len(blocks(2)[0])].tolist()
    centers = [[float(row[name] or "nan") for name in COLUMNS] for row in found[0][1]]
    np.testing.assert_array_equal(centers, model.cluster_centers_)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--counts", "revealed"), id="sizes"),
        pytest.param((*by_columns(), "--labels", "revealed"), id="labels", marks=pytest.mark.slow),
        pytest.param(
            (*by_columns(), "--labels", "revealed", *SILHOUETTE, *SECRET), id="in secret", marks=pytest.mark.slow
        ),
    ],
)
def test_where_iterations_are_told(cast, facts, options):
    """Of all numbers of clusters: nobody is said not to know."""
    cast.policies(**OPEN)
    agree(cast, *SEVERAL, *options)
    cast.run()
    check_results(cast, facts, least=1)
    check_words(cast, facts, least=1)
    told = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    assert "of the numbers of clusters that are not chosen" not in told


def test_closed_clusters(cast, facts):
    """A number of clusters of which one does not pass the output rules is not measured in the open, and no inertia of
    the open ones is told beside the others."""
    cast.policies(least_cluster_size=12)
    agree(cast, "--clusters", "3:5", *PUBLIC)
    cast.run()
    _, oracle = check_results(cast, facts, least=12)
    terms = check_words(cast, facts, least=12)
    assert not terms.tells_inertia
    assert "inertia" not in {what for what, _ in opened(cast, "alice")}
    assert facts["alice"].suppressed == oracle.suppressed.tolist()
    assert any(np.isnan(measure) for measure in facts["alice"].k_measures.values())
    assert np.isnan(facts["alice"].k_measures[oracle.chosen]) == any(oracle.suppressed)


@pytest.mark.slow
def test_real_processes(cast):
    agree(cast, *SEVERAL, *by_columns())
    cast.program = BRIEF
    for name in cast.names:
        cast.start(name)
    assert set(cast.finish_all().values()) == {0}, cast.said()
    clusters = {cast.document(name, "model.json")["clusters"] for name in cast.parties}
    assert len(clusters) == 1
    assert clusters <= {2, 3, 4}
    for name in cast.names:
        cast.start(name, "predict")
    assert set(cast.finish_all().values()) == {0}, cast.said()
    for name in cast.parties:
        assert cast.labels(name, "predictions") == cast.labels(name)


# -- interruptions -----------------------------------------------------------------------------------------

#: Two starts for each of three numbers of clusters, two iterations each, of which the last saves nothing.
LONG = (*SEVERAL, "--n-init", 2, "--tol", 0, "--max-iter", 2)
CHECKPOINTS = 3 * 2


def resumes(cast: Cast, facts: dict[str, Any], before: str) -> None:
    """The same run, with what the oracle makes of its numbers."""
    cast.run()
    begun, *_, resumed = (entry for entry in cast.audit("alice") if entry["event"] == "agreed")
    assert resumed["run"] == begun["run"] == run_of(cast) == before
    assert resumed["resumed_after"] is not None
    check_results(cast, facts)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(count, marks=() if count in (1, 4, CHECKPOINTS) else pytest.mark.slow)
        for count in range(1, CHECKPOINTS + 1)
    ],
)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param((), id="open"),
        pytest.param((*SILHOUETTE, *SECRET, "--scales", "secret"), marks=pytest.mark.slow, id="secret"),
        pytest.param(by_columns(), marks=pytest.mark.slow, id="columns"),
    ],
)
def test_broken_off_after_each_checkpoint(cast, facts, way, count):
    agree(cast, *LONG, *way)
    odd = ("helper", "alice", "bob")[count % 3]
    ended = cast.take_part(voices={odd: Stopping(count)})
    assert all(isinstance(error, Exception) for error in ended.values()), ended
    assert "opening" not in cast.events("alice")[:-1] or not {"centers", "measures of k"} & _opened(cast)
    resumes(cast, facts, cast.entry("alice", "agreed")["run"])


def _opened(cast: Cast) -> set[str]:
    return {entry["what"] for entry in cast.audit("alice") if entry["event"] == "opening"}


@pytest.mark.slow
def test_broken_off_again_and_again(cast, facts):
    """Every attempt gets one checkpoint further, and the last one opens what none before has."""
    agree(cast, *LONG)
    for turn in range(CHECKPOINTS):
        ended = cast.take_part(voices={cast.names[turn % 3]: Stopping(1)})
        assert all(isinstance(error, Exception) for error in ended.values()), (turn, ended)
    resumes(cast, facts, cast.entry("alice", "agreed")["run"])


@pytest.mark.parametrize("what", quick(["measures of k", "chosen k", "centers"], "chosen k"))
def test_broken_off_while_the_choice_is_opened(cast, facts, monkeypatch, what):
    """All is computed; what is opened once more is the same, and stands in the log once."""
    agree(cast, *LONG)
    call, left = openings.Openings.__call__, [1]

    def failing(sink, entry):
        call(sink, entry)
        if entry.what == what and sink.audit.path.parent.name == "bob" and left:
            left.clear()
            raise Interrupted("stopped by a test")

    with monkeypatch.context() as patch:
        patch.setattr(openings.Openings, "__call__", failing)
        ended = cast.take_part()
    assert all(isinstance(error, Exception) for error in ended.values()), ended
    resumes(cast, facts, cast.entry("alice", "agreed")["run"])
    logged = [entry["what"] for entry in cast.audit("bob") if entry["event"] == "opening"]
    assert logged.count("chosen k") == logged.count("measures of k") == logged.count("centers") == 1


@pytest.mark.slow
@pytest.mark.parametrize("role", ["bob", pytest.param("helper", marks=pytest.mark.slow)])
def test_killed_within_the_second_number(tmp_path, role):
    """As processes: a kill at a checkpoint of the second of three numbers of clusters."""
    options = ("--clusters", "2:4", "--max-iter", 4)
    found = []
    for strike in (False, True):
        with Stage(tmp_path / str(strike)) as stage:
            stage.set(*options)
            if strike:
                stage.begin(**{role: Hook(at="saved", count=5)})
                stage.struck(role)
                for name in stage.survivors(role):
                    assert stage.finish(stage.processes[name]) == 7, stage.said()
                stage.bury(role)
                assert stage.newest("alice").start == 1
            stage.begin()
            assert set(stage.finish_all().values()) == {0}, stage.said()
            assert stage.agreed("alice")["resumed_after"] == (2 if strike else None)
            found.append({name: stage.result(name) for name in stage.parties})
    assert found[0] == found[1]


def test_results_once_more(cast, facts):
    agree(cast, *SEVERAL, *SECRET)
    cast.run()
    cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names})
    assert cast.entry("alice", "agreed")["replayed"]
    assert run_of(cast) == run_of(cast, "again")
    check_results(cast, facts, "again")
    for file in ("centers.csv", "labels.parquet", "model.json"):
        before, now = (cast.document("bob", "manifest.json", folder)["files"][file] for folder in ("results", "again"))
        assert before == now


# -- models ------------------------------------------------------------------------------------------------


def test_a_model_of_a_number_that_was_not_tried(cast, facts):
    agree(cast, *SEVERAL)
    cast.run()
    path = cast.at("alice", "results", "model.json")
    right = cast.document("alice", "model.json")
    for clusters, words in ((5, "partition, clusters or columns"), (right["clusters"] % 3 + 2, "centres are not")):
        path.write_bytes(msgspec.json.encode({**right, "clusters": clusters}))
        with pytest.raises(StudyError, match=f"was changed or damaged: its {words}"):
            predict_rows(cast.orders("alice", model=path, out=cast.at("alice", "predictions")))


# -- agreeing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--clusters", "6:2"), "--clusters 6:2"),
        (("--clusters", "5:5"), "--clusters 5:5"),
        (("--clusters", "2:1000000000"), "choose from at most 100 numbers"),
        (("--clusters", "2:99999999999999999999"), "choose from at most 100 numbers"),
        (("--clusters", "1:3"), "--clusters 1:3"),
        (("--clusters", "2:"), "--clusters '2:'"),
        (("--clusters", "2:3:4"), "--clusters '2:3:4'"),
        (("--clusters", "some"), "--clusters 'some'"),
        (("--clusters", 0), "--clusters must be at least 1"),
        ((*SEVERAL, "--choose", "elbow"), "--choose: 'elbow' is none of"),
        ((*SEVERAL, "--measures", "open"), "--measures: 'open' is none of"),
    ],
)
def test_what_cannot_be_agreed_on(cast, options, named):
    made = cast.create(*OPTIONS, *options)
    assert made.code == 2
    assert named in made.err


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("clusters = []", "clusters must be at least 2"),
        ("clusters = [3]", "clusters must be a number, or at least two of them"),
        ("clusters = [4, 2]", "clusters must be in order, each once"),
        ("clusters = [2, 2, 3]", "clusters must be in order, each once"),
        ("clusters = [1, 2]", "clusters must be at least 2"),
    ],
)
def test_files_that_cannot_be(cast, changed, words):
    made = cast.create(*OPTIONS, *SEVERAL)
    assert made.code == 0, made.err
    path = cast.folder / "study.toml"
    before, _, rest = path.read_text().partition("clusters = [")
    path.write_text(before + changed + rest.partition("]")[2])
    said = coterie("study", "explain", path)
    assert said.code != 0
    assert words in said.err


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"measures": ["secret"]}, "the rule `measures` allows 'secret'; the study asks for 'revealed'"),
        ({"most_clusters": 3}, "the rule `most_clusters` = 3 does not allow the 4 clusters of the study"),
        ({"most_restarts": 5}, "the rule `most_restarts` = 5 does not allow the 6 restarts of the study"),
    ],
)
def test_a_policy_that_forbids_it(cast, rules, words):
    made = cast.create(*OPTIONS, *SEVERAL, "--n-init", 2)
    assert made.code == 0, made.err
    cast.policy("bob", **rules)
    said = coterie("study", "sign", cast.folder / "study.toml", "--key", cast.key("bob"))
    assert said.code == 5
    assert words in said.err


def test_more_clusters_than_rows(cast):
    cast.policies(**OPEN)
    agree(cast, "--clusters", f"{len(X) - 5}:{len(X) + 1}")
    for error in cast.take_part().values():
        assert isinstance(error, StudyError)
        assert f"there are {len(X)} rows in all, fewer than the {len(X) + 1} clusters" in str(error)


# -- words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choose", ["calinski-harabasz", "silhouette"])
@pytest.mark.parametrize("measures", ["revealed", "secret"])
def test_what_is_said_of_the_choice(cast, choose, measures):
    """Before anything has run: what is computed, what is told, what nobody learns, what the helper gets."""
    study = cast.agree(*OPTIONS, *SEVERAL, "--choose", choose, "--measures", measures, "--n-init", 2)
    told = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    called = {"calinski-harabasz": "the Calinski-Harabasz index", "silhouette": "the mean silhouette"}[choose]
    assert f"k-means with 2, 3 or 4 clusters, whichever is best by {called}, over 3 columns" in told
    assert "2 starts for each number of clusters by k-means++" in told
    assert "Which number of clusters is chosen." in told
    assert "It receives nothing from the parties but the stop bit and the number of clusters that is chosen." in told
    good = ", and how good they are" if measures == "secret" else ""
    assert f"The centres and labels of the numbers of clusters that are not chosen{good}." in told
    line = {
        "calinski-harabasz": "its inertia, and the inertia that a single cluster would have.",
        "silhouette": "the mean silhouette of all rows.",
    }[choose]
    stated = f"At the end alice, bob learn, for each number of clusters that is tried, {line}"
    assert (stated in study.disclosures.statement) == (measures == "revealed")
    assert ("For each number of clusters that is tried, one number" in told) == (measures == "revealed")
    assert "At the end alice, bob and helper learn which number of clusters is chosen." in study.disclosures.statement
    assert "Which of the" not in told


def test_what_is_said_where_there_is_nothing_to_choose(cast):
    cast.agree(*OPTIONS, "--clusters", 3)
    told = coterie("study", "explain", cast.study_file("alice")).out
    assert "number of clusters" not in told.replace("each further number of clusters", "")
    assert not any("number of clusters" in line for line in cast.study.disclosures.statement)


def test_which_measures_are_not_told_twice(cast, facts):
    """With the inertias of all numbers of clusters, none is opened again: that would tell closed rows apart."""
    agree(cast, *SEVERAL, *PUBLIC)
    cast.run()
    told = {what for what, _ in opened(cast, "alice")}
    assert not told & {"inertia", "scatter"}
    mine = facts["alice"]
    assert (mine.inertia is None) == any(mine.suppressed) == np.isnan(mine.k_measures[mine.k])
