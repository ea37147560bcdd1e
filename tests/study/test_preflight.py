"""Preflight: what is wrong at home, and what can be seen of the others without sending anything of the data."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
import types
from contextlib import ExitStack, contextmanager

import msgspec
import numpy as np
import pytest

from coterie.errors import (
    AuthenticationError,
    CoterieError,
    DataError,
    InputError,
    PolicyError,
    StudyError,
    TransportError,
)
from coterie.software import software_digest
from coterie.study import greetings, papers
from coterie.study.agreement import study_hash
from coterie.study.greetings import Card
from coterie.study.preflight import preflight
from coterie.study.prepare import hello_session, prepare
from coterie.study.session import meeting_of
from coterie.transport.certificates import create_credentials
from tests.study.walk import SMALL, Cast, coterie, free_addresses


@pytest.fixture(scope="module")
def agreed(tmp_path_factory):
    with Cast(tmp_path_factory.mktemp("preflight")) as cast:
        cast.agree(*SMALL)
        points = np.random.default_rng(0).uniform(-5, 5, (30, 2))
        for name in cast.parties:
            cast.give(name, x=points[:, 0], y=points[:, 1])
        yield cast


@contextmanager
def up(cast, *names, **changes):
    """These participants have started and wait for the others; with something about them changed."""
    with ExitStack() as stack:
        for name in names:
            orders = cast.orders(name)
            stack.enter_context(meeting_of(orders, dataclasses.replace(prepare(orders), **changes)))
        yield


def looked(cast, name="alice", **changes):
    """What preflight found, by what it looked at; and the error that it ended with."""
    told, error = [], None
    try:
        found = preflight(cast.orders(name, **{"wait": 0.0, **changes}), told.append)
        assert found == told
    except CoterieError as raised:
        error = raised
    return {finding.what: finding for finding in told}, error


def test_at_home_alone(agreed):
    found, error = looked(agreed)
    assert error is None
    assert {what: finding.fine for what, finding in found.items()} == {
        **dict.fromkeys(["key", "study", "signatures", "policy", "data", "budget", "address"], True),
        **dict.fromkeys(["helper", "bob"]),
    }
    assert "least cluster size 10" in found["policy"].text
    assert "30 rows of 2 columns" in found["data"].text
    assert "not up yet" in found["bob"].text
    assert "data" not in looked(agreed, "helper")[0]


def grids(folder, *options, resolution=()):
    """What preflight remarks about columns: x in whole years, y in quarters, z with many digits."""
    columns = ("--clusters", "2", "--columns", "x,y,z", "--bounds", "x=0:120,y=0:120,z=0:120")
    random = np.random.default_rng(1)
    with Cast(folder) as cast:
        cast.agree(*columns, *options, *resolution)
        for name in cast.parties:
            x, z = random.integers(0, 100, 30), random.uniform(0, 100, 30)
            cast.give(name, x=x, y=random.integers(0, 400, 30) / 4, z=z)
        found, error = looked(cast)
        assert error is None
        said = coterie(*cast.arguments("alice", "preflight"))
        assert said.code == 0
        cast.policy("alice", least_cluster_size=1)
        off, _ = looked(cast)
    assert not [what for what in off if what.startswith("column")]
    return {what: finding for what, finding in found.items() if what.startswith("column")}, said.out


def test_columns_on_a_coarse_grid_are_pointed_out(tmp_path):
    """Of whole numbers, a mean that is opened exactly tells of how many rows it is."""
    found, said = grids(tmp_path / "none")
    assert {what: finding.fine for what, finding in found.items()} == {"column 'x'": True, "column 'y'": True}
    assert "your values are multiples of 1: opened means may tell sizes" in found["column 'x'"].text
    assert "make the study with --resolution y=0.25" in found["column 'y'"].text
    assert "note column 'x': has no resolution" in said
    found, _ = grids(tmp_path / "one", resolution=("--resolution", "x=1"))
    assert list(found) == ["column 'y'"]


def test_own_rules(agreed):
    assert "least cluster size 10, contribution least (others may ask for more)" in looked(agreed)[0]["policy"].text


def test_others_who_are_up(agreed):
    with up(agreed, "bob"):
        found, error = looked(agreed)
    assert error is None
    assert found["bob"].fine
    assert (
        found["bob"].text
        == "is up, with the pinned certificate, the same software and the same study, reached directly"
    )
    assert found["helper"].fine is None
    with up(agreed, "bob", "helper"):
        said = coterie(*agreed.arguments("alice", "preflight"))
    assert said.code == 0, said.err
    assert said.out.endswith("ready to run\n")


def test_everybody_checks_at_the_same_time(agreed, monkeypatch):
    """Each waits for the others to come up, and stays until they have seen it: nobody has to run anything first."""
    monkeypatch.setattr("coterie.study.preflight.STAY", 60.0)
    ended = {}

    def one(name):
        ended[name] = looked(agreed, name, wait=60.0)

    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in agreed.names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    for found, error in ended.values():
        assert error is None
        assert all(finding.fine for finding in found.values())
    assert set(ended) == set(agreed.names)


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        ("clustering", {"seed": 9}),
        ("disclosures", {"centers": "shared"}),
        ("data", {"id": "z"}),
        ("study", {"name": "z"}),
    ],
)
def test_a_peer_with_another_study(agreed, section, fields):
    study = agreed.study
    other = msgspec.structs.replace(
        study, **{section: msgspec.structs.replace(getattr(study, section), **fields)}
    )  # fmt: skip
    with up(agreed, "bob", study=other):
        found, error = looked(agreed)
    assert found["bob"].fine is False
    assert isinstance(error, StudyError)
    assert f"bob has another study: section [{section}] differs" in str(error)


def test_a_peer_that_waits_for_a_run_of_another_study(agreed):
    """It is asked, and not disturbed; whoever asks learns that it has another study."""
    other = "f" * 64
    with up(
        agreed,
        "bob",
        study=msgspec.structs.replace(agreed.study, study=msgspec.structs.replace(agreed.study.study, name="another")),
        hash=other,
    ):
        assert hello_session(other) != hello_session(study_hash(agreed.study))
        found, error = looked(agreed)
    assert found["bob"].fine is False
    assert isinstance(error, StudyError)
    assert "another study" in str(error)


def test_a_peer_with_another_certificate(agreed):
    """Whoever it is that listens there, it has not the key of whom the study names."""
    with up(agreed, "bob", credentials=create_credentials("bob")):
        found, error = looked(agreed)
        said = coterie(*agreed.arguments("alice", "preflight"))
    assert found["bob"].fine is False
    assert found["helper"].fine is None, "the others are looked at all the same"
    assert isinstance(error, AuthenticationError)
    assert error.peer == "bob"
    assert said.code == 8
    assert "bob" in said.err


def test_somebody_who_talks_another_language(agreed):
    """A web server, say, at the address of a peer."""
    bob = agreed.study.everybody[2]
    stop = threading.Event()

    def serve(listener):
        listener.settimeout(0.1)
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server((bob.host, bob.port)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            found, error = looked(agreed)
        finally:
            stop.set()
            thread.join()
    assert found["bob"].fine is not True
    assert error is None or isinstance(error, TransportError)


def test_a_clock_that_is_off(agreed, monkeypatch):
    def card_of(study, shown):
        sections = greetings.section_hashes(study)
        return msgspec.msgpack.encode(
            Card(greetings.__version__, sections, time.time() + 3600, digest=greetings.software_digest())
        )

    monkeypatch.setattr(papers, "card_of", card_of)
    with up(agreed, "bob"):
        found, error = looked(agreed)
    assert error is None
    assert found["bob"].fine
    assert "its clock is +3600 s off" in found["bob"].text


def test_a_peer_that_has_waited_for_long_has_a_good_clock_all_the_same(agreed, monkeypatch):
    clock = types.SimpleNamespace(time=lambda: time.time() - 600)
    with monkeypatch.context() as patch:
        patch.setattr(greetings, "time", clock)
        stack = ExitStack()
        stack.enter_context(up(agreed, "bob"))
    with stack:
        assert "clock" not in looked(agreed)[0]["bob"].text


def test_another_version(agreed, monkeypatch):
    def card_of(study, shown):
        return msgspec.msgpack.encode(Card("9.9", greetings.section_hashes(study), time.time()))

    monkeypatch.setattr(papers, "card_of", card_of)
    with up(agreed, "bob"):
        found, error = looked(agreed)
    assert found["bob"].fine is False
    assert isinstance(error, StudyError)
    assert "bob runs Coterie 9.9" in str(error)


def with_other_files(study, shown):
    card = msgspec.msgpack.decode(greetings.card_of(study, shown), type=Card)
    return msgspec.msgpack.encode(msgspec.structs.replace(card, digest="f" * 64))


def test_other_files_of_the_same_version(agreed, monkeypatch):
    monkeypatch.setattr(papers, "card_of", with_other_files)
    with up(agreed, "bob"):
        found, error = looked(agreed)
    assert found["bob"].fine is False
    assert isinstance(error, StudyError)
    assert f"digest ffffffffffff at bob, {software_digest()[:12]} at alice" in str(error)
    assert found["bob"].text == str(error)


def test_other_files_that_the_study_allows(tmp_path, monkeypatch):
    with Cast(tmp_path) as cast:
        cast.agree(*SMALL, "--software", "version")
        for name in cast.parties:
            cast.give(name, x=[0.0] * 30, y=[0.0] * 30)
        monkeypatch.setattr(papers, "card_of", with_other_files)
        with up(cast, "bob"):
            found, error = looked(cast)
    assert error is None
    assert "the same version (its files differ, which the study allows) and the same study" in found["bob"].text


@pytest.mark.parametrize("card", [b"", b"\xff\xff", b"\x83" + b"\xa7version\xa1\xff" * 3])
def test_a_card_that_cannot_be_read(agreed, monkeypatch, card):
    monkeypatch.setattr(papers, "card_of", lambda study, shown: card)
    with up(agreed, "bob"):
        found, error = looked(agreed)
    assert found["bob"].fine is False
    assert isinstance(error, StudyError)
    assert str(error) == "bob cannot be understood"


def test_what_is_wrong_at_home_is_said_before_anybody_is_asked(agreed, tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "create_server", lambda *a, **k: pytest.fail("a socket was opened"))
    (tmp_path / "policy.toml").write_text('centers = ["shared"]')
    outside = agreed.write("alice", "outside.csv", x=[1.0, 13.625], y=[0.0, 0.0])
    for changes, kind, words in (
        ({"data": str(outside)}, DataError, "column 'x': the value is outside the study's bounds"),
        ({"data": None}, InputError, "alice is a data party; say where its data is with --data"),
        ({"policy": tmp_path / "policy.toml"}, PolicyError, "the rule `centers`"),
    ):
        error = looked(agreed, **changes)[1]
        assert isinstance(error, kind)
        assert words in str(error)
        assert "13.625" not in str(error)
    error = looked(agreed, "helper", data=str(outside))[1]
    assert isinstance(error, InputError)
    assert "helper is the helper, which holds no data" in str(error)


def test_an_address_that_is_taken(agreed):
    alice = agreed.study.everybody[1]
    with socket.create_server((alice.host, alice.port)):
        error = looked(agreed)[1]
        assert isinstance(error, InputError)
        assert f"alice cannot listen on {alice.address}" in str(error)
        elsewhere = looked(agreed, listen=free_addresses(1)[0])
    assert elsewhere[1] is None
    assert "listening at" in elsewhere[0]["address"].text


# -- budgets -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pictures")
def test_what_is_left_of_a_budget(cast):
    """Says how much is used, refuses what a run would refuse, and writes nothing."""
    cast.agree(*SMALL)
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    assert "0 runs of this study used; the policy sets no limit" in looked(cast)[0]["budget"].text
    cast.policy("alice", runs=2)
    assert looked(cast)[0]["budget"].text == "0 of 2 runs of this study used"
    assert not cast.at("alice", "audit.jsonl").exists()
    assert not cast.at("alice", "alice.budget.jsonl").exists()
    assert not cast.at("alice", "alice.state").exists()
    cast.run()
    before = {path: path.read_bytes() for path in cast.at("alice").glob("*.jsonl")}
    assert looked(cast)[0]["budget"].text == "1 of 2 runs of this study used"
    cast.policy("alice", runs=1)
    assert looked(cast)[1] is None, "its results can be opened once more"
    error = looked(cast, restart=True)[1]
    assert isinstance(error, PolicyError)
    assert "the rule `runs` = 1 allows no further run of this study; 1 used" in str(error)
    cast.policy("alice", runs=2)
    cast.give("alice", x=points[:, 0] / 2, y=points[:, 1])
    assert "alice returns to this study with other data" in str(looked(cast)[1])
    assert {path: path.read_bytes() for path in cast.at("alice").glob("*.jsonl")} == before
