"""`--log`: JSON lines for operators. What is in them, what never is, and that a run does not depend on them."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.console import Console
from coterie.cli.logs import MOST, JsonLines, logging_to
from coterie.errors import PeerUnreachable, PolicyError
from coterie.events import tell
from coterie.study.identity import change_passphrase, split_address
from coterie.study.run import run_study
from tests.study.hooks import CANARY, CANARY_TEXT
from tests.study.walk import BRIEF, Cast, coterie, wait_until

WIDE = ("--clusters", "2", "--columns", "x,y", "--bounds", "x=-40000:40000,y=-40000:40000")
logger = logging.getLogger("coterie.tests")


@pytest.fixture
def cast(tmp_path):
    with Cast(tmp_path) as made:
        made.program = BRIEF
        yield made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(path: Path) -> list[str]:
    return [line["event"] for line in lines(path)]


def give(cast: Cast) -> None:
    cast.give("alice", x=[0.0, 1.0, 2.0, CANARY], y=[0.0, 1.0, 2.0, 3.0])
    cast.give("bob", x=[100.0, 101.0, 20000.0, 20001.0], y=[0.0, 1.0, 2.0, 3.0])


def knock(address: str) -> None:
    """A stranger without a certificate, who waits to be turned away."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection(split_address(address), 30) as plain:
        sock = context.wrap_socket(plain)
        with sock:
            sock.recv(1)


def test_a_run_and_a_stranger(cast: Cast):
    cast.agree(*WIDE)
    cast.policies(least_cluster_size=1)
    give(cast)
    paths = {name: cast.at(name, "log.jsonl") for name in cast.names}
    cast.start("alice", "run", "--log", paths["alice"])
    wait_until(lambda: paths["alice"].exists() and "waiting" in events(paths["alice"]), what="waiting")
    address = next(one.address for one in cast.study.everybody if one.name == "alice")
    knock(address)
    wait_until(lambda: "refused" in events(paths["alice"]), what="a refusal")
    for name in ("helper", "bob"):
        cast.start(name, "run", "--log", paths[name])
    assert set(cast.finish_all().values()) == {0}, cast.said()
    found = lines(paths["alice"])
    names = [line["event"] for line in found]
    assert names[0] == "start"
    assert names[-1] == "end"
    assert {"recognised", "waiting", "refused", "connected", "audit", "iteration", "results"} <= set(names)
    by_event = {line["event"]: line for line in found}
    assert by_event["refused"]["address"].startswith("127.")
    assert "TLS handshake" in by_event["refused"]["why"]
    assert by_event["waiting"]["peers"]
    assert by_event["waiting"]["since"].endswith("+00:00")
    assert {line["peer"] for line in found if line["event"] == "connected"} == {"helper", "bob"}
    assert by_event["results"]["out"] == str(cast.at("alice", "results"))
    assert by_event["end"]["code"] == 0
    recognised = names.index("recognised")
    assert {line["participant"] for line in found[recognised:]} == {"alice"}
    assert len({line["study_hash"] for line in found[recognised:]}) == 1
    assert all({"time", "level", "event", "text", "command", "pid"} <= set(line) for line in found)
    for name in cast.names:
        text = paths[name].read_text()
        assert CANARY_TEXT[:7] not in text
        assert not any(part in text for part in cast.key(name).read_text().split("\n")[1:-2])
        assert stat.S_IMODE(paths[name].stat().st_mode) == 0o600


def test_a_passphrase_and_a_proxy_s_password_are_in_no_line(cast: Cast, quiet: Console):
    """Of a run that reads both and then finds nobody: the proxy is not there."""
    cast.agree(*WIDE)
    give(cast)
    secret, path = b"correct horse battery staple", cast.at("alice", "log.jsonl")
    change_passphrase(cast.key("alice"), None, secret)
    orders = cast.orders("alice", passphrase=secret, proxy="http://name:geheim@127.0.0.1:1", wait=0.5)
    with pytest.raises(PeerUnreachable), logging_to(path, "run", quiet):
        run_study(orders)
    assert {"start", "recognised", "audit", "error", "end"} <= set(events(path))
    text = path.read_text()
    assert "127.0.0.1:1" in text  # the proxy is named
    shown = base64.b64encode(b"name:geheim").decode()
    assert not any(word in text for word in ("geheim", shown, secret.decode()))


