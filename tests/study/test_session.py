"""Runs that cannot be: everybody stops with the right error, says nothing of the data, and leaves nothing behind."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading

import msgspec
import numpy as np
import pytest

from coterie.errors import DataError, InputError, PeerLost, PeerUnreachable
from coterie.protocols import SecureNN
from coterie.study import run
from coterie.study.agreement import study_hash
from coterie.study.predict import predict_rows
from coterie.study.prepare import prepare
from coterie.study.run import run_study
from coterie.study.session import meeting_of
from coterie.study.statement import state_disclosures
from coterie.study.study_file import write_study
from coterie.study.voice import Voice
from tests.study.walk import BRIEF, SMALL, Cast, coterie

pytestmark = pytest.mark.usefixtures("no_pictures")

VERTICAL = (
    *("--clusters", 2, "--partition", "vertical", "--id", "id", "--columns", "x,y,z"),
    *("--bounds", "x=0:1,y=0:1,z=0:1", "--holds", "alice=x,bob=y,carol=z"),
)
IDS = [f"person {i:02d}" for i in range(30)]


def give_rows(cast: Cast) -> None:
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])


def nothing_is_left(cast: Cast, *names: str) -> None:
    """Neither results nor a part of them."""
    for name in names or cast.names:
        left = {path.name for path in cast.at(name).iterdir()}
        assert not {one for one in left if one.startswith(("results", "."))}


@pytest.mark.parametrize("own_process", [True, False])
def test_kernels_are_compiled_before_anybody_is_met(cast, monkeypatch, own_process):
    """Nobody waits for somebody else's compiler."""

    def fail(family, *, alone):
        assert (family, alone) == (SecureNN, own_process)
        raise DataError("the compiler is missing")

    monkeypatch.setattr("coterie.study.session.load_family", fail)
    monkeypatch.setattr("coterie.study.session.meeting_of", lambda *_, **__: pytest.fail("it meets the others"))
    cast.agree(*SMALL, "--protocol", "securenn")
    give_rows(cast)
    with pytest.raises(DataError, match="the compiler is missing"):
        run_study(cast.orders("alice", own_process=own_process))
    nothing_is_left(cast, "alice")


# -- the ids -----------------------------------------------------------------------------------------------


@pytest.fixture
def trio(tmp_path):
    with Cast(tmp_path, ("alice", "bob", "carol")) as cast:
        cast.agree(*VERTICAL)
        yield cast


def give_columns(cast: Cast, **ids: list[str]) -> None:
    values = np.random.default_rng(0).uniform(0, 1, len(IDS))
    for name, column in (("alice", "x"), ("bob", "y"), ("carol", "z")):
        cast.give(name, **{"id": ids.get(name, IDS), column: values})


@pytest.mark.parametrize("odd", ["alice", "carol"])
def test_unequal_ids(trio, odd):
    """Everybody learns that the ids are not the same, and nothing of whose, or which."""
    give_columns(trio, **{odd: [*IDS[:-1], "person 99"]})
    ended = trio.take_part()
    assert isinstance(ended.pop("helper"), PeerLost)  # it hears that the others stop
    for name, error in ended.items():
        assert isinstance(error, DataError), (name, error)
        assert error.exit_code == 3
        assert "do not all hold the same ids" in str(error)
        assert not any(one in str(error).replace(str(trio.folder), "") for one in trio.parties if one != name)
    nothing_is_left(trio)
    for path in trio.folder.rglob("*"):
        if path.is_file() and path.name != "data.csv":
            assert b"person" not in path.read_bytes(), path
    for error in ended.values():
        assert "person" not in str(error)
    assert trio.events("bob") == ["started", "agreed", "opening", "stopped"]
    assert trio.audit("bob")[-1]["code"] == 3


def test_ids_that_differ_only_in_how_they_are_written(trio):
    """ "7" and "07" are two people; blanks around an id are nobody's name."""
    give_columns(trio, bob=[f" {one} " for one in IDS])
    trio.run()
    trio.policies(other_data="log")
    give_columns(trio, bob=[one.replace(" 0", " ") for one in IDS])
    ended = trio.take_part(each={name: {"out": trio.at(name, "other results")} for name in trio.names})
    assert isinstance(ended["bob"], DataError)


def test_unequal_numbers_of_rows(trio):
    give_columns(trio)
    trio.give("carol", id=IDS[:-1], z=np.zeros(len(IDS) - 1))
    for name, error in trio.take_part().items():
        assert isinstance(error, DataError), (name, error)
        assert "carol has 29 rows where alice has 30" in str(error)
    nothing_is_left(trio)


