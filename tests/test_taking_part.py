"""`coterie.Study`: the same bits as the command line, from Python."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import coterie
from coterie.columns import Column
from coterie.data import read_rows
from coterie.data.tables import Table
from coterie.errors import DataError, InputError, Interrupted, PeerLost, PolicyError, StudyError
from coterie.surveys.found import ColumnFound
from coterie.taking_part import Printed
from tests.study.conftest import cast, no_pictures, usual_umask  # noqa: F401
from tests.study.test_survey import ASKED, BLOCKS, expected, greetings_of
from tests.study.walk import SMALL, Cast, wait_until

pytestmark = pytest.mark.usefixtures("no_pictures")
FIXED = (*SMALL, "--init", "random", "--seed", 3, "--tol", 0, "--max-iter", 4)


def frames() -> dict[str, pd.DataFrame]:
    points = np.random.default_rng(7).uniform(-10, 10, (40, 2))
    alice = pd.DataFrame(points[:18], columns=["x", "y"], index=[f"a{i}" for i in range(18)])
    bob = pd.DataFrame(points[18:], columns=["x", "y"]).assign(other="words")
    return {"alice": alice, "bob": bob}


def together(
    cast: Cast,  # noqa: F811
    act: Any,
    given: dict[str, Any],
    here: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Everybody in a thread; but alice, with `here`, does that in this one."""
    ended: dict[str, Any] = {}

    def one(name: str) -> None:
        try:
            study = coterie.Study.load(cast.study_file(name))
            ended[name] = act(study, name, given.get(name))
        except BaseException as error:
            ended[name] = error

    names = [name for name in cast.names if here is None or name != "alice"]
    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    if here is not None:
        here()
    for thread in threads:
        thread.join(240)
        assert not thread.is_alive()
    return ended


def fine(ended: dict[str, Any]) -> dict[str, Any]:
    for error in ended.values():
        if isinstance(error, BaseException):
            raise AssertionError(f"it went wrong: {ended}") from error
    return ended


def test_the_same_bits_as_the_command_line(cast: Cast):  # noqa: F811
    cast.agree(*FIXED)
    cast.policies(least_cluster_size=1)
    own = frames()
    bobs = pa.Table.from_pandas(own["bob"])  # whatever kind of frame it is

    def run(study: coterie.Study, name: str, data: Any) -> Any:
        return study.run(cast.key(name), data, verbose=0, timeout=60.0, wait=60.0)

    fitted = fine(together(cast, run, {"alice": own["alice"], "bob": bobs}))
    for name in cast.parties:
        cast.give(name, x=own[name]["x"], y=own[name]["y"])
    cast.run(patience=60.0, restart=True)
    for name in cast.parties:
        mine, theirs = fitted[name], cast.at(name, "results")
        assert (mine.out / "centers.csv").read_bytes() == (theirs / "centers.csv").read_bytes()
        assert list(mine.labels) == cast.labels(name)["label"]
        assert 1 <= mine.n_iter <= 4
        assert mine.inertia > 0
        assert {entry.what for entry in mine.disclosures} >= {"centers", "inertia"}
        assert mine.traffic.bytes_sent[name] > 0
        np.testing.assert_array_equal(
            mine.centers.to_numpy(), [[float(row["x"]), float(row["y"])] for row in cast.centers(name)]
        )
    assert list(fitted["alice"].labels.index) == list(own["alice"].index)
    assert isinstance(fitted["bob"].labels, np.ndarray)
    assert fitted["helper"].labels is None
    assert fitted["helper"].centers is None
    report = fitted["alice"].report(cast.at("alice", "mine.html"))
    assert report == cast.at("alice", "mine.html")
    assert report.read_text() == "a report" == str(fitted["alice"].report())
    with pytest.raises(InputError, match=r"there is no folder .*absent; make it first"):
        fitted["alice"].report(cast.at("alice", "absent", "mine.html"))
    assert "a report" in fitted["alice"]._repr_html_()

    def predict(study: coterie.Study, name: str, data: Any) -> Any:
        return study.predict(cast.key(name), data, model=fitted[name], verbose=0)

    again = predict(coterie.Study.load(cast.study_file("alice")), "alice", own["alice"])
    assert again.labels.equals(fitted["alice"].labels)
    folder = fitted["alice"].out
    del fitted["alice"], mine
    assert not folder.exists(), "a folder that nobody named goes with the object"


