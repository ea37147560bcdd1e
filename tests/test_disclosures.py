"""`disclosures_` holds what the ideal functionality says for the chosen options, and nothing else.

Each plant is caught twice: by the check of the log, before anything leaves; and, with that switched off, by comparing
the log of the run.
"""

from __future__ import annotations

import threading
from collections import Counter
from itertools import product

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import Task
from coterie.data import split
from coterie.errors import ProtocolError
from coterie.protocols import FAMILIES, SecureNN
from coterie.runtime.oracle import run_oracle
from coterie.sharing import Ledger
from coterie.transport import Metered
from tests.clustering.comparison import seeded_runs, task_and_table  # noqa: F401
from tests.ideal_logs import Entry, ideal_log, let_anything_be_opened

X = np.random.RandomState(2).uniform(-1, 1, (14, 4))
BOUNDS = [(-1, 1)] * 4
PARTIES = ("P1", "P2", "P3")
EVERYBODY = ("P0", *PARTIES)
OPTIONS = [
    {"partition": partition, "counts": counts, "labels": labels, "centers": centers}
    for partition, counts, labels, centers in product(
        ("horizontal", "vertical", "mixed"), ("secret", "revealed"), ("private", "revealed"), ("revealed", "shared")
    )
    if labels == "private" or partition == "vertical"
]
RULES = [
    {"least_cluster_size": 2, "contribution": "off"},
    {"least_cluster_size": 2, "sizes": "rounded", "contribution": "none-or-least"},
    {"least_cluster_size": 3, "sizes": "rounded", "contribution": "off", "resolution": {"x0": 0.5, "x2": 0.5}},
    {"least_cluster_size": 14, "contribution": "off", "sizes": "rounded"},  # all clusters are closed
]
RULED = [
    {"partition": partition, "centers": centers, **rules}
    for partition, centers, rules in product(("horizontal", "vertical", "mixed"), ("revealed", "shared"), RULES)
    if partition != "vertical" or "resolution" not in rules
]
PROTOCOLS = list(FAMILIES)


def option_name(options: dict[str, object]) -> str:
    return "-".join(map(str, options.values()))


def iterations_of_each_start(task: Task, table: np.ndarray) -> list[int]:
    alone = [{"starts": (start,)} for start in task.starts] or [{"seeds": (seed,)} for seed in task.seeds]
    return [run_oracle(msgspec.structs.replace(task, **start), table).n_iter for start in alone]


def allowed(model: SecureKMeans, blocks: list[np.ndarray]) -> Counter[Entry]:
    """What the ideal functionality says, for the iterations that each start takes."""
    task, table = task_and_table(model, blocks)
    return ideal_log(task, len(PARTIES), iterations_of_each_start(task, table), isinstance(model.bounds, str))


def logged(model: SecureKMeans) -> Counter[Entry]:
    return Counter((entry.what, entry.to, entry.iteration) for entry in model.disclosures_)


def blocks_of(partition: str) -> list[np.ndarray]:
    """A block for each party; in the mixed table, rows of one, two and three holders."""
    if partition != "mixed":
        return split(X, partition, 3)
    owners = np.tile([1, 1, 2, 3], (len(X), 1))
    owners[:3], owners[3:5], owners[5:7] = 1, 3, [2, 2, 3, 3]
    return [np.where(owners == j, X, np.nan) for j in (1, 2, 3)]


def fitted(options, **more):
    model = SecureKMeans(
        2, **{"random_state": 1, "bounds": BOUNDS, "tol": 0, "protocol": "securenn", **options, **more}
    )
    return model.fit_parties(blocks_of(model.partition))


def check(model: SecureKMeans) -> None:
    assert logged(model) == allowed(model, blocks_of(model.partition))
    for entry in model.disclosures_:
        assert "P0" not in entry.to or entry.what in ("stop bit", "bounds")
        assert entry.reason


def test_by_hand():
    """The start is a fixed point, so that one iteration of three is enough."""
    model = SecureKMeans(2, init=[[-1], [1]], max_iter=3, bounds=[(-1, 1)]).fit_parties([[[-1], [-1]], [[1]]])
    assert sorted((e.what, e.to, e.iteration, e.detail) for e in model.disclosures_) == [
        ("centers", ("P1", "P2"), None, "x0"),
        ("inertia", ("P1", "P2"), None, ""),
        ("labels", ("P1",), None, "2 rows"),
        ("labels", ("P2",), None, "1 rows"),
        ("scatter", ("P1", "P2"), None, ""),
        ("silhouette", ("P1", "P2"), None, ""),
        ("stop bit", ("P0", "P1", "P2"), 1, ""),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=option_name)
def test_what_is_disclosed_where_max_iter_ends_the_run(options, restarts, protocol):
    model = fitted(options, protocol=protocol, n_init=restarts, max_iter=2)
    check(model)
    stop_bits = [entry.iteration for entry in model.disclosures_ if entry.what == "stop bit"]
    assert stop_bits == [1] * restarts


@pytest.mark.parametrize("options", OPTIONS, ids=option_name)
def test_what_is_disclosed_from_random_rows(options):
    model = fitted(options, protocol="onetime", init="random", n_init=2, max_iter=2)
    check(model)
    assert "start rows" not in {entry.what for entry in model.disclosures_}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("labels", ["private", "revealed"])
