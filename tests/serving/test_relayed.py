"""The front door of a helper that is reached by way of a relay, in this process; and signatures and withdrawals that
come while nothing runs."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from coterie.serving import relays, served
from coterie.serving.server import Server, Settings
from coterie.study.agreement import study_hash
from coterie.study.identity import load_identity
from coterie.study.preflight import preflight
from coterie.study.prepare import prepare, recognise
from coterie.study.session import meeting_of
from coterie.study.signatures import own_signature
from coterie.transport import relayed_listener
from coterie.transport.hello import NotYet, context, dial, greet, server_name
from coterie.transport.visits import decline
from tests.relay.places import RelayCast, RunningRelay, TinyProxy, make_relay
from tests.serving.test_front_door import NoChild
from tests.study.walk import SMALL, Cast, coterie, free_addresses, wait_until


def knock(cast: Cast, name: str = "alice", purpose: str = "fit", **changes):
    """A participant dials the helper as its study says, and hears something."""
    known = recognise(cast.orders(name, **changes))
    peer = known.peers[0]
    own = context(False, known.credentials, [peer.certificate])
    with dial(peer, "helper", own, 20, 20, server_name(known.world.session, purpose)) as sock:
        return greet(sock, known.world, 0, known.rank, 0, peer)


@pytest.fixture(scope="module")
def relay(tmp_path_factory) -> Path:
    """A relay's identity."""
    return make_relay(tmp_path_factory.mktemp("relay"))


@pytest.fixture(scope="module")
def casts(tmp_path_factory, relay) -> list[Cast]:
    """Two studies of one helper, which is reached by way of the relay."""
    made = [RelayCast(tmp_path_factory.mktemp(name), relay, direct=("alice", "bob")) for name in ("one", "two")]
    for file in ("helper.key", "helper.identity.toml"):
        shutil.copy(made[0].at("helper", file), made[1].at("helper", file))
    for cast in made:
        cast.agree(*SMALL)
    return made


