from __future__ import annotations

from itertools import product

import pytest

from coterie.ideal import WHAT, Roles, Terms
from coterie.report.formats import format_bytes, format_duration, format_value, join_names
from coterie.report.glossary import PROTOCOL_PURPOSES, explain_option
from coterie.report.log import describe_log
from coterie.report.promises import promises
from coterie.sharing import Disclosure
from tests.report.examples import OPTIONS, small_run

PARTIES = ["alice", "bob", "carol"]
ROLES = Roles(tuple(PARTIES), tuple(PARTIES), "depot")
WAYS = [
    way
    for way in product(
        ("horizontal", "vertical", "mixed"), ("secret", "revealed"), ("private", "revealed"), ("revealed", "shared")
    )
    if way[2] == "private" or way[0] == "vertical"
]


def promised(partition="horizontal", counts="secret", labels="private", centers="revealed", parties=PARTIES, **more):
    terms = Terms(partition=partition, counts=counts, labels=labels, centers=centers, **more)
    return promises(terms, Roles(tuple(parties), tuple(parties), "depot"))


def words(sentences: list[str]) -> str:
    return " ".join(sentences)


# -- promises ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_everybody_has_a_place_and_every_sentence_ends(way):
    made = promised(*way)
    assert list(made.at_end) == [*PARTIES, "depot"]
    lists = [made.during, made.nobody, made.public, made.assumptions, made.not_protected, *made.at_end.values()]
    for sentences in lists:
        assert sentences
        for sentence in sentences:
            assert sentence[0].isupper()
            assert sentence.endswith((".", ".)"))


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_the_helper_learns_the_stop_bit_and_no_result(way):
    made = promised(*way)
    told = [sentence for sentence in made.during if "depot" in sentence]
    assert len(told) == 1
    assert "one bit" in told[0]
    assert made.at_end["depot"][0].startswith("Nothing")


def test_who_learns_which_rows_centres_start_from():
    drawn = "rows that k-means++ has drawn"
    for labels, init in (("private", "k-means++"), ("private", "random"), ("revealed", "k-means++")):
        made = promises(Terms(partition="vertical", labels=labels, init=init), ROLES)
        told, kept = drawn in words(made.during), "Which rows k-means++ has drawn" in words(made.nobody)
        assert (told, kept) == (labels == "revealed", (labels, init) == ("private", "k-means++"))


def test_default_by_hand():
    made = promised()
    assert "Nothing else is opened before the end" in words(made.during)
    assert words(made.at_end["bob"]).startswith("The centres, in all columns. The cluster of each of its own rows.")
    assert "inertia" in words(made.at_end["bob"])
    assert "sizes of the clusters" in words(made.nobody)
    assert "closed" not in words(made.at_end["bob"])
    assert "even 2 of the 3 parties together" in words(made.assumptions)
    assert "collude" in words(made.not_protected)


def test_vertical_columns_go_to_their_holders_and_sizes_follow():
    made = promised("vertical")
    assert "in its own columns" in words(made.at_end["alice"])
    assert "sizes" in words(made.at_end["alice"])
    assert "sizes" not in words(made.nobody)
    assert "except for the party that holds the column" in words(made.nobody)


def test_revealed_counts_say_what_follows_from_them():
    made = promised(counts="revealed")
    assert "how many rows each cluster has" in words(made.during)
    assert "sizes of the clusters, over all" in words(made.at_end["alice"])
    assert "take its own rows off" in words(made.not_protected)
    assert "sizes" not in words(made.nobody)


def test_revealed_labels_are_said_for_every_iteration():
    made = promised("vertical", labels="revealed")
    assert "cluster of every row" in words(made.during)
    assert "iterations before the last" not in words(made.nobody)


def test_shared_centres_are_nobodys():
    made = promised(centers="shared")
    assert "No centres" in words(made.at_end["alice"])
    assert "each party keeps a share" in words(made.nobody)


def test_a_least_size_opens_bits_to_the_parties_alone():
    made = promised(least=10)
    assert "Which clusters stay closed (one bit a cluster), and not why." in words(made.at_end["alice"])
    assert "for every party, the others together contribute at least 10 of its rows" in words(made.at_end["alice"])
    assert "labelled by the nearest open centre" in words(made.at_end["alice"])
    assert "10" not in words(made.at_end["depot"])
    assert "The centre of a closed cluster." in made.nobody


