"""Results that are opened once more are neither logged nor counted once more."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from coterie.study.audit import verify_audit
from tests.study.walk import SMALL, Cast


@pytest.mark.usefixtures("no_pictures")
def test_results_opened_once_more_are_not_logged_or_counted_again(cast: Cast):
    cast.policies(runs=1)
    cast.agree(*SMALL, "--n-init", 2)
    points = np.random.default_rng(0).uniform(-5, 5, (40, 2))
    for name in cast.parties:
        cast.give(name, x=points[:, 0], y=points[:, 1])
    cast.run()
    before = {name: [e for e in cast.audit(name) if e["event"] == "opening"] for name in cast.names}
    shutil.rmtree(cast.at("bob", "results"))
    cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names})
    for name in cast.names:
        assert [e for e in cast.audit(name) if e["event"] == "opening"] == before[name]
        assert len(verify_audit(cast.at(name, f"{name}.budget.jsonl")).entries) == 1
        assert cast.entry(name, "agreed")["replayed"]
        again = cast.at(name, "again", "disclosures.jsonl").read_bytes()
        assert len(again.splitlines()) == len(before[name])