def test_errors_are_those_of_the_console_and_lines_are_appended(cast: Cast):
    cast.agree(*WIDE)
    give(cast)
    cast.policy("alice", partitions=["vertical"])
    path = cast.at("alice", "log.jsonl")
    for _ in range(2):
        said = coterie(*cast.arguments("alice", "run"), "--log", path, "--timeout", 1)
        assert said.code == 5
    found = lines(path)
    assert [line["event"] for line in found].count("start") == 2
    failed = [line for line in found if line["event"] == "error"]
    assert [f"coterie: {line['text']}\n" for line in failed] == [said.err] * 2
    assert {(line["error"], line["code"]) for line in failed} == {("PolicyError", 5)}
    assert found[-1]["code"] == 5
    assert "declines" in events(path)


def test_preflight_and_what_it_finds(cast: Cast):
    cast.agree(*WIDE)
    give(cast)
    path = cast.at("alice", "log.jsonl")
    said = coterie(*cast.arguments("alice", "preflight"), "--log", path, "--timeout", 1)
    assert said.code == 0, said.err
    checks = {line["what"]: line["fine"] for line in lines(path) if line["event"] == "check"}
    assert checks["signatures"] is True
    assert checks["bob"] is None


@pytest.mark.parametrize("verb", ["run", "predict", "preflight", "survey"])
def test_a_file_that_cannot_be_written_is_an_error_before_anything_starts(cast: Cast, verb: str):
    cast.agree(*WIDE)
    said = coterie(verb, cast.study_file("alice"), "--key", cast.key("alice"), "--log", cast.at("alice"))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"coterie: --log: {cast.at('alice')} cannot be written (Is a directory)")


@pytest.fixture
def quiet() -> Console:
    return Console(quiet=True)


def test_a_log_that_breaks_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A disk that is full for one line and takes half of another: the rest is there, each line by itself."""
    write, path = os.write, tmp_path / "log"
    with logging_to(path, "run", Console()):
        monkeypatch.setattr(os, "write", lambda handle, raw: write(handle, raw[: len(raw) // 2]))
        tell(logger, logging.INFO, "half", "half of it")
        monkeypatch.undo()
        tell(logger, logging.INFO, "unwritable", "no text", what=object())
        tell(logger, logging.INFO, "whole", "all of it")
    raw = path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in (raw[0], *raw[2:])] == ["start", "whole", "end"]
    assert "2 lines could not be written" in capsys.readouterr().out


def test_a_file_that_is_moved_away_is_begun_anew(tmp_path: Path, quiet: Console):
    path = tmp_path / "log"
    with logging_to(path, "run", quiet):
        path.rename(tmp_path / "log.1")
        tell(logger, logging.INFO, "later", "after that")
    assert events(tmp_path / "log.1") == ["start"]
    assert events(path) == ["later", "end"]


def test_strangers_fill_no_disk(tmp_path: Path, quiet: Console):
    path = tmp_path / "log"
    with logging_to(path, "run", quiet):
        for _ in range(3 * MOST):
            tell(logger, logging.WARNING, "refused", "a stranger was refused")
        tell(logger, logging.INFO, "later", "after that")
    assert events(path) == ["start", *["refused"] * MOST, "later", "end"]
    assert lines(path)[-2]["left_out"] == 2 * MOST


def test_one_line_whatever_is_said(tmp_path: Path, quiet: Console):
    path = tmp_path / "log"
    with logging_to(path, "run", quiet):
        tell(logger, logging.INFO, "odd", "a\nb\x1b[2J\u2028c", peer="\u202ebob")
    assert len(path.read_bytes().split(b"\n")) == 4
    assert "\x1b" not in path.read_text()
    assert lines(path)[1]["text"] == "a\nb\x1b[2J\u2028c"


def test_afterwards_all_is_as_before(tmp_path: Path, quiet: Console):
    coterie_logger = logging.getLogger("coterie")
    before = coterie_logger.level, list(coterie_logger.handlers)
    with pytest.raises(PolicyError), logging_to(tmp_path / "log", "run", quiet):
        raise PolicyError("no")
    with pytest.raises(KeyError), logging_to(tmp_path / "log", "run", quiet):
        raise KeyError("31415")
    assert (coterie_logger.level, coterie_logger.handlers) == before
    assert [line["code"] for line in lines(tmp_path / "log") if line["event"] == "end"] == [5, 70]
    assert "31415" not in (tmp_path / "log").read_text(), "an internal error is not quoted"


def test_nobody_else_reads_it(tmp_path: Path):
    before = os.umask(0)
    try:
        JsonLines(tmp_path / "log", "run").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
