"""The forecast of bytes and rounds equals what the channel counts; plans are checked and chosen."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import gather, split
from coterie.errors import InputError
from coterie.parameters import prepare_fit
from coterie.planning import forecast, planned
from coterie.transport.links import LINKS, Link

X = np.random.default_rng(0).uniform(-1, 1, (700, 5))
PLANS = ["auto", {"block_rows": 128, "lanes": 2}, {"schedule": "all_pairs", "lanes": 0}]
CASES = list(product((2, 3), ("horizontal", "vertical", "mixed"), ("secret", "revealed"), (1, 2, 7)))


def task_of(model, x=X):
    parties = [f"P{j + 1}" for j in range(model.n_parties)]
    return prepare_fit(model, gather(split(x, model.partition, model.n_parties), model.partition, parties)).task


@pytest.mark.parametrize(("p", "partition", "counts", "k"), CASES)
def test_bytes_and_rounds_are_as_forecast(p, partition, counts, k):
    for plan in PLANS:
        model = SecureKMeans(
            k,
            protocol="onetime",
            n_parties=p,
            partition=partition,
            counts=counts,
            max_iter=3,
            tol=0,
            plan=plan,
            init=X[:k],
        ).fit(X)
        ended = "max_iter" if model.n_iter_ == 3 else "stop"
        expected = forecast(task_of(model), p, model.n_iter_, LINKS["loopback"], ended)
        assert expected.bytes_sent == model.traffic_.bytes_sent
        assert expected.rounds == model.traffic_.rounds
        assert expected.rounds_per_iteration == model.traffic_.rounds_per_iteration


RULES = [
    {},
    {"sizes": "rounded"},
    {"contribution": "none-or-least", "sizes": "rounded", "resolution": {"x0": 0.1, "x3": 0.01}},
]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize(("p", "partition"), [(2, "horizontal"), (3, "horizontal"), (2, "vertical"), (3, "mixed")])
@pytest.mark.parametrize("k", [1, 3])
def test_output_rules_cost_what_is_forecast(k, p, partition, rules):
    if partition == "vertical":
        rules = {key: value for key, value in rules.items() if key != "resolution"}
    model = SecureKMeans(
        k, n_parties=p, partition=partition, max_iter=3, tol=0, init=X[[5, 100, 400][:k]], bounds=[(-1, 1)] * 5,
        least_cluster_size=5, **rules,
    ).fit(X)  # fmt: skip
    assert not model.suppressed_.any()  # nothing is opened of a closed one, so it costs less
    ended = "max_iter" if model.n_iter_ == 3 else "stop"
    expected = forecast(task_of(model), p, model.n_iter_, LINKS["loopback"], ended)
    assert expected.bytes_sent == model.traffic_.bytes_sent
    assert expected.rounds == model.traffic_.rounds


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 16, 33, 64])
def test_rounds_stay_under_the_bound_whatever_n_d_and_p(k):
    """At most 11 + 5 ceil(log2 k), and 14 at k = 4; the same for every n, d and p where openings are direct."""
    bound = 14 if k == 4 else 11 + 5 * (k - 1).bit_length()
    counted = set()
    for n, d, p in ((100, 2, 2), (5000, 2, 3), (300, 30, 2), (1000, 3, 8)):
        for collecting in ({}, {"collect_from": 0}):
            plan = {"schedule": "tournament", **collecting}
            model = SecureKMeans(k, protocol="onetime", n_parties=p, init="random", plan=plan)
            task = task_of(model, np.random.default_rng(1).uniform(-1, 1, (n, d)))
            rounds = forecast(task, p, 5, LINKS["loopback"], "stop").rounds_per_iteration
            assert rounds <= bound
            if collecting:
                counted.add(rounds)
    assert len(counted) == 1


def test_a_slow_round_trip_makes_for_fewer_rounds_and_a_narrow_link_for_fewer_bytes():
    model = SecureKMeans(8, protocol="onetime", init=X[:8])
    task = task_of(model)
    far = planned(task, 2, "auto", Link(round_trip=0.2, bandwidth=1e9))
    narrow = planned(task, 2, "auto", Link(round_trip=1e-5, bandwidth=1e5))

    def cost(chosen):
        return forecast(chosen, 2, 1, LINKS["wan"], "stop")

    assert cost(far).rounds_per_iteration < cost(narrow).rounds_per_iteration
    assert sum(cost(narrow).bytes_per_iteration.values()) < sum(cost(far).bytes_per_iteration.values())


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        ({"block_rows": 0}, "block_rows"),
        ({"lanes": -1}, "lanes"),
        ({"schedule": "knockout"}, "schedule"),
        ({"schedule": (2,)}, "one winner"),
        ({"speed": 11}, "speed"),
        ("fast", "auto"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(plan, word):
    with pytest.raises(InputError, match=word):
        SecureKMeans(5, protocol="onetime", plan=plan, init=X[:5]).fit(X)


def test_what_a_plan_leaves_out_is_chosen_and_what_it_says_is_kept():
    task = task_of(SecureKMeans(4, protocol="onetime", init=X[:4]))
    chosen = planned(task, 2, {"block_rows": 64, "schedule": [4]})
    assert (chosen.block_rows, chosen.schedule) == (64, (4,))
    assert chosen.lanes >= 1
    assert msgspec.structs.replace(chosen, block_rows=task.block_rows, schedule=task.schedule, lanes=task.lanes) == task
