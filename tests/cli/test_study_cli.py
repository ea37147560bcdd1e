"""What the verbs of a study say and how they end: for people, for machines, with the documented exit codes."""

from __future__ import annotations

import dataclasses
import re
import signal
import threading
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest

from coterie import __version__, errors
from coterie.cli import progress
from coterie.cli.app import HELP
from coterie.software import software_digest
from coterie.study.agreement import study_hash
from coterie.study.prepare import prepare
from coterie.study.session import meeting_of
from coterie.study.voice import Voice
from coterie.transport.certificates import create_credentials
from tests.study.walk import SMALL, Cast, Said, coterie

CODES = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 70}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr("coterie.report.write.write_report", lambda path, *facts: path.write_text("a report"))


@pytest.fixture(scope="module")
def agreed(tmp_path_factory):
    """A study that everybody has signed, with data; runs write to folders of the tests."""
    with Cast(tmp_path_factory.mktemp("cli")) as cast:
        cast.agree(*SMALL, "--name", "trial")
        points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
        for name in cast.parties:
            cast.give(name, x=points[:, 0], y=points[:, 1])
        yield cast


@pytest.fixture
def run(agreed, tmp_path):
    """Alice's `coterie run`, with these changes."""

    def run(*more: object) -> Said:
        own = ("--out", tmp_path / "alice", "--audit", tmp_path / "audit.jsonl", "--state", tmp_path / "state")
        return coterie(*agreed.arguments("alice", "run", *own), *more)

    return run


@contextmanager
def others(cast, folder, bob=None, names=("helper", "bob")):
    """The others take part meanwhile, in threads; `bob`: what Bob hears, and may do."""
    each = {
        name: {"out": folder / name, "audit": folder / f"{name}.jsonl", "state": folder / f"{name}.state"}
        for name in names
    }
    ended = {}

    def act():
        ended.update(cast.take_part(names=names, each=each, voices={"bob": bob or Voice()}))

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    yield ended
    thread.join(120)
    assert not thread.is_alive()


def objects(text: str) -> list[dict]:
    """Every line is one JSON object that says what kind of event it is."""
    lines = text.splitlines()
    found = [msgspec.json.decode(line, type=dict) for line in lines]
    assert all(isinstance(one["event"], str) for one in found)
    return found


# -- exit codes --------------------------------------------------------------------------------------------


def test_the_codes_are_documented_and_no_others_are_used():
    assert {int(code) for code in re.findall(r"\b(\d+) [a-z]", HELP.split("Exit codes:")[1])} == CODES
    for name in errors.__all__:
        assert getattr(errors, name).exit_code in CODES


def test_0_done(run, agreed, tmp_path):
    with others(agreed, tmp_path):
        said = run()
    assert (said.code, said.err) == (0, "")
    for words in ("waiting for the others", "computing", "iteration 1 of at most 300,", "writing results"):
        assert words in said.out
    assert "done: results are in" in said.out
    assert re.search(r"iteration \d+ of at most 300, [\d.]+ kB sent, .* each, at most .* left", said.out)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("run",),
        ("run", "study.toml"),
        ("run", "study.toml", "--key"),
        ("run", "study.toml", "--key", "k", "--unknown"),
        ("run", "study.toml", "--key", "k", "--wait", "long"),
        ("run", "study.toml", "--key", "k", "--timeout", "0"),
        ("run", "study.toml", "--key", "k", "--wait", "-1"),
        ("predict",),
        ("preflight", "study.toml"),
        ("study",),
        ("study", "create", "s.toml"),
        ("study", "sign", "s.toml"),
        ("identity", "create", "alice"),
        ("identity", "create", "alice", "--address", "nowhere"),
        ("identity", "create", "a/b", "--address", "here:1"),
    ],
)
def test_2_usage(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = coterie(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err
    assert not list(tmp_path.iterdir())


def test_2_what_does_not_go_together(agreed, run, tmp_path):
    def ended(*line: object) -> str:
        said = coterie(*line)
        assert said.code == 2
        return said.err

    helper = agreed.arguments("helper", "run", "--out", tmp_path / "out")
    assert "helper is the helper, which holds no data" in ended(*helper, "--data", "some.csv")
    line = agreed.arguments("alice", "run", "--out", tmp_path / "out")
    at = line.index("--data")
    assert "alice is a data party; say where its data is with --data" in ended(*line[:at], *line[at + 2 :])
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice" / "letter.txt").write_text("precious")
    said = run()
    assert said.code == 2
    assert "holds something else than results of this study" in said.err
    assert not (tmp_path / "audit.jsonl").exists(), "refused before anything was begun"
    assert "is no address" in ended(*agreed.arguments("alice", "run", "--out", tmp_path / "out"), "--listen", "here")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("x\n1\n", "has no column 'y'"),
        ("x,y\n1,2\n3,\n", "column 'y': the value is missing"),
        ("x,y\n1,2\n3,many\n", "column 'y': not a number"),
        ("x,y\n1,2\n3,99.25\n", "column 'y': the value is outside the study's bounds"),
        ("x,y\n", "has no rows"),
        ("x,y,x\n1,2,3\n", "are both called 'x'"),
    ],
    ids=["unknown", "missing", "text", "outside", "empty", "twice"],
)
def test_3_data(run, tmp_path, content, fault):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    said = run("--data", path)
    assert said.code == 3
    assert fault in said.err
    assert str(path) in said.err
    assert "99.25" not in said.err
    assert "many" not in said.err
    assert not (tmp_path / "audit.jsonl").exists()
    assert run("--data", tmp_path / "none.csv").code == 3


