"""The logger `coterie`: silent by default, and never a word of data or keys in it."""

from __future__ import annotations

import base64
import logging
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.randomness import Stream, SystemEntropy
from tests.study.walk import SMALL, Cast

pytestmark = pytest.mark.usefixtures("no_pictures")

CANARY = 3.1415926


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every secret that is drawn and every key of a stream, as they are made."""
    found: list[bytes] = []
    draw, begin = SystemEntropy.draw, Stream.__init__

    def keep(self: SystemEntropy, count: int) -> bytes:
        found.append(draw(self, count))
        return found[-1]

    def keep_key(self: Stream, key: bytes) -> None:
        found.append(key)
        begin(self, key)

    monkeypatch.setattr(SystemEntropy, "draw", keep)
    monkeypatch.setattr(Stream, "__init__", keep_key)
    return found


def needles(secrets: list[bytes]) -> Iterator[str]:
    """The canary as it could stand in a line: in data units, and in fixed point of any precision; secrets likewise."""
    yield str(CANARY)[:7]
    yield from (str(round(CANARY * 2**f)) for f in range(10, 40))
    for secret in secrets:
        yield from (secret.hex(), repr(secret)[2:-1], base64.b64encode(secret).decode(), str(list(secret))[1:-1])


def leaks(lines: list[str], secrets: list[bytes]) -> list[str]:
    text = "\n".join(lines)
    return [needle for needle in needles(secrets) if needle in text]


def points() -> np.ndarray:
    """Two far groups, and the canary in the second row."""
    found = np.random.default_rng(4).normal(0, 1, (60, 2)) + np.repeat([[-6.0], [6.0]], 30, axis=0)
    found[1, 0] = CANARY
    return np.random.default_rng(5).permutation(found)


def test_the_logger_is_silent_by_default():
    """In a process that sets up no logging, a run that ends well and one that fails print nothing."""
    code = (
        "import numpy as np; from coterie import SecureKMeans\n"
        "import coterie.runtime.threads as threads\n"
        "X = np.array([[0.0], [1.0], [9.0], [10.0]])\n"
        "SecureKMeans(2, bounds=[(0, 10)], random_state=0).fit(X)\n"
        "def fail(me): raise ValueError\n"
        "try: threads.run_threads(threads.World(('P0', 'P1', 'P2')), fail)\n"
        "except Exception: pass\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_fit_logs_its_roles_and_no_secret(caplog: pytest.LogCaptureFixture, drawn: list[bytes]):
    caplog.set_level(logging.DEBUG, "coterie")
    SecureKMeans(2, bounds=[(-12, 12)] * 2, random_state=0).fit(points())
    lines = [record.getMessage() for record in caplog.records]
    assert {"P0 is done", "P1 is done", "P2 is done"} <= set(lines)
    assert drawn
    assert leaks(lines, drawn) == []


def test_a_study_logs_its_phases_and_no_secret(
    cast: Cast, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], drawn: list[bytes]
):
    cast.agree(*SMALL[2:], "--clusters", "2")
    half = points()
    cast.give("alice", x=half[:30, 0], y=half[:30, 1])
    cast.give("bob", x=half[30:, 0], y=half[30:, 1])
    capfd.readouterr()
    caplog.set_level(logging.DEBUG, "coterie")
    cast.run()
    lines = [record.getMessage() for record in caplog.records]
    begun = [line.split()[0] for line in lines]
    assert {"started", "agreed", "opening", "results", "done"} <= set(begun)
    assert any("is connected to" in line for line in lines)
    secrets = [*drawn, *(cast.key(name).read_bytes() for name in cast.names)]
    assert leaks(lines, secrets) == []
    assert all(
        line not in "\n".join(lines)
        for name in cast.names
        for line in cast.key(name).read_text().split("\n")[1:]
        if line
    )
    assert capfd.readouterr() == ("", "")


def test_whoever_is_lost_is_named(cast: Cast, caplog: pytest.LogCaptureFixture):
    """An operator reads why a run stopped: the kind of the error and the peer, and nothing that the error says."""
    cast.agree(*SMALL)
    cast.give("alice", x=[0.0, 1.0], y=[0.0, CANARY])
    cast.give("bob", x=[99.0, 1.0], y=[0.0, CANARY])  # out of bounds: bob declines
    caplog.set_level(logging.INFO, "coterie")
    cast.take_part(wait=20.0)
    lines = [record.getMessage() for record in caplog.records]
    assert "bob declines to take part" in lines
    # whoever began to listen after bob was gone has waited for it in vain
    assert any(re.match("stopped error=Peer(Lost|Unreachable) peer=bob", line) for line in lines)
    assert leaks(lines, []) == []


def test_a_line_with_a_secret_is_found():
    secret = bytes(range(16))
    assert leaks([f"the row is {CANARY}"], []) == ["3.14159"]
    assert leaks([f"the key is {secret!r}"], [secret]) != []
    assert leaks([f"the key is {secret.hex()}"], [secret]) != []
