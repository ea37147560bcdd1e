"""Whoever holds a key of a study, or none, and what it costs the others: floods, half said things, long studies."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import threading
import time
import tomllib

import pytest
import tomli_w

from coterie.errors import StudyError
from coterie.relay import Limits, Registry, Relay, registry
from coterie.relay.operate import load_relay
from coterie.relay.splice import Pair
from coterie.study.agreement import study_hash
from coterie.study.files import decode_toml
from coterie.study.identity import load_identity
from coterie.study.signatures import bring_signed
from coterie.study.study_file import load_study
from coterie.transport import relayed
from coterie.transport.certificates import create_credentials
from coterie.transport.hello import begin_tls, context
from coterie.transport.relay_messages import (
    MOST_BROUGHT,
    MOST_MESSAGE,
    NOBODY,
    Answer,
    Ask,
    Bring,
    Dial,
    Joined,
    Listen,
    Ping,
    Pong,
    Recorded,
    Refused,
    pack,
)
from coterie.transport.relayed import RelayAt, Turned, ask_relay, bring_study, exchange, read_message
from coterie.transport.relayed_listener import RelayedListener
from tests.relay.places import RelayCast, hang_up, make_relay
from tests.relay.test_guests import World
from tests.study.walk import SMALL, wait_until


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.running.close()


def is_gone(sock: socket.socket) -> bool:
    """The other side has ended the connection."""
    sock.settimeout(60)
    try:
        while sock.recv(1 << 14):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


# -- floods ------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path):
    """What a relay is made of, without a port."""
    return Registry(load_relay(make_relay(tmp_path).with_name("relay.key")), open_=True)


def test_a_flood_between_two_turns_leaves_no_more_than_there_may_be(alone):
    """Those that made room do not count any more, though they have not had their last turn yet."""

    async def flood() -> tuple[int, int]:
        relay, others = Relay(alone, Limits(half_open=4)), []
        for _ in range(40):
            here, there = socket.socketpair()
            others.append(there)
            relay._receive(here)
        crowd = len(relay.half_open)
        tasks = list(relay.guests)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for other in others:
            other.close()
        return crowd, len(relay.half_open)

    assert asyncio.run(flood()) == (4, 0)


def test_one_that_never_stops_talking_leaves_the_others_their_turns(alone):
    class Talkative:
        who, renewed, said = "f" * 64, False, 0

        async def say(self, message: object) -> None:
            pass

        async def hear(self) -> Pong:
            self.said += 1
            if self.said > 10_000:
                raise EOFError
            return Pong()

    async def talk() -> int:
        guest = Talkative()
        listening = asyncio.create_task(Relay(alone)._listen(guest, Listen(())))  # type: ignore[arg-type]
        for _ in range(20):
            await asyncio.sleep(0)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        return guest.said

    assert asyncio.run(talk()) < 100


def test_a_pair_that_never_pauses_leaves_the_others_their_turns():
    class Endless:
        """A loop of events in which there is always something to read, and room to write."""

        read = 0

        def time(self) -> float:
            return 0.0

        async def sock_recv_into(self, sock: object, buffer: memoryview) -> int:
            self.read += 1
            return len(buffer) if self.read < 1000 else 0

        async def sock_sendall(self, sock: object, piece: memoryview) -> None:
            pass

    async def work() -> int:
        one, other = socket.socketpair()
        with one, other:
            pair, loop = Pair("0" * 64, one, other), Endless()
            pair._loop = loop  # type: ignore[assignment]
            pumping = asyncio.create_task(pair._pump(0, b""))
            for _ in range(10):
                await asyncio.sleep(0)
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)
            return loop.read

    assert asyncio.run(work()) <= 10


def test_who_is_reached_otherwise_does_not_listen(world):
    with world.at.connect(world.keys["helper"], 60, 60) as sock:
        assert exchange(sock, Listen((world.study,))) == Refused("elsewhere")
        assert is_gone(sock)


def test_a_study_has_no_more_connections_than_it_may_have(tmp_path):
    made = World(tmp_path, limits=Limits(per_study=1))
    listener = made.listen("bob")
    with pytest.raises(Turned, match="not connected to it"):  # alice has the one, and bob cannot answer
        made.dial("alice", "bob", 3.0)
    listener.close()
    made.running.close()


def test_there_are_no_more_connections_in_all(tmp_path):
    made = World(tmp_path, limits=Limits(connections=1))
    with made.at.connect(made.keys["bob"], 20, 20) as sock:
        assert exchange(sock, Listen((made.study,))) == Recorded((made.study,))
        plain = socket.create_connection((made.at.host, made.at.port), timeout=60)
        with plain:
            assert is_gone(plain)
        sock.sendall(pack(Listen((made.study,))))
        assert read_message(sock) == Recorded((made.study,))
    made.running.close()


# -- what is said half, or makes no sense ------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        bytes(4),
        (MOST_MESSAGE + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        (3).to_bytes(4, "big") + b"abc",
        (200).to_bytes(4, "big") + b"\x91" * 200,
        pack(Ping()),
        pack(Joined()),
        pack(Answer(bytes(16)))[:-1] + b"\xc1",
        pack(Ask(("0" * 64,))).replace(b"0" * 64, b"X" * 64),
        pack(Dial("0" * 64, "0" * 64, 5.0)).replace(b"wait", b"wake"),
        (0x8000).to_bytes(4, "big") + b"\xdd\xff\xff\xff\xff" + bytes(0x8000 - 5),
    ],
    ids=["empty", "too long", "much too long", "no message", "deep", "a ping", "joined", "torn", "no hash", "no field",
         "a length of its own"],
)  # fmt: skip
def test_a_participant_that_makes_no_sense_is_dropped_and_the_others_go_on(world, said):
    for first in (b"", pack(Listen((world.study,)))):
        sock = world.at.connect(world.keys["bob"], 60, 60)
        with sock:
            if first:
                sock.sendall(first)
                assert read_message(sock) == Recorded((world.study,))
            sock.sendall(said)
            assert is_gone(sock)
    wait_until(lambda: not world.running.look(lambda relay: relay.guests or relay.listening), what="its being gone")
    with world.joined() as (near, far):
        near.sendall(b"all the same")
        assert far.recv(12) == b"all the same"


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x40\x00\x01"])
def test_who_does_not_get_to_the_end_of_its_hello_is_dropped(tmp_path, said):
    made = World(tmp_path, limits=Limits(handshake=0.3))
    with socket.create_connection((made.at.host, made.at.port)) as plain:
        plain.sendall(said)
        assert is_gone(plain)
    wait_until(lambda: not made.running.look(lambda relay: relay.half_open or relay.guests), what="its being gone")
    made.running.close()


def test_one_who_says_half_of_its_request_is_dropped(tmp_path):
    made = World(tmp_path, limits=Limits(handshake=1.0))
    with made.at.connect(made.keys["bob"], 60, 60) as sock:
        sock.sendall(pack(Listen((made.study,)))[:-1])
        assert is_gone(sock)
    made.running.close()


def test_who_is_dialled_does_not_wait_for_one_who_does_not_go_on(tmp_path):
    """Alice hears that she is joined with Bob and says nothing more to the relay. Bob, and whoever else wants to be let
    in there, is not held up for as long as she may take."""
    made = World(tmp_path, limits=Limits(handshake=600.0))
    listener = made.listen("bob")
    listener.patience = 300.0
    with made.at.connect(made.keys["alice"], 60, 60) as sock:
        bob = load_identity(made.cast.identity("bob")).fingerprint
        assert exchange(sock, Dial(made.study, bob, 30.0)) == Joined()
        made.accept(listener).close()
    listener.close()
    made.running.close()


# -- who has gone quiet ------------------------------------------------------------------------------------


def test_one_who_listens_and_answers_no_ping_is_forgotten(tmp_path):
    made = World(tmp_path, limits=Limits(ping=0.1))
    with made.at.connect(made.keys["bob"], 60, 60) as sock:
        assert exchange(sock, Listen((made.study,))) == Recorded((made.study,))
        assert is_gone(sock)
    assert not made.running.look(lambda relay: relay.listening)
    made.running.close()


@pytest.mark.parametrize("half", [False, True], ids=["idle", "half closed"])
def test_a_pair_on_which_nothing_passes_is_cut(tmp_path, half):
    limits = Limits(idle=600.0, half_closed=0.2) if half else Limits(idle=0.2, half_closed=0.1)
    made = World(tmp_path, limits=limits)
    with made.joined() as (near, far):
        if half:
            near.shutdown(socket.SHUT_WR)
        assert is_gone(far) and is_gone(near)
    made.running.close()


# -- studies that come and go ------------------------------------------------------------------------------


def test_a_study_that_is_taken_away_is_none_any_more(tmp_path):
    folder = tmp_path / "studies"
    folder.mkdir()
    made = World(tmp_path, files=(), folder=folder)
    assert not ask_relay(made.at, made.keys["alice"], made.study, 60)
    shutil.copy(made.cast.study_file("alice"), folder / "one.toml")
    wait_until(lambda: ask_relay(made.at, made.keys["alice"], made.study, 60), what="being registered")
    (folder / "one.toml").unlink()
    wait_until(lambda: not ask_relay(made.at, made.keys["alice"], made.study, 60), what="being gone")
    made.running.close()


def bring_half(at: RelayAt) -> ssl.SSLSocket:
    """A stranger who begins to bring a long study, and does not go on."""
    plain = socket.create_connection((at.host, at.port), timeout=60)
    sock = begin_tls(relayed._anonymous(at.certificate), plain, asked=NOBODY)
    sock.sendall(MOST_BROUGHT.to_bytes(4, "big") + bytes(1000))
    return sock


@pytest.mark.parametrize(
    "request_", [Listen(()), Ask(("0" * 64,)), Answer(bytes(16)), Dial("0" * 64, "0" * 64), Pong()]
)
def test_who_shows_no_certificate_may_bring_a_study_and_nothing_else(tmp_path, request_):
    made = World(tmp_path, files=(), open_=True)
    plain = socket.create_connection((made.at.host, made.at.port), timeout=60)
    with begin_tls(relayed._anonymous(made.at.certificate), plain, asked=NOBODY) as sock:
        sock.sendall(pack(request_))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert sock.recv(1) == b""
    made.running.close()


def test_only_so_many_bring_studies_at_a_time(tmp_path):
    made = World(tmp_path, files=(), open_=True, limits=Limits(bringing=2, handshake=600.0))
    crowd = [bring_half(made.at) for _ in range(6)]
    wait_until(lambda: made.running.look(lambda relay: len(relay.guests)) == 2, what="four's being sent away")
    assert made.running.look(lambda relay: (len(relay.bringing), len(relay.half_open))) == (2, 2)
    bring_study(made.at, bring_signed(made.cast.study_file("bob"), made.cast.study, made.study), 60)
    assert ask_relay(made.at, made.keys["alice"], made.study, 60)
    assert made.running.look(lambda relay: len(relay.bringing)) == 1
    for sock in crowd:
        sock.close()
    made.running.close()


def test_a_participant_of_one_study_brings_no_other_to_a_relay_that_is_not_open(tmp_path):
    made = World(tmp_path / "a")
    other = RelayCast(tmp_path / "b", made.identity, ("carol", "dora"))
    study = other.agree(*SMALL)
    with made.at.connect(made.keys["alice"], 60, 60) as sock:
        brought = bring_signed(other.study_file("dora"), study, study_hash(study))
        assert len(pack(brought)) < MOST_MESSAGE
        assert exchange(sock, brought) == Refused("closed")
    assert len(made.running.look(lambda relay: relay.registry.entries)) == 1
    made.running.close()


def test_a_study_for_which_somebody_listens_is_not_pushed_out(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "MOST_BROUGHT", 1)
    made = World(tmp_path / "a", files=(), open_=True)
    other = RelayCast(tmp_path / "b", made.identity, ("carol", "dora"))
    study = other.agree(*SMALL)
    more = bring_signed(other.study_file("dora"), study, study_hash(study))
    bring_study(made.at, bring_signed(made.cast.study_file("bob"), made.cast.study, made.study), 60)
    listener = made.listen("bob")
    with pytest.raises(Turned, match="too many studies"):
        bring_study(made.at, more, 60)
    assert ask_relay(made.at, made.keys["alice"], made.study, 60)
    listener.close()
    wait_until(lambda: not made.running.look(lambda relay: relay.listening), what="being forgotten")
    bring_study(made.at, more, 60)
    assert not ask_relay(made.at, made.keys["alice"], made.study, 60)
    made.running.close()


def test_a_signature_is_worth_nothing_in_another_study(tmp_path):
    """Mallory makes a study of her own with Alice in it, and brings the signature that Alice gave another one."""
    made = World(tmp_path / "a", files=(), open_=True)
    forged = RelayCast(tmp_path / "b", made.identity, ("alice", "mallory"))
    for file in (made.cast.key("alice"), made.cast.identity("alice")):
        shutil.copy(file, forged.at("alice"))
    study = forged.agree(*SMALL)
    brought = bring_signed(forged.study_file("mallory"), study, study_hash(study))
    elsewhere = bring_signed(made.cast.study_file("bob"), made.cast.study, made.study)
    replayed = {**brought.signatures, "alice": elsewhere.signatures["alice"]}
    with pytest.raises(Turned, match="all participants have signed"):
        bring_study(made.at, Bring(brought.study, replayed), 60)
    assert not made.running.look(lambda relay: relay.registry.entries)
    bring_study(made.at, brought, 60)  # with the one that she gave this one
    made.running.close()


def test_whose_certificate_stands_under_somebody_else_s_fingerprint(tmp_path):
    """A registered study cannot put another certificate in the place of a participant's."""
    made = World(tmp_path)
    text = made.cast.study_file("alice").read_text()
    mallory = create_credentials("alice").certificate
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text.replace(made.keys["alice"].certificate, mallory))
    assert wrong.read_text() != text
    key = load_relay(made.identity.with_name("relay.key"))
    with pytest.raises(StudyError, match="does not have the fingerprint"):
        Registry(key, [wrong])
    made.running.close()


