"""Studies that standardise columns: in secret by rows, at home by columns. Results are the oracle's bit for bit, and
scikit-learn's; files and logs say what they should, and nothing more."""

from __future__ import annotations

import stat
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans
from coterie.clustering import distinct_rows
from coterie.errors import PeerUnreachable, PolicyError, StudyError
from coterie.study.predict import predict_rows
from coterie.study.study_file import load_study
from tests.study.scaled import (
    COLUMNS,
    GROUPS,
    OPTIONS,
    X,
    added_up,
    agree,
    blocks,
    by_columns,
    capture_facts,
    check_results,
    check_words,
    every_file,
    opened,
    quick,
    weights_of,
)
from tests.study.walk import BRIEF, Cast, coterie

K = ("--clusters", GROUPS)
SECRET, SHARED = ("--scales", "secret"), ("--centers", "shared")
WEIGHTS = ("--column-weights", "age=2,income=0.5")
#: Options by what they are called; the number of parties is that of the name's digit.
WAYS: dict[str, tuple[object, ...]] = {
    "2 by rows": (),
    "3 by rows": (),
    "2 by rows, secret": SECRET,
    "3 by rows, secret, weighted": (*SECRET, *WEIGHTS),
    "2 by rows, weighted": WEIGHTS,
    "2 by rows, shared": SHARED,
    "2 by rows, bounds, weighted": ("--scale", "bounds", *WEIGHTS),
    "2 by columns": by_columns(2),
    "3 by columns, weighted": (*by_columns(3), *WEIGHTS),
    "2 by columns, secret, shared": (*by_columns(2), *SECRET, *SHARED),
    "2 by rows, securenn": ("--protocol", "securenn"),
}
#: What is in a model beside what is in all.
PARTS = ("centers", "share", "weights", "weights_share", "means", "deviations")


@pytest.fixture
def facts(monkeypatch):
    return capture_facts(monkeypatch)


@pytest.fixture
def made(tmp_path, request, facts):
    """A study that everybody has run."""
    way: str = request.param
    parties = ("alice", "bob", "carol")[: int(way[0])]
    with Cast(tmp_path, parties) as cast:
        agree(cast, *K, *WAYS[way])
        cast.run()
        yield cast


def models(cast: Cast) -> dict[str, dict[str, Any]]:
    return {name: cast.document(name, "model.json") for name in cast.parties}


def parts(cast: Cast) -> set[str]:
    """What all parties' models hold."""
    found = [{part for part in PARTS if model[part]} for model in models(cast).values()]
    assert all(one == found[0] for one in found)
    return found[0]


def predict_again(cast: Cast, together: bool) -> None:
    """Labels for the rows of the fit are those of the fit."""
    each: dict[str, dict[str, Any]] = {name: {} for name in cast.parties}
    cast.predict({**({cast.helper: {"data": None}} if together and cast.helper else {}), **each})
    for name in cast.parties:
        assert cast.labels(name, "predictions") == cast.labels(name)
        assert cast.at(name, "predictions", "disclosures.jsonl").exists() == together


# -- results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    quick(WAYS, "2 by rows", "3 by rows, secret, weighted", "2 by rows, shared", "3 by columns, weighted"),
    indirect=True,
)
def test_a_study_equals_the_oracle_and_says_so(made, facts):
    """Labels, centres, weights and quality; statement, explain, report and log; labels for the same rows once more."""
    study = made.study
    todo, shown = study.clustering, study.disclosures
    _, oracle = check_results(made, facts)
    terms = check_words(made, facts)
    assert todo.scale == "standard" or "bounds" in todo.scale
    secret = todo.scale == "standard" and todo.partition == "horizontal"
    revealed = (shown.centers, shown.scales) == ("revealed", "revealed")
    wanted = {"share" if shown.centers == "shared" else "centers"}
    if secret:
        wanted |= {"weights"} if revealed else {"weights_share"}
        assert terms.weighted
        if revealed:
            assert all(model["weights"] == [weights_of(oracle)] for model in models(made).values())
        else:
            assert added_up(made, "weights_share") == [weights_of(oracle)]
    elif todo.scale == "standard":
        wanted |= {"means", "deviations"}
    assert parts(made) == wanted
    private = {"share", "weights_share"} & wanted
    for name in made.parties:
        mode = stat.S_IMODE(made.at(name, "results", "model.json").stat().st_mode)
        assert mode == (0o600 if private else 0o644)
    assert not made.at("helper", "results", "model.json").exists()
    predict_again(made, together=bool(private) or todo.partition == "vertical")