# -- the others --------------------------------------------------------------------------------------------


def test_others_who_do_not_come(cast):
    cast.agree(*SMALL)
    give_rows(cast)
    waited = []

    class Waits(Voice):
        def waiting(self, names):
            waited.append(names)

    ended = cast.take_part(names=["alice"], voices={"alice": Waits()}, wait=2.0)
    assert isinstance(ended["alice"], PeerUnreachable)
    assert ended["alice"].exit_code == 6
    assert ended["alice"].peer in ("helper", "bob")
    assert ended["alice"].peer in str(ended["alice"])
    assert waited == [["helper", "bob"]]
    assert [entry["event"] for entry in cast.audit("alice")] == ["started", "stopped"]
    nothing_is_left(cast)


def test_it_says_for_whom_it_waits(cast):
    """And goes on by itself as soon as everybody is there."""
    cast.agree(*SMALL)
    give_rows(cast)
    waited, phases, alone, two = [], [], threading.Event(), threading.Event()

    class Waits(Voice):
        def phase(self, text):
            phases.append(text)

        def waiting(self, names):
            waited.append(names)
            alone.set()
            if names == ["helper"]:
                two.set()

    threads = [threading.Thread(target=cast.take_part, kwargs={"names": [n], "voices": {n: v}}, daemon=True)
               for n, v in (("alice", Waits()), ("bob", Voice()), ("helper", Voice()))]  # fmt: skip
    threads[0].start()
    assert alone.wait(60)
    threads[1].start()
    assert two.wait(60)
    threads[2].start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert waited == [["helper", "bob"], ["helper"]]
    assert "loading kernels" in phases[1]
    assert phases[2:] == ["waiting for the others", "computing", "writing results"]
    assert cast.at("alice", "results", "manifest.json").exists()


def with_another_study(cast: Cast, name: str, section: str, **fields) -> None:
    """Everybody has signed two studies, and one of them takes the wrong one."""
    study = cast.study
    other = msgspec.structs.replace(
        study, **{section: msgspec.structs.replace(getattr(study, section), **fields)}
    )  # fmt: skip
    shown = msgspec.structs.replace(other.disclosures, statement=state_disclosures(other))
    other = msgspec.structs.replace(other, disclosures=shown)
    folder = cast.folder / "other"
    folder.mkdir()
    write_study(folder / "study.toml", other)
    for one in cast.names:
        assert coterie("study", "sign", folder / "study.toml", "--key", cast.key(one)).code == 0
    for file in folder.iterdir():
        shutil.copy(file, cast.at(name))


def all_wait_in_vain(cast: Cast, odd: str) -> None:
    """Two versions of a study: whoever has another one than a peer sees that while it waits, and in the end why."""

    class Waits(Voice):
        def __init__(self):
            self.seen = set()

        def waiting(self, names):
            self.seen.update(names)

    voices = {name: Waits() for name in cast.names}
    ended = cast.take_part(voices=voices, wait=10.0)
    first = [error for error in ended.values() if isinstance(error, PeerUnreachable)]
    assert first, ended
    for name, error in ended.items():
        strange = [other for other in cast.names if (other == odd) != (name == odd)]
        assert error.peer in strange
        if error in first:
            assert error.exit_code == 6
            assert "takes part in another study" in str(error), ended
        else:
            assert "reports PeerUnreachable" in str(error), ended  # one who gave up a little earlier told the others
        assert voices[name].seen >= {f"{other} (takes part in another study)" for other in strange}


@pytest.mark.parametrize("odd", [pytest.param("helper", marks=pytest.mark.slow), "bob"])
def test_another_study_over_the_wire(cast, odd):
    cast.agree(*SMALL)
    give_rows(cast)
    with_another_study(cast, odd, "clustering", max_iter=7)
    all_wait_in_vain(cast, odd)
    nothing_is_left(cast)


@pytest.mark.slow
def test_the_same_participants_in_another_order(cast):
    """Who is the first party there is the second one here: they cannot even greet each other, but know why."""
    cast.agree(*SMALL)
    give_rows(cast)
    with_another_study(cast, "bob", "participants", parties=cast.study.participants.parties[::-1])
    all_wait_in_vain(cast, "bob")
    with meeting_of(cast.orders("bob"), prepare(cast.orders("bob"))):
        said = coterie(*cast.arguments("alice", "preflight"))
    assert said.code == 4
    assert "another study" in said.err
    assert "compare" in said.err


