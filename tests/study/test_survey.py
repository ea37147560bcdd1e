"""Surveys as studies of their own: agreed on, signed, run over TLS, counted and logged; and what they leave."""

from __future__ import annotations

import re
import tomllib

import msgspec
import numpy as np
import pytest
import tomli_w

from coterie.errors import Interrupted, PolicyError, StudyError
from coterie.protocols import FAMILIES
from coterie.runtime.surveys import run_survey_oracle
from coterie.study.identity import renew_identity
from coterie.study.run import run_study
from coterie.study.study_file import load_study
from coterie.study.survey import make_survey_task, run_survey
from coterie.study.voice import Voice
from coterie.surveys import describe_columns, tally_values
from coterie.surveys.found import ColumnFound
from tests.contract.replicated import Replicated
from tests.study.walk import SMALL, Cast, coterie

ASKED = ("--survey", "--columns", "age,bmi", "--bounds", "age=0:150,bmi=0:100", "--cells", 32)
BY_COLUMNS = ("--partition", "vertical", "--holds", "alice=age,bob=bmi")
OPENED = ["closed columns", "missing values", "column means", "quantiles"]
RANDOM = np.random.RandomState(4)


def some_rows(count: int) -> np.ndarray:
    """Ages, of which some are missing, and body mass indices, of which one is far out of bounds."""
    found = np.column_stack([RANDOM.normal(50, 15, count), RANDOM.normal(26, 4, count)])
    found[RANDOM.uniform(size=count) < 0.15, 0] = np.nan
    found[0, 1] = 400.0
    return found


BLOCKS = [some_rows(count) for count in (130, 90, 110)]


def cells_of(values: np.ndarray) -> list[object]:
    return ["" if np.isnan(value) else value for value in values.tolist()]


def give(cast: Cast, way: str = "rows") -> None:
    for name, block in zip(cast.parties, BLOCKS, strict=False):
        held = {"age": cells_of(block[:, 0]), "bmi": cells_of(block[:, 1])}
        only = "age" if name == "alice" else "bmi"
        cast.give(name, **(held if way == "rows" else {only: held[only]}))


def expected(cast: Cast, way: str, greetings: dict[str, object]) -> list[ColumnFound]:
    """By the oracle, on everybody's rows."""
    task = make_survey_task(cast.study, greetings)
    tallies = []
    for rank in cast.study.world().owners:
        own = cast.study.own_columns(rank)
        tallies.append(tally_values(task, rank, own, BLOCKS[rank - 1][:, own]))
    assert len(tallies) == len(cast.parties), way
    return describe_columns(task, run_survey_oracle(task, tallies))


class Said:
    """As much of a greeting as makes a task."""

    def __init__(self, rows: int, least: int = 10) -> None:
        self.rows, self.least, self.contribution, self.coalition = rows, least, "least", 1


def greetings_of(cast: Cast) -> dict[str, object]:
    said = {name: Said(len(block)) for name, block in zip(cast.parties, BLOCKS, strict=False)}
    return {**{name: Said(0) for name in cast.names}, **said}


def check_results(cast: Cast, way: str, folder: str = "results") -> None:
    """What every owner has is what the oracle finds; who owns nothing has no result."""
    found = expected(cast, way, greetings_of(cast))
    for name in cast.parties:
        document = cast.document(name, "survey.json", folder)
        assert msgspec.convert(document["columns"], list[ColumnFound]) == found
        assert cast.document(name, "manifest.json", folder)["purpose"] == "survey"
        page = cast.at(name, folder, "survey.html").read_text()
        for said in ("How it ran", "waiting for the others to come", "computing: working", "What was sent", "rounds"):
            assert said in page
        assert "--bounds" in page
        assert "age" in page
    for name in set(cast.names) - set(cast.parties):
        assert not cast.at(name, folder, "survey.json").exists()
        assert not cast.at(name, folder, "survey.html").exists()
    for name in cast.names:
        lines = cast.at(name, folder, "disclosures.jsonl").read_bytes().splitlines()
        assert [msgspec.json.decode(line)["what"] for line in lines] == OPENED
        assert [entry["what"] for entry in cast.audit(name) if entry["event"] == "opening"] == OPENED


def survey(cast: Cast, **changes: object) -> dict[str, object]:
    ended = cast.take_part(run_survey, **changes)
    for error in ended.values():
        if isinstance(error, BaseException):
            raise AssertionError(f"it went wrong: {ended}") from error
    return ended