@pytest.mark.parametrize("made", ["2 by rows, weighted"], indirect=True)
def test_reports_show_standard_deviations_that_are_opened(made, facts):
    for name in made.parties:
        for l, column in enumerate(facts[name].columns):
            assert column.deviation == pytest.approx(X[:, l].std(), rel=2**-10)
            assert not column.capped
    assert all(column.deviation is None for column in facts["helper"].columns)
    given = [column.weight for column in made.study.data.columns]
    assert [column.weight for column in facts["alice"].columns] == pytest.approx(
        [w / max(given) for w in given], abs=2**-12
    )


@pytest.mark.parametrize("made", quick(["2 by rows, secret", "2 by rows, shared"], "2 by rows, secret"), indirect=True)
def test_reports_do_not_show_those_that_are_not(made, facts):
    for name in made.names:
        assert all(column.deviation is None for column in facts[name].columns)
        assert facts[name].options["scales"] == "secret"
        assert "scales" not in {what for what, _ in opened(made, name)}


@pytest.mark.parametrize("made", ["2 by columns"], indirect=True)
def test_what_a_party_standardises_at_home_stays_there(made, facts):
    """Means and standard deviations of a column are in its holder's files, and in nobody else's."""
    for rank, name in enumerate(made.parties, 1):
        own, model = made.study.own_columns(rank), made.document(name, "model.json")
        np.testing.assert_allclose(model["means"], X[:, own].mean(axis=0))
        np.testing.assert_allclose(model["deviations"], X[:, own].std(axis=0))
        shown = {column.name: column.deviation for column in facts[name].columns}
        assert [shown[COLUMNS[l]] for l in own] == model["deviations"]
        assert sum(one is not None for one in shown.values()) == len(own)
        for other in made.names:
            if other != name:
                kept = every_file(made.at(other))
                assert not any(repr(number) in kept for number in [*model["means"], *model["deviations"]])
    assert facts["helper"].options["scale"] == "standard"


@pytest.mark.parametrize(
    "way", quick(["2 by rows", "3 by rows, secret, weighted", "3 by columns, weighted"], "2 by rows")
)
def test_a_study_equals_the_estimator(tmp_path, facts, way):
    """From public rows, which both draw alike."""
    with Cast(tmp_path, ("alice", "bob", "carol")[: int(way[0])]) as cast:
        agree(cast, *K, *WAYS[way], "--init", "random", "--seed", 5)
        cast.run()
        check_results(cast, facts)
        study, by_rows = cast.study, "rows" in way
        columns = study.data.columns
        model = SecureKMeans(
            GROUPS,
            partition="horizontal" if by_rows else "vertical",
            init="random",
            random_state=5,
            bounds=[(c.low, c.high) for c in columns],
            scale="standard",
            scales=study.disclosures.scales,
            column_weights={f"x{l}": c.weight for l, c in enumerate(columns)},
            least_cluster_size=10,
        )
        model.fit_parties(blocks(len(cast.parties)) if by_rows else [X[:, [l]] for l in range(3)])
        found = np.array([[float(v) for v in list(row.values())[1:]] for row in cast.centers("alice")])
        theirs = model.cluster_centers_ if by_rows else model.cluster_centers_[:, :1]
        np.testing.assert_allclose(found, theirs, rtol=0 if by_rows else 1e-14)  # means are added up in another order
        mine = facts["alice"]
        assert (mine.inertia, mine.silhouette) == (model.inertia_, model.silhouette_)
        assert mine.calinski_harabasz == model.calinski_harabasz_


