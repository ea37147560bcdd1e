"""Rounds counted at the channel, with dealing, against the paper's table ("Communication rounds for each protocol")."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.protocols.securenn.sign import drelu
from coterie.protocols.words import elementwise_product
from coterie.transport import Traffic
from tests.clustering.comparison import seeded_runs  # noqa: F401
from tests.protocols.steps import arg_min, label_samples, mat_dist
from tests.support import compute

CLUSTERS = (2, 3, 4, 8)
PARTIES = (2, 3)
#: The paper's rounds as a function of k, and the shapes that a protocol is run on, for n rows and d columns.
ALONE = {
    "ElementWiseMatMul": (lambda k: 2, elementwise_product, lambda n, d, k: [(n, d), (n, d)]),
    "MatDist": (lambda k: 2, mat_dist, lambda n, d, k: [(n, d), (k, d)]),
    "DReLU": (lambda k: 8, drelu, lambda n, d, k: [(n, d)]),
    "LabelSamples": (lambda k: 2 * k + 8, label_samples, lambda n, d, k: [(n, d), (k, d)]),
    "ArgMin": (lambda k: 9 * (k - 1), arg_min, lambda n, d, k: [(n, k)]),
}
ITERATIONS = {
    "SHK-means, revealed counts": (lambda k: 2 * k + 20, {"counts": "revealed"}),
    "SHK-means, secret counts": (lambda k: 2 * k + 150, {"counts": "secret"}),
    "SVK-means": (lambda k: 9 * k, {"partition": "vertical", "labels": "revealed"}),
}


def rounds_alone(name: str, p: int, k: int, n: int = 6, d: int = 3, times: int = 1) -> tuple[int, int]:
    """With dealing: of a run that does the protocol so many times, and of the protocol by its own name."""
    _, protocol, shapes = ALONE[name]
    random = np.random.RandomState(0)
    inputs = [random.randint(-1000, 1000, shape) for shape in shapes(n, d, k)]

    def repeated(me, *values):
        return [protocol(me, *values) for _ in range(times)][-1]

    traffic = compute(p, repeated, *inputs)[1].traffic
    return traffic.rounds_with_dealing, traffic.by_protocol[name].rounds_with_dealing


def traffic_of_a_fit(name: str, p: int, k: int, n: int = 48, d: int = 3, **options) -> Traffic:
    x = np.random.RandomState(1).uniform(-1, 1, (n, d))
    fixed = {
        "protocol": "securenn",
        "n_parties": p,
        "init": x[:k],
        "tol": 0,
        "bounds": [(-1, 1)] * d,
        **ITERATIONS[name][1],
    }
    model = SecureKMeans(k, **fixed, **{"max_iter": 3, **options}).fit(x)
    assert model.n_iter_ == model.max_iter, "the data converge at once"
    return model.traffic_


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("k", CLUSTERS)
@pytest.mark.parametrize("name", ALONE)
def test_a_protocol_alone_takes_no_more_rounds_than_the_paper_s(name, k, p):
    assert max(rounds_alone(name, p, k)) <= ALONE[name][0](k)


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("name", ALONE)
def test_nor_does_it_when_another_party_receives_what_is_dealt(name, p):
    """Who receives a correction rotates, from call to call."""
    for times in (2, 3):
        assert max(rounds_alone(name, p, 4, times=times)) <= times * ALONE[name][0](4)


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("k", CLUSTERS)
@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_takes_no_more_rounds_than_the_paper_s(name, k, p):
    traffic = traffic_of_a_fit(name, p, k)
    paper = ITERATIONS[name][0](k)
    assert 0 < traffic.rounds_per_iteration <= traffic.rounds_with_dealing_per_iteration <= paper


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("name", ITERATIONS)
def test_what_another_iteration_costs_is_what_the_traffic_says(name, p):
    """The whole chain of messages of longer and longer runs, stop test included. As it rotates who
    receives a correction, a chain may end a message earlier or later."""
    runs = [traffic_of_a_fit(name, p, 3, max_iter=m) for m in (1, 2, 3)]
    said = runs[-1].rounds_with_dealing_per_iteration
    for shorter, longer in pairwise(runs):
        further = longer.rounds_with_dealing - shorter.rounds_with_dealing
        assert abs(further - said) <= 1
        assert further <= ITERATIONS[name][0](3)


@pytest.mark.parametrize("name", ALONE)
def test_a_protocol_s_rounds_do_not_depend_on_n_and_d(name):
    few = rounds_alone(name, 2, 3)
    assert rounds_alone(name, 2, 3, n=40) == few
    assert rounds_alone(name, 2, 3, d=9) == few


@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_s_rounds_do_not_depend_on_n_and_d_nor_on_blocks(name):
    def rounds(**sizes):
        traffic = traffic_of_a_fit(name, 2, 3, max_iter=2, **sizes)
        return traffic.rounds_per_iteration, traffic.rounds_with_dealing_per_iteration

    few = rounds()
    assert rounds(n=200) == few
    assert rounds(d=7) == few
    assert rounds(plan={"block_rows": 20}) == few


@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_s_rounds_do_not_depend_on_p(name):
    assert len({traffic_of_a_fit(name, p, 4, d=5, max_iter=2).rounds_per_iteration for p in (2, 3, 5)}) == 1
