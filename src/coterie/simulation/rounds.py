"""Rounds of the paper's algorithms and of their parts, counted at the channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from coterie.clustering import Layout
from coterie.estimator import SecureKMeans
from coterie.protocols import OneTime, Problem, SecureNN
from coterie.report.example import ALGORITHMS, ITERATED, Counted
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, Shared
from coterie.transport import Traffic, World

__all__ = ["CLUSTERS", "FAMILIES", "Progress", "count_rounds"]

FAMILIES = ("onetime", "securenn")
CLUSTERS = (2, 3, 4, 8, 16)
#: Called before each step, with what is done in it.
Progress = Callable[[str], None]


def count_rounds(step: Progress, clusters: Sequence[int] = CLUSTERS) -> Iterator[Counted]:
    """Rounds an iteration of the paper's three algorithms with both families, in this process, on small tables; and
    those of its parts, at k = 4."""
    tournament = {"schedule": "tournament"}
    for family in FAMILIES:
        for k in clusters:
            for key in ITERATED:
                step(f"counting rounds: {ALGORITHMS[key].name}, {family}, k = {k}")
                plan = tournament if family == "onetime" else "auto"
                yield Counted(key, family, k, *_count_iteration(family, k, plan, ALGORITHMS[key].options))
    for k in (k for k in clusters if k in (4, 16)):
        options = ALGORITHMS["SHK secret"].options
        counts = _count_iteration("onetime", k, {"schedule": "all_pairs"}, options)
        yield Counted("SHK secret", "onetime, all pairs", k, *counts)
    for key, family, counts in _count_parts(4):
        yield Counted(key, family, 4, *counts)


def _count_iteration(family: str, k: int, plan: Any, options: dict[str, str]) -> tuple[int, int]:
    """Rounds an iteration, with and without dealing."""
    table = np.random.RandomState(0).uniform(-1, 1, (12 * k, 2))
    model = SecureKMeans(k, protocol=family, plan=plan, max_iter=3, tol=0, random_state=0, **options)  # type: ignore[arg-type]
    traffic = model.fit(table).traffic_
    return traffic.rounds_with_dealing_per_iteration, traffic.rounds_per_iteration


def _count_parts(k: int) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """What the paper's table calls protocols of their own, each alone on shares of zeros."""
    problem = Problem(9, k, (1000, 1000))

    def labels(me: Party) -> None:
        family = OneTime(me, problem)
        own = None if me.deals else np.zeros((9, 2), np.int64)
        rows = family.table(own, Layout("vertical", 9, 2, columns=((0,), (1,))))
        centers = family.public(np.zeros((k, 2), np.int64))
        me.channel.mark_iteration()
        family.label(rows, centers).settle()
        me.channel.mark_iteration()

    def product(me: Party) -> None:
        SecureNN(me, problem).product(*_share_zeros(me, (9,), (9,)))

    def distances(me: Party) -> None:
        SecureNN(me, problem).mat_dist(*_share_zeros(me, (9, 2), (k, 2)))

    def samples(me: Party) -> None:
        SecureNN(me, problem).label_samples(*_share_zeros(me, (9, 2), (k, 2)))

    yield "ElementWiseMatMul", "securenn", _count_alone(product)
    yield "MatDist", "securenn", _count_alone(distances)
    yield "LabelSamples", "securenn", _count_alone(samples)
    yield "LabelSamples", "onetime", _count_alone(labels, marked=True)


def _share_zeros(me: Party, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Shared, Shared]:
    words = Words(64)
    if me.deals:
        return me.hollow(words, first), me.hollow(words, second)
    return me.shared(words, words.zeros(first)), me.shared(words, words.zeros(second))


def _count_alone(role: Callable[[Party], None], marked: bool = False) -> tuple[int, int]:
    """Rounds of a function of every role, with and without dealing; `marked`: between its two marks."""

    def counted(me: Party) -> Traffic:
        role(me)
        return me.channel.traffic()

    whole = Traffic.together(run_threads(World(("P0", "P1", "P2")), counted))
    if marked:
        return whole.rounds_with_dealing_per_iteration, whole.rounds_per_iteration
    return whole.rounds_with_dealing, whole.rounds
