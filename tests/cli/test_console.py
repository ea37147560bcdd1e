"""Nothing that is printed from somebody else's file does anything to the terminal, and everybody is shown."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console as Rich

from coterie.cli.console import Console, fold, printable
from coterie.study import signatures
from coterie.study.audit import Audit
from coterie.study.signatures import signature_path
from coterie.study.study_file import load_study
from coterie.transport.certificates import create_credentials
from tests.study.walk import SMALL, Cast, coterie

ESCAPES = "\x1b[2J \x9b8m \r \x7f \u202e \u2066 \U000e0041 \x00"


@pytest.fixture(scope="module")
def cast(tmp_path_factory):
    with Cast(tmp_path_factory.mktemp("console")) as cast:
        cast.agree(*SMALL)
        yield cast


def test_what_is_not_printable_is_spelt_out(capsys):
    assert printable("Ärzte, 50 %") == "Ärzte, 50 %"
    assert printable("a\x1bb\nc") == "a\\u001bb\\u000ac"
    assert printable("\U000e0041") == "\\udb40\\udc41"
    Console().say(f"first {ESCAPES}\nsecond")
    Console().error(f"wrong {ESCAPES}\nfake", 2)
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    first, second = told.err.splitlines()
    assert first.startswith("coterie: wrong ")
    assert second == "  fake"  # it does not look like a line of its own
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))


def test_machines_get_the_text_as_it_is(capsys):
    Console(json=True).say(f"text {ESCAPES}", name=ESCAPES)
    Console(json=True).error(ESCAPES, 2)
    told = capsys.readouterr()
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))
    assert msgspec.json.decode(told.out)["name"] == ESCAPES
    assert msgspec.json.decode(told.err)["text"] == ESCAPES


@pytest.mark.parametrize("verb", ["explain", "sign", "verify"])
def test_everybody_is_shown_with_role_address_and_fingerprint(cast, verb):
    line = ["study", verb, cast.study_file("alice"), *(["--key", cast.key("alice")] if verb == "sign" else [])]
    said = coterie(*line)
    assert said.code == 0, said.err
    study = load_study(cast.study_file("alice"))
    for rank, one in enumerate(study.everybody):
        role = "data party" if rank else "helper"
        assert f"  - {one.name} ({role}) at {one.address}\n    fingerprint {one.fingerprint}\n" in said.out
    found = msgspec.json.decode(coterie(*line, "--json").out.splitlines()[-1])["participants"]
    assert [one["fingerprint"] for one in found] == [one.fingerprint for one in study.everybody]


class Clock:
    """In place of `datetime`: what the clock says is what somebody wants to be read."""

    UTC = None

    class datetime:
        @staticmethod
        def now(zone):
            return Clock.datetime

        @staticmethod
        def isoformat(timespec):
            return f"today\nalice signed {ESCAPES}"


def test_files_of_others_are_shown_as_they_are_written(cast, tmp_path, monkeypatch):
    """A date of signing, an entry of a log, a field of a policy: whatever somebody may have put there."""
    path = signature_path(cast.study_file("alice"), "bob")
    genuine = path.read_text()
    monkeypatch.setattr(signatures, "datetime", Clock)
    signatures.sign_study(cast.study_file("bob"), cast.key("bob").read_text())
    path.write_bytes(signature_path(cast.study_file("bob"), "bob").read_bytes())
    said = coterie("study", "verify", cast.study_file("alice"))
    path.write_text(genuine)
    assert said.code == 0, said.err
    assert all(one.isprintable() for one in said.out.split("\n"))
    assert len([one for one in said.out.splitlines() if one.startswith("alice signed")]) == 1

    Audit(tmp_path / "log", create_credentials("mallory")).record(
        f"started {ESCAPES}", study=f"x\n{ESCAPES}", to=[ESCAPES]
    )
    said = coterie("audit", "verify", tmp_path / "log")
    assert said.code == 0
    assert all(one.isprintable() for one in said.out.split("\n"))
    assert len(said.out.splitlines()) == 3

    (tmp_path / "policy.toml").write_text('"\\u001b[2J" = 1\n')
    said = coterie(
        "study", "sign", cast.study_file("alice"), "--key", cast.key("alice"), "--policy", tmp_path / "policy.toml"
    )
    assert said.code == 5
    assert said.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("mark", ["  - ", "ok   ", "NO   ", "?    ", "note ", "12:34:56 ", "    ", ""])
def test_lines_break_between_words_and_go_on_where_their_text_begins(width, mark):
    """Whatever the terminal; what is copied from a log is in one piece."""
    words = ["words"] * 40
    screen = Rich(force_terminal=True, width=width, _environ={"TERM": "xterm"})
    first, *more = fold(mark + " ".join(words), screen).split("\n")
    assert first.startswith(mark)
    assert all(len(line) <= width for line in (first, *more))
    assert all(line.startswith(" " * len(mark) + "w") for line in more)
    assert " ".join([first, *more]).split()[-40:] == words
    assert fold(mark + " ".join(words), Rich(force_terminal=False, width=width)) == mark + " ".join(words)
