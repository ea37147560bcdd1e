"""The ideal functionality by hand: what each role learns, in today's world and in worlds to come; and its check."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from coterie.clustering.allowed import Allowed
from coterie.errors import ProtocolError
from coterie.ideal import ITEMS, WHAT, Groups, Learnt, Roles, Terms, learnt
from coterie.report.promises import promises
from coterie.sharing import Disclosure, Ledger
from coterie.study.statement import LINES

PARTIES = ("alice", "bob", "carol")
TODAY = Roles(PARTIES, PARTIES, "depot")
#: Three servers without a dealer: two own data, one does not, and one more owner serves nothing.
SERVERS = Roles(("alice", "bob", "dora"), PARTIES)
EVERYBODY = ("depot", *PARTIES)
ALONE = [(name,) for name in PARTIES]
OPTIONS = [
    {"partition": partition, "counts": counts, "labels": labels, "centers": centers, "least": least, "sizes": sizes,
     "init": init}
    for partition, counts, labels, centers, least, sizes, init in product(
        ("horizontal", "vertical", "mixed"), ("secret", "revealed"), ("private", "revealed"), ("revealed", "shared"),
        (1, 10), ("secret", "rounded"), ("k-means++", "random"),
    )
    if labels == "private" or partition == "vertical"
]  # fmt: skip


def opened(terms: Terms, roles: Roles = TODAY, groups: Groups | None = None) -> list[Learnt]:
    return [one for one in learnt(terms, roles, groups) if one.item.kind == "opened"]


def by_hand(options: dict) -> Counter:
    """The contract's table "What is disclosed, and nothing else", and the output rules, as (what, to, when)."""
    entries: Counter = Counter()
    svk_means = options["labels"] == "revealed"
    entries["stop bit", EVERYBODY, "iteration"] += 1
    if svk_means:
        entries["labels", PARTIES, "iteration"] += 1
        if options["init"] == "k-means++":
            entries["start rows", PARTIES, "start"] += 1
    elif options["counts"] == "revealed":  # with revealed labels these follow
        entries["counts", PARTIES, "iteration"] += 1
        entries["counts", PARTIES, "end"] += 1
    if options["least"] > 1:
        entries["suppression bits", PARTIES, "end"] += 1
        if options["sizes"] == "rounded":
            entries["sizes", PARTIES, "end"] += 1
    if options["centers"] == "revealed":
        entries.update(("centers", to, "end") for to in (ALONE if options["partition"] == "vertical" else [PARTIES]))
    entries.update(("labels", to, "end") for to in (ALONE if options["partition"] == "horizontal" else [PARTIES]))
    for what in ("inertia", "scatter", "silhouette"):  # how good the clusters are, unless the options leave it out
        entries[what, PARTIES, "end"] += 1
    return entries


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_what_is_opened_by_hand(options):
    found = opened(Terms(**options))
    assert Counter((one.item.what, one.to, one.item.when) for one in found) == by_hand(options)
    assert any(one.some for one in found) == (options["partition"] == "mixed")


def test_before_the_run():
    found = opened(Terms(partition="vertical", ids=True, bounds=True))
    assert [(one.item.what, one.to) for one in found[:2]] == [("bounds", EVERYBODY), ("equal ids", PARTIES)]


def test_a_prediction_opens_labels_alone():
    for options in OPTIONS:
        assert {one.item.what for one in opened(Terms(doing="predict", **options))} == {"labels"}
    found = opened(Terms(partition="vertical", doing="predict", ids=True))
    assert [one.item.what for one in found] == ["equal ids", "labels"]


def test_how_often():
    found = {one.item.what: one for one in opened(Terms(partition="mixed", counts="revealed", starts=4, max_iter=7))}
    assert (found["stop bit"].most, found["stop bit"].always) == (4 * 6, False)
    assert (found["counts"].most, found["inertia"].most, found["inertia"].always) == (1, 1, True)
    counts = [one.most for one in opened(Terms(partition="mixed", counts="revealed", max_iter=7))]
    assert 7 in counts
    found = {one.item.what: one for one in opened(Terms(partition="vertical", labels="revealed", starts=4))}
    assert (found["start rows"].most, found["start rows"].always) == (4, True)