# -- runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_a_survey_finds_what_the_oracle_finds(cast, protocol, way):
    cast.agree(*ASKED, "--protocol", protocol, *(BY_COLUMNS if way == "columns" else ()))
    give(cast, way)
    survey(cast)
    check_results(cast, way)
    assert cast.events("alice") == ["started", "agreed", "opening", "results", "ready", "done"]
    columns = cast.document("alice", "survey.json")["columns"]
    assert [column["rows"] for column in columns] == ([220, 220] if way == "rows" else [130, 90])
    assert columns[0]["missing"] in (20, 30)
    assert columns[0]["quantiles"]["1"] is None
    assert columns[0]["quantiles"]["50"] is not None


@pytest.mark.parametrize("servers", [("alice", "bob", "depot"), ("alice", "bob", "carol")], ids=str)
def test_a_survey_by_three_servers(tmp_path, monkeypatch, servers):
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)
    parties = ("alice", "bob") if "depot" in servers else ("alice", "bob", "carol")
    with Cast(tmp_path, parties, servers=servers) as cast:
        cast.policies(protocols=["replicated"])
        cast.agree(*ASKED, "--protocol", "replicated")
        give(cast)
        survey(cast)
        check_results(cast, "rows")


def run_processes(cast: Cast, way: str) -> None:
    for name in cast.names:
        cast.start(name, "survey", "--out", cast.at(name, "results"), "--wait", 300)
    assert set(cast.finish_all().values()) == {0}, cast.said()
    check_results(cast, way)
    assert "for coterie study create: --columns age,bmi --bounds age=" in cast.out("alice")
    assert "--bounds" not in cast.out("helper")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rows", pytest.param("columns", marks=pytest.mark.slow)])
def test_real_processes_of_two_parties(cast, way):
    cast.agree(*ASKED, *(BY_COLUMNS if way == "columns" else ()))
    give(cast, way)
    run_processes(cast, way)


@pytest.mark.parametrize("way", ["rows", pytest.param("columns", marks=pytest.mark.slow)])
def test_real_processes_of_three_parties(tmp_path, way):
    with Cast(tmp_path, ("alice", "bob", "carol")) as cast:
        held = ("--partition", "vertical", "--holds", "alice=age,bob=bmi,carol=weight")
        if way == "rows":
            cast.agree(*ASKED)
            give(cast)
        else:
            cast.agree("--survey", "--columns", "age,bmi,weight", "--bounds", "age=0:150,bmi=0:100,weight=0:300", *held)
            for name, column, block in zip(cast.parties, ("age", "bmi", "weight"), BLOCKS, strict=True):
                cast.give(name, **{column: cells_of(block[:, 0])})
        for name in cast.names:
            cast.start(name, "survey", "--out", cast.at(name, "results"), "--wait", 300)
        assert set(cast.finish_all().values()) == {0}, cast.said()
        if way == "rows":
            check_results(cast, way)
        else:
            columns = cast.document("carol", "survey.json")["columns"]
            assert [column["rows"] for column in columns] == [130, 90, 110]
            assert columns == cast.document("alice", "survey.json")["columns"]


def test_what_was_suggested_can_be_pasted(cast):
    cast.agree(*ASKED)
    give(cast)
    survey(cast)
    words = cast.document("alice", "survey.json")["suggestion"].split()
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert list(options) == ["--columns", "--bounds", "--missing"]
    assert options["--missing"].startswith("age=")
    assert cast.create("--clusters", 3, *("--columns", options["--columns"], "--bounds", options["--bounds"])).code == 0
    age, _ = load_study(cast.folder / "study.toml").data.columns
    assert 0 <= age.low < 20 < 80 < age.high <= 150


def test_a_survey_accepts_renewed_keys_if_it_says_so(cast):
    cast.agree(*ASKED, "--renewals")
    give(cast)
    renew_identity(cast.key("alice"))
    survey(cast)
    check_results(cast, "rows")


# -- rules -------------------------------------------------------------------------------------------------


def test_a_column_that_others_lack_stays_closed(cast):
    """Bob has 9 ages, and the default policy asks for 10 of others than Alice."""
    cast.agree(*ASKED)
    give(cast)
    few = BLOCKS[1].copy()
    few[np.flatnonzero(~np.isnan(few[:, 0]))[9:], 0] = np.nan
    cast.give("bob", age=cells_of(few[:, 0]), bmi=few[:, 1])
    survey(cast)
    age, bmi = cast.document("alice", "survey.json")["columns"]
    assert (age["closed"], age["missing"], age["mean"], age["quantiles"]) == (True, None, None, {})
    assert not bmi["closed"]
    assert "age=" not in cast.document("alice", "survey.json")["suggestion"]


