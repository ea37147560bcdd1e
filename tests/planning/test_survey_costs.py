"""The forecast of a survey is what the channel counts, whatever the data and whichever columns are open."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.planning.surveys import forecast_survey
from coterie.protocols import FAMILIES
from coterie.runtime.surveys import survey_in_threads
from tests.contract.replicated import Replicated
from tests.surveys.by_hand import ask, tallies_of

RANDOM = np.random.RandomState(0)


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize(
    ("protocol", "p"), [("onetime", 2), ("onetime", 3), ("securenn", 3), ("falcon", 3), ("replicated", 3)]
)
def test_rounds_and_bytes_as_forecast(monkeypatch, protocol, p, way):
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)
    blocks = [RANDOM.uniform(0, 8, (count, 2)) for count in (70, 33, 65)[:p]]
    blocks[0][:68, 0] = np.nan
    options = {"protocol": protocol, "cells": 12, "least": 5}
    if way == "columns":
        options["holders"] = tuple(j for j in range(1, p + 1) for _ in range(2))
    task = ask(blocks, **options)
    names = [f"P{j}" for j in range(1, p + 1)]
    found, traffic = survey_in_threads(task, tallies_of(task, blocks), names)
    rounds, sent = forecast_survey(task, FAMILIES[protocol].world(names))
    assert rounds == traffic.rounds
    assert sent == traffic.bytes_sent
    assert not found.closed.all()
