"""What is seen while a run goes on: a spinner that turns, one line that fits, plain lines where nothing is drawn."""

from __future__ import annotations

import io

import pytest
from rich.console import Console as Rich

from coterie.cli import progress
from coterie.cli.console import Console
from coterie.cli.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def console(width=80, terminal=True, environment=None):
    made = Console()
    stream = io.StringIO()
    made.rich = Rich(
        file=stream, width=width, soft_wrap=True, highlight=False, force_terminal=terminal, _environ=environment or {}
    )
    return made, stream


def test_the_spinner_turns(clock):
    """Drawn at different times, the same line has different heads."""
    made, _ = console()
    times = iter([0.0, 0.1, 0.2, 0.3])
    made.rich.get_time = lambda: next(times)
    voice = Progress(made)
    voice.phase("computing")
    heads = set()
    for _ in range(4):
        with made.rich.capture() as captured:
            made.rich.print(voice._drawn())
        heads.add(captured.get().split()[0])
        assert "computing" in captured.get()
    assert len(heads) >= 3


def test_one_line_however_narrow_the_terminal(clock):
    made, _ = console(width=40)
    voice = Progress(made)
    voice.iterated(0, 7, 200, 123_456)
    clock[0] += 200
    with made.rich.capture() as captured:
        made.rich.print(voice._drawn())
    (line,) = captured.get().splitlines()
    assert "iteration 7 of at mos" in line
    assert line.endswith("… (3 min 20 s)")
    assert len(line) <= 40 - len("^C")  # which a terminal shows when it is typed


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (100, "iteration 7 of at most 200, 1.54 GB sent, 20 s each, at most 1 h 04 min left (20 s)"),
        (80, "iteration 7 of at most 200, 1.54 GB sent, at most 1 h 04 min left (20 s)"),
        (70, "iteration 7 of at most 200, at most 1 h 04 min left (20 s)"),
    ],
)
def test_less_is_said_where_the_terminal_is_narrow(clock, width, said):
    made, _ = console(width=width)
    voice = Progress(made)
    clock[0] += 20
    voice.iterated(0, 7, 200, 1_540_000_000)
    assert voice._drawn().text.plain == said


def test_whole_seconds_pass(clock):
    made, _ = console()
    voice = Progress(made)
    voice.waiting(["bob", "helper"])
    assert "(" not in voice._drawn().text.plain
    clock[0] += 1.7
    assert voice._drawn().text.plain == "waiting for bob, helper (1 s)"
    clock[0] += 80
    assert voice._drawn().text.plain == "waiting for bob, helper (1 min 21 s)"


@pytest.mark.parametrize(
    ("terminal", "environment"), [(False, {}), (True, {"TERM": "dumb"})], ids=["no terminal", "dumb terminal"]
)
def test_plain_lines_where_nothing_can_be_drawn_over(clock, terminal, environment):
    made, stream = console(terminal=terminal, environment=environment)
    with Progress(made) as voice:
        voice.phase("computing")
        clock[0] += 2.0
        voice.iterated(1, 7, 200, 123_456)
    first, second = (line.split(" ", 1)[1] for line in stream.getvalue().splitlines())
    assert first == "computing"
    assert second == "iteration 7 of at most 200 of start 2, 123 kB sent, 2 s each, at most 6 min 26 s left"
    assert "\x1b" not in stream.getvalue()


def test_notes_stay_above_the_line(clock):
    made, stream = console()
    with Progress(made) as voice:
        voice.note("goes on after iteration 12 of an earlier run")
        voice.phase("computing")
    assert "goes on after iteration 12 of an earlier run\n" in stream.getvalue()
