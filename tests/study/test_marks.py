"""Shares fit together if one session has made them: what is mixed from several attempts is never gone on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import Interrupted
from coterie.study.agreement import study_hash
from coterie.study.session import Voice
from tests.study.walk import SMALL, Cast

pytestmark = pytest.mark.usefixtures("no_pictures")

#: Of a start in a corner of nothing: some ten iterations.
POINTS = np.random.default_rng(4).uniform(-10, 10, (120, 2))


class Stopping(Voice):
    """Is told to stop after so many iterations, counted over all starts."""

    def __init__(self, after: int) -> None:
        self.left = after

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:  # noqa: ARG002
        self.left -= 1
        if not self.left:
            raise Interrupted("stopped by a test")


def begin(cast: Cast, *options: object) -> None:
    cast.agree(*SMALL, "--tol", 0, "--max-iter", 12, *options)
    for name, rows in zip(cast.parties, np.array_split(POINTS, len(cast.parties)), strict=True):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])


def state(cast: Cast, name: str) -> Path:
    return cast.orders(name).state_path(study_hash(cast.study))


def broken_off(cast: Cast, after: int = 2) -> None:
    ended = cast.take_part(voices={name: Stopping(after) for name in cast.names})
    assert all(isinstance(error, Exception) for error in ended.values()), ended


def whole(folder: Path, *options: object) -> list[dict[str, str]]:
    """What a run that nothing happens to finds."""
    with Cast(folder) as cast:
        begin(cast, *options)
        cast.run()
        return cast.centers("alice")


def test_two_attempts_from_copies_of_one_checkpoint_do_not_mix(cast, tmp_path):
    """The attack: all go on from the same checkpoint twice, each time in a copy of their folders. Then Alice brings the
    first copy and Bob the second: marks of the same run, epoch and iteration, and shares that do not fit."""
    begin(cast)
    broken_off(cast)
    copies = {}
    for name in cast.names:
        for copy in ("first", "second"):
            copies[name, copy] = cast.at(name, copy)
            shutil.copytree(state(cast, name), copies[name, copy])
    for copy in ("first", "second"):
        ended = cast.take_part(
            each={name: {"state": copies[name, copy]} for name in cast.names},
            voices={name: Stopping(2) for name in cast.names},
        )
        assert all(isinstance(error, Exception) for error in ended.values()), ended
        assert cast.entry("alice", "agreed")["resumed_after"] == 2
    mixed = {"helper": "first", "alice": "first", "bob": "second"}
    cast.run(each={name: {"state": copies[name, copy]} for name, copy in mixed.items()})
    assert cast.entry("alice", "agreed")["resumed_after"] is None, "nothing fits together: from the start"
    assert cast.centers("alice") == cast.centers("bob") == whole(tmp_path / "whole")