def test_one_runs_and_another_predicts(cast):
    cast.agree(*SMALL, "--centers", "shared")
    give_rows(cast)
    cast.run()

    def act(orders, voice):
        return (predict_rows if orders.model else run_study)(orders, voice)

    model = cast.at("bob", "results", "model.json")
    each = {name: {"out": cast.at(name, "other results")} for name in cast.names}
    ended = cast.take_part(act, each={**each, "bob": {"model": model, "out": cast.at("bob", "predictions")}})
    assert "bob has started a predict, not a fit" in str(ended["alice"])
    assert "helper has started a fit, not a predict" in str(ended["bob"])
    assert not cast.at("bob", "predictions").exists()
    assert cast.at("alice", "results", "manifest.json").exists(), "the results from before"


def test_an_address_that_is_taken(cast):
    cast.agree(*SMALL)
    give_rows(cast)
    alice = cast.study.everybody[1]
    with socket.create_server((alice.host, alice.port)):
        said = coterie(*cast.arguments("alice"))
    assert said.code == 2
    assert f"alice cannot listen on {alice.address}: the address is in use already" in said.err
    assert "--listen HOST:PORT" in said.err
    assert [entry["event"] for entry in cast.audit("alice")] == ["started", "stopped"]


# -- writing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["alice", "helper"])
@pytest.mark.parametrize("step", ["write_results", "write_manifest"])
def test_results_are_shown_by_all_or_by_none(cast, monkeypatch, odd, step):
    """One cannot write, in the end: nobody shows results; all go on from their last checkpoint, and then do."""
    cast.agree(*SMALL)
    give_rows(cast)
    genuine = getattr(run, step)

    def fail(folder, ready, *more):
        (folder / "half").write_text("")
        if ready.me.name == odd:
            raise InputError("the disk is full")
        genuine(folder, ready, *more)

    with monkeypatch.context() as patch:
        patch.setattr(run, step, fail)
        ended = cast.take_part()
    for name, error in ended.items():
        if name == odd:
            assert isinstance(error, InputError)
        else:
            assert isinstance(error, PeerLost), (name, error)
            assert error.peer == odd
    nothing_is_left(cast)
    for name in cast.parties:
        assert any(cast.orders(name).state_path(study_hash(cast.study)).glob("checkpoint-*"))
        again = "start it again, all of you: it goes on with the results"
        assert again in str(ended[name])
    cast.run()
    for name in cast.names:
        assert cast.entry(name, "agreed")["resumed_after"], "it went on where it was"
        assert cast.at(name, "results", "manifest.json").exists()


def test_the_same_log_for_several_studies(cast, tmp_path):
    """An organisation's audit log goes on from one study to the next, with an unbroken chain."""
    cast.agree(*SMALL)
    give_rows(cast)
    cast.run()
    with_another_study(cast, "alice", "clustering", max_iter=7)
    for name in ("bob", "helper"):
        for file in (cast.folder / "other").iterdir():
            shutil.copy(file, cast.at(name))
    for error in cast.take_part().values():
        assert isinstance(error, InputError), "the folder holds results of the other study"
    cast.run(each={name: {"out": cast.at(name, "other results")} for name in cast.names})
    hashes = [entry["study_hash"] for entry in cast.audit("alice") if entry["event"] == "started"]
    assert len(set(hashes)) == 2


@pytest.mark.slow
def test_results_on_a_mounted_volume_and_behind_a_link(cast):
    """As in containers: alice's folder is a mount point of its own, bob's is a link; both stay what they are."""
    volume, mounted, linked = cast.at("alice", "volume"), cast.at("alice", "results"), cast.at("bob", "results")
    for folder in (volume, mounted, cast.at("bob", "volume")):
        folder.mkdir()
    linked.symlink_to("volume")
    bind = ("unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(volume), str(mounted))
    if not shutil.which("unshare") or subprocess.run([*bind, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    cast.agree(*SMALL)
    give_rows(cast)
    cast.prefix["alice"], cast.program = bind, BRIEF
    for name in cast.names:
        cast.start(name)
    assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
    files = {"centers.csv", "disclosures.jsonl", "labels.parquet", "manifest.json", "model.json", "report.html"}
    for name in cast.parties:
        assert {path.name for path in cast.at(name, "volume").iterdir()} == files | {"traffic.json"}
    assert linked.is_symlink()
    assert list(mounted.iterdir()) == []
