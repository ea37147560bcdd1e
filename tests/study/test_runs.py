"""Runs with every option of a study, and predictions from their models: as scikit-learn on everybody's rows."""

from __future__ import annotations

import dataclasses
import stat

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.clustering import distinct_rows
from coterie.errors import DataError, InputError, StudyError
from coterie.study import run
from coterie.study.predict import predict_rows
from coterie.study.prepare import prepare, recognise
from coterie.study.run import run_study
from tests.study.pooled import RANDOM_ROWS, Pooled, X, pooled
from tests.study.walk import SMALL, Cast, coterie

pytestmark = pytest.mark.usefixtures("no_pictures")

#: Four corners with 12, 3, 9 and 30 points, and a seed whose rows lie in all of them.
SIZES, CORNERS = (12, 3, 9, 30), ((0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (8.0, 8.0))
RANDOM = np.random.RandomState(1)
FEW = np.concatenate([RANDOM.normal(c, 0.1, (s, 2)) for c, s in zip(CORNERS, SIZES, strict=True)])
FEW = FEW[RANDOM.permutation(sum(SIZES))]
FEW_SEED = 135
FEW_ROWS = ("--init", "random", "--seed", FEW_SEED, "--scale", "none")
IDS = np.array([f"{i:04d}" for i in range(len(X))])
BY_COLUMNS = ("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id")


def give_rows(cast: Cast, x: np.ndarray = X) -> None:
    for name, rows in zip(cast.parties, np.array_split(x, len(cast.parties)), strict=True):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])


def give_columns(cast: Cast, x: np.ndarray = X, ids: np.ndarray = IDS) -> None:
    cast.give("alice", id=ids[: len(x)], x=x[:, 0])
    cast.give("bob", id=ids[: len(x)][::-1], y=x[::-1, 1])


def all_labels(cast: Cast, folder: str = "results") -> list[int]:
    """Of a study by rows: everybody's, one after the other."""
    return [label for name in cast.parties for label in cast.labels(name, folder)["label"]]


def each_with(cast: Cast, rows: np.ndarray) -> dict[str, dict[str, str | None]]:
    """New rows for a prediction: all of them for everybody, by rows; or everybody's columns."""
    columns = {"alice": {"x": rows[:, 0]}, "bob": {"y": rows[:, 1]}}
    if cast.study.clustering.partition == "horizontal":
        columns = {name: {"x": rows[:, 0], "y": rows[:, 1]} for name in cast.parties}
    else:
        columns = {name: {"id": IDS[: len(rows)], **held} for name, held in columns.items()}
    data = {name: {"data": str(cast.write(name, "new.csv", **columns[name]))} for name in cast.parties}
    return {cast.helper: {"data": None}, **data}