def test_from_the_same_rows_as_scikit_learn(cast, facts):
    agree(cast, *K, "--init", "random", "--seed", 5)
    cast.run()
    _, oracle = check_results(cast, facts)
    z = StandardScaler().fit_transform(X)
    start = z[list(distinct_rows(np.random.RandomState(5), len(X), GROUPS))]
    np.testing.assert_array_equal(oracle.labels, KMeans(GROUPS, init=start, n_init=1).fit(z).labels_)


@pytest.mark.slow
def test_real_processes(cast):
    agree(cast, *K, *SECRET)
    cast.program = BRIEF
    for name in cast.names:
        cast.start(name)
    assert set(cast.finish_all().values()) == {0}, cast.said()
    assert parts(cast) == {"centers", "weights_share"}
    for name in cast.names:
        cast.start(name, "predict")
    assert set(cast.finish_all().values()) == {0}, cast.said()
    for name in cast.parties:
        assert cast.labels(name, "predictions") == cast.labels(name)


# -- columns that vary little, or not at all -----------------------------------------------------------------


def test_capped_and_constant_columns(cast, facts):
    """One bit a column; the report names what is capped, and says what to do about it."""
    from coterie.report.agreed import show_agreement
    from coterie.report.blocks import Grid, Paragraph

    options = ("--columns", "age,tiny,same", "--bounds", "age=0:120,tiny=-50000:50000,same=0:10")
    cast.agree(*K, *options)
    for name, rows in zip(cast.parties, blocks(2), strict=True):
        cast.give(name, age=rows[:, 0], tiny=rows[:, 2], same=np.full(len(rows), 7.0))
    cast.run()
    for name in cast.parties:
        columns = {column.name: column for column in facts[name].columns}
        assert [columns[one].capped for one in ("age", "tiny", "same")] == [False, True, False]
        assert columns["age"].deviation == pytest.approx(X[:, 0].std(), rel=2**-10)
        assert columns["tiny"].deviation is None
        assert columns["same"].deviation == 0
        shown = show_agreement(facts[name])
        words = [block.text for block in shown if isinstance(block, Paragraph)]
        assert words == [
            "tiny varies so little, for its agreed range, that it weighs less than it should. Agree on tighter bounds."
        ]
        (table,) = (block for block in shown if isinstance(block, Grid) and "agreed ranges" in block.caption)
        assert [row[-1] for row in table.rows][1:] == ["too small for its range", "none seen"]
    assert not any(column.capped for column in facts["helper"].columns)


def test_where_all_are_closed_nothing_is_told_of_scales(cast, facts):
    """Neither how far columns spread nor which are capped; and new rows have no label."""
    cast.policies(least_cluster_size=45)
    agree(cast, *K, "--init", "random", "--seed", 5)
    cast.run()
    check_results(cast, facts, least=45)
    for name in cast.parties:
        assert all(facts[name].suppressed)
        assert not any(column.deviation or column.capped for column in facts[name].columns)
        assert stat.S_IMODE(cast.at(name, "results", "model.json").stat().st_mode) == 0o644
    assert parts(cast) == {"centers"}
    predict_again(cast, together=False)
    assert set(cast.labels("bob", "predictions")["label"]) == {-1}


