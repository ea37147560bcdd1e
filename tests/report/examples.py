"""Facts to write reports of: by hand, and of small runs."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import msgspec
import numpy as np

from coterie import SecureKMeans
from coterie.clustering import Outcome, Task
from coterie.data import gather, split
from coterie.parameters import prepare_fit
from coterie.report.facts import ColumnFacts, Facts, Participant, facts_of
from coterie.report.palette import DARK
from coterie.runtime.job import Job, Report, do
from coterie.runtime.threads import run_threads
from coterie.sharing import Disclosure
from coterie.transport import Lap, Traffic, World
from coterie.transport.metering import Tally

PARTICIPANTS = [
    Participant("depot", "helper", "depot.example:9000", "ab:cd"),
    Participant("alice", "data party", "alice.example:9000", "01:23"),
    Participant("bob", "data party"),
]
NAMES = [one.name for one in PARTICIPANTS]
OPTIONS = {
    "partition": "horizontal",
    "protocol": "onetime",
    "counts": "secret",
    "labels": "private",
    "centers": "revealed",
    "scale": "none",
    "init": "k-means++",
}


def by_hand(**more: Any) -> Facts:
    """What alice knows of a run of two iterations, in two clusters of rows with three columns."""
    fields: dict[str, Any] = {
        "title": "Blood values",
        "study": "blood",
        "study_hash": "5eed",
        "party": "alice",
        "when": "2025-01-02 03:04:05",
        "participants": PARTICIPANTS,
        "options": dict(OPTIONS),
        "columns": [ColumnFacts("iron", 0, 10), ColumnFacts("zinc", -1, 1), ColumnFacts("salt", 0, 1000)],
        "rows": {"alice": 4, "bob": 3},
        "n": 7,
        "k": 2,
        "center_columns": ["iron", "zinc", "salt"],
        "centers": [[1.25, 0.5, 100.0], [7.75, -0.5, 900.0]],
        "own_rows": [1, 3],
        "inertia": 12.5,
        "n_iter": 2,
        "max_iter": 300,
        "tol": 1e-4,
        "seconds": {"waiting for the others": 1.5, "computing": 2.0},
        "laps": [Lap(0.5, 0.25), Lap(0.75, 0.5)],
        "waited": 0.8,
        "memory": 200_000_000,
        "traffic": Traffic(
            rounds=20, messages=30, bytes_sent={"alice": 12_345}, by_protocol={"Sign": Tally(2, 8, 8, 9, 10_000)}
        ),
        "disclosures": [
            Disclosure("stop bit", ("depot", "alice", "bob"), "everybody must know whether to go on", 1),
            Disclosure("stop bit", ("depot", "alice", "bob"), "everybody must know whether to go on", 2),
            Disclosure("centers", ("alice", "bob"), "the result of the study", None, "iron, zinc, salt"),
            Disclosure("labels", ("alice",), "the result of the study", None, "4 rows"),
            Disclosure("labels", ("bob",), "the result of the study", None, "3 rows"),
            Disclosure("inertia", ("alice", "bob"), "the result of the study"),
        ],
        "versions": {"coterie": "0.2.0"},
        "hashes": {"labels.parquet": "f00d"},
    }
    return Facts(**fields | more)


VALUES = np.array([[1.0, 0.5, 100], [8, -0.5, 900], [7.5, -0.25, 950], [7.75, -0.75, 850]])
LABELS = np.array([0, 1, 1, 1])


@cache
def small_run(partition: str, least: int = 1, **options: Any) -> tuple[Task, tuple[Outcome, ...]]:
    """Twenty rows, four columns, a small and a large cluster, two parties: what was agreed on; outcomes by rank."""
    task, reports = small_reports(partition, least, **options)
    return task, tuple(report.outcome for report in reports)


@cache
def small_reports(partition: str, least: int = 1, **options: Any) -> tuple[Task, tuple[Report, ...]]:
    """The same, with all that each role has in the end."""
    x = table()
    model = SecureKMeans(2, **{"partition": partition, "init": x[[0, 19]], "bounds": [(-20, 20)] * 4, **options})
    gathered = gather(split(x, partition, 2), partition, NAMES[1:])
    task, blocks, *_ = prepare_fit(model, gathered, ["a", "b", "c", "e"])
    task = msgspec.structs.replace(task, least=least)
    jobs = [Job(task), *(Job(task, block=block) for block in blocks)]
    reports = run_threads(World(tuple(NAMES)), lambda me: do(me, jobs[me.rank]), lanes=task.lanes)
    return task, tuple(reports)


def table() -> np.ndarray:
    x = np.random.RandomState(0).normal(np.array([5, -5, 5, -5]), 1, (20, 4))
    x[:3] *= -1
    return x


def facts_of_small_run(rank: int, partition: str, least: int = 1, **options: Any) -> Facts:
    task, outcomes = small_run(partition, least, **options)
    return facts_of(task, outcomes[rank], rank, PARTICIPANTS, title="A small run")


class Page(HTMLParser):
    """What a page holds: its elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.stack: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag, "tags are nested"

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def assert_stands_alone(html: str) -> Page:
    """No request leaves the page, nothing runs in it, and every picture says what it shows."""
    page = Page(html)
    for tag, attributes in page.elements:
        assert tag not in ("script", "iframe", "object", "embed", "form")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "data", "action"):
                assert "//" not in (value or "").split(",")[0]
                assert (value or "").split(":")[0] in ("data", "") or ":" not in (value or "")
    for attributes in page.all("img"):
        assert (attributes["src"] or "").startswith("data:image/svg+xml;base64,")
        assert len(attributes["alt"] or "") > 20
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert not page.stack
    return page


def assert_follows_the_screen(figures: list[bytes]) -> None:
    """Every colour of a figure is one that has another on a dark screen, and the figure brings the rule for it."""
    assert figures
    for svg in figures:
        text = svg.decode()
        rules, drawn = text[: text.index("</style>")], text[text.index("</style>") :]
        assert "prefers-color-scheme: dark" in rules
        for what, colour in re.findall(r"(fill|stroke): (#[0-9a-f]{6})", drawn):
            assert colour in DARK, colour
            assert f'[style*="{what}: {colour}"]' in rules
        assert not re.search(r"(fill|stroke)=|(fill|stroke): (?!#|none)[a-z]", drawn)