def disclosed(cast: Cast, name: str = "alice", folder: str = "results") -> list[str]:
    lines = cast.at(name, folder, "disclosures.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line)["what"] for line in lines]


# -- what is revealed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_counts_revealed(cast, protocol):
    cast.policies(least_cluster_size=1)
    cast.agree(*SMALL, *RANDOM_ROWS, "--counts", "revealed", "--protocol", protocol)
    give_rows(cast)
    cast.run()
    fit = pooled()
    fit.check_labels(all_labels(cast))
    for name in cast.parties:
        fit.check_centers(cast, name, {"x": 0, "y": 1})
        assert [row["size"] for row in cast.centers(name)] == ["100"] * 4
    assert "suppression bits" not in disclosed(cast)
    assert "counts" in disclosed(cast)


def test_labels_revealed(cast):
    """SVK-means."""
    cast.policies(least_cluster_size=1)
    cast.agree(*SMALL, *RANDOM_ROWS, "--labels", "revealed", *BY_COLUMNS)
    give_columns(cast)
    cast.run()
    fit = pooled()
    fit.check_labels(cast.labels("alice")["label"])
    fit.check_labels(cast.labels("bob")["label"][::-1])
    fit.check_centers(cast, "alice", {"x": 0})
    fit.check_centers(cast, "bob", {"y": 1})
    assert disclosed(cast).count("labels") > 1
    new = X[::11] + 0.05
    cast.predict(each_with(cast, new))
    assert cast.labels("bob", "predictions")["label"] == fit.nearest(new)


@pytest.mark.parametrize("way", [(), BY_COLUMNS], ids=["rows", "columns"])
def test_centres_that_stay_shared(cast, way):
    cast.agree(*SMALL, *RANDOM_ROWS, "--centers", "shared", *way)
    (give_columns if way else give_rows)(cast)
    cast.run()
    fit = pooled()
    if way:
        fit.check_labels(cast.labels("alice")["label"])
    else:
        fit.check_labels(all_labels(cast))
    assert "centers" not in disclosed(cast)
    shares = []
    for name in cast.parties:
        assert not cast.at(name, "results", "centers.csv").exists()
        assert stat.S_IMODE(cast.at(name, "results", "model.json").stat().st_mode) == 0o600
        model = cast.document(name, "model.json")
        assert model["centers"] is model["centers_in_data_units"] is None
        shares.append(np.array(model["share"], np.uint64))
    bits = cast.document("alice", "model.json")["fractional_bits"]
    together = (shares[0] + shares[1]).view(np.int64).reshape(4, 2) / 2.0**bits
    np.testing.assert_allclose(together, fit.fit.cluster_centers_, atol=1e-2)
    assert not cast.at("helper", "results", "model.json").exists()
    new = X[::11] + 0.05
    cast.predict(each_with(cast, new))
    for name in cast.parties:
        assert cast.labels(name, "predictions")["label"] == fit.nearest(new)
    assert [what for what in disclosed(cast, folder="predictions") if what != "equal ids"] == ["labels"] * (
        1 if way else len(disclosed(cast, folder="predictions"))
    )


# -- the least size ----------------------------------------------------------------------------------------


@pytest.fixture(params=["rows", "columns"])
def few(request, cast):
    """Alice asks for clusters of 5 at least, Bob for 12."""
    cast.policy("alice", least_cluster_size=5, contribution="off")
    cast.policy("bob", least_cluster_size=12, contribution="off")
    cast.agree(*SMALL, *FEW_ROWS, "--contribution", "off", *(BY_COLUMNS if request.param == "columns" else ()))
    (give_columns if request.param == "columns" else give_rows)(cast, FEW)
    return cast


def test_the_strictest_least_size_holds(few):
    few.run()
    fit, by_rows = Pooled(FEW, FEW_SEED), few.study.clustering.partition == "horizontal"
    sizes = np.bincount(fit.fit.labels_)
    assert sorted(sizes) == sorted(SIZES)
    closed = np.flatnonzero(sizes < 12).tolist()
    assert sizes[closed].sum() == 12, "two clusters, of 3 and 9; the one of 12 is large enough"
    known = [j for j in range(4) if j not in closed]
    assert (all_labels(few) if by_rows else few.labels("alice")["label"]) == fit.nearest(FEW, known)
    for name, held in zip(few.parties, ({"x": 0}, {"y": 1}), strict=True):
        fit.check_centers(few, name, {"x": 0, "y": 1} if by_rows else held, closed)
        model = few.document(name, "model.json")
        assert model["suppressed"] == [j in closed for j in range(4)]
        assert model["least"] == 12
        assert [row == [None] * len(row) for row in model["centers_in_data_units"]] == model["suppressed"]
        assert not np.array(model["centers"])[closed].any()
        assert few.entry(name, "agreed")["least_cluster_size"] == 12
        assert few.entry(name, "results")["suppressed"] == 2
    assert "suppression bits" in disclosed(few)

    new = FEW + 0.05
    each = each_with(few, new)
    few.predict({name: each[name] for name in (few.parties if by_rows else few.names)})
    for name in few.parties:
        assert few.labels(name, "predictions")["label"] == fit.nearest(new, known), "the closest that is known"


def test_a_least_size_that_no_cluster_has(cast):
    for name in cast.parties:
        cast.policy(name, least_cluster_size=31, contribution="off")
    cast.agree(*SMALL, *FEW_ROWS, "--contribution", "off")
    give_rows(cast, FEW)
    cast.run()
    assert set(all_labels(cast)) == {-1}
    Pooled(FEW, FEW_SEED).check_centers(cast, "alice", {"x": 0, "y": 1}, range(4))
    each = each_with(cast, FEW[:5])
    cast.predict({name: each[name] for name in cast.parties})
    assert cast.labels("alice", "predictions")["label"] == [-1] * 5


def test_suppressed_clusters_of_shared_centres(cast):
    """Nobody knows any centre; rows closest to a suppressed one are labelled by the closest that is not."""
    for name in cast.parties:
        cast.policy(name, least_cluster_size=12, contribution="off")
    cast.agree(*SMALL, *FEW_ROWS, "--contribution", "off", "--centers", "shared")
    give_rows(cast, FEW)
    cast.run()
    fit = Pooled(FEW, FEW_SEED)
    known = np.flatnonzero(np.bincount(fit.fit.labels_) >= 12).tolist()
    assert all_labels(cast) == fit.nearest(FEW, known)
    new = FEW + 0.05
    cast.predict(each_with(cast, new))
    for name in cast.parties:
        found = cast.labels(name, "predictions")["label"]
        assert found == fit.nearest(new, known)


# -- other options -----------------------------------------------------------------------------------------


def test_scaled_columns_and_restarts(cast):
    """Of three starts the best; and columns count by their bounds, as if they were scaled before."""
    cast.agree(
        *("--clusters", 4, "--columns", "x,y", "--bounds", "x=-12:12,y=-1200:1200", "--scale", "bounds"),
        *("--init", "random", "--seed", 3, "--n-init", 3),
    )
    stretched = X * (1, 100)
    give_rows(cast, stretched)
    cast.run()
    random = np.random.RandomState(3)
    fits = [
        KMeans(4, init=X[list(distinct_rows(random, len(X), 4))], n_init=1, algorithm="lloyd").fit(X) for _ in range(3)
    ]
    best = min(fits, key=lambda fit: fit.inertia_)
    np.testing.assert_array_equal(all_labels(cast), best.labels_)
    found = [[float(row["x"]), float(row["y"])] for row in cast.centers("bob")]
    np.testing.assert_allclose(found, best.cluster_centers_ * (1, 100), atol=1e-3 * 2400)


def test_three_parties_and_an_id_by_rows(tmp_path):
    """An id column is not needed by rows; where the study names one, labels come with it."""
    with Cast(tmp_path, ("alice", "bob", "carol"), "referee") as cast:
        cast.agree(*SMALL, *RANDOM_ROWS, "--id", "id")
        for name, rows in zip(cast.parties, np.array_split(np.arange(len(X)), 3), strict=True):
            cast.give(name, "data.parquet", id=IDS[rows][::-1], x=X[rows, 0], y=X[rows, 1])
        cast.run()
        pooled().check_labels(all_labels(cast))
        assert cast.labels("bob")["id"] == IDS[np.array_split(np.arange(len(X)), 3)[1]][::-1].tolist()
        assert len({cast.at(name, "results", "centers.csv").read_bytes() for name in cast.parties}) == 1


# -- models and folders ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study by columns, with results."""
    patch = pytest.MonkeyPatch()
    patch.setattr("coterie.report.write.write_report", lambda path, *facts: path.write_text("a report"))
    with Cast(tmp_path_factory.mktemp("done")) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS, *BY_COLUMNS)
        give_columns(cast)
        cast.run()
        yield cast
    patch.undo()