@pytest.mark.parametrize("least", [1, 10])
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_minus_one_is_for_the_case_that_all_are_closed(way, least):
    for sentence in promised(*way, least=least).at_end["alice"]:
        assert "-1" not in sentence or "If all are closed, all labels are -1" in sentence


def test_where_columns_are_split_nothing_is_said_of_contributions():
    made = promised("vertical", least=10)
    assert "contribute" not in words(made.at_end["alice"])
    assert "There is no rule on contributions" in words(made.not_protected)
    assert "no label sets fewer than 10 rows apart" in words(made.not_protected)


def test_what_contributions_do_not_protect():
    pooled = "parties that pool what they know"
    for parties, coalition, said in [(PARTIES[:2], 1, False), (PARTIES, 1, True), (PARTIES, 2, False)]:
        made = promised(parties=parties, least=10, coalition=coalition)
        assert (pooled in words(made.not_protected)) == said
        assert "others have at least 10 rows in it" in words(made.not_protected)
    assert "every 2 parties, the others" in words(promised(least=10, coalition=2).at_end["bob"])
    weak = promised(least=10, contribution="none-or-least")
    assert "or none at all" in words(weak.at_end["bob"])
    assert "A cluster that one party has to itself: it is open" in words(weak.not_protected)
    off = promised(least=10, contribution="off")
    assert "contribute" not in words(off.at_end["bob"])
    assert "all but one of them are one party's" in words(off.not_protected)


def test_what_is_said_of_precision():
    exact = "as precisely as they were computed"
    assert exact in words(promised().not_protected)
    assert exact in words(promised(least=10, rounded=("age",), columns=("age", "iron")).not_protected)
    made = promised(least=10, rounded=("age",), columns=("age",))
    assert exact not in words(made.not_protected)
    assert "Sizes, from a participant" in words(made.not_protected)
    assert "Sizes" not in words(promised("vertical", least=10).not_protected)
    assert "rounded in column age" in words(promised(least=10, rounded=("age",)).at_end["bob"])


def test_equal_ids_are_a_bit_for_the_data_parties():
    made = promised("vertical", ids=True)
    assert "whether all of them hold the same ids" in made.during[0]
    assert "helper receives nothing of the ids" in made.during[0]
    assert "nobody learns whose differ" in made.during[0]
    assert "whose differ" not in promised("vertical", parties=PARTIES[:2], ids=True).during[0]


def test_restarts_are_mentioned_where_there_are_some():
    assert "Which of the 5 starts" in words(promised(starts=5).nobody)
    assert "starts gave" not in words(promised().nobody)


def test_what_is_promised_is_what_runs_log():
    """Whatever a real run opens has a word here, and what is opened in the loop stands under `during`."""
    for partition, counts, labels, least in [
        ("horizontal", "secret", "private", 1),
        ("horizontal", "revealed", "private", 1),
        ("vertical", "secret", "private", 4),
        ("vertical", "secret", "revealed", 1),
        ("mixed", "secret", "private", 1),
    ]:
        _, outcomes = small_run(partition, least, counts=counts, labels=labels)
        log = outcomes[0].disclosures
        assert {entry.what for entry in log} <= set(WHAT)
        in_loop = {entry.what for entry in log if entry.iteration is not None}
        during = words(promised(partition, counts, labels, least=least).during)
        assert ("counts" in in_loop) == ("how many rows each cluster has" in during)
        assert ("labels" in in_loop) == ("cluster of every row" in during)
        assert {entry.what for entry in log if "depot" in entry.to} <= {"stop bit"}
        assert ("suppression bits" in {entry.what for entry in log}) == (least > 1)


# -- the log in words ------------------------------------------------------------------------------------------------


def test_equal_entries_become_one_sentence():
    log = [Disclosure("stop bit", ("depot", *PARTIES), "go on?", i) for i in (1, 2, 3)]
    (line,) = describe_log(log, ROLES)
    assert line.sentence == (
        "Everybody, the helper included, learnt one bit: whether the centres moved so little that the run stops."
    )
    assert (line.when, line.times, line.to) == ("in iterations 1 to 3", 3, "everybody, the helper included")


