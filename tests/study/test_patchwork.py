"""A registry holds one column of everybody, hospitals the others of their own patients: who holds which cell follows
from the ids that match."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.errors import DataError
from coterie.runtime.oracle import run_oracle
from coterie.study import handshake, matching
from coterie.study.greetings import greeting
from coterie.study.tasks import make_study_task, seeds_of
from tests.study.scaled import capture_facts
from tests.study.test_matching import IDS, PEOPLE
from tests.study.walk import Cast, coterie

PARTIES = ("registry", "north", "south")
NORTH, SOUTH = np.arange(0, 50), np.arange(50, 110)


def ask(*more):
    columns = ("--columns", "x,y,z", "--bounds", "x=-12:12,y=-12:12,z=-12:12", "--partition", "mixed")
    return ("--clusters", 3, *columns, "--id", "patient", "--holds", "registry=x,north=y,z,south=y,z", *more)


@pytest.fixture
def cast(tmp_path, monkeypatch):
    with Cast(tmp_path, PARTIES) as made:
        made.policies(least_cluster_size=3)
        yield made


def give(cast, registry, north=NORTH, south=SOUTH):
    ids = np.array(IDS)
    cast.give("registry", patient=ids[registry], x=PEOPLE[registry, 0])
    for name, rows in (("north", north), ("south", south)):
        cast.give(name, patient=ids[rows], y=PEOPLE[rows, 1], z=PEOPLE[rows, 2])


def shuffled(rows, seed=1):
    return np.random.RandomState(seed).permutation(rows)


def test_a_registry_and_two_hospitals(cast, monkeypatch):
    layouts, genuine = [], handshake.make_study_task

    def note(study, purpose, said, matched=None):
        layouts.append(matched)
        return genuine(study, purpose, said, matched)

    monkeypatch.setattr(handshake, "make_study_task", note)
    rows, take = [], matching._take_cells

    def note_rows(talk, ready, *more):
        """Of the registry, who holds a cell of every row: which person stands where."""
        found = take(talk, ready, *more)
        if ready.me.name == "registry":
            rows.extend(IDS.index(one) for one in found.apply(ready).rows.ids)
        return found

    monkeypatch.setattr(matching, "_take_cells", note_rows)
    facts = capture_facts(monkeypatch)
    study = cast.agree(*ask())
    give(cast, shuffled(np.arange(110)))
    cast.run()
    assert len({layout.owners for layout in layouts}) == 1
    layout = layouts[0]
    assert (layout.partition, layout.n, layout.d) == ("mixed", 110, 3)
    owners = np.frombuffer(layout.owners, np.uint8).reshape(110, 3)
    assert (owners[:, 0] == 1).all()
    assert sorted(owners[:, 1].tolist()) == [2] * 50 + [3] * 60
    labels = {name: dict(zip(*(cast.labels(name)[c] for c in ("patient", "label")), strict=True)) for name in PARTIES}
    assert set(labels["north"]) == {IDS[i] for i in NORTH}
    assert {**labels["north"], **labels["south"]} == labels["registry"]
    # the oracle, on the joined table; rows stand in random order, which the sums do not depend on, but draws do
    (run,) = {cast.document(name, "manifest.json")["run"] for name in cast.names}
    said = {name: greeting(study, "fit", count, 3) for name, count in zip(PARTIES, (110, 50, 60), strict=True)}
    task = msgspec.structs.replace(make_study_task(study, "fit", said, layout), seeds=seeds_of(study, run))
    expected = run_oracle(task, task.encoding.encode(PEOPLE[rows], range(3)))
    assert facts["north"].centers == task.encoding.decode(expected.centers).tolist()
    assert [labels["registry"][IDS[i]] for i in rows] == expected.labels.tolist()
    spread = PEOPLE[:110].std(axis=0)
    whole = KMeans(3, n_init=10, random_state=0).fit(PEOPLE[:110] / spread)
    found = [labels["registry"][IDS[i]] for i in range(110)]
    assert len(set(zip(whole.labels_.tolist(), found, strict=True))) == 3


@pytest.mark.parametrize(
    ("options", "registry", "south", "said"),
    [
        ((), np.arange(100), SOUTH, "cells are held by nobody: 10 of column 'x'"),
        ((), np.arange(112), SOUTH, "several parties or by nobody, of some column fewer than 3, and so nobody learns"),
        ((), np.arange(110), np.arange(49, 110), "several parties or by nobody, of some column fewer than 3"),
        ((), np.arange(110), np.arange(45, 110), "cells are held by several parties: 5 of column 'y', 5 of column 'z'"),
        (("--incomplete", "drop"), np.arange(110, 115), SOUTH, "fewer than 3 rows"),
    ],
)
def test_what_does_not_fit_together(cast, options, registry, south, said):
    cast.agree(*ask(*options))
    give(cast, registry, south=south)
    for error in cast.take_part().values():
        assert isinstance(error, DataError)
        assert said in str(error)


def test_settled_as_agreed(cast):
    cast.agree(*ask("--precedence", "south,registry,north", "--incomplete", "drop"))
    give(cast, np.arange(100), south=np.arange(45, 110))
    cast.run()
    assert set(cast.labels("registry")["patient"]) == {IDS[i] for i in range(100)}
    assert set(cast.labels("north")["patient"]) == {IDS[i] for i in range(45)}
    assert set(cast.labels("south")["patient"]) == {IDS[i] for i in range(45, 100)}


def test_words(cast):
    cast.agree(*ask())
    told = coterie("study", "explain", cast.study_file("north"), "--rows", 300).out
    assert "which others hold cells of its own rows" in told
    assert "partitioned cell by cell" in " ".join(told.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--matching", "private"), "matching must be shared"),
        (("--precedence", "north"), "precedence must name every party once"),
        (("--holds", "registry=x,north=y,z"), "party south holds no column"),
        (("--id", ""), "needs an id column"),
    ],
)
def test_what_is_refused(cast, options, said):
    made = cast.create(*ask(), *options)
    assert made.code == 2
    assert said in made.err
