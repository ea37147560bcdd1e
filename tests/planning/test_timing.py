"""The time model: a case by hand, and what it must not depend on."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.planning import even_layout, forecast, planned, sketch, timing
from coterie.planning.timing import Load, loads, time_of
from coterie.protocols import FAMILIES
from coterie.transport.links import LINKS, Link

TASK = sketch(even_layout("horizontal", 100, 3, 2), 4)
WORLD = FAMILIES["onetime"].world(["P1", "P2"])
TAKEN = np.array([10, 600, 200, 100])  # rounds; bytes that P0, P1 and P2 send


def test_the_work_of_each_role():
    assert loads(TASK, WORLD, TAKEN, 50) == {
        0: Load(10, 20, 600, 1200, 0, 50, 100),
        1: Load(10, 20, 200 + 350, 1200, 50, 0, 0),
        2: Load(10, 20, 100 + 400, 1200, 50, 0, 0),
    }


def test_a_case_by_hand(monkeypatch):
    monkeypatch.setitem(timing.NS, "onetime", Load(1e6, 0, 0, 0, 2e6, 0, 0))
    monkeypatch.setattr(timing, "PACE", 0.5)
    monkeypatch.setattr(timing, "WAKE_SECONDS", 0.001)
    link = Link(round_trip=0.01, bandwidth=1e9)
    busy = [0.01, 0.11, 0.11]  # ten rounds; at the parties, fifty comparisons as well
    assert time_of(TASK, WORLD, TAKEN, 50, link) == pytest.approx(sum(busy) / 2 / 0.5 + 10 * (0.005 + 0.001))
    narrow = Link(round_trip=0.01, bandwidth=100)
    assert time_of(TASK, WORLD, TAKEN, 50, narrow) == pytest.approx(600 / 2 / 100 + 10 * 0.006)


def test_a_family_that_was_not_measured_has_a_forecast_too():
    assert timing.nanoseconds("another") == timing.NS["securenn"]


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_more_of_anything_takes_longer(protocol):
    def seconds(rows=1000, columns=4, clusters=4, parties=2):
        task = sketch(even_layout("horizontal", rows, columns, parties), clusters, protocol=protocol)
        link = LINKS["loopback"]
        return forecast(planned(task, parties, "auto", link), parties, 1, link, "stop").seconds_per_iteration

    least = seconds()
    assert least < min(seconds(rows=100_000), seconds(columns=400), seconds(clusters=16), seconds(parties=8))
