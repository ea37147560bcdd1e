"""Tasks that take turns at the ends of rounds, alike at every role."""

from __future__ import annotations

import contextvars
import threading
from collections import defaultdict

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.errors import ProtocolError
from coterie.transport.turns import Turns


class Diary:
    """Who did what, in which order; `step` is a round of the one who does it."""

    def __init__(self) -> None:
        self.turns, self.lines = Turns(), []

    def step(self, line: str) -> None:
        arrive = self.turns.begin_round()
        self.lines.append(f"{line} sends")
        arrive()
        self.lines.append(f"{line} receives")

    def task(self, name: str, rounds: int):
        def work() -> str:
            for i in range(1, rounds + 1):
                self.step(f"{name}{i}")
            return name

        return work


def test_everybody_sends_before_anybody_receives():
    diary = Diary()
    a, b = diary.turns.begin(diary.task("a", 2)), diary.turns.begin(diary.task("b", 1))
    diary.step("main1")
    assert diary.lines == ["main1 sends", "a1 sends", "b1 sends", "main1 receives"]
    diary.step("main2")
    assert diary.lines[4:] == ["main2 sends", "a1 receives", "a2 sends", "b1 receives", "main2 receives"]
    assert (b(), a()) == ("b", "a")
    assert diary.lines[9:] == ["a2 receives"]
    diary.step("main3")
    assert diary.lines[10:] == ["main3 sends", "main3 receives"]


def test_messages_of_one_round_take_one_turn():
    turns, taken = Turns(), []

    def work() -> None:
        for i in range(3):
            taken.append(i)
            turns.begin_round()()

    finish = turns.begin(work)
    first, second = turns.begin_round(), turns.begin_round()
    first()
    second()
    assert taken == [0]
    turns.begin_round()()
    assert taken == [0, 1]
    finish()
    assert taken == [0, 1, 2]


def test_a_task_alone_goes_on_to_its_end():
    diary = Diary()
    assert diary.turns.begin(diary.task("a", 3))() == "a"
    assert len(diary.lines) == 6


def test_an_error_in_a_task_is_raised_where_it_had_its_turn():
    turns = Turns()

    def work() -> None:
        turns.begin_round()()
        raise ValueError("from the task")

    turns.begin(work)
    turns.begin_round()()
    with pytest.raises(ValueError, match="from the task"):
        turns.begin_round()()
    turns.begin_round()()  # it is gone


def test_a_task_begins_no_others():
    turns = Turns()
    with pytest.raises(ProtocolError, match="begins no others"):
        turns.begin(lambda: turns.begin(lambda: None))()


def test_after_a_word_to_the_dealer_nothing_is_sent_before_the_tasks_are_done():
    """The dealer lets its tasks come to their end before it listens: what came between would be out of order."""
    diary = Diary()
    finish = diary.turns.begin(diary.task("a", 2))
    diary.step("main1")
    diary.turns.be_silent()
    with pytest.raises(ProtocolError, match="under way"):
        diary.step("main2")
    finish()
    diary.step("main3")
    diary.turns.be_silent()
    diary.step("main4")


def test_the_dealer_lets_all_tasks_finish():
    diary = Diary()
    diary.turns.begin(diary.task("a", 2))
    diary.turns.begin(diary.task("b", 3))
    diary.turns.finish_all()
    assert diary.lines[-1] == "b3 receives"
    diary.turns.finish_all()


def test_tasks_that_are_given_up_clean_up():
    turns, cleaned = Turns(), []

    def work() -> None:
        try:
            turns.begin_round()()
        finally:
            cleaned.append(True)

    turns.begin(work)
    turns.begin_round()()
    turns.give_up()
    assert cleaned == [True]
    turns.finish_all()


def test_a_task_sees_the_context_that_it_was_begun_in():
    variable, turns = contextvars.ContextVar[str]("variable"), Turns()
    variable.set("outside")
    assert turns.begin(variable.get)() == "outside"


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
@pytest.mark.parametrize(
    ("partition", "options"),
    [
        ("horizontal", {}),
        ("vertical", {"counts": "revealed"}),
        ("mixed", {"scale": "standard", "init": "k-means++"}),
        ("vertical", {"labels": "revealed"}),
        ("horizontal", {"n_clusters": range(2, 4), "least_cluster_size": 3, "sizes": "rounded"}),
    ],
    ids=str,
)
def test_all_roles_take_turns_alike(monkeypatch, protocol, partition, options):
    """The dealer too: or frames would be out of order as soon as two tasks are under way."""
    taken: defaultdict[str, list[str]] = defaultdict(list)
    end_round = Turns._end_round

    def noted(self, now, begun):
        if begun == (self._passed if now is None else now.passed):
            taken[threading.current_thread().name].append("main" if now is None else "task")
        end_round(self, now, begun)

    monkeypatch.setattr(Turns, "_end_round", noted)
    x = np.random.default_rng(0).uniform(-1, 1, (60, 4))
    options = {"n_clusters": 3, "init": "random", **options}
    SecureKMeans(
        protocol=protocol, partition=partition, n_parties=3, max_iter=3, random_state=0, bounds=[(-1, 1)] * 4, **options
    ).fit(x)
    roles = [taken[f"coterie-{rank}"] for rank in range(4)]
    assert "task" in roles[0]
    assert roles[1:] == [roles[0]] * 3
