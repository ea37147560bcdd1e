"""How long a role only waits, by a clock that is moved by hand."""

from __future__ import annotations

import pytest

from coterie.transport import idling
from coterie.transport.idling import Idling, Lap
from coterie.transport.memory import memory_channels
from coterie.transport.metering import Metered
from tests.support import world


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(idling.time, "perf_counter", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def test_only_a_role_that_has_nothing_to_do_waits(clock):
    role = Idling()
    clock(1)
    with role.waiting():
        clock(2)
        assert role.waited == 2  # as long as it lasts
    clock(4)
    assert role.waited == 2


def test_one_thread_that_works_is_enough(clock):
    """The first waits for 7 seconds; in 4 of these another one works."""
    role = Idling()
    with role.waiting():
        clock(2)
        with role.working():
            clock(3)
            with role.waiting():
                clock(1)
            clock(1)
    assert role.waited == 2 + 1


def test_laps_are_between_the_marks_of_one_start(clock):
    channel = Metered(memory_channels(world(2))[1])
    channel.mark_iteration()
    clock(3)
    with channel.idling.waiting():
        clock(1)
    channel.mark_iteration()
    channel.start_over()
    clock(50)  # between two starts there is no iteration
    channel.mark_iteration()
    clock(2)
    channel.mark_iteration()
    assert channel.laps == [Lap(4, 1), Lap(2, 0)]