def test_too_few_rows_end_it_before_anything_is_sent(cast):
    cast.policy("bob", least_cluster_size=100)
    cast.agree(*ASKED)
    give(cast)
    ended = cast.take_part(run_survey)
    assert isinstance(ended["alice"], StudyError)
    assert "apart from alice together hold 90 rows" in str(ended["alice"])
    assert not [entry for entry in cast.audit("alice") if entry["event"] == "opening"]
    assert not cast.at("alice", "results").exists()


def test_a_policy_can_refuse_surveys(cast):
    cast.agree(*ASKED)
    cast.policy("bob", surveys="refuse")
    give(cast)
    for verb in (("study", "sign", cast.study_file("bob"), "--key", cast.key("bob")), cast.arguments("bob", "survey")):
        said = coterie(*verb)
        assert (said.code, "`surveys` = 'refuse'" in said.err) == (5, True)


def test_rules_on_clusters_do_not_concern_a_survey(cast):
    cast.policies(centers=["shared"], labels=["revealed"], quality=[], scales=["secret"])
    cast.agree(*ASKED)
    cast.policies(protocols=["securenn"])
    signed = coterie("study", "sign", cast.study_file("bob"), "--key", cast.key("bob"))
    assert (signed.code, "`protocols`" in signed.err) == (5, True)


def test_a_survey_counts_as_a_run(cast):
    cast.policy("alice", runs=1)
    cast.agree(*ASKED)
    give(cast)
    survey(cast)
    again = {name: {"out": cast.at(name, "again")} for name in cast.names}
    found = cast.take_part(run_survey, each=again, wait=5.0)  # alice may have said no before the others are up
    assert isinstance(found["alice"], PolicyError)
    assert "`runs` = 1" in str(found["alice"])
    said = coterie("preflight", cast.study_file("bob"), "--key", cast.key("bob"), "--wait", 1, *cast.sources["bob"])
    assert "1 run of this study used" in said.out


def test_other_data_are_noticed(cast):
    cast.agree(*ASKED)
    give(cast)
    survey(cast)
    other = BLOCKS[1].copy()
    other[3, 0] = np.nan if not np.isnan(other[3, 0]) else 40.0
    cast.give("bob", age=cells_of(other[:, 0]), bmi=other[:, 1])
    again = {name: {"out": cast.at(name, "again")} for name in cast.names}
    found = cast.take_part(run_survey, each=again, wait=5.0)  # bob may have said no before the others are up
    assert isinstance(found["bob"], PolicyError)
    assert "other_data" in str(found["bob"])


def test_the_same_data_again_give_the_same(cast):
    cast.agree(*ASKED)
    give(cast)
    survey(cast)
    survey(cast, each={name: {"out": cast.at(name, "again")} for name in cast.names})
    for name in cast.parties:
        assert cast.document(name, "survey.json", "again")["columns"] == cast.document(name, "survey.json")["columns"]


# -- stopping ----------------------------------------------------------------------------------------------


class Breaking(Voice):
    """Breaks off when a phase begins."""

    def __init__(self, at: str) -> None:
        self.at = at

    def phase(self, text: str) -> None:
        if text == self.at:
            raise Interrupted("stopped by a test")


@pytest.mark.parametrize("at", ["computing", "writing results"])
def test_a_survey_that_was_stopped_begins_anew(cast, at):
    cast.agree(*ASKED)
    give(cast)
    ended = cast.take_part(run_survey, voices={"bob": Breaking(at)})
    assert all(isinstance(one, BaseException) for one in ended.values()), ended
    assert "start it again, all of you: it begins anew" in str(ended["alice"])
    assert "bob" in str(ended["alice"])
    assert not any(cast.at(name, "results").exists() for name in cast.names)
    survey(cast)
    for name in cast.parties:
        found = msgspec.convert(cast.document(name, "survey.json")["columns"], list[ColumnFound])
        assert found == expected(cast, "rows", greetings_of(cast))


def test_words_where_numbers_should_be_are_refused(cast):
    cast.agree(*ASKED)
    cast.give("bob", age=["12", "", "SECRET-7"], bmi=[20, 21, 22])
    said = coterie(*cast.arguments("bob", "survey"))
    assert said.code == 3
    assert "data row 3 (line 4), column 'age': not a number" in said.err
    assert "SECRET" not in said.err
    cast.give("bob", age=["12", "", "inf"], bmi=[20, 21, 22])
    said = coterie(*cast.arguments("bob", "survey"))
    assert said.code == 3
    assert "data row 3 (line 4), column 'age': the value is infinite or too large" in said.err


