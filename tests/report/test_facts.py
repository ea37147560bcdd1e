from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie.ideal import Roles
from coterie.report.facts import ColumnFacts, Facts, Participant, describe_role, facts_of, rows_per_cluster, versions
from tests.report.examples import PARTICIPANTS, by_hand, facts_of_small_run, small_run


def test_facts_travel_as_json():
    facts = by_hand()
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


def test_facts_show_no_result_when_printed():
    assert repr(by_hand()) == "<Facts of alice>"


def test_roles_by_hand():
    facts = by_hand()
    assert (facts.p, facts.d, facts.roles.dealer, facts.parties) == (2, 3, "depot", ["alice", "bob"])
    assert facts.by_tolerance
    assert not by_hand(n_iter=300).by_tolerance


def test_labels_are_counted_without_the_closed_ones():
    assert rows_per_cluster(np.array([-1, 0, 2, 2, -1]), 4) == [1, 0, 2, 0]


def test_horizontal_facts():
    facts = facts_of_small_run(1, "horizontal")
    assert facts.columns == [ColumnFacts(name, -20, 20) for name in "abce"]
    assert facts.rows == {"alice": 10, "bob": 10}
    assert facts.own_rows == [3, 7]
    assert facts.sizes is None
    assert np.array(facts.centers).shape == (2, 4)
    assert facts.options["partition"] == "horizontal"
    assert list(facts.traffic.bytes_sent) == ["alice"]


def test_vertical_facts_have_own_columns_and_sizes():
    facts = facts_of_small_run(2, "vertical")
    assert facts.center_columns == ["c", "e"]
    assert np.array(facts.centers).shape == (2, 2)
    assert [column.holder for column in facts.columns] == ["alice", "alice", "bob", "bob"]
    assert facts.sizes == facts.own_rows == [3, 17]


def test_revealed_counts_are_facts():
    assert facts_of_small_run(1, "horizontal", counts="revealed").sizes == [3, 17]


def test_shared_centres_are_not():
    facts = facts_of_small_run(1, "horizontal", centers="shared")
    assert facts.centers is None
    assert facts.inertia is not None


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_the_helper_has_no_result(partition):
    facts = facts_of_small_run(0, partition, counts="revealed")
    assert facts.role == "helper"
    assert (facts.centers, facts.sizes, facts.own_rows, facts.inertia) == (None, None, None, None)


def test_small_clusters_are_closed():
    facts = facts_of_small_run(1, "vertical", least=5)
    assert facts.suppressed == [True, False]
    assert facts.closed(0)
    assert facts.sizes == [None, 20]  # all rows are labelled by the nearest open centre
    assert facts.least == 5


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_facts_say_where_centres_started_and_nothing_of_rows_that_nobody_knows(partition):
    for rank in (0, 1, 2):
        facts = facts_of_small_run(rank, partition, init="k-means++", n_init=2, random_state=3)
        assert (facts.options["init"], facts.options["n_init"]) == ("k-means++", "2")
        assert [len(bytes.fromhex(seed)) for seed in facts.options["seeds"].split(", ")] == [16, 16]
        assert "start" not in facts.options
        assert "start rows" not in {entry.what for entry in facts.disclosures}
        assert facts_of_small_run(rank, partition, init="random", random_state=3).options["start"].count(",") == 1
        assert facts_of_small_run(rank, partition).options["init"] == "given"


def test_revealed_labels_tell_of_the_rows_that_were_drawn():
    facts = facts_of_small_run(1, "vertical", init="k-means++", labels="revealed", random_state=3)
    (entry,) = (entry for entry in facts.disclosures if entry.what == "start rows")
    assert (entry.to, entry.restart, entry.iteration) == (("alice", "bob"), 0, None)
    assert "start" not in facts.options


def test_given_options_are_added():
    task, outcomes = small_run("horizontal")
    facts = facts_of(task, outcomes[1], 1, PARTICIPANTS, {"link": "wan"}, title="t", study="s")
    assert facts.options["link"] == "wan"
    assert facts.study == "s"


def test_versions_name_what_a_run_depends_on():
    found = versions("matplotlib")
    assert {"coterie", "Python", "numpy", "cryptography", "matplotlib", "OpenSSL", "system"} <= set(found)


def test_roles_follow_from_what_participants_are():
    """And what they are from the roles."""
    for roles in (
        Roles(("a", "b"), ("a", "b"), "h"),
        Roles(("a", "b", "c"), ("a", "b", "c")),
        Roles(("a", "b"), ("s", "a", "b")),
        Roles(("a", "b", "c", "d"), ("b", "c", "d")),
    ):
        names = sorted(roles.everybody, key=lambda name: name in roles.owners)  # who owns nothing has rank 0
        people = [Participant(name, describe_role(roles, name)) for name in names]
        assert by_hand(participants=people).roles == roles