def refused(cast, act, name, **changes):
    with pytest.raises((InputError, StudyError)) as caught:
        act(cast.orders(name, **changes))
    return str(caught.value)


def test_models_that_do_not_fit(done, tmp_path, monkeypatch):
    monkeypatch.setattr("socket.create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    model = done.at("alice", "results", "model.json")
    out = tmp_path / "predictions"
    assert "say which model with --model" in refused(done, predict_rows, "alice", out=out)
    assert "is the model of bob; alice has one of its own" in refused(
        done, predict_rows, "alice", model=done.at("bob", "results", "model.json"), out=out
    )
    fields = msgspec.json.decode(model.read_bytes())
    for content, words in (
        (b"", "is not a model"),
        (b"\xff", "is not a text file"),
        (b"{}", "is not a model"),
        (msgspec.json.encode({**fields, "more": 1}), "more is not known here"),
        (msgspec.json.encode({**fields, "study_hash": "0" * 64}), "is a model of another study"),
    ):
        (tmp_path / "model.json").write_bytes(content)
        assert words in refused(done, predict_rows, "alice", model=tmp_path / "model.json", out=out)
    assert "cannot be read" in refused(done, predict_rows, "alice", model=tmp_path / "none.json", out=out)
    assert not out.exists()


def test_models_of_different_runs(done, tmp_path):
    """Which is found when they meet, and said at everybody."""
    fields = msgspec.json.decode(done.at("bob", "results", "model.json").read_bytes())
    (tmp_path / "model.json").write_bytes(msgspec.json.encode({**fields, "run": "00" * 16}))
    each = {
        name: {"model": done.at(name, "results", "model.json"), "out": tmp_path / name} for name in done.names
    }  # fmt: skip
    each["bob"]["model"] = tmp_path / "model.json"
    for error in done.take_part(predict_rows, each=each).values():
        assert isinstance(error, StudyError)
        assert "bob brings the model of another run than alice" in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_a_helper_that_is_not_needed(cast):
    cast.agree(*SMALL)
    said = refused(cast, predict_rows, "helper", out=cast.at("helper", "predictions"))
    assert "the parties know the centres and predict alone; helper is not needed" in said


@pytest.mark.parametrize("act", [run_study, predict_rows])
def test_folders_that_hold_something_else_are_refused_before_connecting(done, act, tmp_path, monkeypatch):
    monkeypatch.setattr("socket.create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    model, results = done.at("alice", "results", "model.json"), done.at("alice", "results")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("precious")
    (tmp_path / "other").mkdir()
    for manifest in ("{}", "[1]", "\xff", '{"study_hash": "00"}', '{"study_hash": 7, "purpose": "fit"}'):
        (tmp_path / "other" / "manifest.json").write_bytes(manifest.encode("latin-1"))
        assert "holds something else" in refused(done, act, "alice", model=model, out=tmp_path / "other")
    assert "is a file; name a folder" in refused(done, act, "alice", model=model, out=tmp_path / "file")
    assert "holds something else" in refused(done, act, "alice", model=model, out=tmp_path / "folder")
    assert "nothing can be written in" in refused(done, act, "alice", model=model, out=tmp_path / "file" / "results")
    assert (tmp_path / "folder" / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "precious"
    if act is predict_rows:  # the model would be lost with them
        assert "holds something else than predictions" in refused(done, act, "alice", model=model, out=results)
    monkeypatch.chdir(tmp_path / "folder")
    (tmp_path / "folder" / "thesis.tex").unlink()
    for out in (".", "..", "/"):
        assert "--out" in refused(done, act, "alice", model=model, out=type(tmp_path)(out))


def test_results_are_not_replaced(done, monkeypatch):
    """Neither they nor what somebody has put beside them, nor what looks like a draft; and nobody is called."""
    monkeypatch.setattr("socket.create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    done.at("alice", "results", "notes.txt").write_text("mine")
    done.at("alice", ".results.old.notes123").mkdir()
    before = {path: path.read_bytes() for path in done.at("alice", "results").iterdir()}
    said = refused(done, run_study, "alice")
    assert "holds results of this study already. If other participants lack theirs, start it again" in said
    assert {path: path.read_bytes() for path in done.at("alice", "results").iterdir()} == before
    assert done.at("alice", ".results.old.notes123").is_dir()
    assert coterie(*done.arguments("alice")).code == 2


def test_results_once_more(done):
    """With the same data: the results of the same run, bit for bit. With a restart, or other rules: another run."""
    before = done.document("alice", "manifest.json")
    done.run(each={name: {"out": done.at(name, "once more")} for name in done.names})
    after = done.document("alice", "manifest.json", "once more")
    assert after["run"] == before["run"]
    for file in ("centers.csv", "labels.parquet", "model.json"):
        assert after["files"][file] == before["files"][file]
    done.run(each={name: {"out": done.at(name, "again")} for name in done.names}, restart=True)
    again = done.document("alice", "manifest.json", "again")
    assert again["run"] != before["run"]
    assert again["files"]["centers.csv"] == before["files"]["centers.csv"], "another run, the same bits"
    done.policy("bob", least_cluster_size=1)
    done.run(each={name: {"out": done.at(name, "other rules")} for name in done.names})
    assert done.document("alice", "manifest.json", "other rules")["run"] not in (again["run"], before["run"])


def test_one_who_asks_for_other_rules_does_not_get_the_old_results_under_them(cast, monkeypatch):
    """Bob greets with a smaller least size than before, and with the checkpoint that was to be opened under it."""
    cast.policies(other_data="log")
    cast.policy("alice", least_cluster_size=2, other_data="log")
    cast.policy("bob", least_cluster_size=12, other_data="log")
    cast.agree(*SMALL, *FEW_ROWS)
    give_rows(cast, FEW)
    cast.run()
    honest = run.greeting

    def lie(study, purpose, rows, least, **more):
        return honest(study, purpose, rows, 2 if least == 12 else least, **more)

    monkeypatch.setattr(run, "greeting", lie)
    ended = cast.take_part(each={name: {"out": cast.at(name, "again")} for name in cast.names})
    assert isinstance(ended["alice"], StudyError), ended
    assert "was begun under other rules" in str(ended["alice"])
    assert not cast.at("alice", "again").exists()


def test_more_rows_than_the_study_allows(cast):
    cast.agree(*SMALL)
    give_rows(cast)
    known = recognise(cast.orders("alice"))
    data = msgspec.structs.replace(known.study.data, most_rows=199)
    study = msgspec.structs.replace(known.study, data=data)
    with pytest.raises(DataError, match=r"data\.csv has 200 rows; the study allows each party at most 199"):
        prepare(cast.orders("alice"), dataclasses.replace(known, study=study))


def test_checkpoints_that_cannot_be_written_are_found_at_once(cast, monkeypatch):
    monkeypatch.setattr("socket.create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    cast.agree(*SMALL)
    give_rows(cast)
    said = refused(cast, run_study, "alice", state=cast.key("alice") / "state")
    assert "checkpoints cannot be written in" in said
    assert "--state" in said
