"""The paper's example: secure runs give the centralised result, and rounds are no more than the paper's."""

from __future__ import annotations

from coterie.report import example
from coterie.simulation import demo, rounds


def test_rounds_are_counted_both_ways_and_are_no_more_than_the_paper_s():
    found = list(rounds.count_rounds(lambda _: None, (2, 4)))
    for one in found:
        assert 0 < one.rounds <= one.with_dealing <= example.ALGORITHMS[one.algorithm].rounds(one.k), one
    assert {(one.algorithm, one.protocol, one.k) for one in found} == {
        *((key, family, k) for key in example.ITERATED for family in rounds.FAMILIES for k in (2, 4)),
        ("SHK secret", "onetime, all pairs", 4),
        *((key, "securenn", 4) for key in ("ElementWiseMatMul", "MatDist", "LabelSamples")),
        ("LabelSamples", "onetime", 4),
    }


def test_secure_runs_between_processes_give_the_centralised_result():
    """Both partitions over TLS; what families do alike is tested elsewhere."""
    steps = []
    example = demo.compute_example(steps.append, ways=(demo.WAYS[0], demo.WAYS[3]), families=("onetime",), clusters=())
    assert example.holds
    assert [one.same for one in example.agreements] == [400] * 2
    assert all(run.iterations == example.pooled.iterations for run in example.runs)
    assert all(run.sent > 0 and run.traffic.rounds > 0 and run.disclosures for run in example.runs)
    assert len(steps) == 1 + 1 + 2


def test_the_progress_bar_knows_how_many_steps_there_are(monkeypatch):
    steps = []
    monkeypatch.setattr(demo, "_run_securely", lambda *_: None)
    monkeypatch.setattr(rounds, "_count_iteration", lambda *_: (1, 1))
    monkeypatch.setattr(rounds, "_count_parts", lambda _: [])
    demo.compute_example(steps.append)
    assert len(steps) + 1 == demo.STEPS
