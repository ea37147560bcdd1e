"""The front door and the status, in this process: who is brought on, who is told what, who is cut off."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
import tomllib
from typing import ClassVar

import msgspec
import pytest
import tomli_w

from coterie.cli.serve import parse_place, parse_size
from coterie.errors import AuthenticationError, InputError, PeerUnreachable, StudyError
from coterie.serving import child, children, served, status
from coterie.serving.child import MEMORY_MESSAGE, Home, Task
from coterie.serving.children import Child, Ending
from coterie.serving.page import make_page
from coterie.serving.server import Server, Settings, _alone
from coterie.serving.status import StatusServer, ask_status
from coterie.study.identity import load_key, renew_identity
from coterie.study.preflight import preflight
from coterie.study.prepare import recognise
from coterie.transport.certificates import Credentials, create_credentials, create_link
from coterie.transport.hello import FULL, UNSERVED, NotYet, Peer, context, dial, greet, server_name
from tests.study.walk import SMALL, Cast, coterie, wait_until


class NoChild:
    """In the place of a study's process: it has been started, and takes nobody yet."""

    started: ClassVar[list] = []

    def __init__(self, task, told, ended) -> None:
        self.task, self.ended, self.open, self.began = task, ended, False, time.time()
        self.phase, self.sent = "starting", 0
        self.taken: list[socket.socket] = []
        self.process = type("Process", (), {"pid": os.getpid()})
        NoChild.started.append(self)

    def hand(self, plain) -> bool:
        self.taken.append(plain.dup())
        plain.close()
        return True

    def end(self, code: int, text: str = "over") -> None:
        self.ended(Ending(self.task.purpose, self.began, time.time(), code, text))

    def join(self, seconds: float) -> bool:
        return True


@pytest.fixture
def server(cast, studies, tmp_path, monkeypatch):
    monkeypatch.setattr(served, "Child", NoChild)
    NoChild.started = []
    (tmp_path / "state").mkdir()
    settings = Settings(cast.key("helper"), studies, tmp_path / "state", most_studies=1)
    made = Server(settings, lambda text: None)
    yield made
    made.close()


def knock(cast: Cast, lane: int = 0, purpose: str = "fit", name: str = "alice", own=None):
    """A participant dials the helper: the connection and what it hears."""
    known = recognise(cast.orders(name))
    helper = known.study.at_rank(0)
    peer = Peer(helper.host, helper.port, helper.certificate)
    sock = dial(
        peer,
        "helper",
        context(False, own or known.credentials, [helper.certificate]),
        20,
        20,
        server_name(known.world.session, purpose),
    )
    with sock:
        return greet(sock, known.world, lane, known.rank, 0, peer)


def test_the_first_participant_starts_the_study_and_is_told_to_come_again(cast, server):
    for _ in range(3):
        refusal = knock(cast)
        assert refusal.busy
        assert refusal.reason == "it is starting"
    (child,) = NoChild.started
    assert (child.task.purpose, child.task.hash) == ("fit", recognise(cast.orders("alice")).hash)


@pytest.mark.parametrize("purpose", ["fit", "predict"])
def test_what_is_started_is_what_they_come_for(cast, server, purpose):
    knock(cast, purpose=purpose)
    assert NoChild.started[0].task.purpose == purpose


def test_a_connection_is_handed_to_the_study_s_process_untouched(cast, server):
    knock(cast)
    child = NoChild.started[0]
    child.open = True
    caught = []

    def dialling() -> None:
        try:
            knock(cast)
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=dialling)
    thread.start()
    (plain,) = wait_until(lambda: child.taken, what="a connection")
    with plain:
        assert plain.recv(1) == b"\x16"  # TLS has not begun
    thread.join(30)
    assert isinstance(caught[0], NotYet)


def test_strangers_start_nothing(cast, server):
    with pytest.raises(AuthenticationError, match="refused this party's certificate"):
        knock(cast, own=create_credentials("alice"))
    wait_until(lambda: server.refused["strangers"], what="the count")
    assert not NoChild.started


def test_a_renewed_key_starts_nothing_in_a_study_that_does_not_accept_them(cast, server):
    """TLS finds that the pinned key vouches for it, and yet its owner is a stranger here."""
    made = create_credentials("alice")
    link = create_link(load_key(cast.key("alice")), made)
    assert knock(cast, own=Credentials(link, made.key)).reason == "it hung up"
    wait_until(lambda: server.refused["strangers"], what="the count")
    assert not NoChild.started