@pytest.mark.parametrize(
    "study",
    ["x=" + "[" * 100_000, "a." * 200_000 + "a = 1", "[" + '"a".' * 100_000 + "a]\n", "\0" * 1000, "[[x]]\n" * 1000],
)
def test_what_takes_long_to_read_is_not_read(tmp_path, study):
    made = World(tmp_path, files=(), open_=True)
    began = time.process_time()
    with pytest.raises(Turned, match="all participants have signed"):
        bring_study(made.at, Bring(study, {}), 60)
    assert time.process_time() - began < 20  # the long keys would take minutes
    made.running.close()


def test_a_study_of_many_columns_is_checked_in_seconds(world, tmp_path):
    whole = tomllib.loads(world.cast.study_file("alice").read_text())
    column = whole["data"]["columns"][0]
    whole["data"]["columns"] = [{**column, "name": f"c{at}"} for at in range(8000)]
    path = tmp_path / "wide.toml"
    path.write_text(tomli_w.dumps(whole))
    began = time.process_time()
    assert len(load_study(path).column_names) == 8000
    assert time.process_time() - began < 20  # were each compared with all others, it would take minutes


@pytest.mark.parametrize("part", ["a", '"a"', "'a'", "a ", '"a\\""'])
def test_keys_of_many_parts(part, tmp_path):
    def read(parts: int) -> object:
        return decode_toml(".".join([part] * parts) + " = 1\n", dict, tmp_path / "x.toml", "a table")

    assert read(30)
    with pytest.raises(StudyError, match="cannot be read as TOML"):
        read(40)
    assert decode_toml('text = "' + "A sentence. " * 100 + '"\nnumbers = [' + "0.5, " * 100 + "]\n# " + "." * 100, dict,
                       tmp_path / "x.toml", "a table")  # fmt: skip


