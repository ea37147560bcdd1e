"""A recognisable number, a recognisable id and every share of a survey: they turn up in no file but the data they come
from, in no log, audit log, report or error, and in nothing that anybody sends over TLS.

A survey gives nobody a row back, so that the owner's own results must not hold the canaries either.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.protocols import FAMILIES
from coterie.study import survey as survey_module
from coterie.study.survey import run_survey
from coterie.surveys.task import HALF_BITS
from coterie.transport.tls import Outbox
from tests.study.hooks import CANARY, CANARY_TEXT, Hook, Stage, frames
from tests.study.test_dumps import TELLING
from tests.study.walk import Cast, coterie, wait_until

ID = "canary-of-271828"
BOUND = 40_000
ASKED = ("--survey", "--columns", "x,y", "--bounds", f"x=-{BOUND}:{BOUND},y=-{BOUND}:{BOUND}", "--cells", 16)
BY_COLUMNS = ("--partition", "vertical", "--holds", "alice=x,bob=y")
DATA = "alice/data.csv"
WAYS: dict[str, tuple[object, ...]] = {
    "rows": (),
    "columns": BY_COLUMNS,
    "rows, SecureNN": ("--protocol", "securenn"),
}


def give(cast: Cast, value: object = CANARY, way: str = "rows") -> None:
    """Ids are in the tables and not in the survey. The canary is the largest of Alice's numbers, and in a column of
    which values are missing."""
    points = np.random.RandomState(4).uniform(-BOUND / 2, BOUND / 2, (80, 2)).astype(object)
    points[[3, 7, 50], 0] = ""
    points[41 if way == "columns" else 11, 0] = value
    ids = np.array([f"row-{i:04}" for i in range(80)], object)
    ids[11] = ID
    if way == "columns":
        cast.give("alice", id=ids, x=points[:, 0])
        cast.give("bob", id=[f"other-{i}" for i in range(80)], y=points[:, 1])
    else:
        cast.give("alice", id=ids[:40], x=points[:40, 0], y=points[:40, 1])
        cast.give("bob", id=ids[40:], x=points[40:, 0], y=points[40:, 1])


def needles() -> dict[str, bytes]:
    """The canaries as they could lie in a file or a frame: as text, as a float, and in steps of the range."""
    encoded = round(CANARY / BOUND * (1 << HALF_BITS))
    found = {"the number as text": b"31415.9", "with an exponent": b"3.1415926", "the id": ID.encode()}
    for order, called in (("<", "little"), (">", "big")):
        found[f"the number, {called} endian"] = np.array(CANARY, f"{order}f8").tobytes()
        for whole in (encoded, -encoded, 2 * encoded):
            found[f"{whole} steps, {called} endian"] = np.array(whole, f"{order}i8").tobytes()
    return found


def files(cast: Cast) -> Iterator[tuple[str, bytes]]:
    """Every file of everybody but Alice's data; keys, logs, ledgers and results are among them."""
    for path in sorted(cast.folder.rglob("*")):
        name = str(path.relative_to(cast.folder))
        if path.is_file() and path.suffix != ".sent" and name != DATA:
            yield name, path.read_bytes()


def search(places: Iterator[tuple[str, bytes]], wanted: dict[str, bytes]) -> list[str]:
    return [f"{where}: {what}" for where, raw in places for what, needle in wanted.items() if needle in raw]


# -- as processes ------------------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as made:
        yield made


def play(stage: Stage, *more: object) -> dict[str, int]:
    """Everybody takes part, and what is sent is kept; exit codes."""
    for name in stage.names:
        hook = Hook(record=str(stage.folder / f"{name}.sent"), brief=False)
        stage.start(name, "survey", "--out", stage.at(name, "results"), "--wait", 300, *more, hook=hook)
    return stage.finish_all()


def places(stage: Stage) -> Iterator[tuple[str, bytes]]:
    yield from files(stage)
    for name in stage.names:
        tape = stage.folder / f"{name}.sent"
        for number, frame in enumerate(frames(tape) if tape.exists() else ()):
            yield f"frame {number} of {name} to {stage.names[frame.to]}", frame.body