def test_a_study_s_process_is_told_the_operator_s_limits(cast, server):
    """And nothing of the environment but where things are."""
    rules = {"most_rows": 1000, "memory": 1 << 30, "wait": 7.0, "patience": 8.0, "stall": 9.0, "proxy": ""}
    server.settings = dataclasses.replace(server.settings, **rules, policy=cast.at("helper", "policy.toml"))
    knock(cast)
    (child,) = NoChild.started
    assert {name: getattr(child.task, name) for name in rules} == rules
    assert child.task.policy == str(cast.at("helper", "policy.toml"))


def test_a_study_s_process_knows_little_of_the_environment(monkeypatch):
    class Caught(Exception):
        pass

    def catch(words, **given):
        raise Caught(given["env"])

    monkeypatch.setenv("SECRET_OF_ANOTHER_STUDY", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr(children.subprocess, "Popen", catch)
    with pytest.raises(Caught) as caught:
        Child(Task("study.toml", "0" * 64, "fit", "home", "helper.key", -1), lambda said: None, lambda ending: None)
    (known,) = caught.value.args
    assert known["HTTPS_PROXY"] == "http://127.0.0.1:1"
    assert known.keys() <= {*children.KEPT, *children.ALONE}


def test_a_renewed_key_is_let_in_and_the_old_one_no_longer(tmp_path, monkeypatch):
    """What was learnt of it stays, even if the operator's folder knows less."""
    monkeypatch.setattr(served, "Child", NoChild)
    NoChild.started = []
    for name in ("studies", "state"):
        (tmp_path / name).mkdir()
    with Cast(tmp_path / "cast") as cast:
        cast.agree(*SMALL, "--renewals")
        for paper in cast.at("helper").glob("study*.toml"):
            shutil.copy(paper, tmp_path / "studies")
        old = recognise(cast.orders("alice")).credentials
        server = Server(Settings(cast.key("helper"), tmp_path / "studies", tmp_path / "state"), lambda text: None)
        with contextlib.closing(server):
            for _ in range(2):
                renew_identity(cast.key("alice"))
                assert knock(cast).reason == "it is starting"
                server.look()
            (kept,) = (tmp_path / "state").rglob("study.alice.renewed.toml")
            learnt = kept.read_bytes()
            with pytest.raises(AuthenticationError):
                knock(cast, own=old)
            less = tomllib.loads(learnt.decode())
            less["links"] = less["links"][1:]
            (tmp_path / "studies" / kept.name).write_text(tomli_w.dumps(less))
            server.look()
            assert kept.read_bytes() == learnt


def test_whoever_asks_who_is_there_is_answered_and_starts_nothing(cast, server, tmp_path):
    data = cast.give("alice", x=[1.0] * 20, y=[2.0] * 20)
    found = preflight(cast.orders("alice", data=str(data), wait=0.0, patience=20.0), lambda finding: None)
    assert [one.fine for one in found if one.what == "helper"] == [True]
    assert not NoChild.started


def test_a_study_that_is_not_served_is_told_so(cast, server, studies):
    (studies / "study.helper.sig.toml").unlink()
    server.look()
    with pytest.raises(NotYet, match=UNSERVED[:20]):
        knock(cast)
    assert server.refused == {"not served here": 1}


def test_a_study_that_is_signed_later_is_served_without_a_restart(cast, server, studies):
    paper = studies / "study.helper.sig.toml"
    content = paper.read_bytes()
    paper.unlink()
    server.look()
    paper.write_bytes(content)
    server.look()
    assert knock(cast).reason == "it is starting"


def test_what_is_kept_of_a_study_is_not_written_again_and_again(server):
    server.look()  # the papers that were copied at first are seen
    assert not server.folder.look()


def test_no_more_studies_than_may_run_at_once(cast, server):
    server.room.running.add(object())  # type: ignore[arg-type]
    assert knock(cast).reason == FULL
    assert not NoChild.started
    server.room.running.clear()
    assert knock(cast).reason == "it is starting"


def test_a_study_that_fails_at_once_is_not_started_again_and_again(cast, server):
    knock(cast)
    NoChild.started[0].end(70, "it broke")
    assert knock(cast).reason == served.TROUBLED
    assert len(NoChild.started) == 1
    (study,) = server.status().studies
    assert (study.last.code, study.last.text) == (70, "it broke")


def test_a_study_that_ended_well_is_started_again_when_they_come(cast, server):
    knock(cast)
    NoChild.started[0].end(0)
    assert knock(cast).reason == "it is starting"
    assert len(NoChild.started) == 2


def test_nothing_is_begun_while_it_stops(cast, server):
    server.stop(lambda: True)
    assert knock(cast).reason == served.STOPPING
    assert not server.status().healthy


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.0\r\n\r\n"], ids=["nothing", "half", "HTTP"])
def test_who_says_nothing_of_use_is_cut_off(server, said):
    server.reception.patience = 0.3
    with socket.create_connection((server.listener.host, server.listener.port), timeout=20) as sock:
        sock.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b""
    wait_until(lambda: not server.reception.guests, what="an empty hall")
    assert sum(server.refused.values()) == 1


def test_a_flood_leaves_room_for_participants(cast, server, monkeypatch):
    """More who say nothing than fit: some are cut off, and one who belongs here is answered."""
    monkeypatch.setattr("coterie.serving.reception.CROWD", 8)
    flood = [socket.create_connection((server.listener.host, server.listener.port), timeout=20) for _ in range(20)]
    try:
        reasons = set()

        def answered() -> bool:
            try:
                reasons.add(knock(cast).reason)
            except NotYet:  # crowded out, by chance
                return False
            return "it is starting" in reasons

        wait_until(answered, what="an answer")
        assert len(server.reception.guests) <= 8
        assert server.refused["crowded out"]
    finally:
        for one in flood:
            one.close()


# -- the status ------------------------------------------------------------------------------------------------


def test_the_status_tells_what_runs_and_what_does_not(cast, server):
    knock(cast)
    status = server.status()
    assert status.healthy
    (study,) = status.studies
    assert (study.standing, study.running.purpose, study.participants) == ("served", "fit", ["alice", "bob"])


def get(page: str, path: str, host: str | None = None) -> tuple[int, str]:
    place = page.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(place, timeout=20)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_socket_and_page_say_the_same_and_no_secret(cast, server, tmp_path):
    state = tmp_path / "state"
    answering = StatusServer(state, server.status, ("127.0.0.1", 0))
    try:
        assert stat.S_IMODE((state / "status.sock").stat().st_mode) == 0o600
        assert ask_status(state) == server.status()
        assert get(answering.page, "/health") == (200, "healthy\n")
        code, page = get(answering.page, "/")
        assert code == 200
        assert "served" in page
        assert "alice, bob" in page
        assert get(answering.page, "/status.json")[0] == 200
        assert get(answering.page, "/etc/passwd")[0] == 404
        assert get(answering.page, "/", "attacker.example:80")[0] == 403
        assert "PRIVATE KEY" not in page + get(answering.page, "/status.json")[1]
        said = coterie("status", "--state", state)
        assert said.code == 0
        assert "served" in said.out
        assert coterie("status", "--state", state, "--health").code == 0
        assert '"healthy":true' in coterie("status", "--state", state, "--json").out
        server.folder.problem = "the folder is gone"
        assert get(answering.page, "/health") == (503, "the folder is gone\n")
        unwell = coterie("status", "--state", state, "--health")
        assert unwell.code == 6
        assert "the folder is gone" in unwell.err
    finally:
        answering.close()
    assert coterie("status", "--state", state, "--health").code == 6


def test_whoever_does_not_come_to_the_end_of_a_question_makes_room(server, tmp_path, monkeypatch):
    """Not even if it always says a little more in time."""
    monkeypatch.setattr(status, "PATIENCE", 600.0)
    monkeypatch.setattr(status, "ALL", 0.2)
    (tmp_path / "page").mkdir()
    told = StatusServer(tmp_path / "page", server.status, ("127.0.0.1", 0))
    with contextlib.closing(told):
        where = told.servers[1].server_address
        for _ in range(status.CROWD + 1):
            with socket.create_connection(where[:2], timeout=60) as half:
                half.sendall(b"GET / HTTP/1.1\r\nHost: 127")
                assert half.recv(1) == b""


def test_names_in_studies_are_no_html(cast, server):
    study = server.status().studies[0]
    named = msgspec.structs.replace(study, name="<script>alert(1)</script>")
    page = make_page(msgspec.structs.replace(server.status(), studies=[named]))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_nobody_answers(tmp_path):
    with pytest.raises(PeerUnreachable, match="is it running"):
        ask_status(tmp_path)


# -- limits and folders -----------------------------------------------------------------------------------------


def test_a_state_folder_belongs_to_one_process(tmp_path):
    with (
        _alone(tmp_path / "state"),
        pytest.raises(InputError, match="another `coterie serve`"),
        _alone(tmp_path / "state"),
    ):
        pass


@pytest.mark.slow
def test_a_study_s_process_that_needs_too_much_memory_ends_and_says_so(cast, studies, tmp_path):
    endings = []
    known = recognise(cast.orders("helper"))
    task = Task(
        str(studies / "study.toml"),
        known.hash,
        "fit",
        str(tmp_path / "home"),
        str(cast.key("helper")),
        -1,
        memory=1 << 20,
    )
    assert Child(task, lambda said: None, endings.append).join(120)
    assert (endings[0].code, endings[0].text) == (70, MEMORY_MESSAGE)


@pytest.mark.slow  # a process that loads all of it
def test_memory_beyond_the_limit_is_refused():
    code = (
        "from coterie.serving.child import limit_memory; import numpy as np\n"
        "np.ones(50 << 17); limit_memory(700 << 20); np.ones(10 << 17)\n"
        "try: np.ones(800 << 17)\n"
        "except MemoryError: print('refused')"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout == "refused\n", said.stderr


def test_a_study_s_papers_are_copied_and_must_be_the_same(cast, tmp_path):
    home = Home(tmp_path / "home")
    known = recognise(cast.orders("helper"))
    copy = home.prepare(cast.study_file("helper"), known.hash)
    assert sorted(path.name for path in copy.parent.iterdir()) == sorted(
        ["study.toml", *(f"study.{name}.sig.toml" for name in cast.names)]
    )
    with pytest.raises(Exception, match="changed just now"):
        home.prepare(cast.study_file("helper"), "another")
    assert home.next_run("fit").name == "0001-fit"
    home.next_run("fit").mkdir()
    assert home.next_run("predict").name == "0002-predict"


def test_a_study_s_folder_is_one_process_s_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "LOCKED", 0.0)
    with Home(tmp_path / "home").locked():
        with pytest.raises(StudyError, match="another process runs this study"), Home(tmp_path / "home").locked():
            pass
        with Home(tmp_path / "other").locked():
            pass
    with Home(tmp_path / "home").locked():
        pass


def test_runs_that_were_counted_before_count_on(tmp_path):
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    before = tmp_path / "keys" / "helper.budget.jsonl"
    before.parent.mkdir()
    before.write_text("counted\n")
    home.bring_ledger(before.with_name("helper.key"), "helper")
    assert (home.folder / "helper.budget.jsonl").read_text() == "counted\n"
    before.write_text("more\n")
    home.bring_ledger(before.with_name("helper.key"), "helper")
    assert (home.folder / "helper.budget.jsonl").read_text() == "counted\n"


def test_a_key_that_systemd_shows_to_this_service_alone_is_taken(cast, tmp_path, monkeypatch):
    """Others may read no key, except where the mode only looks like it."""
    shown = tmp_path / "helper.key"
    shown.write_bytes(cast.key("helper").read_bytes())
    shown.chmod(0o440)
    with pytest.raises(StudyError, match="can be read by others"):
        load_key(shown)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert load_key(shown) == load_key(cast.key("helper"))
    shown.chmod(0o444)
    with pytest.raises(StudyError, match="can be read by others"):
        load_key(shown)


@pytest.mark.parametrize(("text", "size"), [("512M", 512 << 20), ("2G", 2 << 30), ("300MiB", 300 << 20), (None, None)])
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["much", "1M", "-1G", "", "2X"])
def test_sizes_that_are_none(text):
    with pytest.raises(InputError, match="--most-memory"):
        parse_size(text)


def test_a_port_alone_is_this_machine_s():
    assert parse_place("8080") == ("127.0.0.1", 8080)
    assert parse_place("0.0.0.0:8080") == ("0.0.0.0", 8080)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--most-studies", "0"], "--most-studies"),
        (["--grace", "-1"], "--grace"),
        (["--status", "nowhere"], "nowhere"),
        (["--studies", "missing"], "missing"),
    ],
)
def test_bad_options_are_refused_by_name(cast, tmp_path, options, says):
    given = ["--studies", cast.at("helper")] if "--studies" not in options else []
    said = coterie("serve", "--key", cast.key("helper"), "--state", tmp_path / "s", *given, *options)
    assert said.code == 2
    assert says in said.err


def test_the_hall_is_empty_when_the_door_closes(server):
    sock = socket.create_connection((server.listener.host, server.listener.port), timeout=20)
    wait_until(lambda: server.reception.guests, what="a guest")
    server.reception.close()
    assert not server.reception.guests
    with sock:
        assert sock.recv(1) == b""
