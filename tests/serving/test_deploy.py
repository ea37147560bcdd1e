"""What is in `deploy/` says things that the commands understand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.study.walk import coterie

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def check(words: list[str]) -> None:
    """Every option of the command is one that it has."""
    verb, options = words[0], [word for word in words if word.startswith("--")]
    told = coterie(verb, "--help")
    assert told.code == 0
    assert options
    for option in options:
        assert re.search(rf"{option}\b", told.out), (verb, option)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units(unit):
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert program.endswith("/coterie")
    check(words)


def test_container():
    text = (DEPLOY / "Containerfile").read_text()
    (health,), (entry,), (command,) = (
        re.findall(rf"^{kind}(\[.*\])$", text, re.MULTILINE) for kind in (r"HEALTHCHECK .* CMD ", "ENTRYPOINT ", "CMD ")
    )
    assert json.loads(entry)[0] == json.loads(health)[0]
    check(json.loads(command))
    check(json.loads(health)[1:])