def test_restarts_open_more_often_than_there_are_iterations():
    log = [Disclosure("stop bit", ("depot", *PARTIES), "go on?", i) for i in (1, 2, 1)]
    (line,) = describe_log(log, ROLES)
    assert (line.when, line.times) == ("in iterations 1 to 2, over all starts", 3)


def test_recipients_and_details():
    log = [
        Disclosure("labels", ("alice",), "result", None, "1 rows"),
        Disclosure("labels", ("alice", "bob"), "result", None, "12345 rows"),
        Disclosure("labels", tuple(PARTIES), "by labels", 1),
        Disclosure("centers", tuple(PARTIES), "result", None, "x, y"),
        Disclosure("bounds", ("depot", *PARTIES), "auto"),
        Disclosure("debugging", ("bob",), "why not", 4),
    ]
    lines = describe_log(log, ROLES)
    assert [line.sentence for line in lines] == [
        "alice learnt the cluster of each row of which it holds values: 1 row.",
        "alice and bob learnt the cluster of each row of which they hold values: 12,345 rows.",
        "All data parties learnt the cluster of each row.",
        "All data parties learnt the centres of the clusters, in columns x, y.",
        "Everybody, the helper included, learnt the range of each column, as taken from the data and then widened.",
        "bob was given “debugging”.",
    ]
    assert [line.when for line in lines] == [
        "at the end", "at the end", "in iteration 1", "at the end", "before the run", "in iteration 4",
    ]  # fmt: skip


def test_two_parties_are_named():
    log = [Disclosure("inertia", ("a", "b"), "result")]
    assert describe_log(log, Roles(("a", "b"), ("a", "b"), "h"))[0].to == "a and b"


# -- options, numbers ------------------------------------------------------------------------------------------------


def test_options_have_meanings():
    assert all(explain_option(option, value) for option, value in OPTIONS.items())
    assert explain_option("unheard of", "x") == ""


def test_counted_protocols_have_meanings():
    for protocol, init in product(("onetime", "securenn"), ("k-means++", "random")):
        _, outcomes = small_run("horizontal", protocol=protocol, init=init, random_state=0)
        assert ("KMeans++" in outcomes[1].traffic.by_protocol) == (init == "k-means++")
        assert set(outcomes[1].traffic.by_protocol) <= set(PROTOCOL_PURPOSES)


def test_lists():
    assert [join_names(list(names)) for names in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]


def test_sizes():
    cases = {0: "0 bytes", 999: "999 bytes", 1000: "1 kB", 999_499: "999 kB", 999_900: "1 MB", 31_600_000: "31.6 MB"}
    assert {count: format_bytes(count) for count in cases} == cases
    assert format_bytes(5e15) == "5e+03 TB"


def test_durations():
    cases = {
        0: "0 s",
        0.00123: "1.2 ms",
        0.0123: "12 ms",
        0.0994: "99 ms",
        0.0999: "0.1 s",
        0.377: "0.38 s",
        0.4: "0.4 s",
        0.9999: "1 s",
        3.44: "3.4 s",
        42: "42 s",
        59.94: "59.9 s",
        59.99: "1 min",
        80: "1 min 20 s",
        320: "5 min 20 s",
        3599: "59 min 59 s",
        3599.9: "1 h",
        7500: "2 h 05 min",
        47.999 * 3600: "2 days",
        100 * 3600: "4 days 4 h",
    }
    assert {seconds: format_duration(seconds) for seconds in cases} == cases


@pytest.mark.parametrize(
    ("value", "span", "text"),
    [
        (12345.678, 100_000, "12,346"),
        (0.123456, 1, "0.123"),
        (-0.00001, 1, "0.000"),
        (5.5, 0, "5.5"),
        (1e-9, 1e-12, "1e-09"),
        (float("nan"), 1, "nan"),
    ],
)
def test_numbers_are_as_fine_as_matters(value, span, text):
    assert format_value(value, span) == text