@pytest.mark.parametrize("way", ["rows", *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way != "rows")])
def test_a_survey_tells_nobody(stage, way):
    stage.agree(*ASKED, *WAYS[way])
    give(stage, way=way)
    assert set(play(stage).values()) == {0}, stage.said()
    searched = [where for where, _ in places(stage)]
    for name in stage.names:
        wanted = {
            "out.txt",
            "err.txt",
            "study.toml",
            "audit.jsonl",
            "results/disclosures.jsonl",
            "results/traffic.json",
        }
        assert {f"{name}/{file}" for file in wanted} <= set(searched)
    assert {f"{name}/results/survey.{kind}" for name in ("alice", "bob") for kind in ("json", "html")} <= set(searched)
    assert sum(where.startswith("frame") and "of alice" in where for where in searched) > 20
    assert not [where for where in searched if ".state" in where], "a survey keeps no checkpoints"
    assert search(places(stage), needles()) == []


def test_data_that_is_wrong_is_refused_without_being_repeated(stage):
    """To nobody, and the others are told no more than that Alice stops."""
    stage.agree(*ASKED)
    for value in (f"{CANARY_TEXT} EUR", f"about {CANARY_TEXT}", CANARY_TEXT.replace(".", ",")):
        give(stage, value)
        refused = coterie(*stage.arguments("alice", "survey"))
        assert refused.code == 3
        assert "data row 12 (line 13), column 'x'" in refused.err
        stage.at("alice", "said.txt").write_text(refused.out + refused.err)
        assert search(files(stage), needles()) == []
    codes = play(stage, "--wait", 2)
    assert codes["alice"] == 3, stage.said()
    assert {codes["helper"], codes["bob"]} <= {6, 7}
    assert search(places(stage), needles()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux'")
def test_nobody_can_look_into_a_survey(stage):
    """From when its keys are loaded: no core file, no debugger of somebody else's."""
    stage.agree(*ASKED)
    give(stage)
    stage.program = ("-c", TELLING)
    alice = stage.start("alice", "survey", "--out", stage.at("alice", "results"), hook=None)
    wait_until(lambda: "waiting for helper, bob" in stage.out("alice"), what="waiting")
    alice.send_signal(signal.SIGTERM)
    assert stage.finish(alice) == 10, stage.said()
    said = stage.out("alice")
    assert "dumpable 0 at waiting for the others" in said
    assert "core 0" in said


# -- shares, in threads ------------------------------------------------------------------------------------


class Kept:
    """What every role of a survey in this process has entered as shares, and what it has sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
        self.shares: dict[int, np.ndarray] = {}
        self.sent: list[tuple[str, bytes]] = []
        family = FAMILIES[protocol]
        enter, put = family.enter, Outbox.put

        def keep(own: Any, values: Any, shape: Any) -> Any:
            entered = enter(own, values, shape)
            if type(own.me).__name__ == "Party" and not own.me.deals:
                self.shares.setdefault(own.me.rank, entered.share.copy())
            return entered

        def note(box: Any, kind: int, body: Any, stamp: Any) -> Any:
            self.sent.append((f"frame to P{box.to}", bytes(body)))
            return put(box, kind, body, stamp)

        monkeypatch.setattr(family, "enter", keep)
        monkeypatch.setattr(Outbox, "put", note)

    def needles(self) -> dict[str, bytes]:
        """Every share as a word, as decimal and as hexadecimal text."""
        found = {}
        for rank, shares in self.shares.items():
            large = {at: word for at, word in enumerate(shares.ravel().tolist()) if word >> 32}  # and none by chance
            assert len(large) > shares.size / 2, "a share is uniform"
            for at, word in large.items():
                found[f"share {at} of P{rank}, as a word"] = word.to_bytes(8, "little")
                found[f"share {at} of P{rank}, as text"] = str(word).encode()
                found[f"share {at} of P{rank}, in hexadecimal"] = f"{word:x}".encode()
        return found

    def places(self, cast: Cast, logged: str = "") -> Iterator[tuple[str, bytes]]:
        yield from files(cast)
        yield from self.sent
        yield "what was logged", logged.encode()


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    with Cast(tmp_path) as made:
        yield made


def take(cast: Cast, protocol: str = "onetime") -> dict[str, Any]:
    cast.agree(*ASKED, "--protocol", protocol)
    give(cast)
    return cast.take_part(run_survey)


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_no_share_leaves_its_process(cast, monkeypatch, caplog, capsys, protocol):
    kept = Kept(monkeypatch, protocol)
    with caplog.at_level(logging.DEBUG):
        ended = take(cast, protocol)
    assert not any(isinstance(end, BaseException) for end in ended.values()), ended
    said = "".join(capsys.readouterr())
    assert set(kept.shares) == {1, 2}
    assert len(kept.sent) > 50
    whole = {**kept.needles(), **needles()}
    assert search(kept.places(cast, caplog.text + said), whole) == []


def test_what_a_careless_exception_says_stays_unsaid(cast, monkeypatch, caplog):
    """What fails at Alice says a value, as errors of other libraries may: Bob and the helper learn the type."""
    kept, tally = Kept(monkeypatch, "onetime"), survey_module.tally_values

    def careless(task: Any, rank: int, *more: Any) -> Any:
        if rank == 1:
            raise ValueError(f"cannot make sense of {CANARY_TEXT}")
        return tally(task, rank, *more)

    monkeypatch.setattr(survey_module, "tally_values", careless)
    with caplog.at_level(logging.DEBUG):
        ended = take(cast)
    assert isinstance(ended["alice"], ValueError)
    for name in ("bob", "helper"):
        assert "alice" in str(ended[name])
        assert not any(needle.decode() in str(ended[name]) for needle in (b"31415", ID.encode()))
    assert not any(cast.at(name, "results").exists() for name in cast.names)
    assert search(kept.places(cast, caplog.text), needles()) == []


# -- does the search find anything? ------------------------------------------------------------------------


def log_share(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    take_survey = survey_module.take_survey

    def talkative(family: Any, task: Any, own: Any) -> Any:
        found = take_survey(family, task, own)
        for share in kept.shares.values():
            logging.getLogger("coterie").warning("the first share is %d", share.ravel()[0])
        return found

    monkeypatch.setattr(survey_module, "take_survey", talkative)


def send_shares(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A party sends the helper what it has entered, as it is."""
    enter = FAMILIES["onetime"].enter
    monkeypatch.setattr("coterie.transport.Metered.begin_protocol", lambda self, *declared: None)

    def open_handed(self: Any, own: Any, shape: Any) -> Any:
        entered = enter(self, own, shape)
        if type(self.me).__name__ == "Party" and self.me.rank == 1:
            self.me.channel.send(0, entered.share)
        if type(self.me).__name__ == "Party" and self.me.deals:
            self.me.channel.receive(1, np.uint64, shape)
        return entered

    monkeypatch.setattr(FAMILIES["onetime"], "enter", open_handed)


def audit_value(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    log_agreed = survey_module.log_agreed

    def indiscreet(audit: Any, ready: Any, *more: Any) -> None:
        log_agreed(audit, ready, *more)
        if ready.rows is not None:
            audit.record("first rows", rows=[repr(value) for value in ready.rows.values[:12, 0].tolist()])

    monkeypatch.setattr(survey_module, "log_agreed", indiscreet)


def write_tally(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of results has every own value beside it."""
    write = survey_module._write_found

    def generous(folder: Path, here: Any, *more: Any) -> None:
        write(folder, here, *more)
        (folder / "values.bin").write_bytes(here.ready.rows.values.tobytes())

    monkeypatch.setattr(survey_module, "_write_found", generous)


PLANTS: dict[Callable[[Kept, pytest.MonkeyPatch], None], str] = {
    log_share: "what was logged: share 0 of P*, as text",
    send_shares: "frame to P0: share 0 of P1, as a word",
    audit_value: "alice/audit.jsonl: the number as text",
    write_tally: "alice/results/values.bin: the number, little endian",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_got_out_is_found(cast, monkeypatch, caplog, plant):
    kept = Kept(monkeypatch, "onetime")
    plant(kept, monkeypatch)
    with caplog.at_level(logging.DEBUG):
        ended = take(cast)
    assert not any(isinstance(end, BaseException) for end in ended.values()), ended
    found = search(kept.places(cast, caplog.text), {**kept.needles(), **needles()})
    assert any(fnmatch(one, PLANTS[plant]) for one in found), found