# -- predicting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", ["2 by rows"], indirect=True)
def test_new_rows_at_home(made):
    """Also far outside of where the data were, as long as they are within the bounds; and nobody is called."""
    corners = np.array([[a, i, s] for a in (0, 60, 120) for i in (0.0, 2e5) for s in (0, 30, 60)])
    data = made.write("bob", "new.csv", **dict(zip(COLUMNS, corners.T, strict=True)))
    model, out = made.at("bob", "results", "model.json"), made.at("bob", "p")
    predict_rows(made.orders("bob", data=str(data), model=model, out=out))
    centers = np.array([[float(row[name] or "inf") for name in COLUMNS] for row in made.centers("bob")])  # inf: closed
    distances = (((corners[:, None] - centers) / X.std(axis=0)) ** 2).sum(axis=2)
    assert made.labels("bob", "p")["label"] == distances.argmin(axis=1).tolist()
    with pytest.raises(StudyError, match="the parties know the centres and predict alone; helper is not needed"):
        predict_rows(made.orders("helper", data=None, out=made.at("helper", "p")))


@pytest.mark.parametrize("made", ["2 by rows, secret"], indirect=True)
def test_nobody_predicts_alone_where_scales_are_secret(made):
    error = made.take_part(predict_rows, ["alice"], {"alice": _predicting(made, "alice")}, wait=0.5)["alice"]
    assert isinstance(error, PeerUnreachable)
    assert "start it again, all of you" in str(error)
    assert not made.at("alice", "predictions").exists()


def _predicting(cast: Cast, name: str) -> dict[str, Any]:
    return {"out": cast.at(name, "predictions"), "model": cast.at(name, "results", "model.json")}


WRONG: dict[str, dict[str, dict[str, Any]]] = {
    "2 by rows": {
        "no weights": {"weights": None},
        "a weight too few": {"weights": [[1, 2]]},
        "a row too many": {"weights": [[1, 2, 3]] * 2},
        "below zero": {"weights": [[1, 2, -3]]},
        "beyond all octaves": {"weights": [[1, 2, 1 << 40]]},
        "a share as well": {"weights_share": [[1, 2, 3]]},
        "means": {"means": [1.0, 2.0, 3.0], "deviations": [1.0, 2.0, 3.0]},
        "too precise": {"fractional_bits": 40},
    },
    "2 by rows, secret": {
        "weights in the clear": {"weights": [[1, 2, 3]]},
        "no share": {"weights_share": None},
        "a share of two columns": {"weights_share": [[1, 2]]},
        "a share beyond a word": {"weights_share": [[1, 2, 1 << 64]]},
    },
    "2 by columns": {
        "no means": {"means": [], "deviations": []},
        "two means": {"means": [1.0, 2.0]},
        "a negative deviation": {"deviations": [-1.0]},
        "weights": {"weights": [[1, 2, 3]]},
    },
}


@pytest.mark.parametrize("made", quick(WRONG, "2 by rows"), indirect=True)
def test_models_whose_scales_cannot_be_are_refused(made, request):
    path = made.at("alice", "results", "model.json")
    right = msgspec.json.decode(path.read_bytes())
    for wrong in WRONG[request.node.callspec.params["made"]].values():
        path.write_bytes(msgspec.json.encode({**right, **wrong}))
        with pytest.raises(StudyError, match="was changed or damaged"):
            predict_rows(made.orders("alice", **_predicting(made, "alice")))


# -- agreeing ----------------------------------------------------------------------------------------------


def test_what_a_new_study_says(cast):
    """Columns are standardised unless somebody says otherwise."""
    study = cast.agree(*K, *OPTIONS)
    assert (study.clustering.scale, study.disclosures.scales) == ("standard", "revealed")
    assert cast.agree(*K, *OPTIONS, "--scale", "none").clustering.scale == "none"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--scale", "unit"), "--scale: 'unit' is none of"),
        (("--scales", "hidden"), "--scales: 'hidden' is none of"),
        (("--quality", "entropy"), "--quality: 'entropy' is none of"),
        (("--quality", "inertia,inertia"), "--quality must name each of its numbers once"),
        (("--column-weights", "age"), "--column-weights: 'age' is not NAME=VALUE"),
        (("--column-weights", "age=much"), "--column-weights: age=much is not age=WEIGHT"),
        (("--column-weights", "age=0"), "column_weights: the weight of column 'age' must be a number above 0"),
        (("--column-weights", "age=-1"), "column_weights: the weight of column 'age'"),
        (("--column-weights", "age=101"), "column_weights may differ by a factor of 100 at most"),
        (("--column-weights", "age=1,age=2"), "--column-weights names 'age' twice"),
        (("--column-weights", "sex=1"), "--column-weights names column 'sex'"),
    ],
)
def test_what_cannot_be_agreed_on(cast, options, named):
    made = cast.create(*K, *OPTIONS, *options)
    assert made.code == 2
    assert named in made.err
    assert not (cast.folder / "study.toml").exists()


