"""The silhouette in every family: all distances of a tiny ring, the real width, whole tables; beside the real one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocols import Problem
from coterie.protocols.measures import COMPARED_BITS, LEVELS, silhouette_thresholds
from coterie.protocols.metric import Metric, standard_precision
from coterie.protocols.sampling import Sampling
from coterie.ring import Words
from tests.contract.families import CASES, compute
from tests.contract.test_scaling import ONE_OF_EACH, generally, layout_of
from tests.protocols import scales
from tests.protocols.scales import distances, label_of, levels_of, simplified_silhouette, weights_of
from tests.protocols.tiny import numbers, protocol_settings

every_family = pytest.mark.parametrize(("protocol", "owners"), CASES)


def sampling_of(bits: int) -> Sampling:
    return Sampling(1, 1, bits, 0, 0, 0)


def test_thresholds_by_hand():
    """(1 - (q - 1/2) / 8)^2 in parts of 256: the squares of odd numbers, so that nothing is rounded."""
    assert silhouette_thresholds().tolist() == [225, 169, 121, 81, 49, 25, 9, 1]
    assert LEVELS == scales.LEVELS


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(0, 0, 0), (0, 1, 8), (1, 1, 0), (1, 4, 4), (225, 256, 0), (224, 256, 1), (1, 256, 7), (1, 257, 8), (3, 3000, 8)],
)
def test_levels_by_hand(a, b, expected):
    """1 - sqrt(a / b) in eighths, to the nearest: at a half the lower one."""
    assert levels_of([a, b], label=0) == expected
    if b:
        assert abs(expected / 8 - (1 - (a / b) ** 0.5)) <= 1 / 16


# -- levels, from distances --------------------------------------------------------------------------------------------


def reached(protocol, owners, rows, labels, bits, copies=(), ring=Words(64)):
    """From rows of distances (n, k): how many levels each of them reaches. Together they are what comes out."""
    distances = np.array(rows, np.int64).T
    hot = np.eye(len(distances), dtype=np.int64)[:, labels]
    flags = np.isin(np.arange(len(distances)), copies).astype(np.int64) if copies else None

    def operate(family, hot, distances):
        to_words, each = family.to_words, []
        family.to_words = lambda bits: each.append(to_words(bits)) or each[-1]
        together = family.levels_of(hot, distances, sampling_of(bits), flags)
        return together, each[-1].sum(0)

    (together,), found = compute(protocol, owners, operate, hot, distances, ring=ring)
    assert together == ring.signed(ring.encode(found.sum()))
    return found.tolist()


def expected(rows, labels, bits, copies=()):
    shift = max(0, bits - COMPARED_BITS)
    return [levels_of(row, shift, label, copies) for row, label in zip(rows, labels, strict=True)]


@every_family
@pytest.mark.parametrize("label", [0, 1])
def test_every_pair_of_distances(protocol, owners, label):
    """Whether the label is that of the closest or not."""
    rows = list(product(range(16), repeat=2))
    assert reached(protocol, owners, rows, [label] * 256, 4, ring=Words(16)) == expected(rows, [label] * 256, 4)


@every_family
def test_every_three_distances(protocol, owners):
    rows = list(product(range(8), repeat=3))
    labels = [label_of(row) for row in rows]
    assert reached(protocol, owners, rows, labels, 3, ring=Words(16)) == expected(rows, labels, 3)
    with_a_copy = [(*row, row[0]) for row in rows]
    assert reached(protocol, owners, with_a_copy, labels, 3, (3,), Words(16)) == expected(rows, labels, 3)


@st.composite
def far_distances(draw):
    """Of up to eight centres, up to so many bits: close to each other, at thresholds, or anywhere."""
    bits, k = draw(st.sampled_from([20, 53, 54, 58, 59])), draw(st.integers(2, 8))
    most = (1 << bits) - 1
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        b = draw(numbers(0, most, most // 3, most >> 8))
        edge = draw(st.sampled_from([225, 169, 121, 81, 49, 25, 9, 1])) * b // 256
        near = draw(numbers(0, most, edge - 1, edge, edge + 1, b))
        others = draw(st.lists(numbers(0, most, b, near), min_size=k - 2, max_size=k - 2))
        rows.append(draw(st.permutations([near, b, *others])))
    copies = draw(st.sampled_from([(), (), (k - 1,), tuple(range(2, k))]))
    for row in rows:
        for j in copies:
            row[j] = row[0]  # what a closed cluster has in the place of its centre
    return bits, rows, copies


@ONE_OF_EACH
@settings(protocol_settings, max_examples=12)
@given(drawn=far_distances())
def test_distances_at_full_width(protocol, owners, drawn):
    bits, rows, copies = drawn
    if len(copies) >= len(rows[0]) - 1:  # one open centre has no neighbour
        copies = ()
    labels = [label_of(row) for row in rows]
    assert reached(protocol, owners, rows, labels, bits, copies) == expected(rows, labels, bits, copies)


# -- whole tables ------------------------------------------------------------------------------------------------------

N = 23
METRICS = {"plain": None, "standardised": Metric(), "anywhere": Metric(octaves=12, inside=False)}


def example(k: int, metric: Metric | None) -> tuple[Problem, np.ndarray, np.ndarray, list[int] | None]:
    """Rows, centres, of which two are alike and one is far from all rows where it may be, and weights."""
    random = np.random.RandomState(k)
    rows = random.randint(-400, 400, (N, 3)) * [1, 30, 0]
    centers = np.concatenate([rows[: k - 1], rows[:1]]) if k > 2 else rows[:2]
    if k > 3 and (metric is None or not metric.inside):
        centers[k - 2] = [16_000, 16_000, 0]
    problem = Problem(N, k, (1 << 14,) * 3, block_rows=64, metric=metric)
    weights = None if metric is None else weights_of(rows, problem)[0]
    return problem, rows, centers, weights


def as_defined(problem, rows, centers, weights, copies=()):
    """How many levels all rows reach together, from their distances under rough weights; labels follow from exact
    ones."""
    sampling = Sampling.of(problem)
    exact = weights or [1] * 3
    labels = [label_of(row) for row in distances(rows, centers, exact)]
    rough = distances(rows, centers, [w >> sampling.weight_shift for w in exact])
    return sum(expected(rough, labels, sampling.bits, copies))


def silhouettes(protocol, owners, kind, problem, rows, centers, weights, copies=None):
    """By the family's own step, and by the general one."""

    def operate(family):
        me = family.me
        layout = layout_of(kind, len(me.world.owners))
        own = np.where(layout.own_cells(me.rank), rows, 0) if me.owns else None
        found = []
        for one in (family, generally(family)):
            table = family.table(own, layout) if one is family else family.lay_out(family.enter(own, rows.shape))
            given = None if weights is None else family.public(np.array([weights]))
            middle = family.public(centers)
            labels = one.label(table, middle, weights=given)
            found.append(one.silhouette(table, labels, middle, given, copies))
        return tuple(found)

    return [one.tolist() for one in compute(protocol, owners, operate, problem=problem)]


