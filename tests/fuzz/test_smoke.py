"""A few cases of every campaign; that a planted mistake is a finding; that an interrupted run goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from coterie.study import audit, signatures
from coterie.transport import channel
from tests.fuzz import __main__ as driver
from tests.fuzz.campaign import Campaign
from tests.fuzz.campaigns import CAMPAIGNS
from tests.fuzz.material import make_material

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("fuzz")]
#: How many cases of each are run here, spread over all of them.
FEW = {"frames": 2000, "truncations": 500, "truncations-tls": 5, "files": 100, "tls-waiting": 20, "tls-working": 2}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = os.umask(0o022)
    yield make_material(tmp_path_factory.mktemp("fuzz") / "material")
    os.umask(before)


def spread(campaign: Campaign, count: int) -> range:
    step = max(campaign.total() // count, 1) | 1  # odd: ways go by the number of a case
    return range(3, campaign.total(), step)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_few_cases(material, name):
    campaign = CAMPAIGNS[name](material, driver.SEED)
    numbers = spread(campaign, FEW[name])
    tally = campaign.run(numbers)
    assert tally.findings == []
    assert sum(tally.outcomes.values()) in (len(numbers), len(numbers) + 1), "one for the end of the chunk"


def test_a_length_that_is_not_checked_is_found(material, monkeypatch):
    monkeypatch.setattr(channel, "CONTROL_LIMIT", 1 << 20)
    found = CAMPAIGNS["frames"](material, 1).run(range(3000)).findings
    assert any("room for" in one.what for one in found)


def test_a_signature_that_is_not_checked_is_found(material, monkeypatch):
    monkeypatch.setattr(signatures, "signed_by", lambda *args: True)
    files = CAMPAIGNS["files"](material, 1)
    assert any("all signatures hold" in one.what for one in files.run(spread(files, 400)).findings)


def test_a_log_that_is_not_checked_is_found(material, monkeypatch):
    monkeypatch.setattr(audit, "_unchanged", lambda *args: True)
    monkeypatch.setattr(audit, "_holds", lambda *args: True)
    files = CAMPAIGNS["files"](material, 1)
    assert any("can be verified" in one.what for one in files.run(spread(files, 400)).findings)


def test_a_case_that_does_not_end_is_found(material, monkeypatch):
    frames = CAMPAIGNS["frames"](material, 1)
    monkeypatch.setattr(frames, "limit", 1)

    def case(number: int) -> str:
        while number == 7:
            pass
        return "fine"

    monkeypatch.setattr(frames, "case", case)
    (found,) = frames.run(range(10)).findings
    assert (found.case, "no end" in found.what) == (6, True)


def test_a_run_goes_on_where_it_was_interrupted(material, tmp_path, monkeypatch, capsys):
    """Two times a little, then the same once more from the start: the same outcomes, chunk by chunk."""
    (tmp_path / "material").symlink_to(material)
    frames = CAMPAIGNS["frames"]
    monkeypatch.setattr(frames, "chunk", 100)
    line = ["--campaign", "frames", "--folder", str(tmp_path), "--minutes"]

    def state() -> driver.State:
        return msgspec.json.decode((tmp_path / "frames.json").read_bytes(), type=driver.State)

    monkeypatch.setattr(frames, "total", lambda self: 300)
    assert driver.main([*line, "5"]) == 0
    assert state().done == 300
    monkeypatch.setattr(frames, "total", lambda self: 600)
    assert driver.main([*line, "0"]) == 0, "no time, nothing done"
    assert state().done == 300
    assert driver.main([*line, "5"]) == 0
    both = state()
    assert both.done == 600
    assert driver.main([*line, "5", "--fresh"]) == 0
    assert state().tally.outcomes == both.tally.outcomes
    assert "0 findings" in capsys.readouterr().out