def test_looking_signing_and_checking(cast: Cast, capsys):  # noqa: F811
    cast.agree(*SMALL)
    study = coterie.Study.load(str(cast.study_file("alice")))
    assert repr(study) == "<Study 'study' of helper, alice, bob>"
    assert len(study.hash) == 64
    assert "WHO TAKES PART" in study.explain()
    assert set(study.verify()) == set(cast.names)
    assert study.sign(cast.key("alice")).name == "study.alice.sig.toml"
    found = study.preflight(cast.key("alice"), frames()["alice"], timeout=1.0)
    assert {"key", "data", "policy"} <= {one.what for one in found}
    assert "18 rows of 2 columns in the data frame" in capsys.readouterr().out
    cast.policy("alice", partitions=["vertical"])
    with pytest.raises(PolicyError):
        study.sign(cast.key("alice"))
    with pytest.raises(StudyError):
        cast.at("alice", "study.bob.sig.toml").unlink()
        study.verify()


def test_withdrawing(cast: Cast):  # noqa: F811
    cast.agree(*SMALL)
    study = coterie.Study.load(cast.study_file("alice"))
    with pytest.raises(StudyError):
        study.withdraw(cast.key("bob").with_name("bob.identity.toml"))
    file = study.withdraw(key=cast.key("alice"))
    assert file == cast.at("alice", "study.alice.withdrawn.toml")
    written = file.read_bytes()
    assert study.withdraw(cast.key("alice")) == file
    assert file.read_bytes() == written, "the first one counts"
    with pytest.raises(StudyError, match="alice withdrew from"):
        study.run(cast.key("alice"), frames()["alice"], verbose=0, timeout=1.0)
    shutil.copy(file, cast.at("bob"))
    with pytest.raises(StudyError, match="alice withdrew from"):
        coterie.Study.load(cast.study_file("bob")).run(cast.key("bob"), frames()["bob"], verbose=0, timeout=1.0)


def test_interrupting_a_cell_ends_the_run_in_order(cast: Cast, monkeypatch, tmp_path):  # noqa: F811
    """In the main thread, as in a notebook: the others hear who it was, nothing is left, and all can go on."""
    cast.agree(*FIXED, "--reconnect", 600)  # whoever stops on purpose is not waited for
    cast.policies(least_cluster_size=1)
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    handler, threads = signal.getsignal(signal.SIGINT), set(threading.enumerate())

    def interrupt(voice: Printed, start: int, iteration: int, most: int, sent: int) -> None:
        if iteration == 2:
            signal.raise_signal(signal.SIGINT)

    def run(study: coterie.Study, name: str, data: Any, **more: Any) -> Any:
        return study.run(cast.key(name), data, **{"verbose": 0, "timeout": 60.0, "wait": 60.0, **more})

    def cell() -> None:
        study = coterie.Study.load(cast.study_file("alice"))
        with monkeypatch.context() as patch, pytest.raises(Interrupted) as caught:
            patch.setattr(Printed, "iterated", interrupt)
            run(study, "alice", frames()["alice"], verbose=1)
        assert str(caught.value).startswith("stopped by SIGINT; start it again, all of you: it goes on after iteration")

    ended = together(cast, run, frames(), cell)
    for name in ("bob", "helper"):
        assert isinstance(ended[name], PeerLost)
        assert ended[name].peer == "alice"
        assert "alice" in str(ended[name])
    assert signal.getsignal(signal.SIGINT) == handler
    wait_until(lambda: set(threading.enumerate()) <= threads, what="the end of all threads")
    assert list(places.iterdir()) == []
    assert cast.entry("alice", "stopped")["error"] == "Interrupted"

    resumed = fine(together(cast, run, frames()))
    assert cast.entry("alice", "agreed")["resumed_after"] == 2
    anew = fine(together(cast, lambda *given: run(*given, restart=True), frames()))
    for name in cast.parties:
        assert (resumed[name].out / "centers.csv").read_bytes() == (anew[name].out / "centers.csv").read_bytes()
        assert list(resumed[name].labels) == list(anew[name].labels)


