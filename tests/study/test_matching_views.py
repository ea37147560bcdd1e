"""What goes to the helper while rows are matched, in two runs on the same data."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from coterie.matching import cost_of_matching
from coterie.study import matching, session
from tests.study.scaled import capture_facts
from tests.study.test_matching import HOLDERS, IDS, ask, give, overlapping
from tests.study.walk import Cast


def tags_of_two_runs(tmp_path, monkeypatch):
    """By run and party, what the helper gets; with the same data each time."""
    capture_facts(monkeypatch)
    found, genuine = [], matching._receive_tags

    def receive(talk, rank, length):
        tags = genuine(talk, rank, length)
        found.append((rank, tags.copy()))
        return tags

    monkeypatch.setattr(matching, "_receive_tags", receive)
    with Cast(tmp_path, tuple(HOLDERS[2])) as cast:
        cast.agree(*ask(2))
        tables = overlapping(2, 0.5)
        give(cast, tables)
        cast.run()
        cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names}, restart=True)
    assert len(found) == 4
    return tables, [dict(found[:2]), dict(found[2:])]


def check_fresh(runs):
    first, second = ({one for tags in run.values() for one in tags.tolist()} for run in runs)
    assert not first & second, "tags of two runs can be compared"


def test_tags_are_sorted_fresh_and_of_equal_ids_equal(tmp_path, monkeypatch):
    tables, runs = tags_of_two_runs(tmp_path, monkeypatch)
    common = set.intersection(*(set(rows.tolist()) for rows in tables.values()))
    for run in runs:
        for tags in run.values():
            assert (tags[1:] > tags[:-1]).all()
        one, other = run.values()
        assert len(np.intersect1d(one, other)) == len(common)
        bare = b"".join(one.tolist() + other.tolist())
        assert not any(text.encode() in bare for text in IDS)
    check_fresh(runs)


def test_a_key_that_is_used_twice_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(matching, "_agree_on_key", lambda talk, session: bytes(32))
    _, runs = tags_of_two_runs(tmp_path, monkeypatch)
    with pytest.raises(AssertionError, match="tags of two runs can be compared"):
        check_fresh(runs)


@pytest.mark.parametrize("how", ["shared", "private"])
@pytest.mark.parametrize("parties", [2, 3])
def test_it_costs_what_is_forecast(tmp_path, monkeypatch, how, parties):
    """To the byte; letters aside."""
    capture_facts(monkeypatch)
    sent, genuine = Counter(), session.match_rows

    class Counting:
        """A channel that counts what arrays hold."""

        def __init__(self, talk):
            self.talk = talk

        def __getattr__(self, name):
            return getattr(self.talk, name)

        def send(self, to, array):
            sent[self.talk.world.names[self.talk.rank]] += array.nbytes
            self.talk.send(to, array)

    monkeypatch.setattr(session, "match_rows", lambda talk, *more: genuine(Counting(talk), *more))
    with Cast(tmp_path, tuple(HOLDERS[parties])) as cast:
        cast.policies(least_cluster_size=4)
        cast.agree(*ask(parties), "--matching", how, "--init", "k-means++")
        tables = overlapping(parties, 0.5)
        give(cast, tables)
        cast.run()
    told = cost_of_matching(how, [len(rows) for rows in tables.values()])
    assert sent == dict(zip((*tables, "helper"), (*told.parties, told.helper), strict=True))