# -- files and commands ------------------------------------------------------------------------------------


def test_run_and_survey_send_each_other_the_right_way(cast):
    cast.agree(*ASKED)
    give(cast)
    for verb in ("run", "predict"):
        said = coterie(*cast.arguments("alice", verb))
        assert (said.code, "coterie survey" in said.err) == (4, True)
    cast.agree(*SMALL)
    said = coterie(*cast.arguments("alice", "survey"))
    assert (said.code, "coterie run" in said.err) == (4, True)


def test_results_are_not_mistaken_for_each_other(cast):
    cast.agree(*ASKED)
    give(cast)
    survey(cast)
    found = cast.take_part(run_survey, names=["alice"])
    assert "holds results of this study already; choose another folder" in str(found["alice"])
    with pytest.raises(StudyError, match="this is a survey"):
        run_study(cast.orders("alice"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cells", 1), "--cells must be between 2 and 1024"),
        (("--cells", 5000), "cells"),
        (("--quantiles", "0,50"), "no quantile"),
        (("--quantiles", "50,25"), "in order"),
        (("--quantiles", "a"), "--quantiles 'a'"),
        (("--clusters", 3), "--survey: --clusters is about clusters"),
        (("--sizes", "rounded"), "--sizes"),
        (("--id", "patient"), "--id"),
        (("--reconnect", 30), "--survey: --reconnect is about clusters, ids or long runs"),
        (("--contribution", "none-or-least"), "contribution"),
        (("--partition", "vertical"), "must be held by one of the parties"),
        (("--partition", "mixed"), "horizontal or vertical"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(cast, options, words):
    made = cast.create(*ASKED[:5], *options)
    assert made.code == 2
    assert words in made.err


def test_without_clusters_it_must_be_a_survey(cast):
    made = cast.create("--columns", "x", "--bounds", "x=0:1")
    assert made.code == 2
    assert "--clusters" in made.err
    assert "--survey" in made.err


def test_the_file_says_what_is_asked_and_nothing_of_clusters(cast):
    cast.agree(*ASKED, "--quantiles", "5,50,95", "--least-cluster-size", 20)
    text = cast.study_file("alice").read_text()
    document = tomllib.loads(text)
    assert list(document) == ["study", "survey", "data", "disclosures", "participants"]
    assert document["survey"] == {
        "partition": "horizontal", "protocol": "onetime", "cells": 32, "quantiles": [5.0, 50.0, 95.0],
    }  # fmt: skip
    assert set(document["disclosures"]) == {"least_cluster_size", "contribution", "statement"}
    said = " ".join(document["disclosures"]["statement"])
    assert "alice, bob learn, of each open column, in which cells" in said
    for wrong, words in (
        ({"survey": {**document["survey"], "cells": 64}}, r"section \[survey\]"),
        ({"clustering": {"clusters": 2, "partition": "horizontal"}}, "do not go together"),
        ({"disclosures": {**document["disclosures"], "sizes": "rounded"}}, "sizes is about clusters"),
        ({"data": {**document["data"], "id": "patient"}}, "leave out the id column"),
    ):
        cast.study_file("alice").write_text(tomli_w.dumps({**document, **wrong}))
        said = coterie("study", "verify", cast.study_file("alice"))
        assert said.code == 4
        assert re.search(words, said.err), said.err


def test_explain_says_what_each_learns(cast):
    cast.agree(*ASKED)
    said = coterie("study", "explain", cast.study_file("alice"), "--json")
    document = msgspec.json.decode(said.out)
    promises = document["promises"]
    assert [(one["what"], one["to"]) for one in promises["openings"]] == [(what, ["alice", "bob"]) for what in OPENED]
    assert promises["at_end"]["helper"] == [
        "Nothing: no mean, no quantile, no number of missing values, and not which columns are closed."
    ]
    assert document["forecast"]["rounds"] > 0
    text = coterie("study", "explain", cast.study_file("alice")).out
    for head in ("WHAT NOBODY LEARNS", "WHAT IS NOT PROTECTED", "WHICH COLUMNS ARE OPENED"):
        assert head in text
    assert "cluster" not in text.split("WHICH COLUMNS")[1].replace("as for clusters", "").replace("clustered", "")
