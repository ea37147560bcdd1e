"""Openings by way of collectors: the same values, and nothing is seen that a direct opening does not show."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.planning import forecast, planned
from coterie.planning.timing import collecting_pays_from
from coterie.randomness.material import Bits, Elements, Material, Packed, Unpacked
from coterie.ring import Prime, Words
from coterie.sharing import start_opening
from coterie.transport.links import LINKS, Link
from tests.planning.test_costs import task_of
from tests.support import run

PIECES = {
    "packed, 5 bits": lambda count: Packed(count, width=5),
    "packed, 24 bits": lambda count: Packed(count, width=24),
    "packed, 36 bits": lambda count: Packed(count, width=36),
    "packed, 64 bits": lambda count: Packed(count, width=64),
    "unpacked, 44 bits": lambda count: Unpacked(count, width=44),
    "bits": Bits,
    "words of 4 bits": lambda count: Elements(Words(4), count),
    "a field": lambda count: Elements(Prime(67), count),
}


def values_of(piece, seed):
    """Whatever a kernel could have blinded, for a piece."""
    bound = piece.ring.modulus if isinstance(piece, Elements) else 1 << getattr(piece, "width", 64)
    words = np.random.default_rng(seed).integers(0, bound, piece.count, dtype=np.uint64, endpoint=False)
    return words.astype(piece.ring.dtype) if isinstance(piece, Elements) else words


def open_all(p, pieces, collect_from, order=None):
    """Open values under several pieces at a time, each of a step of its own; what everybody learns and sees."""

    def role(me):
        me.begin_protocol(frozenset({"note"}), collect_from)
        steps = [me.deal(Material(f"step {i}", opens={"x": piece})) for i, piece in enumerate(pieces)]
        if me.deals:
            for end in [step.bind(dict) for step in steps]:
                end()
            return None
        openings = [
            start_opening(me, step.masked("x", values_of(piece, 10 * me.rank + i)))
            for i, (step, piece) in enumerate(zip(steps, pieces, strict=True))
        ]
        found = {i: openings[i]() for i in order or range(len(openings))}
        return [found[i] for i in range(len(openings))]

    return run(p, role)


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("p", [3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 333])
def test_the_sum_is_that_of_a_direct_opening(p, kind, count):
    """Also where some collectors have nothing to collect."""
    piece = PIECES[kind](count)
    direct, collected = (open_all(p, [piece], least).results[1:] for least in (0, 1))
    for one, other in zip(direct, collected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    assert all(np.array_equal(one[0], collected[0][0]) for one in collected)


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2, 1], [2, 0, 1]])
@pytest.mark.parametrize("least", [1, 450, 3000])
def test_several_at_a_time_do_not_get_into_each_other_s_way(order, least):
    """All of them, the two larger ones, and one alone by way of collectors; received in any order."""
    pieces = [Packed(500, width=64), Bits(60), Packed(80, width=36)]
    expected = open_all(3, pieces, 0).results[1:]
    found = open_all(3, pieces, least, order).results[1:]
    for one, other in zip(expected, found, strict=True):
        assert all(map(np.array_equal, one, other))


@pytest.mark.parametrize("p", [3, 5])
def test_what_anybody_sees_follows_from_what_is_seen_directly(p):
    """A simulator that has the view of a direct opening cuts and adds it: frame by frame it gets the other view."""
    piece = Packed(100, width=64)
    direct, collected = open_all(p, [piece], 0), open_all(p, [piece], 1)
    shares = {j: values_of(piece, 10 * j) for j in range(1, p + 1)}
    edges = [100 * i // p for i in range(p + 1)]
    parts = {j: slice(low, high) for j, (low, high) in enumerate(pairwise(edges), 1)}
    for j in range(1, p + 1):
        others = [i for i in range(1, p + 1) if i != j]
        seen = {f.sender: f.array.view(np.uint64) for f in direct.recordings[j].received}
        assert all(np.array_equal(seen[i], shares[i]) for i in others)
        view = [(f.sender, f.array.view(np.uint64)) for f in collected.recordings[j].received]
        whole = np.sum([*seen.values(), shares[j]], axis=0, dtype=np.uint64)
        expected = [(i, seen[i][parts[j]]) for i in others] + [(i, whole[parts[i]]) for i in others]
        assert len(view) == len(expected)
        for (sender, array), (i, simulated) in zip(view, expected, strict=True):
            assert sender == i
            np.testing.assert_array_equal(array, simulated)


X = np.random.default_rng(0).uniform(-1, 1, (300, 5))
OPTIONS = [
    {},
    {"partition": "vertical"},
    {"partition": "mixed", "counts": "revealed"},
    {"partition": "vertical", "labels": "revealed"},
    {"init": "k-means++", "scale": "standard"},
    {"protocol": "securenn", "max_iter": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("p", [3, 5])
@pytest.mark.parametrize("lanes", [0, 2])
def test_a_fit_is_the_same_and_costs_what_is_forecast(p, options, lanes):
    options = {"init": X[:3], "max_iter": 3, "tol": 0, "bounds": [(-1, 1)] * 5, "random_state": 1} | options
    models = [
        SecureKMeans(3, n_parties=p, plan={"block_rows": 128, "lanes": lanes, "collect_from": least}, **options).fit(X)
        for least in (0, 300)
    ]
    for name in ("cluster_centers_", "labels_", "inertia_", "n_iter_"):
        np.testing.assert_array_equal(*[getattr(model, name) for model in models])
    assert models[0].traffic_.rounds < models[1].traffic_.rounds
    for model in models:
        expected = forecast(task_of(model, X), p, model.n_iter_, LINKS["loopback"], "max_iter")
        assert expected.bytes_sent == model.traffic_.bytes_sent
        assert expected.rounds == model.traffic_.rounds


def sent_by_one(p, collect_from):
    """Bytes that a party sends in an iteration, of an even share of many rows."""
    points = np.random.default_rng(0).uniform(-1, 1, (50_000, 16))
    model = SecureKMeans(
        4,
        n_parties=p,
        partition="vertical",
        init=points[:4],
        bounds=[(-1, 1)] * 16,
        plan={"collect_from": collect_from},
    )
    return forecast(task_of(model, points), p, 5, LINKS["loopback"], "stop").bytes_per_iteration["P1"]


def test_bytes_for_each_party_do_not_grow_with_the_number_of_parties():
    directly, by_collectors = ({p: sent_by_one(p, least) for p in (3, 8, 16)} for least in (0, 4096))
    assert directly[16] > 6 * directly[3]  # p - 1
    assert by_collectors[16] < 1.5 * by_collectors[3]  # 2 (p - 1) / p, and frames' headers
    assert by_collectors[3] < 0.75 * directly[3]


def test_the_planner_weighs_a_round_against_bytes():
    wan, loopback = LINKS["wan"], LINKS["loopback"]
    assert collecting_pays_from("onetime", 2, wan) == 0
    by_parties = [collecting_pays_from("onetime", p, wan) for p in (3, 5, 8, 16)]
    assert by_parties == sorted(by_parties, reverse=True)
    assert collecting_pays_from("onetime", 4, wan) > collecting_pays_from("onetime", 4, Link(0.001, wan.bandwidth))
    task = task_of(SecureKMeans(3, n_parties=4, init=X[:3]), X)
    assert planned(task, 4, "auto", loopback).collect_from == collecting_pays_from("onetime", 4, loopback)
    assert planned(task, 4, {"collect_from": 7}, loopback).collect_from == 7
    assert planned(task, 2, "auto", loopback).collect_from == 0
