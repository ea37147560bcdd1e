"""The walk of the README: from nothing to clusters, as organisations that share a study file and sockets."""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np
import pytest

from coterie.study.agreement import study_hash
from tests.postgres import postgres_url  # noqa: F401 - a fixture
from tests.study.pooled import RANDOM_ROWS, X, pooled
from tests.study.walk import SMALL, Cast, coterie

VERTICAL = (
    *("--clusters", 4, "--partition", "vertical", "--columns", "x,y", "--bounds", "x=-12:12,y=-12:12"),
    *("--holds", "alice=x,bob=y", "--id", "patient", *RANDOM_ROWS),
)
FILES = {"labels.parquet", "model.json", "centers.csv", "disclosures.jsonl", "traffic.json", "report.html"}
IDS = np.array([f"patient {i:03d}" for i in range(len(X))])


def check_results(cast: Cast, name: str, files: set[str]) -> None:
    """All files and no others, each with the hash that the manifest says; and what it says of study and run."""
    folder = cast.at(name, "results")
    assert {file.name for file in folder.iterdir()} == files | {"manifest.json"}
    manifest = cast.document(name, "manifest.json")
    assert set(manifest["files"]) == files
    for file, digest in manifest["files"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    assert manifest["study_hash"] == study_hash(cast.study)
    assert (manifest["party"], manifest["purpose"]) == (name, "fit")
    assert {"coterie", "Python", "numpy"} <= set(manifest["versions"])
    assert cast.events(name) == ["started", "agreed", "opening", "results", "ready", "done"]
    assert manifest["audit"] == cast.entry(name, "results")["hash"]
    assert manifest["run"] == cast.entry(name, "agreed")["run"]
    assert cast.entry(name, "started")["study_hash"] == manifest["study_hash"]


def check_what_was_disclosed(cast: Cast, *more: str) -> None:
    """Everybody's log is the same, says what the study says, and what the audit says too."""
    logs = {cast.at(name, "results", "disclosures.jsonl").read_bytes() for name in cast.names}
    assert len(logs) == 1
    entries = [msgspec.json.decode(line) for line in logs.pop().splitlines()]
    assert {entry["what"] for entry in entries if entry["iteration"]} == {"stop bit"}
    assert {entry["what"] for entry in entries if not entry["iteration"]} == {
        "labels", "centers", "inertia", "scatter", "silhouette", "suppression bits", *more,
    }  # fmt: skip
    for name in cast.names:
        recorded = cast.entry(name, "results")["disclosures"]
        assert sum(line["times"] for line in recorded) == len(entries)
        assert {line["what"] for line in recorded} == {entry["what"] for entry in entries}


def command(*words: object) -> str:
    """A command that goes well; what it says."""
    said = coterie(*words)
    assert said.code == 0, said.err
    return said.out


def test_three_organisations_from_nothing_to_clusters(tmp_path):
    """By rows, one with a CSV and one with a Parquet file, each participant a process of its own."""
    with Cast(tmp_path) as cast:
        study = cast.agree(*SMALL, *RANDOM_ROWS)
        cast.policy("alice", least_cluster_size=20, counts=["secret"], peers=_fingerprints(study))
        cast.policy("bob", least_cluster_size=5)
        cast.give("alice", "data.csv", y=X[:150, 1], remark=IDS[:150], x=X[:150, 0])
        cast.give("bob", "data.parquet", x=X[150:, 0], y=X[150:, 1])
        said = command(*cast.arguments("alice", "preflight"))
        assert "ready to run; helper, bob could not be checked yet" in said
        for name in cast.names:
            cast.start(name)
        assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()

        fit = pooled()
        fit.check_labels(cast.labels("alice")["label"], slice(150))
        fit.check_labels(cast.labels("bob")["label"], slice(150, None))
        assert list(cast.labels("alice")) == ["row", "label"]
        assert cast.labels("bob")["row"] == list(range(1, 251))
        for name in cast.parties:
            fit.check_centers(cast, name, {"x": 0, "y": 1})
            check_results(cast, name, FILES)
        check_results(cast, "helper", {"disclosures.jsonl", "traffic.json", "report.html"})
        check_what_was_disclosed(cast)
        assert cast.centers("alice") == cast.centers("bob")
        assert len({cast.document(name, "manifest.json")["run"] for name in cast.names}) == 1
        assert {cast.entry(name, "agreed")["least_cluster_size"] for name in cast.names} == {20}
        assert "done: results are in" in cast.out("alice")
        for name in cast.names:
            assert cast.err(name) == ""
            assert [file for file in cast.at(name).iterdir() if file.name.startswith(".")] == []

        new = X[::7] + 0.05
        data = cast.write("bob", "new.csv", x=new[:, 0], y=new[:, 1])
        assert "done: labels are in " in command(*cast.arguments("bob", "predict", "--data", data))
        assert cast.labels("bob", "predictions")["label"] == fit.nearest(new)
        assert "the chain and all signatures hold" in command("audit", "verify", cast.at("bob", "audit.jsonl"))
        assert cast.events("bob")[6:] == ["prediction"]


def _fingerprints(study) -> list[str]:
    return [one.fingerprint for one in study.everybody]


def give_columns(cast: Cast) -> dict[str, np.ndarray]:
    """Files with the same rows in different orders; where each row of a file stands in the order of ids."""
    orders = {name: np.random.RandomState(seed).permutation(len(X)) for seed, name in enumerate(cast.parties)}
    cast.give("alice", patient=IDS[orders["alice"]], x=X[orders["alice"], 0])
    cast.give("bob", "data.parquet", y=X[orders["bob"], 1], patient=IDS[orders["bob"]])
    return orders


def check_columns(cast: Cast, orders: dict[str, np.ndarray]) -> None:
    fit = pooled()
    for name, column in (("alice", {"x": 0}), ("bob", {"y": 1})):
        labels = cast.labels(name)
        assert list(labels) == ["row", "patient", "label"]
        assert labels["row"] == list(range(1, len(X) + 1))
        assert labels["patient"] == IDS[orders[name]].tolist()
        fit.check_labels(labels["label"], orders[name])
        fit.check_centers(cast, name, column)
        check_results(cast, name, FILES)
    check_what_was_disclosed(cast, "equal ids")


@pytest.mark.usefixtures("no_pictures")
def test_by_columns_with_an_id(cast):
    cast.agree(*VERTICAL)
    orders = give_columns(cast)
    cast.run()
    check_columns(cast, orders)

    new, ids = X[::9] + 0.05, [f"new {i}" for i in range(len(X[::9]))]
    back = list(range(len(new)))[::-1]
    cast.predict(
        {
            "helper": {"data": None},
            "alice": {"data": str(cast.write("alice", "new.csv", patient=ids, x=new[:, 0]))},
            "bob": {"data": str(cast.write("bob", "new.parquet", patient=np.array(ids)[back], y=new[back, 1]))},
        }
    )
    found = cast.labels("alice", "predictions")
    assert found["patient"] == ids
    assert found["label"] == pooled().nearest(new)
    assert cast.labels("bob", "predictions")["label"] == found["label"][::-1]
    assert cast.document("alice", "manifest.json", "predictions")["purpose"] == "predict"
    assert {f.name for f in cast.at("helper", "predictions").iterdir()} == {"disclosures.jsonl", "manifest.json"}
    lines = cast.at("helper", "predictions", "disclosures.jsonl").read_bytes().splitlines()
    assert {msgspec.json.decode(line)["what"] for line in lines} == {"equal ids", "labels"}


@pytest.mark.slow
def test_by_columns_as_processes(cast):
    cast.agree(*VERTICAL)
    orders = give_columns(cast)
    for name in cast.names:
        cast.start(name)
    assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
    check_columns(cast, orders)


def fill(url: str, table: str, **columns: np.ndarray) -> None:
    """A new table of a PostgreSQL database."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    kinds = {"f": "double precision", "U": "text"}
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        defined = ", ".join(f"{name} {kinds[values.dtype.kind]}" for name, values in columns.items())
        cursor.execute(f"drop table if exists {table}")
        cursor.execute(f"create table {table} ({defined})")
        places = ", ".join(f"${i + 1}" for i in range(len(columns)))
        rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
        cursor.executemany(f"insert into {table} values ({places})", rows)
        connection.commit()


@pytest.mark.slow
def test_from_a_database(cast, postgres_url):  # noqa: F811
    """The same study once more as processes, with both parties' columns in PostgreSQL, in whatever order it answers;
    then all of them predict together."""
    cast.agree(*VERTICAL)
    orders = {name: np.random.RandomState(seed).permutation(len(X)) for seed, name in enumerate(cast.parties)}
    for name, column, l in (("alice", "x", 0), ("bob", "y", 1)):
        fill(postgres_url, f"{name}_rows", patient=IDS[orders[name]], **{column: X[orders[name], l]})
        query = f"select patient, {column} from {name}_rows"
        cast.sources[name] = ("--data", postgres_url, "--query", query)
    for name in cast.names:
        cast.start(name)
    assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
    fit = pooled()
    where = {name: i for i, name in enumerate(IDS)}
    for name, column in (("alice", {"x": 0}), ("bob", {"y": 1})):
        labels = cast.labels(name)
        fit.check_labels(labels["label"], [where[one] for one in labels["patient"]])
        fit.check_centers(cast, name, column)
        text = "".join(file.read_text() for file in cast.at(name).rglob("*.json*"))
        assert "correct-horse" not in text, "the password"
    new = X[::9] + 0.05
    ids = np.array([f"new {i}" for i in range(len(new))])
    for name, column, l in (("alice", "x", 0), ("bob", "y", 1)):
        fill(postgres_url, f"{name}_new", patient=ids, **{column: new[:, l]})
        cast.sources[name] = ("--data", postgres_url, "--query", f"select * from {name}_new order by patient desc")
    for name in cast.names:
        cast.start(name, "predict")
    assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
    found = cast.labels("alice", "predictions")
    expected = dict(zip(ids, fit.nearest(new), strict=True))
    assert dict(zip(found["patient"], found["label"], strict=True)) == expected