def test_the_rows_that_were_drawn_are_disclosed_with_revealed_labels_alone(labels, protocol):
    model = fitted({"partition": "vertical", "labels": labels}, protocol=protocol, n_init=2, max_iter=1)
    found = [(e.to, e.iteration, e.restart) for e in model.disclosures_ if e.what == "start rows"]
    assert found == ([(PARTIES, None, 0), (PARTIES, None, 1)] if labels == "revealed" else [])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("options", OPTIONS, ids=option_name)
def test_what_is_disclosed_where_a_fixed_point_ends_the_run(options, protocol):
    model = fitted(options, protocol=protocol, n_init=2)
    check(model)
    assert max(entry.iteration or 0 for entry in model.disclosures_) == model.n_iter_


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("options", RULED, ids=option_name)
def test_what_is_disclosed_under_output_rules(options, restarts):
    model = fitted(options, protocol="onetime", n_init=restarts, max_iter=2)
    check(model)
    whats = {entry.what for entry in model.disclosures_}
    assert "suppression bits" in whats
    assert ("sizes" in whats) == (options.get("sizes") == "rounded")


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_bounds_taken_from_the_data_are_a_disclosure_to_everybody(partition):
    model = fitted({"partition": partition, "counts": "revealed"}, bounds="auto", max_iter=1)
    check(model)
    assert (model.disclosures_[0].what, model.disclosures_[0].to) == ("bounds", EVERYBODY)


def test_given_starts_disclose_as_random_ones_do():
    options = {"counts": "revealed", "max_iter": 2}
    given = SecureKMeans(2, init=X[:2], bounds=BOUNDS, tol=0, **options).fit_parties(blocks_of("horizontal"))
    assert logged(given) == logged(fitted({"partition": "horizontal"}, **options))


def test_the_details_say_which_columns_and_how_many_rows():
    details = {(e.what, e.to): e.detail for e in fitted({"partition": "vertical"}, max_iter=1).disclosures_}
    assert details["centers", ("P1",)] == "x0, x1"
    assert details["centers", ("P3",)] == "x3"
    assert details["labels", PARTIES] == "14 rows"


def plant(monkeypatch, method, extra):
    """Make a family's method open something besides."""
    honest = getattr(SecureNN, method)

    def planted(self, *args, **more):
        result = honest(self, *args, **more)
        extra(self, result)
        return result

    monkeypatch.setattr(SecureNN, method, planted)


PLANTED = {
    "counts in every iteration": (
        "sums",
        lambda family, result: family.open(result[1], family.me.world.owners, "counts", "planted"),
    ),
    "labels under another name": (
        "label",
        lambda family, result: family.open(family.gather(result), family.me.world.owners, "debugging", "planted"),
    ),
    "centres to the helper": ("means", lambda family, result: family.open(result, [0], "centers", "planted")),
    "centres before the end": (
        "means",
        lambda family, result: family.open(result, family.me.world.owners, "centers", "planted"),
    ),
    "movement to one party": ("movement", lambda family, result: family.open(result, [2], "movement", "planted")),
    "labels to one who holds other rows": (
        "index",
        lambda family, result: family.open(result, [2], "labels", "planted"),
    ),
    "a second stop bit": (
        "open_stop_bit",
        lambda family, _: family.open(family.public(np.arange(2)), range(4), "stop bit", "planted"),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_opening_is_stopped_before_anything_leaves(monkeypatch, bug):
    """Of the planted opening, that is: nobody sends from when it is recorded."""
    opening: set[int] = set()
    begun: list[str] = []
    record = Ledger.record

    def watched(ledger, what, to, reason, detail=""):
        if reason == "planted":
            opening.add(threading.get_ident())
            begun.append(what)
        record(ledger, what, to, reason, detail)

    send = Metered.send

    def sending(channel, *args, **more):
        assert threading.get_ident() not in opening
        return send(channel, *args, **more)

    monkeypatch.setattr(Ledger, "record", watched)
    monkeypatch.setattr(Metered, "send", sending)
    plant(monkeypatch, *PLANTED[bug])
    with pytest.raises(ProtocolError, match=r"was to be opened to .* nothing of it is sent"):
        fitted({"partition": "horizontal"}, max_iter=3)
    assert begun


@pytest.fixture
def unchecked(monkeypatch):
    """The log is not checked while the run goes on."""
    let_anything_be_opened(monkeypatch)


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.usefixtures("unchecked")
def test_a_planted_opening_is_caught(monkeypatch, bug):
    plant(monkeypatch, *PLANTED[bug])
    model = fitted({"partition": "horizontal"}, max_iter=2)
    with pytest.raises(AssertionError):
        check(model)


@pytest.mark.usefixtures("unchecked")
def test_an_opening_that_one_party_alone_logs_is_caught(monkeypatch):
    plant(
        monkeypatch,
        "means",
        lambda family, result: family.me.rank == 2 and family.me.ledger.record("centers", ("P2",), "planted"),
    )
    with pytest.raises(ProtocolError, match="different disclosure logs"):
        fitted({"partition": "horizontal"}, max_iter=2)


def test_predictions_leave_the_log_of_the_fit_alone():
    model = fitted({"partition": "horizontal"}, max_iter=1)
    before = list(model.disclosures_)
    model.predict_parties(blocks_of("horizontal"))
    assert model.disclosures_ == before
