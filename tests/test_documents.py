"""What is said about a run, compared with its log: `explain` and the promises before, the report after, the guide."""

from __future__ import annotations

import importlib.util
import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import gather, split
from coterie.ideal import WHAT
from coterie.parameters import check_parameters, prepare_fit
from coterie.report.facts import Facts, Participant, facts_of
from coterie.report.page import render_block
from coterie.report.promises import Promises
from coterie.report.trust import promises_of, show_disclosures
from coterie.runtime.job import do
from coterie.runtime.threads import run_threads
from coterie.sharing import Disclosure
from coterie.transport import World
from tests.docs.pages import DOCS, table
from tests.report.examples import Page
from tests.study.walk import Cast, coterie

PARTIES = ("alice", "bob", "carol")
HELPER = "depot"
NAMES = (HELPER, *PARTIES)
X = np.rint(np.random.RandomState(5).normal(0, 1, (48, 4)) + 20 * np.repeat([[-1], [0], [1]], 16, axis=0))
X = X[np.random.RandomState(6).permutation(48)]
INIT = np.array([[-19.0], [1.0], [21.0]]) * np.ones(4)
RULES: list[dict[str, Any]] = [
    {},
    {"least_cluster_size": 4},
    {"least_cluster_size": 17, "contribution": "off"},  # more than any cluster has: all are closed
    {"least_cluster_size": 4, "sizes": "rounded", "contribution": "none-or-least"},
    {"least_cluster_size": 4, "sizes": "rounded", "contribution": "off", "resolution": {"x0": 1, "x2": 1}},
]
WAYS = [
    {"partition": partition, "counts": counts, "labels": labels, "centers": centers, **rules}
    for partition, (counts, labels), centers, rules in product(
        ("horizontal", "vertical", "mixed"),
        (("secret", "private"), ("revealed", "private"), ("secret", "revealed")),
        ("revealed", "shared"),
        RULES,
    )
    if (labels == "private" or partition == "vertical")
    and not (rules and "revealed" in (counts, labels))
    and not (partition == "vertical" and "resolution" in rules)
]

Entry = tuple[str, tuple[str, ...], str]


def called(way: dict[str, Any]) -> str:
    return "-".join(str(value) for value in way.values())


def blocks_of(partition: str) -> list[np.ndarray]:
    """In the patchwork there are rows of one, two and three holders."""
    if partition != "mixed":
        return split(X, partition, 3)
    owners = np.tile([1, 1, 2, 3], (len(X), 1))
    owners[::3], owners[1::6] = [2, 2, 3, 3], 1
    return [np.where(owners == j, X, np.nan) for j in (1, 2, 3)]


def ran(way: dict[str, Any], **more: Any) -> list[Facts]:
    """A small fit; the facts of every role."""
    model = SecureKMeans(3, **{"init": INIT, "bounds": [(-32, 32)] * 4, "tol": 0, **way, **more})
    check_parameters(model)
    gathered = gather(blocks_of(model.partition), model.partition, list(PARTIES))
    prepared = prepare_fit(model, gathered, ["x0", "x1", "x2", "x3"])
    task, jobs = prepared.task, prepared.jobs
    reports = run_threads(World(NAMES), lambda me: do(me, jobs[me.rank]), lanes=task.lanes)
    people = [Participant(name, "data party" if rank else "helper") for rank, name in enumerate(NAMES)]
    found = []
    for rank, report in enumerate(reports):
        named = [Disclosure(e.what, NAMES, e.reason, e.iteration, e.detail) for e in prepared.disclosed]
        report.outcome.disclosures = named + report.outcome.disclosures
        found.append(facts_of(task, report.outcome, rank, people, title="A small run"))
    return found


def logged(log: list[Disclosure]) -> set[Entry]:
    before = ("bounds", "equal ids")
    return {
        (e.what, tuple(sorted(e.to)), "iteration" if e.iteration else "before" if e.what in before else "end")
        for e in log
    }


def announced(made: Promises, log: set[Entry]) -> set[Entry]:
    """What is announced. Where each part goes to those who hold a row, the log says to whom: anybody of the named."""
    found: set[Entry] = set()
    for one in made.openings:
        here = (
            {e for e in log if (e[0], e[2]) == (one.what, one.when) and set(e[1]) <= set(one.to)} if one.each else set()
        )
        found |= here or {(one.what, tuple(sorted(one.to)), one.when)}
    return found


@pytest.mark.parametrize("way", WAYS, ids=called)
def test_what_is_announced_is_what_is_logged(way):
    """Neither more nor less, for exactly these recipients; and what the report says of it is the log."""
    for facts in ran(way):
        log = logged(facts.disclosures)
        made = promises_of(facts)
        assert announced(made, log) == log
        sentences = {(one.what, one.when): one.sentence for one in made.openings}
        for what, to, when in log:
            for name in NAMES:
                heard = made.at_end[name] if when == "end" else made.during
                assert (sentences[what, when] in heard) == (when != "end" or name in to or partly(what, facts, name))
        assert_section_is_the_log(facts)


def partly(what: str, facts: Facts, name: str) -> bool:
    """Does this party learn another part of it: of labels its own rows', of centres its own columns?"""
    return name != HELPER and what in ("labels", "centers")