def bring(cast: Cast, studies: Path, under: str, without: tuple[str, ...] = ()) -> Path:
    """A study and its papers come into the folder."""
    for paper in cast.at("helper").glob("study*.toml"):
        if not any(f".{name}." in paper.name for name in without):
            shutil.copy(paper, studies / f"{under}{paper.name.removeprefix('study')}")
    return studies / f"{under}.toml"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Folders for studies and state; a study's process is only said to be started."""
    monkeypatch.setattr(served, "Child", NoChild)
    NoChild.started = []
    for name in ("studies", "state"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def serving(place, casts):
    """A server with both studies, started when called."""
    made: list[Server] = []

    def start(**more) -> Server:
        for name, cast in zip(("one", "two"), casts, strict=True):
            bring(cast, place / "studies", name)
        made.append(Server(Settings(casts[0].key("helper"), place / "studies", place / "state", **more), print))
        return made[0]

    yield start
    for server in made:
        server.close()


def registered(server: Server) -> list[bool]:
    return [one.registered for one in server.status().relays]


def files(casts: list[Cast]) -> list[Path]:
    return [cast.study_file("alice") for cast in casts]


def test_two_studies_by_way_of_a_relay_and_no_port(casts, relay, serving):
    server = serving(most_studies=2)
    with RunningRelay(relay, files(casts)):
        wait_until(lambda: registered(server) == [True], what="being registered")
        assert server.listener is None
        for cast in casts:
            assert knock(cast).reason == "it is starting"
        assert {child.task.hash for child in NoChild.started} == {study_hash(cast.study) for cast in casts}
        assert len(server.relays.listeners) == 1
        address = load_identity(relay).address
        status = server.status()
        assert status.healthy
        assert status.listen == f"by way of the relay {address}"
        NoChild.started[0].open = True  # from now on it takes connections: as they come, and TLS has not begun
        caught = []

        def dialling() -> None:
            try:
                knock(casts[0])
            except NotYet as error:
                caught.append(error)

        thread = threading.Thread(target=dialling)
        thread.start()
        (plain,) = wait_until(lambda: NoChild.started[0].taken, what="a connection")
        with plain:
            assert plain.recv(1) == b"\x16"
        thread.join(60)
        assert caught


def test_a_relay_that_is_not_there_is_told_and_registered_at_when_it_comes_back(casts, relay, serving, place):
    server = serving()
    address = load_identity(relay).address
    wait_until(lambda: server.status().problems, what="noticing")
    assert not server.status().healthy
    assert f"not registered at the relay {address} (cannot be reached" in server.status().problems[0]
    for _ in range(2):
        with RunningRelay(relay, files(casts)):
            wait_until(lambda: server.status().healthy and registered(server) == [True], what="being registered")
            assert knock(casts[0]).reason in ("it is starting", served.FULL)
        wait_until(lambda: not server.status().healthy, what="noticing")


def test_a_study_that_the_relay_does_not_know_does_not_keep_the_others_away(
    casts, relay, serving, tmp_path, monkeypatch
):
    monkeypatch.setattr(relayed_listener, "LAST_PAUSE", 0.2)
    known = tmp_path / "known"
    known.mkdir()
    shutil.copy(casts[0].study_file("alice"), known / "one.toml")
    with RunningRelay(relay, folder=known):
        server = serving()
        wait_until(lambda: registered(server) == [True], what="being registered")
        assert knock(casts[0]).reason == "it is starting"
        assert server.status().healthy
        why = [one.why for one in server.status().studies]
        assert why[0] == ""
        assert "does not know the study" in why[1]
        shutil.copy(casts[1].study_file("alice"), known / "two.toml")
        wait_until(lambda: not server.status().studies[1].why, what="its being known")
        assert knock(casts[1]).reason in ("it is starting", served.FULL)


def test_another_process_with_one_study_does_not_keep_the_others_away(casts, relay, serving, monkeypatch):
    monkeypatch.setattr(relayed_listener, "LAST_PAUSE", 0.2)
    one = recognise(casts[0].orders("helper"))
    with RunningRelay(relay, files(casts)) as running:
        other = relayed_listener.RelayedListener(one.relay_of(one.me), one.credentials, [one.hash])
        try:
            wait_until(lambda: running.look(lambda relay: relay.listening), what="being registered")
            server = serving()
            wait_until(lambda: registered(server) == [True], what="being registered")
            assert "another process with the same key" in server.status().studies[0].why
            assert knock(casts[1]).reason == "it is starting"
        finally:
            other.close()
        wait_until(lambda: not server.status().studies[0].why, what="its being free")
        assert knock(casts[0]).reason in ("it is starting", served.FULL)


def test_more_studies_than_a_relay_takes_are_told(casts, relay, serving, monkeypatch):
    monkeypatch.setattr(relays, "MOST_STUDIES", 1)
    with RunningRelay(relay, [cast.study_file("alice") for cast in casts]):
        server = serving()
        first, second = sorted(server.status().studies, key=lambda one: one.hash)
        wait_until(lambda: server.status().relays[0].registered, what="being registered")
        assert first.why == ""
        assert "at most 1 studies" in second.why


def test_studies_are_brought_to_a_relay_that_takes_them(casts, relay, serving):
    with RunningRelay(relay, open_=True) as running:
        server = serving()
        wait_until(lambda: registered(server) == [True], what="being registered")
        assert len(running.look(lambda relay: relay.registry.entries)) == 2
        assert knock(casts[1]).reason == "it is starting"


def test_the_folder_changes_and_so_do_the_relays(casts, relay, serving, place):
    server = serving()
    with RunningRelay(relay, files(casts)) as running:
        listening = lambda: running.look(lambda relay: sorted(study for study, _ in relay.listening))  # noqa: E731
        hashes = [study_hash(cast.study) for cast in casts]
        wait_until(lambda: listening() == sorted(hashes), what="both")
        (place / "studies" / "two.helper.sig.toml").unlink()
        server.look()
        wait_until(lambda: listening() == hashes[:1], what="one")
        for paper in (place / "studies").glob("one*"):
            paper.unlink()
        server.look()
        wait_until(lambda: not listening(), what="none")
        assert not server.relays.listeners
        assert server.status().listen == "nobody yet"
        bring(casts[0], place / "studies", "one")
        server.look()
        wait_until(lambda: listening() == hashes[:1], what="one again")


def test_a_port_and_a_relay_at_once(casts, relay, serving, place, tmp_path):
    """The same helper has a direct address in one study, and a relay in another; the direct one comes later."""
    server = serving()
    assert server.listener is None
    with Cast(tmp_path / "direct") as direct, RunningRelay(relay, files(casts)):
        address = load_identity(direct.identity("helper")).address
        mine = load_identity(casts[0].identity("helper"))
        fields = {"name": mine.name, "address": address, "certificate": mine.certificate}
        direct.identity("helper").write_text(tomli_w.dumps({**fields, "fingerprint": mine.fingerprint}))
        shutil.copy(casts[0].key("helper"), direct.key("helper"))
        direct.agree(*SMALL)
        bring(direct, place / "studies", "three")
        server.look()
        assert f"at {address}, by way of the relay" in server.status().listen
        wait_until(lambda: registered(server) == [True], what="being registered")
        for cast in (direct, casts[0]):
            assert knock(cast).reason in ("it is starting", served.FULL)
        server.listener.close()  # as if it had never been free
        server.listener = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("coterie.serving.server.Listener", _taken)
            (place / "studies" / "three.bob.sig.toml").touch()
            server.look()
            assert f"nothing can listen on {address}" in server.status().problems[0]
            assert knock(casts[0]).reason in ("it is starting", served.FULL)
        server.look()
        assert server.status().healthy
        assert knock(direct).reason in ("it is starting", served.FULL)


def _taken(host, port):
    raise OSError(98, "Address already in use")


def test_through_a_proxy(casts, relay, serving):
    with TinyProxy() as proxy, RunningRelay(relay, files(casts)):
        server = serving(proxy=proxy.url)
        wait_until(lambda: registered(server) == [True], what="being registered")
        assert knock(casts[0]).reason == "it is starting"
        assert {line.split()[1] for line in proxy.asked} == {load_identity(relay).address}
        assert NoChild.started[0].task.proxy == proxy.url
        assert proxy.url not in repr(server.settings)


# -- signatures and withdrawals ---------------------------------------------------------------------------------


@pytest.fixture
def others(tmp_path, relay):
    """A study of its own for tests that change its papers."""
    with RelayCast(tmp_path / "others", relay, direct=("alice", "bob", "helper")) as cast:
        cast.agree(*SMALL)
        for name in cast.parties:
            cast.give(name, x=[1.0, 2.0] * 20, y=[2.0, 1.0] * 20)
        yield cast


@pytest.fixture
def waiting(others, place):
    """A server whose operator has signed, and to which nobody else's signature was brought."""
    bring(others, place / "studies", "study", without=("alice", "bob"))
    server = Server(Settings(others.key("helper"), place / "studies", place / "state", patience=20.0), print)
    yield server
    server.close()


def standing(server: Server) -> str:
    server.look()
    return server.status().studies[0].standing


def check(cast: Cast, name: str, **changes):
    """`coterie preflight`, in this process."""
    return preflight(cast.orders(name, wait=0.0, patience=20.0, **changes), lambda finding: None)


@contextlib.contextmanager
def up(cast: Cast, name: str) -> Iterator[None]:
    """A participant listens at its address, and answers who asks."""
    orders = cast.orders(name, patience=20.0)
    with meeting_of(orders, prepare(orders), lanes=0):
        yield


def test_signatures_are_fetched_from_those_who_come(others, waiting, place):
    """Nothing is started before all signatures are here; they are kept with the study's state, and known after a
    restart."""
    assert standing(waiting) == "waiting"
    assert "alice, bob" in waiting.status().studies[0].why
    assert knock(others).reason == served.WAITING
    assert not NoChild.started
    with up(others, "alice"), up(others, "bob"):
        check(others, "bob", listen=free_addresses(1)[0])  # whoever only asks is asked back
        wait_until(lambda: "bob" not in waiting.status().studies[0].why or waiting.look(), what="bob's signature")
        assert standing(waiting) == "waiting"
        wait_until(lambda: standing(waiting) == "served" or not knock(others), what="alice's signature")
    assert knock(others).reason == "it is starting"
    assert not list((place / "studies").glob("*alice*"))
    fetched = waiting.served[study_hash(others.study)].papers
    assert fetched.with_name("study.bob.sig.toml").exists()
    waiting.close()
    again = Server(Settings(others.key("helper"), place / "studies", place / "state"), print)
    assert standing(again) == "served"
    again.close()


def test_one_who_fetches_learns_the_helper_s_signature(others, waiting):
    others.at("alice", "study.helper.sig.toml").unlink()
    found = check(others, "alice")
    (text,) = (one.text for one in found if one.what == "helper")
    assert text.endswith("its signature was fetched, and is valid")


def test_a_signature_that_does_not_hold_is_not_kept(others, waiting, monkeypatch):
    known = recognise(others.orders("alice"))
    wrong = own_signature(others.study_file("alice"), known.study, "bob")
    monkeypatch.setattr("coterie.study.papers.own_signature", lambda path, study, name: wrong)
    told = []
    waiting_for = waiting.served[known.hash]
    monkeypatch.setattr(waiting_for, "_tell", lambda level, event, text, **fields: told.append(text))
    with up(others, "alice"):
        knock(others)
        wait_until(lambda: told, what="the word of it")
    assert "alice sent a signature of this study that is not its own" in told[0]
    assert standing(waiting) == "waiting"
    assert not waiting_for.papers.with_name("study.alice.sig.toml").exists()


def test_a_withdrawal_while_nothing_runs_ends_the_study_and_is_passed_on(others, place):
    """Alice withdraws and tells the helper; bob, who was not up, hears it there."""
    bring(others, place / "studies", "study")
    server = Server(Settings(others.key("helper"), place / "studies", place / "state", patience=20.0), print)
    try:
        assert standing(server) == "served"
        said = coterie("study", "withdraw", others.study_file("alice"), "--key", others.key("alice"))
        assert said.code == 0, said.err
        wait_until(lambda: standing(server) == "withdrawn", what="hearing of it")
        assert "alice withdrew" in server.status().studies[0].why
        assert knock(others, "bob").reason == served.WITHDRAWN
        assert not NoChild.started
        ended = others.take_part(names=["bob"], wait=60.0, patience=20.0)
        assert "alice withdrew" in str(ended["bob"])
        assert others.at("bob", "study.alice.withdrawn.toml").exists()
    finally:
        server.close()
    again = Server(Settings(others.key("helper"), place / "studies", place / "state"), print)
    assert standing(again) == "withdrawn"
    again.close()


def test_who_declines_without_a_proof_or_with_one_that_does_not_hold_changes_nothing(others, place):
    bring(others, place / "studies", "study")
    server = Server(Settings(others.key("helper"), place / "studies", place / "state", patience=20.0), print)
    try:
        known = recognise(others.orders("alice"))
        heard = []
        one = server.served[known.hash]
        hear = one.hear_no
        one.hear_no = lambda who, proof: (hear(who, proof), heard.append(proof))
        for number, proof in enumerate((b"", b"rubbish"), 1):
            decline(known.world, known.rank, known.credentials, known.peers, proof=proof)
            wait_until(lambda number=number: len(heard) == number, what="hearing of it")
        assert heard == [b"", b"rubbish"]
        assert standing(server) == "served"
    finally:
        server.close()
