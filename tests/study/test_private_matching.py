"""Rows that are matched without anybody's learning which match: equal to k-means on those that do, bit for bit."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.clustering import at_home
from coterie.errors import StudyError
from coterie.runtime.oracle import run_oracle
from coterie.study import handshake, matching
from coterie.study.greetings import greeting
from coterie.study.predict import predict_rows
from coterie.study.tasks import layout_by_columns, make_study_task, seeds_of
from tests.study.scaled import capture_facts
from tests.study.test_matching import COLUMNS, HOLDERS, IDS, PEOPLE, give, overlapping
from tests.study.test_matching import ask as ask_shared
from tests.study.walk import Cast, Stopping, coterie

LEAST = 4


def ask(parties, *more):
    """As for shared matching, and drawn starts: rows at random may match nobody's."""
    return (*ask_shared(parties), "--matching", "private", "--init", "k-means++", *more)


@pytest.fixture
def placed(monkeypatch):
    """The slots and members of every run, which nobody has together; drawn from fixed numbers, as the starts are."""
    found, genuine = [], matching.place
    random = np.random.RandomState(9)

    def place(lists, words):
        assert len(set(words(9))) == 9
        found.append(genuine(lists, lambda count: random.randint(0, 1 << 63, count, dtype=np.uint64)))
        return found[-1]

    monkeypatch.setattr(matching, "place", place)
    monkeypatch.setattr(matching, "_agree_on_key", lambda talk, session: bytes(32))
    monkeypatch.setattr(handshake, "seeds_of", lambda study, run: seeds_of(study, "a run"))
    return found


def held_by(tables, name):
    """A party's own columns of its rows, in the order of ids."""
    rows = sorted(tables[name].tolist(), key=lambda i: IDS[i])
    return PEOPLE[rows][:, [COLUMNS[c] for c in HOLDERS[len(tables)][name].split(",")]]


def oracle_of(cast, tables, slots, members, least):
    """The task of a run, in the parties' own units, and what it must give: from what all of them together hold."""
    study = cast.study
    said = {name: greeting(study, "fit", len(rows), least) for name, rows in tables.items()}
    task = make_study_task(study, "fit", said, layout_by_columns(study, len(members)))
    task = msgspec.structs.replace(task, seeds=seeds_of(study, "a run"))
    table = np.zeros((len(members), 3), np.int64)
    for rank, name in enumerate(tables, 1):
        values, own = held_by(tables, name), study.own_columns(rank)
        if study.clustering.scale == "standard":
            home = at_home(task.encoding, own, values.mean(axis=0), values.std(axis=0))
            task = msgspec.structs.replace(task, encoding=home)
        table[np.ix_(slots[rank - 1], own)] = task.encoding.encode(values, own)
    return task, table, run_oracle(task, table, members.astype(np.int64))


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("share", [0.0, 1 / 40, 0.5, 1.0])
def test_the_rows_that_all_hold_and_nobody_knows(tmp_path, monkeypatch, placed, parties, share):
    slots = {}
    genuine = matching._take_slots

    def take(talk, ready, *more):
        found = genuine(talk, ready, *more)
        slots[ready.me.name] = found.slots
        return found

    monkeypatch.setattr(matching, "_take_slots", take)
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path, tuple(HOLDERS[parties])) as cast:
        cast.policies(least_cluster_size=LEAST)
        cast.agree(*ask(parties, "--n-init", 3))
        tables = overlapping(parties, share, 60 if parties == 2 else 40)
        give(cast, tables)
        cast.run()
        ((_, members),) = placed
        common = set.intersection(*(set(rows.tolist()) for rows in tables.values()))
        assert members.sum() == len(common)
        task, table, expected = oracle_of(cast, tables, [slots[name] for name in tables], members, LEAST)
        centres = np.full((3, 3), np.nan)
        for rank, name in enumerate(tables, 1):
            assert not cast.at(name, "results", "labels.parquet").exists()
            assert not cast.at(name, "results", "model.json").exists()
            own, mine = cast.study.own_columns(rank), facts[name]
            assert mine.suppressed == expected.suppressed.tolist()
            assert mine.own_rows is None
            assert mine.sizes is None
            assert mine.inertia == expected.inertia
            opened = task.encoding.decode(expected.centers)[:, own]
            for j in np.flatnonzero(~expected.suppressed):
                np.testing.assert_allclose(mine.centers[j], opened[j], rtol=0, atol=1e-9)  # of numbers from a file
                centres[j, own] = opened[j]
        assert expected.suppressed.tolist() == [share < 0.5] * 3
        if share >= 0.5:
            check_against_scikit_learn(task, table[members], expected)