def test_4_study(agreed, tmp_path):
    study, key = agreed.study_file("alice"), agreed.key("alice")
    copy = tmp_path / "study.toml"
    copy.write_bytes(study.read_bytes())
    assert "is not signed by helper, alice, bob" in coterie("study", "verify", copy).err
    for verb in ("run", "preflight", "predict"):
        for line, words in (
            ((copy, "--key", key), "is not signed by alice, whose key this is"),
            ((tmp_path / "none.toml", "--key", key), "the study file"),
            ((study, "--key", tmp_path / "none.key"), "the key"),
        ):
            said = coterie(verb, *line)
            assert said.code == 4
            assert words in said.err
    assert coterie("study", "explain", tmp_path / "none.toml").code == 4
    assert coterie("identity", "show", copy).code == 4
    assert coterie("audit", "verify", tmp_path / "none.jsonl").code == 4


def test_5_policy(run, tmp_path):
    (tmp_path / "policy.toml").write_text('centers = ["shared"]')
    (tmp_path / "policy.toml").chmod(0o644)
    said = run("--policy", tmp_path / "policy.toml")
    assert said.code == 5
    assert f"{tmp_path / 'policy.toml'}: the rule `centers` allows 'shared'; the study asks for 'revealed'" in said.err
    assert run("--policy", tmp_path / "none.toml").code == 5


def test_6_peer_unreachable(run):
    said = run("--wait", 2)
    assert said.code == 6
    assert re.search("(helper|bob) .*(cannot be reached|did not connect)", said.err)
    assert "waiting for helper, bob" in said.out


def test_7_peer_died(run, agreed, tmp_path):
    class Dies(Voice):
        def iterated(self, *more):
            raise RuntimeError("pulled the plug")

    with others(agreed, tmp_path, bob=Dies()) as ended:
        said = run()
    assert said.code == 7
    assert "bob" in said.err
    assert "plug" not in said.err
    assert isinstance(ended["bob"], RuntimeError)
    assert not (tmp_path / "alice").exists()


def test_8_authentication(run, agreed):
    orders = agreed.orders("bob")
    with meeting_of(orders, dataclasses.replace(prepare(orders), credentials=create_credentials("bob"))):
        said = run("--wait", 60)
    assert said.code == 8
    assert "bob does not show the certificate that was agreed" in said.err


def test_9_protocol_violation(run, agreed, tmp_path):
    """Bob is let in, and then says something that no Coterie says."""

    def misbehave():
        orders = agreed.orders("bob")
        with meeting_of(orders, prepare(orders)) as meeting:
            (talk,) = meeting.connect([0])
            for other in (0, 1):
                talk.post(other, b"\xff\x00 open the door")
            with pytest.raises(errors.PeerLost):
                for _ in range(2):
                    talk.collect(1)
            talk.abort(2, "found out")

    thread = threading.Thread(target=misbehave, daemon=True)
    thread.start()
    with others(agreed, tmp_path, names=("helper",)) as ended:
        said = run()
    thread.join(60)
    assert said.code == 9
    assert "bob sent a greeting that" in said.err
    assert isinstance(ended["helper"], errors.CoterieError)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_10_interrupted(run, monkeypatch, number, tmp_path):
    once = iter([number])
    monkeypatch.setattr(progress.Progress, "waiting", lambda self, names: [signal.raise_signal(n) for n in once])
    said = run()
    assert said.code == 10
    assert said.err == f"coterie: stopped by {number.name}; start it again, all of you\n"
    last = msgspec.json.decode((tmp_path / "audit.jsonl").read_bytes().splitlines()[-1])
    assert (last["event"], last["code"]) == ("stopped", 10)
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler), "as it was before"


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_70_internal(run, monkeypatch, json):
    """Neither a traceback nor the text of the exception, which may hold data, is shown."""

    def fail(orders, voice):
        secret = 31415.92653
        raise RuntimeError(f"cannot handle {secret}")

    monkeypatch.setattr("coterie.study.run.run_study", fail)
    said = run(*json)
    assert said.code == 70
    assert "RuntimeError" in said.err
    assert "31415" not in said.err + said.out
    assert len(said.err.splitlines()) == 1


