"""How a run went: as many bars as iterations, waiting beside computing, and an inertia that can be read."""

from __future__ import annotations

import pytest

from coterie.report.blocks import Grid, Image, Paragraph, Tiles
from coterie.report.clusters import show_clusters
from coterie.report.cost import show_course
from coterie.report.facts import facts_of
from coterie.transport import Lap
from tests.report.examples import PARTICIPANTS, by_hand, small_reports


@pytest.mark.parametrize(
    ("partition", "options"),
    [("horizontal", {}), ("horizontal", {"max_iter": 1}), ("vertical", {"labels": "revealed"})],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_has_as_many_bars_as_iterations(partition, options, rank):
    """The last one too, which no other follows."""
    task, reports = small_reports(partition, **options)
    report = reports[rank]
    facts = facts_of(task, report.outcome, rank, PARTICIPANTS, title="t", laps=report.iterations, waited=report.waited)
    assert len(facts.laps) == facts.n_iter >= 1
    assert all(0 <= lap.waited <= lap.seconds for lap in facts.laps)
    assert sum(lap.waited for lap in facts.laps) <= report.waited + 1e-9
    (drawn,) = (block for block in show_course(facts) if isinstance(block, Image))
    assert f"for {facts.n_iter} iteration" in drawn.alt


def test_iterations_of_all_starts_are_shown():
    task, reports = small_reports("horizontal", init="random", n_init=3, random_state=0)
    stop_bits = [entry for entry in reports[1].outcome.disclosures if entry.what == "stop bit"]
    assert len(reports[1].iterations) == len(stop_bits)  # one bit in each iteration: none ran to the last
    facts = facts_of(task, reports[1].outcome, 1, PARTICIPANTS, title="t", laps=reports[1].iterations)
    (drawn,) = (block for block in show_course(facts) if isinstance(block, Image))
    assert f"one after another: {len(stop_bits)} in all" in drawn.caption


def test_iterations_of_a_run_that_was_taken_up_keep_their_numbers():
    course = show_course(by_hand(n_iter=5))
    (drawn,) = (block for block in course if isinstance(block, Image))
    said = [block.text for block in course if isinstance(block, Paragraph)]
    assert "taken up again after iteration 3: times, rounds and bytes on this page are those since then" in said[-1]
    assert "Those before iteration 4 were done before the run was taken up again" in drawn.caption


def test_waiting_is_told_apart_from_computing():
    tiles, grid = (block for block in show_course(by_hand()) if isinstance(block, Tiles | Grid))
    assert grid.rows == [
        ["waiting for the others to come", "1.5 s"],
        ["computing: working", "1.2 s"],
        ["computing: waiting for messages of others", "0.8 s"],
        ["in all", "3.5 s"],
    ]
    assert [value for _, value, _ in tiles.figures] == ["1.5 s", "2 s", "40%"]
    (drawn,) = (block for block in show_course(by_hand()) if isinstance(block, Image))
    assert "60% of the time was spent waiting" in drawn.alt


def test_a_lap_never_waits_longer_than_it_takes():
    facts = by_hand(laps=[Lap(0.5, 0.6)], waited=9.0)
    _, grid = (block for block in show_course(facts) if isinstance(block, Tiles | Grid))
    assert grid.rows[1] == ["computing: working", "0 s"]


def said_of_inertia(**more):
    (quality,) = (one for one in show_clusters(by_hand(**more), None, None, "own rows") if hasattr(one, "sentences"))
    return quality.sentences[0]


def test_the_inertia_has_a_unit_and_comparisons():
    """By hand: 12.5 over seven rows is 1.34 squared, and a quarter of 50."""
    assert said_of_inertia(scatter=50.0) == (
        "The inertia is 12.5: the squared distances of all rows from their centres, added up, in the units of the "
        "columns, squared. A row lies about 1.3 from its centre (root mean square). With a single cluster it would be "
        "50: these clusters leave 25% of that."
    )
    standard = by_hand().options | {"scale": "standard"}
    assert "in standard deviations, squared" in said_of_inertia(options=standard)
    weighed = said_of_inertia(options=by_hand().options | {"row_weights": "count"})
    assert "each times the weight of its row" in weighed
    assert "A row lies" not in weighed
    assert "single cluster" not in said_of_inertia()  # it was not opened