def test_parts_follow_from_who_holds_what():
    groups = {"row": [("2 rows", (0,)), ("5 rows", (0, 2))], "column": [("x, y", (1,))]}
    found = [one for one in opened(Terms(partition="mixed"), TODAY, groups) if one.item.each]
    assert [(one.item.what, one.to, one.detail, one.some) for one in found] == [
        ("centers", ("bob",), "x, y", False),
        ("labels", ("alice",), "2 rows", False),
        ("labels", ("alice", "carol"), "5 rows", False),
    ]


def test_every_opening_has_words_and_a_sentence():
    for item in ITEMS:
        assert item.kind != "opened" or (item.what in WHAT and item.sentence and item.moment)
    assert {item.what for item in ITEMS if item.kind == "opened"} == set(WHAT)


def test_the_statement_of_a_study_has_a_line_for_every_opening():
    """But for what the output rules add, which it says at length, and the counts at the end, after those before."""
    for options in OPTIONS:
        if options["partition"] != "mixed" and options["least"] == 1:
            found = opened(Terms(ids=options["partition"] == "vertical", **options))
            assert {(one.item.what, one.item.when) for one in found} - {("counts", "end")} <= set(LINES)


# -- worlds to come --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_a_server_without_data_learns_no_result(options):
    """carol serves and owns nothing; dora owns and does not serve."""
    heard = {name: set() for name in SERVERS.everybody}
    for one in opened(Terms(ids=True, **options), SERVERS):
        for name in one.to:
            heard[name].add((one.item.what, one.item.when))
    expected = {("stop bit", "iteration"), ("equal ids", "before")}
    if options["counts"] == "revealed" and options["labels"] == "private":
        expected.add(("counts", "iteration"))
    if options["least"] > 1:
        expected.add(("suppression bits", "end"))
    assert heard["carol"] == expected
    assert {("labels", "end"), ("inertia", "end"), ("stop bit", "iteration")} <= heard["dora"]
    assert ("counts", "iteration") not in heard["dora"]
    assert heard["alice"] == heard["carol"] | heard["dora"]


def test_a_world_without_a_dealer_has_none_in_its_words():
    made = promises(Terms(partition="horizontal", least=10, ids=True), SERVERS)
    assert list(made.at_end) == ["alice", "bob", "dora", "carol"]
    assert made.at_end["carol"][-1] == "Nothing else: no centre, no label, no size, no inertia."
    assert made.at_end["carol"][0].startswith("Which clusters stay closed")
    assert made.assumptions[1:3] == [
        "No two of the servers alice, bob and carol pool what they hold. Any two of the three servers together could "
        "read everything.",
        "As long as that holds, no server, even together with dora, who does not serve, learns more about another's "
        "data than the results say.",
    ]
    said = " ".join([*made.during, *made.assumptions, *made.not_protected, *map(" ".join, made.at_end.values())])
    assert "helper" not in said
    assert "None" not in said


def test_a_server_that_has_seen_sizes_is_not_told_that_it_learns_none():
    made = promises(Terms(partition="horizontal", counts="revealed"), SERVERS)
    assert made.at_end["carol"] == ["Nothing: no centre, no label, no inertia, and not which clusters are closed."]
    assert "In every iteration, alice, bob and carol learn how many rows each cluster has in all." in made.during
    assert "The sizes of the clusters, over all parties' rows." in made.at_end["dora"]


def test_who_keeps_shares_is_called_so():
    for roles, keeper in ((TODAY, "party"), (Roles(PARTIES, PARTIES), "party"), (SERVERS, "server")):
        made = promises(Terms(partition="horizontal", centers="shared"), roles)
        assert f"The centres: each {keeper} keeps a share, which alone is a random number." in made.nobody