# -- for machines ------------------------------------------------------------------------------------------


def test_json_of_a_run(run, agreed, tmp_path):
    with others(agreed, tmp_path):
        said = run("--json")
    assert (said.code, said.err) == (0, "")
    found = objects(said.out)
    kinds = [one["event"] for one in found]
    assert kinds[0] == "phase"
    assert kinds[-1] == "done"
    least = {"phase", "iteration", "centers", "done"}
    assert least <= set(kinds) <= least | {"note", "waiting"}
    for one in found:
        if one["event"] == "waiting":
            assert set(one["names"]) <= {"helper", "bob"}
        if one["event"] == "iteration":
            assert one["iteration"] >= 1
            assert one["sent"] > 0
        if one["event"] == "centers":
            assert one["columns"] == ["x", "y"]
            assert [cluster["cluster"] for cluster in one["clusters"]] == [0, 1, 2, 3]
    assert found[-1]["out"] == str(tmp_path / "alice")
    assert found[-1]["report"] == str(tmp_path / "alice" / "report.html")


def test_json_of_everything_else(agreed, tmp_path):
    study, key = agreed.study_file("alice"), agreed.key("alice")
    hash_ = study_hash(agreed.study)
    made = objects(coterie("identity", "create", "dora", "--address", "d:1", "--folder", tmp_path, "--json").out)
    assert (made[0]["event"], made[0]["name"]) == ("identity", "dora")
    shown = objects(coterie("--json", "identity", "show", tmp_path / "dora.identity.toml").out)
    assert shown[0]["fingerprint"] == made[0]["fingerprint"]
    assert objects(coterie("study", "--json", "verify", study).out)[0]["hash"] == hash_
    assert objects(coterie("study", "sign", study, "--key", key, "--json").out)[1]["name"] == "alice"
    explained = objects(coterie("study", "explain", study, "--json").out)[0]
    assert explained["hash"] == hash_
    assert set(explained["forecast"]) == {"lan", "wan"}
    checks = objects(coterie(*agreed.arguments("alice", "preflight"), "--json").out)
    assert [one["event"] for one in checks] == ["check"] * 9 + ["ready"]
    assert checks[-1]["unseen"] == ["helper", "bob"]


def test_json_of_errors(run, tmp_path):
    for said, code in (
        (run("--json", "--data", tmp_path / "none.csv"), 3),
        (coterie("study", "verify", tmp_path / "none.toml", "--json"), 4),
        (coterie("--json", "nonsense"), 2),
        (coterie("run", "--json"), 2),
    ):
        (error,) = objects(said.err)
        objects(said.out)
        assert (error["event"], error["code"], said.code) == ("error", code, code)
        assert error["text"]


def test_quiet(run, agreed, tmp_path):
    with others(agreed, tmp_path):
        assert run("--quiet") == Said(0, "", "")
    said = coterie("study", "verify", tmp_path / "none.toml", "-q")
    assert said.out == ""
    assert said.err


# -- for people --------------------------------------------------------------------------------------------


def test_explain(agreed):
    said = coterie("study", "explain", agreed.study_file("alice"), "--rows", 5000, "--iterations", 7)
    assert said.code == 0
    for words in (
        "trial, hash ",
        "k-means with 4 clusters over 2 columns of alice and bob",
        "x: between -12 and 12",
        "WHAT IS DISCLOSED WHILE IT RUNS",
        "to alice:",
        "to helper:",
        "WHAT NOBODY LEARNS",
        "WHAT THIS RESTS ON",
        "WHAT IT WILL COST, with 5,000 rows in all and 7 iterations",
        "LAN (1 Gbit/s",
        "WHICH CLUSTERS ARE OPENED",
        "Which clusters stay closed (one bit a cluster), and not why",
        "What follows is for a least cluster size of 10",
    ):
        assert words in said.out, words
    assert re.search("semi-honest|follow the protocol|do not deviate|honest", said.out)
    assert re.search("collu|together with", said.out)


def test_version_and_help():
    digest = software_digest()
    assert coterie("--version") == Said(0, f"coterie {__version__} ({digest[:12]})\ndigest {digest}\n", "")
    for verb in ("run", "predict", "preflight", "study create", "study sign", "identity create", "audit verify"):
        said = coterie(*verb.split(), "--help")
        assert said.code == 0
        assert "Usage:" in said.out
    assert "10 interrupted" in " ".join(coterie("--help").out.split())
