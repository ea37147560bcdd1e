"""The report shows what a party may know, stands alone, and says it in words."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from coterie.report.agreed import show_agreement
from coterie.report.blocks import Grid
from coterie.report.facts import ColumnFacts, Facts, Participant
from coterie.report.views import MOST_POINTS
from coterie.report.write import write_report
from tests.report.examples import (
    LABELS,
    VALUES,
    Page,
    assert_follows_the_screen,
    assert_stands_alone,
    by_hand,
    facts_of_small_run,
    small_run,
    table,
)


def written(tmp_path: Path, facts: Facts, values=None, labels=None) -> Page:
    write_report(tmp_path / "report.html", facts, values, labels)
    return assert_stands_alone((tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture
def page(tmp_path):
    return written(tmp_path, by_hand(), VALUES, LABELS)


def test_has_all_its_parts(page):
    """What came out, what was disclosed, how it ran, what was agreed."""
    names = ["clusters", "disclosures", "trust", "course", "traffic", "agreed", "versions"]
    assert [a["id"] for a in page.all("h2")] == names
    assert [a["href"] for a in page.all("a")] == [f"#{name}" for name in names]


def test_says_what_was_agreed(page):
    for words in ("Blood values", "5eed", "alice.example:9000", "01:23", "iron", "alice (this report)", "horizontal"):
        assert words in page.text


def test_says_what_came_out(page):
    assert "0 1 1.25 0.500 100 1 3 7.75 -0.500 900" in page.text  # cluster, own rows, centre
    assert "sizes of the clusters were not disclosed" in page.text
    assert "inertia is 12.5" in page.text
    assert "2 iterations" in page.text
    assert "How far the centres moved is not known" in page.text
    assert "12.3 kB" in page.text
    assert "3.5 s" in page.text
    assert "A row lies about 1.3 from its centre" in page.text


def test_pictures_are_of_profile_two_columns_principal_axes_seconds_and_traffic(page):
    alts = [a["alt"] for a in page.all("img")]
    assert [alt.split(" ")[0] for alt in alts] == ["Profile", "Scatter", "Scatter", "Seconds", "Bytes"]
    assert "iron and salt" in alts[1]  # zinc's range is wide, too, but its values spread less in it
    assert "principal axes" in alts[2]


def test_figures_follow_the_screen(page):
    assert_follows_the_screen([base64.b64decode((one["src"] or "").partition(",")[2]) for one in page.all("img")])


def test_every_option_has_a_meaning(tmp_path):
    options = {"matching": "equal", "seed": "7", "row_weights": "count", "link": "wan", "n_init": "1"}
    facts = by_hand(options=by_hand().options | facts_of_small_run(1, "horizontal").options | options)
    (grid,) = (one for one in show_agreement(facts) if isinstance(one, Grid) and one.caption == "Options")
    for row in grid.rows:
        assert row[2], row


def test_disclosures_are_sentences_for_people(page):
    assert "Everybody, the helper included, learnt one bit" in page.text
    assert "in iterations 1 to 2" in page.text
    assert "alice learnt the cluster of each row of which it holds values: 4 rows." in page.text
    for heading in ("What nobody learnt", "What is not protected", "What everybody knows"):
        assert heading in page.text
    assert "semi-honest" in page.text


def test_same_facts_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_report(tmp_path / name, by_hand(), VALUES, LABELS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


HOSTILE = "<script>alert('x')</script>\"&{{ 7*7 }}"


def test_hostile_names_are_words_and_nothing_else(tmp_path):
    facts = by_hand(
        title=HOSTILE,
        study=HOSTILE,
        columns=[ColumnFacts(HOSTILE, 0, 10), ColumnFacts("$b$", -1, 1), ColumnFacts("</style>", 0, 1000)],
        center_columns=[HOSTILE, "$b$", "</style>"],
        participants=[
            Participant("depot", "helper"),
            Participant("alice", "data party"),
            Participant("<b>", "data party"),
        ],
        rows={"alice": 4, "<b>": 3},
        options=by_hand().options | {"note": HOSTILE},
        hashes={HOSTILE: HOSTILE},
        comparison={HOSTILE: HOSTILE},
    )
    page = written(tmp_path, facts, VALUES, LABELS)
    assert not page.all("b")
    assert page.text.count("<script>alert('x')</script>\"&{{ 7*7 }}") > 5


def test_helper_has_no_clusters(tmp_path):
    facts = by_hand(party="depot", role="helper", centers=None, center_columns=[], own_rows=None, inertia=None)
    page = written(tmp_path, facts)
    assert "clusters" not in [a["id"] for a in page.all("h2")]
    assert "1.25" not in page.text


SERVERS = [
    Participant("depot", "server"),
    Participant("alice", "data party and server"),
    Participant("bob", "data party and server"),
    Participant("dora", "data party"),
]


@pytest.mark.parametrize(("people", "who"), [(SERVERS, "and a server"), (SERVERS[1:], "two of whom serve")])
def test_servers_in_place_of_a_helper(tmp_path, people, who):
    """The page names no helper, and says who serves and whom one trusts."""
    log = by_hand().disclosures
    log = [msgspec.structs.replace(one, to=tuple(p.name for p in people if p.name != "bob")) for one in log]
    facts = by_hand(participants=people, rows={"alice": 4, "bob": 2, "dora": 1}, disclosures=log)
    facts.options |= {"protocol": "replicated", "counts": "revealed"}
    page = written(tmp_path, facts, VALUES, LABELS)
    assert "helper" not in page.text
    assert who in page.text
    assert "servers together could read everything" in page.text
    assert "servers learn the sizes of the clusters in every iteration, data parties at the end" in page.text
    assert "What everybody knows" in page.text


def test_a_server_without_data_has_no_clusters(tmp_path):
    facts = by_hand(
        party="depot", role="server", participants=SERVERS, centers=None, center_columns=[], own_rows=None, inertia=None
    )
    page = written(tmp_path, facts)
    assert "clusters" not in [a["id"] for a in page.all("h2")]


def test_one_column_gives_a_histogram(tmp_path):
    facts = by_hand(center_columns=["zinc"], centers=[[0.5], [-0.5]])
    facts.options["partition"] = "vertical"
    page = written(tmp_path, facts, VALUES[:, 1:2], LABELS)
    alts = [a["alt"] for a in page.all("img")]
    assert alts[0].startswith("Histogram of zinc")
    assert "this party learnt its own columns" in page.text


def test_closed_clusters_stay_closed(tmp_path):
    facts = by_hand(suppressed=[True, False], least=3, sizes=[None, 6])
    page = written(tmp_path, facts, VALUES, np.ones(4, int))
    assert "0 (closed) – – – – –" in page.text
    assert "1.25" not in page.text
    assert "0.500 100" not in page.text
    assert "Cluster 0, 1 of 2, stays closed: it does not pass the output rules" in page.text
    assert "labelled by the nearest open centre" in page.text


def test_all_clusters_closed(tmp_path):
    facts = by_hand(suppressed=[True, True], least=30, inertia=None)
    page = written(tmp_path, facts, VALUES, np.full(4, -1))
    assert "All 2 clusters stay closed" in page.text
    assert "inertia is" not in page.text


def test_rounded_sizes_and_centres_are_called_so(tmp_path):
    facts = by_hand(suppressed=[False, False], least=3, sizes=[3, 6])
    facts.options["sizes"] = "rounded"
    facts.columns = [ColumnFacts("iron", 0, 10, None, 0.25), *facts.columns[1:]]
    page = written(tmp_path, facts, VALUES, LABELS)
    assert "rows in all, rounded" in page.text
    assert "centres rounded to" in page.text
    assert "The centres are rounded" in page.text
    assert "All clusters pass the output rules" in page.text


def test_shared_centres(tmp_path):
    facts = by_hand(centers=None, center_columns=[])
    facts.options["centers"] = "shared"
    page = written(tmp_path, facts, VALUES, LABELS)
    assert "each party keeps a share" in page.text


def test_a_patchwork_shows_the_rows_that_can_be_shown(tmp_path):
    values = VALUES.copy()
    values[0, 0] = np.nan
    page = written(tmp_path, by_hand(), values, LABELS)
    assert "3 of 4, of which it holds iron, zinc and salt" in page.text


def test_most_that_was_allowed(tmp_path):
    page = written(tmp_path, by_hand(max_iter=2), VALUES, LABELS)
    assert "the most that was allowed" in page.text


def test_many_rows_are_sampled(tmp_path):
    values = np.random.RandomState(0).uniform(0, 1, (MOST_POINTS + 1, 3))
    page = written(tmp_path, by_hand(), values, np.zeros(len(values), int))
    assert f"({MOST_POINTS:,} of {MOST_POINTS + 1:,})" in page.text


def test_more_columns_than_clusters_are_written_across(tmp_path):
    columns = [ColumnFacts(f"c{l}", 0, 1) for l in range(70)]
    centers = np.full((2, 70), 0.25).tolist()
    facts = by_hand(columns=columns, center_columns=[c.name for c in columns], centers=centers)
    page = written(tmp_path, facts, np.random.RandomState(0).uniform(0, 1, (4, 70)), LABELS)
    assert "10 more columns are not shown" in page.text


def test_forecast_and_comparison_are_shown(tmp_path):
    page = written(tmp_path, by_hand(forecast={"rounds": "1,001"}, comparison={"labels": "all alike"}), VALUES, LABELS)
    assert "1,001" in page.text
    assert "all alike" in page.text


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_reports_of_real_runs_hold_no_number_of_another_party(tmp_path, partition, rank):
    """Every value of the table, to three places, is looked for in the words of every report."""
    task, outcomes = small_run(partition)
    facts, layout = facts_of_small_run(rank, partition), task.layout
    values = labels = None
    if rank:
        held, columns = layout.own_rows(rank), layout.own_columns(rank)
        values = np.where(layout.own_cells(rank), table(), np.nan)[held][:, columns]
        labels = outcomes[rank].labels
    page = written(tmp_path, facts, values, labels)
    said = set(re.findall(r"-?\d+\.\d{2,}", page.text))
    mine = layout.own_cells(rank) if rank else np.zeros((20, 4), bool)
    assert not said & {f"{v:.3f}" for v in table()[~mine]}
    if partition == "vertical" and rank:
        theirs = facts_of_small_run(3 - rank, partition).centers
        assert not said & {f"{v:.2f}" for row in theirs or [] for v in row}
    if rank == 0:
        assert "inertia is" not in page.text
    else:
        assert {f"{v:.2f}" for row in facts.centers or [] for v in row} <= said


def test_facts_read_back_give_the_same_report(tmp_path):
    again = msgspec.json.decode(msgspec.json.encode(by_hand()), type=Facts)
    assert written(tmp_path, again, VALUES, LABELS).text == written(tmp_path, by_hand(), VALUES, LABELS).text
