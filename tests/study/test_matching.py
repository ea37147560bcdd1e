"""Rows that all parties hold are found before a run; a plaintext join is what it is measured by."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.errors import DataError
from tests.study.walk import Cast

RANDOM = np.random.RandomState(4)
CORNERS = ((0.0, 0.0, 0.0), (8.0, 0.0, -8.0), (0.0, 8.0, 4.0))
PEOPLE = RANDOM.permutation(np.concatenate([RANDOM.normal(corner, 0.5, (40, 3)) for corner in CORNERS]))
IDS = [f"Patient {i:04d}" for i in RANDOM.permutation(len(PEOPLE))]
HOLDERS = {2: {"alice": "x,z", "bob": "y"}, 3: {"alice": "x", "bob": "y", "carol": "z"}}
COLUMNS = {"x": 0, "y": 1, "z": 2}


def ask(parties, *more):
    holds = ",".join(f"{name}={held}" for name, held in HOLDERS[parties].items())
    columns = ("--columns", "x,y,z", "--bounds", "x=-12:12,y=-12:12,z=-12:12", "--partition", "vertical")
    rows = ("--id", "patient", "--holds", holds, "--matching", "shared")
    return ("--clusters", 3, *columns, *rows, "--init", "random", "--seed", 3, *more)


def give(cast, tables):
    """Each party's rows, by numbers of people, in an order of its own."""
    for name, rows in tables.items():
        held = HOLDERS[len(tables)][name].split(",")
        cast.give(name, patient=[IDS[i] for i in rows], **{c: PEOPLE[rows, COLUMNS[c]] for c in held})


def overlapping(parties, share, size=60):
    """Numbers of people at each party: the first of them at all, the rest at one alone."""
    common = round(share * size)
    people = np.random.RandomState(7).permutation(len(PEOPLE)).tolist()
    tables, own = {}, size - common
    for j, name in enumerate(HOLDERS[parties]):
        others = people[common + j * own : common + (j + 1) * own] if parties * own + common <= len(PEOPLE) else []
        tables[name] = np.random.RandomState(j).permutation([*people[:common], *others])
    return tables


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_rows_that_all_hold(tmp_path, parties, share):
    with Cast(tmp_path, tuple(HOLDERS[parties])) as cast:
        cast.agree(*ask(parties))
        tables = overlapping(parties, share)
        give(cast, tables)
        cast.run()
        common = sorted(set.intersection(*(set(rows.tolist()) for rows in tables.values())), key=lambda i: IDS[i])
        whole = SecureKMeans(
            3, partition="vertical", n_parties=parties, init="random", random_state=3, scale="standard",
            bounds=[(-12, 12)] * 3, least_cluster_size=10,
        ).fit(PEOPLE[common])  # fmt: skip
        expected = dict(zip([IDS[i] for i in common], whole.labels_.tolist(), strict=True))
        for name, rows in tables.items():
            found = cast.labels(name)
            assert dict(zip(found["patient"], found["label"], strict=True)) == expected
            assert found["row"] == [1 + at for at, i in enumerate(rows.tolist()) if IDS[i] in expected]
            opened = msgspec.json.decode(cast.at(name, "results", "disclosures.jsonl").read_bytes().splitlines()[0])
            assert opened["what"] == "matching ids"
        assert cast.entry("helper", "agreed")["rows"] == len(common)


@pytest.mark.parametrize("share", [0.0, 1 / 60])
def test_too_few_rows_match(tmp_path, share):
    with Cast(tmp_path) as cast:
        cast.agree(*ask(2))
        give(cast, overlapping(2, share))
        ended = cast.take_part()
        for error in ended.values():
            assert isinstance(error, DataError), ended
            assert "fewer than 10 rows are held by all parties" in str(error)
        assert not cast.at("alice", "results").exists()