WAYS = [(protocol, owners, "horizontal") for protocol, owners in CASES]
WAYS += [
    (*case, "mixed") for case in (("securenn", 2), ("onetime", 2), ("onetime", 3), ("falcon", 3), ("replicated", 3))
]


@pytest.mark.parametrize(("protocol", "owners", "kind"), WAYS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [2, 5])
def test_a_silhouette_of_a_familys_own_is_the_general_one(protocol, owners, kind, metric, k):
    found = silhouettes(protocol, owners, kind, *(given := example(k, METRICS[metric])))
    assert found == [[as_defined(*given)]] * 2


@pytest.mark.parametrize(("protocol", "owners"), [("plaintext", 1), ("onetime", 2)])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", range(2, 9))
def test_the_silhouette_of_any_number_of_clusters(protocol, owners, metric, k):
    given = example(k, METRICS[metric])
    assert silhouettes(protocol, owners, "horizontal", *given) == [[as_defined(*given)]] * 2


@every_family
@pytest.mark.parametrize("metric", METRICS)
def test_a_centre_that_is_a_copy_is_no_neighbour(protocol, owners, metric):
    """As if it were not there: a closed cluster's place is taken by a copy of the first."""
    problem, rows, centers, weights = example(3, METRICS[metric])
    assert (centers[2] == centers[0]).all()
    found = silhouettes(protocol, owners, "horizontal", problem, rows, centers, weights, np.array([0, 0, 1]))
    assert found == [[as_defined(problem, rows, centers[:2], weights)]] * 2
    assert found[0] != [as_defined(problem, rows, centers, weights)]


@pytest.mark.parametrize("protocol", ["plaintext", "onetime"])
def test_at_the_limits(protocol):
    """Distances of as many bits as there are, of which the lowest are cut off before they are compared."""
    f, metric = standard_precision(3, 2000, 8, True)
    problem = Problem(2000, 8, (1 << f,) * 3, block_rows=64, metric=metric)
    assert Sampling.of(problem).bits == COMPARED_BITS + 2
    random = np.random.RandomState(0)
    rows = random.randint(-(1 << f), 1 << f, (N, 3))
    weights = [(1 << 22) + 12_345] * 3
    assert max(map(max, distances(rows, rows[:8], weights))).bit_length() == problem.distance_bits
    found = silhouettes(protocol, 2 if protocol == "onetime" else 1, "horizontal", problem, rows, rows[:8], weights)
    assert found == [[as_defined(problem, rows, rows[:8], weights)]] * 2


# -- beside the real one ---------------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.data())
def test_every_row_is_told_to_a_sixteenth(data):
    """Thresholds lie halfway between eighths, and nothing is rounded: no row's silhouette is off by more."""
    k = data.draw(st.integers(2, 8))
    row = data.draw(st.lists(numbers(0, 1 << 40), min_size=k, max_size=k))
    label = label_of(row)
    assert abs(levels_of(row, label=label) / LEVELS - simplified_silhouette(row, label)) <= 1 / 16 + 1e-12


@pytest.mark.parametrize("metric", ["plain", "standardised"])
@pytest.mark.parametrize("k", range(2, 9))
def test_the_mean_is_that_of_the_simplified_silhouette(metric, k):
    """Of normal blobs: errors of rows cancel."""
    random = np.random.RandomState(k)
    middles = random.uniform(-6000, 6000, (k, 3))
    rows = np.repeat(middles, 60, axis=0) + random.normal(0, 900, (60 * k, 3))
    rows, centers = rows.round().astype(np.int64), middles.round().astype(np.int64)
    problem = Problem(len(rows), k, (1 << 14,) * 3, metric=METRICS[metric])
    weights = None if METRICS[metric] is None else weights_of(rows, problem)[0]
    exact = distances(rows, centers, weights or [1] * 3)
    mean = np.mean([simplified_silhouette(row, label_of(row)) for row in exact])
    found = as_defined(problem, rows, centers, weights) / (LEVELS * len(rows))
    assert found == pytest.approx(mean, abs=0.01)