# -- the check of the log --------------------------------------------------------------------------------------------

GROUPS = {"row": [("2 rows", (0,)), ("3 rows", (1, 2))], "column": [("x, y", (0, 1, 2))]}


def ledger(**options) -> Ledger:
    terms = Terms(**{"partition": "mixed", "starts": 2, "max_iter": 3, **options})
    made = Ledger()
    made.check = Allowed(learnt(terms, TODAY, GROUPS))
    return made


def record(log: Ledger, what: str, to: tuple[str, ...], detail: str = "", restart=None, iteration=None) -> Disclosure:
    log.restart, log.iteration = restart, iteration
    log.record(what, to, "a test", detail)
    return log.entries[-1]


def test_what_is_allowed_is_recorded():
    log = ledger()
    for restart, iteration in product((0, 1), (1, 2)):
        record(log, "stop bit", EVERYBODY, "", restart, iteration)
    record(log, "centers", ("carol", "bob", "alice"), "x, y")
    record(log, "labels", ("alice",), "2 rows")
    record(log, "labels", ("bob", "carol"), "3 rows")
    record(log, "inertia", PARTIES)
    assert len(log.entries) == 8


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (("counts", PARTIES, "", 0, 1), "no option of the task allows it"),
        (("counts", PARTIES), "no option"),
        (("sizes", PARTIES, "multiples of 10"), "no option"),
        (("debugging", PARTIES), "no option"),
        (("equal ids", PARTIES), "no option"),
        (("stop bit", PARTIES, "", 0, 1), "no option"),
        (("stop bit", EVERYBODY, "", 0, 3), "not the time"),
        (("stop bit", EVERYBODY, "", 0, 0), "not the time"),
        (("stop bit", EVERYBODY, "", 2, 1), "not the time"),
        (("stop bit", EVERYBODY), "no option"),
        (("centers", EVERYBODY, "x, y"), "no option"),
        (("centers", PARTIES, "x, y, z"), "no option"),
        (("centers", PARTIES, "x, y", 0, 1), "no option"),
        (("centers", PARTIES, "x, y", 0), "not the time"),
        (("centers", (*PARTIES, "alice"), "x, y"), "no option"),
        (("labels", ("bob",), "2 rows"), "no option"),
        (("labels", ("alice",), "5 rows"), "no option"),
        (("inertia", ("depot",)), "no option"),
    ],
)
def test_what_is_not_allowed_is_refused_and_not_written(entry, why):
    log, written = ledger(), []
    log.write = written.append
    with pytest.raises(ProtocolError, match=why):
        record(log, *entry)
    assert (log.entries, written) == ([], [])


def test_rows_to_start_from_are_opened_once_a_start_and_before_its_iterations():
    log = ledger(partition="vertical", labels="revealed")
    for restart in (0, 1):
        record(log, "start rows", PARTIES, "", restart)
        with pytest.raises(ProtocolError, match="opened before"):
            record(log, "start rows", PARTIES, "", restart)
    for place, why in (((2, None), "not the time"), ((None, None), "not the time"), ((0, 1), "no option")):
        with pytest.raises(ProtocolError, match=why):
            record(log, "start rows", PARTIES, "", *place)
    with pytest.raises(ProtocolError, match="no option"):
        record(log, "start rows", EVERYBODY, "", 0)
    for options in ({}, {"partition": "vertical"}, {"partition": "vertical", "labels": "revealed", "init": "random"}):
        with pytest.raises(ProtocolError, match="no option"):
            record(ledger(**options), "start rows", PARTIES, "", 0)


def test_nothing_is_opened_twice():
    log = ledger(counts="revealed")
    for entry in (("inertia", PARTIES), ("counts", PARTIES, "", 1, 2), ("counts", PARTIES)):
        record(log, *entry)
        with pytest.raises(ProtocolError, match="opened before"):
            record(log, *entry)
    assert len(log.entries) == 3
