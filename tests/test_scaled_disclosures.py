"""What standardised fits, measures of quality and the choice of k disclose: by hand, by the ideal functionality, and in
the log of runs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import QUALITY, Task
from coterie.data import split
from coterie.errors import ProtocolError
from coterie.ideal import ITEMS, WHAT, Roles, Terms, learnt
from coterie.protocols.onetime import OneTime
from coterie.runtime.oracle import run_oracle
from tests.clustering.comparison import seeded_runs, task_and_table  # noqa: F401
from tests.ideal_logs import ideal_log

X = np.random.RandomState(2).uniform(-1, 1, (24, 3)) * [1, 0.1, 0.5]
BOUNDS = [(-1, 1)] * 3
PARTIES = ("P1", "P2", "P3")
EVERYBODY = ("P0", *PARTIES)
TODAY = Roles(PARTIES, PARTIES, "P0")
SOME_QUALITY = [some for count in range(4) for some in combinations(QUALITY, count)]
STANDARD = {"scale": "standard"}
OPTIONS = [
    *({"quality": some} for some in SOME_QUALITY),
    *(
        {**STANDARD, "scales": scales, "quality": some}
        for scales in ("revealed", "secret")
        for some in SOME_QUALITY[::3]
    ),
    {**STANDARD, "partition": "mixed"},
    {**STANDARD, "partition": "mixed", "scales": "secret", "centers": "shared"},
    {**STANDARD, "partition": "vertical"},
    {**STANDARD, "partition": "vertical", "labels": "revealed"},
    {**STANDARD, "centers": "shared"},
    {**STANDARD, "counts": "revealed", "n_init": 2},
    {**STANDARD, "least_cluster_size": 2, "sizes": "rounded", "contribution": "off"},
    {**STANDARD, "least_cluster_size": 24, "contribution": "off"},  # all clusters are closed
    {"least_cluster_size": 24, "contribution": "off"},
    {"partition": "vertical", "labels": "revealed", "quality": ("silhouette",)},
]
CHOOSING = [
    {"n_clusters": (2, 3), "choose": choose, "measures": measures, "quality": quality, **scaled}
    for choose in ("calinski-harabasz", "silhouette")
    for measures in ("revealed", "secret")
    for quality, scaled in ((QUALITY, {}), (("inertia",), STANDARD))
]
CHOOSING += [
    {"n_clusters": (2, 4), "n_init": 2, "init": "random"},
    {"n_clusters": (2, 3), "partition": "mixed", **STANDARD, "scales": "secret"},
    {"n_clusters": (2, 3), "partition": "vertical", "measures": "secret"},
    {"n_clusters": (2, 3), "least_cluster_size": 2, "contribution": "off"},
]


def option_name(options: dict[str, object]) -> str:
    return "-".join(map(str, options.values())) or "default"


def by_hand(options: dict) -> Counter[tuple[str, tuple[str, ...]]]:
    """What is opened at the end, beside centres, labels, counts, sizes and bits of suppression."""
    quality, chooses = set(options.get("quality", QUALITY)), "n_clusters" in options
    weighted = options.get("scale") == "standard" and options.get("partition") != "vertical"
    told = options.get("measures", "revealed") == "revealed" and chooses
    found = []
    if chooses:
        found.append(("chosen k", EVERYBODY))
    if told:
        found.append(("measures of k", PARTIES))
    if weighted:
        found.append(("capped columns", PARTIES))
        if options.get("scales", "revealed") == "revealed" and options.get("centers", "revealed") == "revealed":
            found.append(("scales", PARTIES))
    by_silhouette = options.get("choose") == "silhouette"
    if not told or by_silhouette:  # what is told of all numbers of clusters is not opened once more
        if quality & {"inertia", "calinski-harabasz"}:
            found.append(("inertia", PARTIES))
        if "calinski-harabasz" in quality:
            found.append(("scatter", PARTIES))
    if "silhouette" in quality and not (told and by_silhouette):
        found.append(("silhouette", PARTIES))
    return Counter(found)


NEW = {"chosen k", "measures of k", "capped columns", "scales", "inertia", "scatter", "silhouette"}


@pytest.mark.parametrize("options", OPTIONS + CHOOSING, ids=option_name)
def test_the_ideal_functionality_by_hand(options):
    fields = {key: value for key, value in options.items() if key in Terms.__struct_fields__}
    terms = Terms(**{"partition": "horizontal", **fields}, chooses="n_clusters" in options)
    found = [one for one in learnt(terms, TODAY) if one.item.kind == "opened" and one.item.what in NEW]
    assert Counter((one.item.what, one.to) for one in found) == by_hand(options)
    assert all(one.item.when == "end" and one.most == 1 for one in found)


def test_every_new_item_is_in_words():
    assert set(WHAT) >= NEW
    assert all(one.sentence for one in ITEMS if one.what in NEW)


def test_a_prediction_opens_none_of_it():
    for options in OPTIONS + CHOOSING:
        fields = {key: value for key, value in options.items() if key in Terms.__struct_fields__}
        terms = Terms(**{"partition": "horizontal", **fields}, doing="predict")
        assert {one.item.what for one in learnt(terms, TODAY) if one.item.kind == "opened"} == {"labels"}


def test_one_cluster_has_no_silhouette():
    names = {one.item.what for one in learnt(Terms(partition="horizontal", clusters=1), TODAY)}
    assert "silhouette" not in names


# -- runs --------------------------------------------------------------------------------------------------------------


def blocks_of(partition: str) -> list[np.ndarray]:
    if partition != "mixed":
        return split(X, partition, 3)
    owners = np.tile([1, 2, 3], (len(X), 1))
    owners[:3], owners[3:9] = 1, [2, 2, 3]
    return [np.where(owners == j, X, np.nan) for j in (1, 2, 3)]


def fitted(options: dict, **more: object) -> SecureKMeans:
    model = SecureKMeans(
        **{"n_clusters": 2, "random_state": 1, "bounds": BOUNDS, "tol": 0, "max_iter": 2, **options, **more}
    )
    return model.fit_parties(blocks_of(model.partition))


def iterations_of_each_start(task: Task, table: np.ndarray) -> list[int]:
    """One number of clusters after another."""
    found = []
    for one in [task.choice(i) for i in range(len(task.choices))] or [task]:
        alone = [{"starts": (start,)} for start in one.starts] or [{"seeds": (seed,)} for seed in one.seeds]
        found += [run_oracle(msgspec.structs.replace(one, **start), table).n_iter for start in alone]
    return found


def check(model: SecureKMeans, options: dict) -> None:
    task, table = task_and_table(model, blocks_of(model.partition))
    logged = Counter((entry.what, entry.to, entry.iteration) for entry in model.disclosures_)
    assert logged == ideal_log(task, 3, iterations_of_each_start(task, table))
    assert Counter((e.what, e.to) for e in model.disclosures_ if e.what in NEW) == by_hand(options)
    for entry in model.disclosures_:
        assert "P0" not in entry.to or entry.what in ("stop bit", "chosen k")
        assert entry.reason


@pytest.mark.parametrize("options", OPTIONS, ids=option_name)
def test_the_log_of_a_run(options):
    check(fitted(options), options)


@pytest.mark.parametrize("options", CHOOSING, ids=option_name)
def test_the_log_of_a_choice(options):
    model = fitted(options)
    check(model, options)
    assert bool(model.k_measures_) == (options.get("measures", "revealed") == "revealed")


@pytest.mark.parametrize(
    "options", [OPTIONS[7], {**STANDARD, "scales": "secret"}, CHOOSING[2], CHOOSING[5]], ids=option_name
)
def test_the_log_of_the_other_family(options):
    check(fitted(options, protocol="securenn"), options)


def test_what_is_not_opened_is_nowhere_to_be_had():
    """Neither scales nor quality nor measures, if they are not asked for."""
    model = fitted({**STANDARD, "scales": "secret", "quality": ()})
    assert not hasattr(model, "scales_")
    assert all(np.isnan(getattr(model, name)) for name in ("silhouette_", "calinski_harabasz_", "inertia_"))
    chosen = fitted({"n_clusters": (2, 3), "measures": "secret", "quality": ()})
    assert chosen.k_measures_ == {}


@pytest.mark.parametrize("scaled", [{}, STANDARD], ids=["plain", "standardised"])
@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_where_all_clusters_are_closed_quality_says_nothing(monkeypatch, scaled, centers):
    """Of two tables, the same numbers are opened: zeros."""
    seen: list[list[int]] = []
    opening = OneTime.open_parts

    def noted(self, value, parts, what, reason):
        found = opening(self, value, parts, what, reason)
        if what in ("inertia", "silhouette", "scatter") and self.me.rank == 1:
            seen[-1] += found[0].ravel().tolist()
        return found

    monkeypatch.setattr(OneTime, "open_parts", noted)
    for scale in (1.0, 0.3):
        seen.append([])
        model = SecureKMeans(
            2, least_cluster_size=24, contribution="off", bounds=BOUNDS, max_iter=2, random_state=1, centers=centers,
            **scaled,
        ).fit_parties(split(X * scale, "horizontal", 3))  # fmt: skip
        assert model.suppressed_.all()
    assert seen[0] == seen[1] == [0] * 3


@pytest.mark.parametrize("options", [{**STANDARD, "scales": "secret"}, STANDARD], ids=["secret", "before the end"])
def test_scales_that_are_opened_when_they_must_not_be_are_refused(monkeypatch, options):
    honest = OneTime.column_weights

    def planted(self, scatter):
        found = honest(self, scatter)
        self.open(found[0], self.me.world.owners, "scales", "planted")
        return found

    monkeypatch.setattr(OneTime, "column_weights", planted)
    with pytest.raises(ProtocolError, match=r"was to be opened to .* nothing of it is sent"):
        fitted(options)