def test_tls_is_kept_ready_for_so_many_certificates_only(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "MOST_CONTEXTS", 2)
    made = World(tmp_path)
    for name in ("alice", "bob", "helper", "alice"):
        assert ask_relay(made.at, made.keys[name], made.study, 60)
    assert len(made.running.registry._contexts) == 2
    made.running.close()


# -- a relay that does not stop talking --------------------------------------------------------------------


class Slow:
    """A socket on which a byte comes just before the time is up, each time."""

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.read = clock, 0

    def gettimeout(self) -> float:
        return 10.0

    def recv(self, count: int) -> bytes:
        self.clock[0] += 9.0
        self.read += 1
        return b"\0" if self.read < 4 else b"\x7f"


def test_a_relay_that_says_a_byte_at_a_time_is_given_up(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(relayed.time, "monotonic", lambda: clock[0])
    slow = Slow(clock)
    with pytest.raises(TimeoutError):
        read_message(slow)  # type: ignore[arg-type]
    assert slow.read < 4


@pytest.mark.parametrize("registered", [False, True])
def test_a_relay_that_pings_without_end_does_not_keep_a_participant_from_leaving(tmp_path, registered):
    """What it says ends in the middle of a message, each time, so that there is always something to read on."""
    relay, alice = create_credentials("relay"), create_credentials("alice")
    study, over = "0" * 64, threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while not over.is_set():
                sock = begin_tls(context(True, relay, [alice.certificate]), listener.accept()[0], server=True)
                with contextlib.suppress(OSError, ssl.SSLError), sock:
                    sock.recv(1 << 14)
                    if registered:
                        sock.sendall(pack(Recorded((study,))))
                    pings = pack(Ping()) * 100
                    sock.sendall(pings[:1])
                    threading.Thread(target=swallow, args=(sock,), daemon=True).start()
                    while not over.is_set():
                        sock.sendall(pings[1:] + pings[:1])
                        talking.set()

    def swallow(sock: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while sock.recv(1 << 14):
                pass

    talking = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        at = RelayAt("127.0.0.1", listener.getsockname()[1], relay.certificate)
        waiting = RelayedListener(at, alice, [study])
        assert talking.wait(60)
        leaving = threading.Thread(target=waiting.close, daemon=True)
        leaving.start()
        leaving.join(60)
        left = not leaving.is_alive()
        over.set()
        hang_up(listener)
    assert left
