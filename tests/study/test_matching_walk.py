"""Rows are matched between real processes: PostgreSQL at one party, Parquet at the other."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tests.postgres import postgres_url  # noqa: F401 - a fixture
from tests.study.test_matching import IDS, PEOPLE, ask, overlapping
from tests.study.test_walk import fill
from tests.study.walk import Cast


@pytest.mark.parametrize("matching", [pytest.param("shared", marks=pytest.mark.slow), "private"])
def test_a_database_and_a_file(tmp_path, postgres_url, matching):  # noqa: F811
    """Ids are written in other cases at the other party, which the rule does not mind."""
    tables = overlapping(2, 0.75)
    with Cast(tmp_path) as cast:
        drawn = ("--matching", matching, "--init", "k-means++", "--n-init", 3)
        cast.agree(*ask(2, "--id-rule", "case=ignore", *drawn))
        ids = {name: np.array([IDS[i] for i in rows]) for name, rows in tables.items()}
        rows = PEOPLE[tables["alice"]]
        fill(postgres_url, f"people_{matching}", patient=ids["alice"], x=rows[:, 0], z=rows[:, 2])
        cast.sources["alice"] = ("--data", postgres_url, "--query", f"select * from people_{matching}")
        shouted = np.array([one.upper() for one in ids["bob"]])
        cast.give("bob", "data.parquet", patient=shouted, y=PEOPLE[tables["bob"], 1])
        for name in cast.names:
            cast.start(name)
        assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
        common = sorted(set(tables["alice"].tolist()) & set(tables["bob"].tolist()))
        found = np.column_stack([numbers(cast, "alice", "x"), numbers(cast, "bob", "y"), numbers(cast, "alice", "z")])
        scales = np.array([rows[:, 0].std(), PEOPLE[tables["bob"], 1].std(), rows[:, 2].std()])
        expected = KMeans(3, n_init=10, random_state=0).fit(PEOPLE[common] / scales).cluster_centers_ * scales
        order = np.argmin(((expected[:, None] - found) ** 2).sum(axis=2), axis=1)
        assert sorted(order) == [0, 1, 2]
        step = 2 * scales / 10 if matching == "private" else 0.05  # of the least size, in powers of two
        assert (np.abs(found[order] - expected) <= step).all()
        assert cast.at("alice", "results", "labels.parquet").exists() == (matching == "shared")


def numbers(cast, name, column):
    return [float(row[column]) for row in cast.centers(name)]
