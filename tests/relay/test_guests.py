"""Who a relay lets in, what it holds, and what passes through it."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from typing import ClassVar

import pytest

from coterie.errors import AuthenticationError, PeerLost, PeerUnreachable
from coterie.relay import Limits, Relay
from coterie.relay.splice import CHUNK, Pair
from coterie.study.agreement import study_hash
from coterie.study.identity import load_identity, load_key
from coterie.study.signatures import bring_signed
from coterie.transport.certificates import Credentials, create_credentials, create_link, fingerprint
from coterie.transport.hello import NotYet, Peer, begin_tls, context
from coterie.transport.relay_messages import Answer, Listen, Recorded, Refused, pack
from coterie.transport.relayed import ByRelay, RelayAt, Turned, ask_relay, bring_study, exchange
from coterie.transport.relayed_listener import RelayedListener
from tests.relay.places import RelayCast, RunningRelay, hang_up, make_relay
from tests.study.walk import SMALL, wait_until

NAMES = ("helper", "alice", "bob")


class World:
    """A relay with one study, and what each participant needs to talk to it."""

    def __init__(self, folder, /, **given):
        self.identity = make_relay(folder)
        self.cast = RelayCast(folder, self.identity, direct=("helper",))
        self.cast.agree(*SMALL)
        self.study = study_hash(self.cast.study)
        self.keys = {
            name: Credentials(load_identity(self.cast.identity(name)).certificate, load_key(self.cast.key(name)))
            for name in NAMES
        }
        files = given.pop("files", [self.cast.study_file("alice")])
        self.running = RunningRelay(self.identity, files, **given)
        one = load_identity(self.identity)
        self.at = RelayAt(one.host, one.port, one.certificate)

    def way(self, name: str) -> ByRelay:
        return ByRelay(self.at, self.keys[name], self.study)

    def dial(self, name: str, to: str, patience: float = 20.0) -> socket.socket:
        peer = Peer(self.at.host, self.at.port, self.keys[to].certificate)
        return self.way(name).connect(peer, to, patience, patience)

    def listen(self, name: str, **given) -> RelayedListener:
        listener = RelayedListener(self.at, self.keys[name], [self.study], **given)
        key = self.study, load_identity(self.cast.identity(name)).fingerprint
        wait_until(lambda: self.running.look(lambda relay: key in relay.listening), what="being registered")
        return listener

    def accept(self, listener: RelayedListener) -> socket.socket:
        def come():
            with contextlib.suppress(BlockingIOError):
                return listener.accept()

        return wait_until(come, what="somebody's coming")

    @contextlib.contextmanager
    def joined(self, one: str = "alice", other: str = "bob"):
        """Plain connections at two participants that the relay has joined."""
        listener = self.listen(other)
        try:
            with self.dial(one, other) as near, self.accept(listener) as far:
                yield near, far
        finally:
            listener.close()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.running.close()


def test_strangers_get_nowhere(world, caplog):
    caplog.set_level(logging.INFO)
    for stranger in (create_credentials("alice"), create_credentials("mallory")):
        with pytest.raises(Turned, match="does not know the study"):
            world.at.connect(stranger, 20, 20)
        assert not ask_relay(world.at, stranger, world.study, 20)
    with pytest.raises(Turned):  # who shows no certificate brings a study, or nothing; and here not even that
        bring_study(world.at, bring_signed(world.cast.study_file("bob"), world.cast.study, world.study), 20)
    # a certificate that was made under alice's name, asked for by alice's own label
    from coterie.transport.relay_messages import label_of

    asked = label_of(fingerprint(world.at.certificate), fingerprint(world.keys["alice"].certificate))
    plain = socket.create_connection((world.at.host, world.at.port), timeout=20)
    sock = begin_tls(context(False, create_credentials("alice"), [world.at.certificate]), plain, asked=asked)
    with sock, pytest.raises((ssl.SSLError, ConnectionError)):
        sock.sendall(pack(Listen((world.study,))))
        if not sock.recv(1):
            raise ConnectionError
    wait_until(lambda: not world.running.look(lambda relay: relay.guests), what="strangers' being gone")
    assert sum("a stranger was refused" in line for line in caplog.messages) >= 5
    told = [record for record in caplog.records if getattr(record, "event", "") == "refused"]
    assert len(told) >= 5
    assert all(record.fields["address"].startswith("127.0.0.1:") for record in told)


def test_a_participant_of_one_study_is_a_stranger_to_another(tmp_path):
    relay = make_relay(tmp_path)
    first, second = (
        RelayCast(tmp_path / folder, relay, parties)
        for folder, parties in (("a", ("alice", "bob")), ("b", ("bob", "eve")))
    )
    hashes = [study_hash(cast.agree(*SMALL)) for cast in (first, second)]
    one = load_identity(relay)
    at = RelayAt(one.host, one.port, one.certificate)

    def keys(cast, name):
        return Credentials(load_identity(cast.identity(name)).certificate, load_key(cast.key(name)))

    with RunningRelay(relay, [first.study_file("alice"), second.study_file("eve")]) as running:
        assert [ask_relay(at, keys(first, "bob"), study, 20) for study in hashes] == [True, False]
        assert [ask_relay(at, keys(second, "bob"), study, 20) for study in hashes] == [False, True]  # the same name
        listener = RelayedListener(at, keys(second, "bob"), [hashes[1]])
        wait_until(lambda: running.look(lambda relay: relay.listening), what="being registered")
        for study in hashes:  # alice is not of bob's and eve's study, nor is this bob of hers
            peer = Peer(at.host, at.port, keys(second, "bob").certificate)
            with pytest.raises(Turned, match="does not know"):
                ByRelay(at, keys(first, "alice"), study).connect(peer, "bob", 20, 20)
        listener.close()


def test_who_is_called_answers_with_its_own_certificate(world):
    """A token alone is worth nothing; neither is a token that was used."""
    listener = world.listen("bob")
    tokens = []
    listener._answer = lambda call: (tokens.append(call.token), listener._done_answering())
    calling = threading.Thread(target=lambda: contextlib.suppress(NotYet).__enter__() or _quietly(world), daemon=True)
    calling.start()
    token = wait_until(lambda: tokens and tokens[0], what="the call")
    with world.at.connect(world.keys["helper"], 20, 20) as sock:
        assert exchange(sock, Answer(token)) == Refused("absent")
    calling.join(60)
    with world.at.connect(world.keys["bob"], 20, 20) as sock:  # it is too late now
        assert exchange(sock, Answer(token)) == Refused("absent")
    listener.close()


def _quietly(world):
    with contextlib.suppress(NotYet):
        world.dial("alice", "bob", 6.0).close()


def test_who_is_not_there_and_who_is_reached_otherwise(world):
    with pytest.raises(Turned, match="not connected"):
        world.dial("alice", "bob", 1.0)
    with pytest.raises(Turned, match="not by way of this relay"):
        world.dial("alice", "helper")


def test_one_process_listens_for_a_study(world):
    listener = world.listen("bob")
    with world.at.connect(world.keys["bob"], 20, 20) as sock:
        assert exchange(sock, Listen((world.study,))) == Refused("taken")
    listener.close()
    wait_until(lambda: not world.running.look(lambda relay: relay.listening), what="being forgotten")
    with world.at.connect(world.keys["bob"], 20, 20) as sock:
        assert exchange(sock, Listen((world.study, "0" * 64))) == Recorded((world.study,))


def test_a_relay_that_comes_back_is_registered_at_again(world):
    listener = world.listen("bob")
    world.running.close()
    wait_until(lambda: listener.trouble, what="noticing")
    world.running = RunningRelay(world.identity, [world.cast.study_file("alice")])
    wait_until(lambda: world.running.look(lambda relay: relay.listening), what="being registered again")
    with world.dial("alice", "bob") as near, world.accept(listener) as far:
        near.sendall(b"once more")
        assert far.recv(9) == b"once more"
    listener.close()


def test_half_open_connections_and_floods_are_shed(tmp_path):
    made = World(tmp_path, limits=Limits(half_open=8, handshake=1.0, look=1.0))
    flood = [socket.create_connection((made.at.host, made.at.port)) for _ in range(60)]
    try:
        assert made.running.look(lambda relay: len(relay.half_open)) <= 8
        with made.joined() as (near, far):
            near.sendall(b"in spite of it")
            assert far.recv(14) == b"in spite of it"
        wait_until(lambda: not made.running.look(lambda relay: relay.half_open), what="their time-out")
    finally:
        for sock in flood:
            sock.close()
        made.running.close()


def test_there_are_no_more_connections_than_there_may_be(tmp_path):
    made = World(tmp_path, limits=Limits(per_participant=2))
    with (
        made.joined(),
        pytest.raises(Turned, match="too many connections"),
        made.at.connect(made.keys["bob"], 20, 20) as sock,
    ):  # bob listens, and has answered once
        message = exchange(sock, Listen((made.study,)))
        assert isinstance(message, Refused)
        raise Turned(made.at, message.why)
    made.running.close()


def test_a_peer_that_does_not_read_holds_its_own_connection_back_alone(world):
    """Many megabytes for somebody who takes none of them: the relay holds one buffer, and others go on."""
    with world.joined("alice", "bob") as (near, far):
        near.setblocking(False)
        sent, quiet = 0, time.monotonic()
        while time.monotonic() < quiet + 0.5:
            with contextlib.suppress(BlockingIOError):
                sent += near.send(bytes(1 << 20))
                quiet = time.monotonic()
            time.sleep(0.01)
        held = world.running.look(lambda relay: [pair.held for pair in relay.pairs])
        assert held == [[CHUNK, 0]] or held[0][0] <= CHUNK
        with world.joined("bob", "alice") as (other, end):
            other.sendall(b"meanwhile")
            assert end.recv(9) == b"meanwhile"
        far.settimeout(60)
        taken = 0
        while taken < sent:
            taken += len(far.recv(1 << 20))
        assert taken == sent


def test_a_busy_pair_does_not_starve_the_others(world):
    """One that sends without a pause, to one that reads without a pause, and beside them one that says a word."""
    with world.joined("alice", "bob") as (near, far):
        stop = threading.Event()

        def work(sock, act):
            with contextlib.suppress(OSError):
                while not stop.is_set():
                    act(sock)

        threads = [
            threading.Thread(target=work, args=(near, lambda sock: sock.sendall(bytes(1 << 20))), daemon=True),
            threading.Thread(target=work, args=(far, lambda sock: sock.recv(1 << 20)), daemon=True),
        ]
        for thread in threads:
            thread.start()
        with world.joined("bob", "alice") as (other, end):
            for _ in range(50):
                other.sendall(b"word")
                assert end.recv(4) == b"word"
        stop.set()


def test_the_end_of_one_direction_leaves_the_other(world):
    with world.joined() as (near, far):
        near.sendall(b"all")
        near.shutdown(socket.SHUT_WR)
        far.settimeout(20)
        assert (far.recv(3), far.recv(1)) == (b"all", b"")
        far.sendall(b"answer")
        assert near.recv(6) == b"answer"


# -- what is not as it should be at the relay itself ------------------------------------------------------


class Recording(Pair):
    """Keeps what passes."""

    seen: ClassVar[list[bytearray]] = []

    def __init__(self, *given):
        super().__init__(*given)
        self.mine = bytearray(), bytearray()
        self.seen.extend(self.mine)

    async def _pass_on(self, way, target, piece):
        self.mine[way].extend(piece)
        await super()._pass_on(way, target, piece)


class Flipping(Pair):
    """Changes one bit of what passes, after a while."""

    async def _pass_on(self, way, target, piece):
        changed = bytearray(piece)
        if way == 0 and self.passed[0] > 3000 and changed:
            changed[len(changed) // 2] ^= 1
        await super()._pass_on(way, target, memoryview(changed))


class Replaying(Pair):
    """Says once more, after a while, what has passed before."""

    async def _pass_on(self, way, target, piece):
        if way == 0 and self.passed[0] > 3000:
            piece = memoryview(self.kept + bytes(piece))
        self.kept = bytes(piece)
        await super()._pass_on(way, target, piece)


class Babbling(Pair):
    """Says something of its own after a while."""

    async def _pass_on(self, way, target, piece):
        rubbish = b"rubbish " * 64 if way == 0 and self.passed[0] > 3000 else b""
        await super()._pass_on(way, target, memoryview(rubbish + bytes(piece)))


def records(raw: bytes) -> list[int]:
    """The types of TLS records that bytes consist of; whatever else there is fails."""
    kinds, at = [], 0
    while at < len(raw):
        kind, version, length = raw[at], raw[at + 1 : at + 3], int.from_bytes(raw[at + 3 : at + 5], "big")
        assert kind in (20, 21, 22, 23) and version in (b"\x03\x01", b"\x03\x03"), (kind, version)
        assert length <= (1 << 14) + 256
        kinds.append(kind)
        at += 5 + length
    return kinds


def test_nothing_but_tls_of_the_participants_passes(tmp_path, monkeypatch):
    from coterie.relay import server
    from tests.relay.test_relayed_runs import give
    from tests.study.pooled import RANDOM_ROWS

    monkeypatch.setattr(server, "Pair", Recording)
    Recording.seen.clear()
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS)
        give(cast)
        with RunningRelay(relay, [cast.study_file("alice")]):
            cast.run()
    assert len(Recording.seen) >= 12
    whole = 0
    certificates = [ssl.PEM_cert_to_DER_cert(one.certificate) for one in cast.study.everybody]
    for raw in filter(None, Recording.seen):
        kinds = records(bytes(raw))
        assert kinds[0] == 22  # a hello, in clear; all after the handshake is encrypted, and called application data
        assert set(kinds[3:]) <= {23}
        whole += len(raw)
        for certificate in certificates:  # not even whose it is; names are so short that they occur by chance
            assert certificate not in raw
            assert certificate[-16:] not in raw
    assert whole > 10_000


@pytest.mark.parametrize("kind", [Flipping, Replaying, Babbling])
def test_a_relay_that_lies_ends_the_run_by_name(tmp_path, monkeypatch, kind):
    from coterie.errors import TransportError
    from coterie.relay import server
    from tests.relay.test_relayed_runs import give

    monkeypatch.setattr(server, "Pair", kind)
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay) as cast:
        cast.agree(*SMALL)
        give(cast)
        with RunningRelay(relay, [cast.study_file("alice")]):
            ended = cast.take_part()
        for error in ended.values():
            assert isinstance(error, TransportError), ended
            assert error.peer in cast.names
            assert "the relay" in str(error)
        assert not any(cast.at(name, "results").exists() for name in cast.names)


def test_a_renewed_key_gets_nowhere_in_a_study_that_does_not_accept_them(world):
    """The relay knows the certificate that vouches for it, whoever shows it."""
    old, new = world.keys["alice"], create_credentials("alice")
    world.keys["alice"] = Credentials(create_link(old.key, new), new.key, (), fingerprint(old.certificate))
    with contextlib.closing(world.listen("bob")), pytest.raises(Turned, match="does not know the study"):
        world.dial("alice", "bob")


class Crossing(Relay):
    """Joins whoever calls in one study with the one of the same name in another. `called`: studies, fingerprints and
    names."""

    called: ClassVar[list[tuple[str, str, str]]] = []

    async def _find(self, request):
        await super()._find(request)
        names = {(study, who): called for study, who, called in self.called}
        mine = names[request.study, request.to]
        others = [
            listening for key, listening in self.listening.items() if key[0] != request.study and names.get(key) == mine
        ]
        return others[0] if others else None

    async def _answer(self, guest, request):
        if request.token in self.calls:
            self.calls[request.token].who = guest.who
        await super()._answer(guest, request)


@pytest.mark.slow
def test_a_relay_that_mixes_up_two_studies_ends_both_by_name(tmp_path, monkeypatch):
    """All are joined with their namesakes of the other study, who have other keys; nobody says anything to them."""
    from tests.relay.test_relayed_runs import give

    relay = make_relay(tmp_path)
    with RelayCast(tmp_path / "a", relay) as first, RelayCast(tmp_path / "b", relay) as second:
        casts = [first, second]
        called = []
        for cast in casts:
            cast.agree(*SMALL)
            give(cast)
            called += [(study_hash(cast.study), one.fingerprint, one.name) for one in cast.study.everybody]
        monkeypatch.setattr(Crossing, "called", called)
        with RunningRelay(relay, [cast.study_file("alice") for cast in casts], kind=Crossing):
            ended: dict[int, dict] = {}
            threads = [
                threading.Thread(target=lambda at=at: ended.update({at: casts[at].take_part()}), daemon=True)
                for at in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(300)
        for at, cast in enumerate(casts):
            for error in ended[at].values():
                assert isinstance(error, AuthenticationError | PeerLost | PeerUnreachable), ended
                assert error.peer in cast.names
                assert "the relay" in str(error) or isinstance(error, PeerLost)  # it has heard of it from another
            assert not any(cast.at(name, "results").exists() for name in cast.names)
        # Those of one study may be gone before anybody of the other meets them, and are unreachable then.
        errors = [error for one in ended.values() for error in one.values()]
        assert any(isinstance(error, AuthenticationError) for error in errors), ended


class Swapping(Relay):
    """Joins whoever calls with somebody else than the one it asks for."""

    async def _find(self, request):
        found = await super()._find(request)
        others = [one for (_, who), one in self.listening.items() if who != request.to]
        return others[0] if others else found

    async def _answer(self, guest, request):
        if request.token in self.calls:
            self.calls[request.token].who = guest.who
        await super()._answer(guest, request)


def test_being_joined_with_somebody_else_is_noticed(tmp_path):
    made = World(tmp_path, kind=Swapping)
    listeners = [made.listen("alice"), made.listen("bob")]
    cast = made.cast
    try:
        near = made.dial("helper", "bob")  # which leads to alice
        with near, made.accept(listeners[0]) as far:
            trusted = [made.keys[name].certificate for name in NAMES]

            def answer():
                far.settimeout(20)
                with (
                    contextlib.suppress(OSError),
                    begin_tls(context(True, made.keys["alice"], trusted), far, server=True) as sock,
                ):
                    sock.recv(1)

            answering = threading.Thread(target=answer, daemon=True)
            answering.start()
            from coterie.transport.hello import greet

            sock = begin_tls(context(False, made.keys["helper"], trusted), near)
            peer = Peer(made.at.host, made.at.port, made.keys["bob"].certificate)
            with sock, pytest.raises(AuthenticationError, match=r"bob shows a certificate that is not the pinned one"):
                greet(sock, cast.study.world(), 0, 0, 2, peer)
            answering.join(60)
    finally:
        for listener in listeners:
            listener.close()
        made.running.close()


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", None], ids=["nothing", "HTTP", "silence"])
def test_what_is_no_relay_at_all(tmp_path, says):
    credentials = create_credentials("alice")
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        at = RelayAt("127.0.0.1", impostor.getsockname()[1], create_credentials("relay").certificate)

        def serve():
            with contextlib.suppress(OSError), impostor.accept()[0] as sock:
                if says is None:
                    done.wait(60)
                else:
                    sock.sendall(says)

        done, serving = threading.Event(), threading.Thread(target=serve, daemon=True)
        serving.start()
        with pytest.raises((NotYet, AuthenticationError), match=rf"the relay 127.0.0.1:{at.port}"):
            at.connect(credentials, 1.0, 1.0)
        done.set()
        serving.join(60)


def test_another_relay_in_its_place_is_noticed():
    """One with another key, which lets everybody in."""
    relay, other, alice = (create_credentials(name) for name in ("relay", "relay", "alice"))
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with contextlib.suppress(ssl.SSLError, ConnectionError):
                        begin_tls(context(True, other, [alice.certificate]), impostor.accept()[0], server=True).close()

        threading.Thread(target=serve, daemon=True).start()
        at = RelayAt("127.0.0.1", impostor.getsockname()[1], relay.certificate)
        with pytest.raises(AuthenticationError, match="does not show the certificate"):
            at.connect(alice, 20, 20)
        listener = RelayedListener(at, alice, ["0" * 64])
        wait_until(lambda: isinstance(listener.error, AuthenticationError), what="noticing")
        listener.close()
        hang_up(impostor)


# -- studies that are brought -------------------------------------------------------------------------------


def test_only_a_study_that_all_have_signed_and_that_names_this_relay_is_taken(tmp_path):
    made = World(tmp_path, files=(), open_=True)
    path = made.cast.study_file("bob")
    brought = bring_signed(path, made.cast.study, made.study)
    other = make_relay(tmp_path, "other")
    elsewhere = RelayCast(tmp_path / "b", other, ("carol", "dora"))
    study = elsewhere.agree(*SMALL)
    from coterie.transport.relay_messages import Bring

    cases = {
        "names another relay": bring_signed(elsewhere.study_file("dora"), study, study_hash(study)),
        "all participants have signed": Bring(brought.study.replace("seed = 0", "seed = 1"), brought.signatures),
    }
    lacking = {name: text for name, text in brought.signatures.items() if name != "alice"}
    for message, one in [
        *cases.items(),
        ("have signed", Bring(brought.study, lacking)),
        ("have signed", Bring("x", {})),
    ]:
        with pytest.raises(Turned, match=message):
            bring_study(made.at, one, 60)
    with pytest.raises(Turned, match="have signed"):
        bring_study(made.at, Bring(brought.study, {"../x": "y"}), 60)
    assert not made.running.look(lambda relay: relay.registry.entries)
    bring_study(made.at, brought, 60)
    assert ask_relay(made.at, made.keys["alice"], made.study, 20)
    made.running.close()