def test_a_survey(cast: Cast, capsys):  # noqa: F811
    """From data frames, as the oracle has it; the helper learns nothing."""
    cast.agree(*ASKED)
    own = {name: pd.DataFrame(block, columns=["age", "bmi"]) for name, block in zip(cast.parties, BLOCKS, strict=False)}

    def survey(study: coterie.Study, name: str, data: Any) -> Any:
        return study.survey(cast.key(name), data, verbose=name == "bob", timeout=60.0, wait=60.0)

    ended = fine(together(cast, survey, own))
    wanted = expected(cast, "rows", greetings_of(cast))
    for name in cast.parties:
        assert msgspec.convert(ended[name].found["columns"], list[ColumnFound]) == wanted
        assert ended[name].labels is None
        assert "--bounds" in str(ended[name].report())
    assert ended["helper"].found is None
    with pytest.raises(InputError, match="there is no report"):
        ended["helper"].report()
    assert "checking key, study, signatures, policy and data" in capsys.readouterr().out
    with pytest.raises(StudyError, match="survey"):
        coterie.Study.load(cast.study_file("alice")).run(cast.key("alice"), own["alice"], verbose=0)


def test_errors_are_in_terms_of_python(cast: Cast):  # noqa: F811
    cast.agree(*SMALL)
    study, key = coterie.Study.load(cast.study_file("alice")), cast.key("alice")
    with pytest.raises(InputError, match="say where its data is with data="):
        study.run(key, verbose=0)
    with pytest.raises(InputError, match=r"timeout= is a number of seconds"):
        study.run(key, frames()["alice"], timeout=-1.0, verbose=0)
    with pytest.raises(InputError, match="not ndarray"):
        study.run(key, np.zeros((3, 2)), verbose=0)
    with pytest.raises(TypeError, match="tables is not an option"):
        study.run(key, frames()["alice"], tables="t", verbose=0)
    with pytest.raises(InputError, match="are for files, not for a data frame"):
        study.preflight(key, frames()["alice"], table="t", verbose=0)


WANTED = {"x": (0, 10)}


def polars_of(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({name: column.tolist() for name, column in frame.items()}, nan_to_null=True, strict=False)


@pytest.mark.parametrize(
    "make", [lambda frame: frame, pa.Table.from_pandas, polars_of], ids=["pandas", "pyarrow", "polars"]
)
@pytest.mark.parametrize(
    ("values", "problem"),
    [([1.0, 31415.9], "column 'x'"), ([1.0, np.nan], "missing"), (["1", "words"], "column 'x'")],
)
def test_frames_get_the_checks_of_files(make, values, problem):
    with pytest.raises(DataError, match=problem) as caught:
        read_rows(Table(make(pd.DataFrame({"x": values}))), [Column("x", 0, 10)])
    assert "31415" not in str(caught.value)
    assert "words" not in str(caught.value)


def test_polars_needs_no_pyarrow(cast: Cast, monkeypatch):  # noqa: F811
    cast.agree(*SMALL)
    own = frames()["bob"]
    given = polars_of(own)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    found = coterie.Study.load(cast.study_file("bob")).preflight(cast.key("bob"), given, verbose=0, timeout=1.0)
    assert any("22 rows of 2 columns in the data frame" in one.text for one in found)
    columns = [Column(name, -12, 12) for name in ("x", "y")]
    np.testing.assert_array_equal(read_rows(Table(given), columns).values, own[["x", "y"]].to_numpy())


def test_a_frame_is_never_shown():
    assert repr(Table(pd.DataFrame({"x": [31415.9]}))) == "<Table of a DataFrame>"


def test_an_index_may_be_the_id(cast: Cast):  # noqa: F811
    cast.agree(*SMALL[2:], "--clusters", 2, "--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "patient")
    study = coterie.Study.load(cast.study_file("alice"))
    own = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=pd.Index(["p3", "p1", "p2"], name="patient"))
    found = study.preflight(cast.key("alice"), own, verbose=0, timeout=1.0)
    assert any("3 rows of 1 columns" in one.text for one in found)
    with pytest.raises(DataError, match="patient"):
        study.preflight(cast.key("alice"), own.reset_index(drop=True), verbose=0, timeout=1.0)