@pytest.mark.parametrize(
    ("rules", "options", "words"),
    [
        ({"scales": ["secret"]}, (), "the rule `scales` allows 'secret'; the study asks for 'revealed'"),
        ({"scales": ["revealed"]}, SECRET, "the rule `scales` allows 'revealed'; the study asks for 'secret'"),
        ({"quality": ["inertia"]}, (), "the rule `quality` allows 'inertia'; the study asks for 'silhouette'"),
        ({"quality": []}, ("--quality", "inertia"), "the rule `quality` allows nothing; the study asks for 'inertia'"),
    ],
)
def test_a_policy_that_forbids_it(cast, rules, options, words):
    """It is refused by name: when it is signed, and when it is run."""
    agree(cast, *K, *options)
    cast.policy("bob", **rules)
    said = coterie("study", "sign", cast.study_file("bob"), "--key", cast.key("bob"))
    assert said.code == 5
    assert words in said.err
    ended = cast.take_part(names=["bob"], wait=0.2)
    assert isinstance(ended["bob"], PolicyError)
    assert words in str(ended["bob"])


def test_policies_have_no_say_on_what_is_not_opened(cast):
    """By columns nobody opens a scale; nor where centres are shared."""
    cast.policies(scales=["secret"], measures=[], quality=["inertia"])
    for options in (by_columns(), SHARED, ("--scale", "none")):
        cast.agree(*K, *OPTIONS, "--quality", "inertia", *options)


def test_a_policy_that_nobody_understands(cast):
    cast.policy("bob", quality=["entropy"])
    made = cast.create(*K, *OPTIONS)
    assert made.code == 0
    said = coterie("study", "sign", cast.folder / "study.toml", "--key", cast.key("bob"))
    assert said.code == 5
    assert "quality" in said.err


def test_older_studies_are_refused(cast):
    """Whatever else differs: their statement and their tolerance meant something else."""
    cast.agree(*K, *OPTIONS)
    path = cast.study_file("alice")
    text = path.read_text()
    assert "format = 4" in text
    path.write_text(text.replace("format = 4", "format = 3"))
    with pytest.raises(StudyError, match=r"\[study\] format 3 is not known; this version reads 4"):
        load_study(path)
    said = coterie(*cast.arguments("alice"))
    assert said.code != 0
    assert "format 3 is not known" in said.err


# -- quality -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quality", quick(["", "inertia", "silhouette", "calinski-harabasz", "inertia,silhouette"], "", "silhouette")
)
def test_what_is_told_of_how_good_the_clusters_are(cast, facts, quality):
    agree(cast, *K, "--quality", quality)
    cast.run()
    check_results(cast, facts)
    check_words(cast, facts)
    told = set(filter(None, quality.split(",")))
    logged = {what for what, _ in opened(cast, "alice")} & {"inertia", "scatter", "silhouette"}
    wanted = told - {"calinski-harabasz"}
    if "calinski-harabasz" in told:
        wanted |= {"inertia", "scatter"}  # it is made of these
    assert logged == wanted
    mine = facts["alice"]
    assert (mine.inertia is not None, mine.silhouette is not None, mine.calinski_harabasz is not None) == (
        "inertia" in wanted,
        "silhouette" in wanted,
        "scatter" in wanted,
    )