def assert_section_is_the_log(facts: Facts) -> None:
    """A row of the table for each kind of entry, with as many openings, the recipients' names and the reason."""
    html = "".join(map(render_block, show_disclosures(facts)))
    page = Page(html)
    groups: dict[tuple[Any, ...], int] = {}
    for entry in facts.disclosures:
        key = (entry.what, entry.to, entry.reason, entry.detail, entry.iteration is None)
        groups[key] = groups.get(key, 0) + 1
    assert f"Disclosures: {len(facts.disclosures)} openings" in page.text
    rows = [line.split("</td>") for line in html.split("<tr>")[2:]]
    rows = rows[: len(groups)]
    for (what, to, reason, _, _), times, row in zip(groups, groups.values(), rows, strict=True):
        said = row[0]
        who = "Everybody, the helper included," if set(to) == set(NAMES) else "All data parties"
        assert said.count(who if len(to) >= 3 else to[0]) >= 1
        assert (what == "labels" and "the cluster of each row" in said) or WHAT[what] in said
        assert f">{times}" in row[1]
        assert reason.replace("'", "&#39;") in row[2]


def test_bounds_from_the_data_are_announced():
    (_, facts, *_) = ran({"partition": "horizontal"}, bounds="auto")
    assert announced(promises_of(facts), set()) == logged(facts.disclosures)
    assert ("bounds", tuple(sorted(NAMES)), "before") in logged(facts.disclosures)


def test_an_opening_that_is_not_announced_is_noticed():
    """Planted: sizes in the log of a run that announces none; and the other way round."""
    (_, facts, *_) = ran({"partition": "horizontal", "least_cluster_size": 4})
    facts.disclosures.append(Disclosure("sizes", PARTIES, "planted"))
    log = logged(facts.disclosures)
    assert announced(promises_of(facts), log) != log
    facts.options["sizes"] = "rounded"
    assert announced(promises_of(facts), log) == log
    facts.disclosures.pop()
    log = logged(facts.disclosures)
    assert announced(promises_of(facts), log) != log


# -- studies ---------------------------------------------------------------------------------------------------------

STUDIES = {
    "horizontal": ("--columns", "x,y", "--bounds", "x=-12:12,y=-12:12", "--resolution", "x=1", "--sizes", "rounded"),
    "vertical": ("--columns", "x,y", "--bounds", "x=-12:12,y=-12:12", "--holds", "alice=x,bob=y", "--id", "who"),
    "shared": ("--columns", "x,y", "--bounds", "x=-12:12,y=-12:12", "--centers", "shared"),
}


@pytest.mark.parametrize("kind", STUDIES)
def test_what_explain_says_is_what_a_study_logs(kind, tmp_path):
    random = np.random.default_rng(2)
    points = np.rint(np.concatenate([random.normal(m, 1, (30, 2)) for m in (-5, 5)]))[random.permutation(60)]
    partition = "vertical" if kind == "vertical" else "horizontal"
    with Cast(tmp_path) as cast:
        cast.agree("--clusters", "2", "--partition", partition, "--n-init", "2", *STUDIES[kind])
        if partition == "vertical":
            who = [f"p{i}" for i in range(60)]
            cast.give("alice", who=who, x=points[:, 0])
            cast.give("bob", who=who, y=points[:, 1])
        else:
            cast.give("alice", x=points[:30, 0], y=points[:30, 1])
            cast.give("bob", x=points[30:, 0], y=points[30:, 1])
        cast.run()
        said = coterie("study", "explain", cast.study_file("alice"), "--json")
        told = json.loads(said.out.splitlines()[0])["promises"]
        text = coterie("study", "explain", cast.study_file("alice")).out
        for name in cast.names:
            lines = cast.at(name, "results", "disclosures.jsonl").read_text().splitlines()
            log = [Disclosure(**{k: v for k, v in json.loads(line).items() if k in FIELDS}) for line in lines]
            expected = {(one["what"], tuple(sorted(one["to"])), one["when"]) for one in told["openings"]}
            assert logged(log) == expected
            assert {entry["what"] for entry in cast.audit(name) if entry["event"] == "opening"} == {
                what for what, _, _ in expected
            }
            report = Page(cast.at(name, "results", "report.html").read_text()).text
            for sentence in [*told["nobody"], *told["assumptions"], *told["not_protected"]]:
                assert sentence in report
                assert sentence in text
        for one in told["openings"]:
            assert one["sentence"] in text


FIELDS = ("what", "to", "reason", "iteration", "detail")


# -- the guide -------------------------------------------------------------------------------------------------------


def learnt_page() -> Any:
    spec = importlib.util.spec_from_file_location("learnt_tables", DOCS / "learnt.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_made_from_the_ideal_functionality():
    """Verbatim, and every one of them stands somewhere."""
    module, found = learnt_page(), []
    for page in module.PAGES:
        text = page.read_text(encoding="utf-8")
        assert text == module.renew(text), f"{page.name} has old tables; run python docs/learnt.py"
        found += [block["name"] for block in module.BLOCK.finditer(text)]
    assert sorted(found) == sorted(module.TABLES)


def test_a_page_that_says_something_else_is_noticed():
    module = learnt_page()
    text = (DOCS / "data-protection.md").read_text(encoding="utf-8")
    assert module.renew(text.replace("| `stop bit` |", "| `stop bits` |")) == text


def test_the_guide_names_everything_that_can_be_in_a_log():
    rows = list(table(DOCS / "data-protection.md", "| in the log |"))
    assert {name.strip("`") for name, *_ in rows} == set(WHAT)
    assert {name.strip("`") for name, _, to, *_ in rows if "helper" in to} == {
        "stop bit", "bounds", "largest weight", "chosen k", "matching ids", "tags of ids",
    }  # fmt: skip