def check_against_scikit_learn(task, matched, expected):
    """On the joined rows alone: the same clusters; centres as near as they are rounded."""
    kept = expected.centers.astype(float)
    found = KMeans(len(kept), init=kept, n_init=1).fit(matched.astype(float)).cluster_centers_
    assert np.abs(found - kept).max() <= 2.0 ** max(task.grid)


def test_taken_up_again_it_goes_on_with_the_rows_that_were_matched(tmp_path, monkeypatch, placed):
    """No tag is sent once more, and nobody can have other ids compared without a new run's being counted."""
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path) as cast:
        cast.policies(least_cluster_size=LEAST)
        cast.agree(*ask(2, "--max-iter", 4))
        tables = overlapping(2, 0.7)
        give(cast, tables)
        cast.take_part(voices={"bob": Stopping(1)})
        cast.run()
        assert len(placed) == 1
        assert cast.entry("alice", "agreed")["resumed_after"] == 1
        before = facts["alice"].centers
        cast.run(each={name: {"out": cast.at(name, "again")} for name in cast.names})  # opened once more
        assert len(placed) == 1
        assert facts["alice"].centers == before
        for path in tmp_path.glob("helper/helper.state/*/matching-*"):
            path.unlink()
        ends = cast.take_part(each={name: {"out": cast.at(name, "third")} for name in cast.names})
        assert "begin a new run with --restart" in str(ends["helper"])
        assert len(placed) == 1


def test_the_number_of_iterations_tells_nothing(tmp_path, monkeypatch, placed):
    """Not when centres rest: that depends on who matches, even where too few do for anything to be opened."""
    facts, found = capture_facts(monkeypatch), {}
    for share in (0.0, 0.1, 0.7):
        with Cast(tmp_path / str(share)) as cast:
            cast.agree(*ask(2, "--max-iter", 5))
            give(cast, overlapping(2, share))
            cast.run()
            opened = {entry["what"] for entry in cast.audit("alice") if entry["event"] == "opening"}
            assert "stop bit" not in opened
            found[share] = cast.entry("alice", "results")["iterations"], facts["alice"].n_iter
    assert set(found.values()) == {(5, 5)}


def test_a_column_is_stretched_no_further_than_its_resolution(tmp_path, monkeypatch, placed):
    """Rounded to a part of its standard deviation alone, the share of rows that have something rare would tell how many
    rows there are."""
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path) as cast:
        cast.policies(least_cluster_size=LEAST)
        cast.agree(*ask(2, "--resolution", "x=12", "--max-iter", 3))
        give(cast, overlapping(2, 1.0))
        cast.run()
        steps = {column.name: column.step for column in facts["alice"].columns}
        assert 12 / LEAST <= steps["x"] < 2 * 12 / LEAST
        assert steps["z"] < 8 / LEAST


def test_nothing_is_said_of_rows(tmp_path):
    with Cast(tmp_path) as cast:
        cast.agree(*ask(2))
        told = coterie("study", "explain", cast.study_file("alice"), "--rows", 300).out
        assert "rows are matched in private" in told
        assert "extreme" in told
        assert "cluster of each" not in told
        assert "cluster of every row" not in told
        cast.give("alice", patient=["1"], x=[0.0], z=[0.0])
        with pytest.raises(StudyError, match="matched in private"):
            predict_rows(cast.orders("alice", model=cast.at("alice", "model.json")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--clusters", "2:4"), "clusters must be one number"),
        (("--init", "random"), "init must be k-means++"),
        (("--counts", "revealed"), "counts must be secret"),
        (("--labels", "revealed"), "labels must be private"),
        (("--centers", "shared"), "centers must be revealed"),
        (("--sizes", "rounded"), "sizes must be secret"),
        (("--scale", "bounds"), "column 'x' needs a resolution"),
    ],
)
def test_what_is_refused(tmp_path, options, said):
    with Cast(tmp_path) as cast:
        made = cast.create(*ask(2), *options)
        assert made.code == 2
        assert said in made.err
