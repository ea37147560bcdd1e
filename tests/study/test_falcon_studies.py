"""Studies with `falcon`: whole, stopped and taken up again, with results that are the oracle's, in every company.

The tests are those of `test_servers.py`, which runs them with a family that lives in the tests alone.
"""

from __future__ import annotations

from functools import partial

import pytest

from coterie.errors import PolicyError
from coterie.study.run import run_study
from tests.study import test_servers as servers
from tests.study.test_servers import QUICK, WORLDS, labels_of
from tests.study.walk import coterie

ASKED = tuple("falcon" if word == "replicated" else word for word in servers.ASKED)


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """What `test_servers` asks for; and reports without pictures, which hold the inertia."""
    monkeypatch.setattr(servers, "ASKED", ASKED)
    monkeypatch.setattr(
        "coterie.report.write.write_report", lambda path, facts, *more: path.write_text(repr(facts.inertia))
    )


gathered = partial(servers.gathered, protocols=("falcon",))


@pytest.fixture(params=[pytest.param(world, marks=() if world in QUICK else pytest.mark.slow) for world in WORLDS])
def company(request, tmp_path):
    with gathered(tmp_path, request.param) as cast:
        yield cast


@servers.WAYS
def test_a_whole_study(company, way, centers):
    servers.test_a_whole_study(company, way, centers)


@pytest.mark.parametrize("way", ["rows", pytest.param("columns", marks=pytest.mark.slow)])
def test_it_goes_on_where_it_was(company, way):
    servers.test_it_goes_on_where_it_was(company, way)


def test_labels_of_every_iteration(tmp_path):
    """SVK-means."""
    with gathered(tmp_path, "five of whom three serve") as cast:
        cast.policies(least_cluster_size=1, protocols=["falcon"])
        servers.agree(cast, *servers.by_columns(cast), "--labels", "revealed")
        cast.run()
        assert labels_of(cast) == servers.expected(cast, least=1)[1].labels.tolist()


def test_explain_says_who_must_not_work_together(company):
    made = company.create(*ASKED)
    assert made.code == 0, made.err
    said = coterie("study", "explain", company.folder / "study.toml", "--rows", 300, "--iterations", 2)
    assert said.code == 0, said.err
    first, second, third = company.servers
    assert f"No two of the servers {first}, {second} and {third} pool what they hold." in said.out
    assert "Any two of the three servers together could read everything." in said.out
    assert "No policy allows protocol falcon unless it names it." in said.out
    statement = (company.folder / "study.toml").read_text()
    assert "Any two of them together could read everything: no two of them may pool what they hold." in statement
    assert "helper" not in said.out + statement


def test_a_policy_must_name_it(tmp_path):
    with gathered(tmp_path, "two and a server without data") as cast:
        servers.agree(cast)
        cast.policy("bob", protocols=["onetime"])
        with pytest.raises(PolicyError, match="the rule `protocols` allows 'onetime'; the study asks for 'falcon'"):
            run_study(cast.orders("bob"))
