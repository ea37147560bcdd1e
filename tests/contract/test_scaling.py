"""Standardised distances in every family: scatter and weights of columns, and each step that takes weights along."""

from __future__ import annotations

from copy import copy
from types import MethodType

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.clustering import Layout
from coterie.protocols import Problem, sampling
from coterie.protocols.metric import Metric, standard_precision
from coterie.protocols.sampling import Sampling, public_draws
from coterie.protocols.scaling import relative_tolerance
from coterie.protocols.steps import Family
from coterie.ring import Words
from coterie.sharing import concatenate
from tests.contract.families import CASES, compute
from tests.protocols.scales import distances, label_of, scatter_of, weight_of, weights_of
from tests.protocols.tiny import numbers, protocol_settings

every_family = pytest.mark.parametrize(("protocol", "owners"), CASES)
#: One world of each, for tests over many inputs.
ONE_OF_EACH = pytest.mark.parametrize(
    ("protocol", "owners"), [("plaintext", 1), ("securenn", 2), ("onetime", 3), ("falcon", 2), ("replicated", 2)]
)
few_examples = settings(protocol_settings, max_examples=12)


def own_cells(me, table: np.ndarray) -> np.ndarray | None:
    """This owner's part of a patchwork: cell by cell, one owner after the other."""
    if not me.owns:
        return None
    owners = me.world.owners
    whose = np.arange(table.size).reshape(table.shape) * 7 // 3 % len(owners)
    return np.where(whose == owners.index(me.rank), table, 0)


# -- scatter ---------------------------------------------------------------------------------------------------------


def scatter(protocol, owners, table, half):
    n, d = table.shape
    problem = Problem(n, 2, (half,) * d)

    def operate(family):
        return tuple(family.scatter(own_cells(family.me, table)))

    found, squares = compute(protocol, owners, operate, problem=problem)
    assert squares.tolist() == (table * table).sum(0).tolist()
    return found.tolist(), [scatter_of([int(x) for x in column], problem.reciprocal_bits) for column in table.T]


@every_family
@pytest.mark.parametrize(("n", "half"), [(1, 9), (2, 5), (3, 3), (4, 1)])
def test_the_scatter_of_every_small_column(protocol, owners, n, half):
    """Every column of n values in -half..half is a column of one table."""
    values = np.arange(-half, half + 1)
    table = np.array(np.meshgrid(*[values] * n, indexing="ij")).reshape(n, -1)
    found, expected = scatter(protocol, owners, table, half)
    assert found == expected
    exact = n * table.var(axis=0)
    assert (exact <= np.array(found) + 1e-9).all()
    assert (np.array(found) <= exact + 9 * n / 4).all()
    assert all((w == 0) == (len(set(column)) == 1) for w, column in zip(found, table.T.tolist(), strict=True))


@ONE_OF_EACH
@few_examples
@given(data=st.data())
def test_the_scatter_of_wide_columns(protocol, owners, data):
    n = data.draw(st.integers(1, 40))
    half = 1 << data.draw(st.sampled_from([(60 - n.bit_length()) // 2, 16, 13]))
    columns = data.draw(st.lists(st.lists(numbers(-half, half), min_size=n, max_size=n), min_size=1, max_size=4))
    found, expected = scatter(protocol, owners, np.array(columns).T, half)
    assert found == expected


@pytest.mark.parametrize(("protocol", "owners"), [("plaintext", 1), ("securenn", 2), ("onetime", 2)])
def test_the_scatter_of_a_million_rows(protocol, owners):
    """All at a bound; half of them at either; one away from it; one step; one outlier; constant in the middle."""
    n, half = 10**6, 1 << 13
    table = np.zeros((n, 6), np.int64)
    table[:, 0] = half
    table[:, 1] = np.where(np.arange(n) % 2, half, -half)
    table[:, 2], table[7, 2] = -half, half
    table[12345, 3] = 1
    table[-1, 4] = -half
    table[:, 5] = 77
    problem = Problem(n, 8, (half,) * 6)

    def operate(family):
        return family.scatter(table if family.me.rank == 1 else np.zeros((0, 6), np.int64) if family.me.owns else None)[
            0
        ]

    found = compute(protocol, owners, operate, problem=problem).tolist()
    assert [found[0], found[5]] == [0, 0]
    assert found[1] == n * half * half
    assert found[3] == 1  # the mean of a millionth is 0
    assert found[4] == half * half
    assert found[2] == (2 * half) ** 2  # the mean is -half and a sixtieth of a step


# -- weights ---------------------------------------------------------------------------------------------------------


def weights(protocol, owners, scatters, problem, ring=Words(64)):
    def operate(family, scatter):
        found, capped = family.column_weights(scatter)
        assert found.shape == (1, problem.columns)
        return found.reshape(problem.columns), capped

    found, capped = compute(protocol, owners, operate, scatters, problem=problem, ring=ring)
    return found.tolist(), capped.tolist()


def expected_weights(scatters, problem):
    factors = problem.metric.factors or [None] * problem.columns
    half = max(problem.half)
    both = [weight_of(int(w), problem.rows, half, problem.metric, f) for w, f in zip(scatters, factors, strict=True)]
    if problem.metric.constants:
        both = [(own, 0) if own else one for own, one in zip(problem.metric.constants, both, strict=True)]
    return [weight for weight, _ in both], [capped for _, capped in both]


#: Rows, half, mantissa bits and octaves, of scatters of at most 12 bits: all of a word but its margin.
TINY = {
    "some capped": (3, 26, 3, 4),
    "none capped": (3, 26, 3, 12),
    "most capped": (2, 31, 4, 1),
    "more octaves than bits": (5, 20, 2, 13),
    "one bit": (3, 26, 1, 5),
    "nothing is cut off": (1, 15, 7, 2),
    "one row": (1, 45, 3, 4),
}


@every_family
@pytest.mark.parametrize("case", TINY)
def test_the_weight_of_every_scatter_of_a_tiny_ring(protocol, owners, case):
    """Every scatter that a column can have is that of a column."""
    n, half, mantissa, octaves = TINY[case]
    scatters = np.arange(n * half * half + n + 1)[:: 7 if protocol == "replicated" else 1]  # which is slow
    metric = Metric(mantissa, octaves)
    problem = Problem(n, 2, (half,) * len(scatters), metric=metric)
    assert metric.top(n, half) <= 12
    found = weights(protocol, owners, scatters, problem, Words(24 if octaves > 10 else 16))
    assert found == expected_weights(scatters, problem)


@st.composite
def problems(draw):
    """As encodings make them, up to the limits, and scatters of their columns: at the edges of octaves, mostly."""
    rows = draw(st.sampled_from([1, 2, 150, 10**6]) | st.integers(1, 10**6))
    columns = draw(st.sampled_from([1, 3, 30]))
    f, metric = standard_precision(columns, rows, draw(st.sampled_from([1, 2, 8])), draw(st.booleans()))
    if draw(st.booleans()):
        factors = draw(st.lists(numbers(41, 1 << 12, 1 << 12), min_size=columns, max_size=columns))
        metric = msgspec.structs.replace(metric, factors=tuple(factors))
    most = rows << 2 * f
    edges = [(1 << b) + step for b in range(most.bit_length()) for step in (-1, 0, 1)]
    scatters = draw(st.lists(numbers(0, most, *edges), min_size=columns, max_size=columns))
    return Problem(rows, 8, (1 << f,) * columns, metric=metric), scatters


@every_family
@pytest.mark.parametrize("factors", [(), (4096, 2048, 41, 4096)])
def test_constant_weights(protocol, owners, factors):
    """They are what they are, whatever the spread, and such a column is never capped."""
    f, metric = standard_precision(4, 150, 8, True)
    metric = msgspec.structs.replace(metric, factors=factors, constants=(0, 4711, 0, 1))
    problem = Problem(150, 8, (1 << f, 1 << f - 2, 1 << f, 1 << f - 2), metric=metric)
    for scatters in ([5_000_000, 5_000_000, 1, 1], [0, 0, 1 << 2 * f, 0]):
        found = weights(protocol, owners, scatters, problem)
        assert found == expected_weights(scatters, problem)
        assert (found[0][1], found[0][3], found[1][1], found[1][3]) == (4711, 1, 0, 0)


@ONE_OF_EACH
@few_examples
@given(drawn=problems())
def test_weights_at_full_width(protocol, owners, drawn):
    problem, scatters = drawn
    assert weights(protocol, owners, scatters, problem) == expected_weights(scatters, problem)


@every_family
def test_weights_at_the_limits(protocol, owners):
    """A million rows of thirty columns: every octave, what lies below them, and what does not vary at all."""
    f, metric = standard_precision(30, 10**6, 8, True)
    top = metric.top(10**6, 1 << f)
    scatters = [0, 1, 2, 3, 10**6 << 2 * f, (10**6 << 2 * f) + 10**6, *((1 << b) - 1 for b in range(top - 23, top + 1))]
    problem = Problem(10**6, 8, (1 << f,) * 30, metric=metric)
    found, capped = weights(protocol, owners, scatters, problem)
    assert (found, capped) == expected_weights(scatters, problem)
    assert found[:2] == [0, 1 << (metric.mantissa + metric.octaves)]
    assert capped[:3] == [0, 1, 1]
    assert sum(capped) == 3 + 11  # of 1, 2, 3 and of what lies below the twelve octaves


#: Columns of tables (n, d), by what is remarkable about them.
TABLES = {
    "one row": np.array([[5, -9, 0]]),
    "two rows": np.array([[5, -9, 0], [5, 9, 1]]),
    "one step, constant, at both bounds": np.array([[0, 7, 1 << 16], [0, 7, -(1 << 16)], [1, 7, 0], [0, 7, 0]]),
    "an outlier at a bound": np.array([[1 << 16, -(1 << 16), 3], *np.random.RandomState(0).randint(-9, 9, (60, 3))]),
    "rounded": np.random.RandomState(1).normal(0, [1, 100, 20_000], (90, 3)).round().astype(np.int64),
}


@every_family
@pytest.mark.parametrize("case", TABLES)
def test_weights_of_a_table(protocol, owners, case):
    """From the cells to the weights, wherever these lie."""
    table = TABLES[case]
    n, d = table.shape
    problem = Problem(n, 2, (1 << 16,) * d, metric=Metric())

    def operate(family):
        found, capped = family.column_weights(family.scatter(own_cells(family.me, table))[0])
        return found.reshape(d), capped

    found, capped = compute(protocol, owners, operate, problem=problem)
    assert (found.tolist(), capped.tolist()) == weights_of(table, problem)


@every_family
def test_tolerances(protocol, owners):
    scatters = np.array([0, 1, 10**6, 123_456_789_012])
    problem = Problem(1000, 2, (1 << 16,) * 4)

    for tol in (0.0, 1e-4, 0.3, 1e6):
        shift, factor, g = relative_tolerance(1000, problem.half, tol)
        total = sum((int(w) + (1 << shift >> 1)) >> shift for w in scatters)
        expected = (total * factor + (1 << g >> 1)) >> g
        found = compute(protocol, owners, lambda f, w, tol=tol: f.tolerated(w, tol), scatters, problem=problem)
        assert found.tolist() == [expected]
        assert expected == pytest.approx(tol * scatters.sum() / 4000, rel=1e-5, abs=1)


# -- steps with weights: a family's own beside the general one --------------------------------------------------------

RANDOM = np.random.RandomState(4)
ROWS = np.concatenate([RANDOM.randint(-300, 300, (22, 3)) * [1, 40, 0] + [0, 0, 9], [[300, 12_000, 9]]])
CENTERS = np.concatenate([ROWS[[3, 5]], ROWS[[3]], [[40, -900, 9]]])
PROBLEM = Problem(len(ROWS), len(CENTERS), (1 << 14,) * 3, block_rows=64, metric=Metric())
WEIGHTS, CAPPED = weights_of(ROWS, PROBLEM)
DISTANCES = distances(ROWS, CENTERS, WEIGHTS)
LABELS = np.array([label_of(row) for row in DISTANCES])
HOT = np.eye(len(CENTERS), dtype=np.int64)[LABELS]
SAMPLING = Sampling.of(PROBLEM)
ROUGH = [w >> SAMPLING.weight_shift for w in WEIGHTS]
DRAWS = public_draws(b"weighted", len(ROWS), len(CENTERS))
FIRST, CANDIDATES = 4, [7, 11, 4]
#: What a family may have a step of its own for.
OWN = ("pick", "label", "index", "counts", "sums", "measure", "consider", "keep", "spread", "draw", "one_hot_least",
       "seed", "weigh_squares", "movement", "weigh", "_levels")  # fmt: skip
#: How rows lie, and in which worlds.
WAYS = [(protocol, owners, "horizontal") for protocol, owners in CASES]
WAYS += [
    (*case, "mixed") for case in (("securenn", 2), ("onetime", 2), ("onetime", 3), ("falcon", 3), ("replicated", 3))
]


def generally(family):
    """The same family with none of its own steps."""
    general = copy(family)
    for name in OWN:
        setattr(general, name, MethodType(getattr(Family, name), general))
    return general


def layout_of(kind: str, owners: int) -> Layout:
    n, d = ROWS.shape
    if kind == "horizontal":
        first = n // owners
        return Layout("horizontal", n, d, rows=(*[first] * (owners - 1), n - first * (owners - 1)))
    return Layout("mixed", n, d, owners=(np.arange(n * d) * 5 // 3 % owners + 1).astype(np.uint8).tobytes())


class Data:
    """The same rows as the family's own table and as words, with the weights of their columns, made in secret."""

    def __init__(self, family: Family, kind: str) -> None:
        me = family.me
        layout = layout_of(kind, len(me.world.owners))
        own = np.where(layout.own_cells(me.rank), ROWS, 0) if me.owns else None
        self.table, self.laid_out = family.table(own, layout), family.lay_out(family.enter(own, ROWS.shape))
        self.scatter, self.squares = family.scatter(own)
        self.weights, self.capped = family.column_weights(self.scatter)
        self.again = self.weights * 1  # the same, without what a family remembers of it

    def both(self, family, operate):
        general = generally(family)
        return operate(family, self.table, self.weights), operate(general, self.laid_out, self.again)


def labels(f, data):
    return data.both(f, lambda g, rows, w: g.index(g.label(rows, g.public(CENTERS), weights=w)))


def one_label(f, data):
    of_one = msgspec.structs.replace(PROBLEM, clusters=1)
    return data.both(f.of(of_one), lambda g, rows, w: g.index(g.label(rows, g.public(CENTERS[:1]), weights=w)))


def sums(f, data):
    def operate(g, rows, w):
        found = g.label(rows, g.public(CENTERS), counted=True, weights=w)
        return g.widen(g.sums(rows, found)[0])

    return data.both(f, operate)


def movement(f, data):
    return data.both(f, lambda g, rows, w: g.movement(g.public(CENTERS), g.public(ROWS[6:10]), w))


def movement_of_what_was_labelled(f, data):
    """Centres that have a mask, and their weighted ones, from their labelling."""

    def operate(g, rows, w):
        old, new = g.public(CENTERS), g.public(ROWS[6:10])
        g.label(rows, old, weights=w).settle()
        g.label(rows, new, weights=w).settle()
        return g.movement(old, new, w)

    return data.both(f, operate)


def by_two_weights(f, data):
    """The same centres under other weights, and then under these again."""

    def operate(g, rows, w):
        centers, other = g.public(CENTERS), g.public(np.array([[1, 0, 0]]))
        first = g.index(g.label(rows, centers, weights=other))
        second = g.index(g.label(rows, centers, weights=w))
        third = g.index(g.label(rows, centers, weights=other))
        return concatenate([_as_words(g, one) for one in (first, second, third)])

    return data.both(f, operate)


def _as_words(family, numbers):
    """Numbers that a family may have as their bits (n, bits)."""
    if numbers.ring.width > 1:
        return numbers
    return (family.to_words(numbers) * (1 << np.arange(numbers.shape[-1]))).sum(1)


def measure(f, data):
    def operate(g, rows, w):
        rough = g.rough_weights(rows, w, SAMPLING)
        return g.widen(g.measure(rows, g.public(ROWS[[FIRST]]), SAMPLING, rough))

    return data.both(f, operate)


def consider(f, data):
    def operate(g, rows, w):
        rough = g.rough_weights(rows, w, SAMPLING)
        g.measure(rows, g.public(ROWS[[FIRST]]), SAMPLING, rough)
        return g.widen(g.consider(rows, g.public(ROWS[CANDIDATES]), SAMPLING, rough))

    return data.both(f, operate)


def rough(f, data):
    return data.both(f, lambda g, rows, w: g.rough_weights(rows, w, SAMPLING).reshape(3))


def seed(f, data):
    def operate(g, rows, w):
        centers, chosen = g.seed(rows, *DRAWS, weights=w)
        return concatenate([centers, chosen[:, None]], axis=1)

    return data.both(f, operate)


def scatter_within(f, data):
    def operate(g, rows, w):
        centers = g.public(CENTERS)
        return g.scatter_within(*g.sums(rows, g.label(rows, centers, weights=w)), centers, data.squares)

    return data.both(f, operate)


def weighted_total(f, data):
    return data.both(f, lambda g, rows, w: g.weighted_total(data.scatter, w))


def by_group(values):
    return np.add.reduceat(np.array(values), np.arange(0, len(ROWS), SAMPLING.size), axis=-1).tolist()


def near(rows):
    return np.array(distances(ROWS, ROWS[rows], ROUGH)).T


def moved(weights):
    return sum(w * int(a - b) ** 2 for old, new in zip(CENTERS, ROWS[6:10], strict=True)
               for a, b, w in zip(old, new, weights, strict=True))  # fmt: skip


SHIFT = PROBLEM.weighted_shift
SCATTERS = [scatter_of(column.tolist(), PROBLEM.reciprocal_bits) for column in ROWS.T]
WITHIN = ((ROWS - CENTERS[LABELS]) ** 2).sum(0)
CHOSEN = sampling.plus_plus(SAMPLING, ROWS, *DRAWS, np.array(WEIGHTS))
UNWEIGHTED = np.array([label_of(row) for row in distances(ROWS, CENTERS, [1, 0, 0])])
STEPS = {
    labels: LABELS.tolist(),
    one_label: [0] * len(ROWS),
    sums: (HOT.T @ ROWS).tolist(),
    movement: [moved(WEIGHTS)],
    movement_of_what_was_labelled: [moved(WEIGHTS)],
    by_two_weights: [*UNWEIGHTED.tolist(), *LABELS.tolist(), *UNWEIGHTED.tolist()],
    rough: ROUGH,
    measure: by_group(near([FIRST])),
    consider: by_group(np.minimum(near([FIRST]), near(CANDIDATES))),
    seed: np.column_stack([ROWS[CHOSEN], CHOSEN]).tolist(),
    scatter_within: WITHIN.tolist(),
    weighted_total: [sum(w * (s + (1 << SHIFT >> 1) >> SHIFT) for w, s in zip(WEIGHTS, SCATTERS, strict=True))],
}


def test_the_example_is_one():
    """A tie between equal centres, an empty cluster, a constant column, one that weighs a thousandth of another, and
    labels that are not those of unweighted distances."""
    assert WEIGHTS[2] == 0
    assert WEIGHTS[0] > 1000 * WEIGHTS[1] > 0
    assert 2 not in LABELS
    assert len(set(LABELS.tolist())) == 3
    plain = [label_of(row) for row in distances(ROWS, CENTERS, [1, 1, 1])]
    assert plain != LABELS.tolist() != UNWEIGHTED.tolist()


@pytest.mark.parametrize(("protocol", "owners", "kind"), WAYS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_weighted_step_of_a_familys_own_is_the_general_one(protocol, owners, step, kind):
    own, general = compute(protocol, owners, lambda family: step(family, Data(family, kind)), problem=PROBLEM)
    assert own.tolist() == general.tolist() == STEPS[step]


@pytest.mark.parametrize(("protocol", "owners"), [("securenn", 2), ("onetime", 3), ("falcon", 2), ("replicated", 2)])
def test_scores_that_exceed_a_word_order_rows_all_the_same(protocol, owners):
    """With many octaves |c|^2 - 2 x . c may be more than 64 bits hold. Differences are not."""
    f, metric = standard_precision(4, 150, 2, True)
    half = 1 << f
    problem = Problem(150, 2, (half,) * 4, metric=metric)
    rows = np.array([[half, half, half, half], [half - 3, half, half, half], [half - 5, half, half, half - 2]])
    weight = 1 << (metric.mantissa + metric.octaves)
    centers = rows[[0, 2]]
    assert weight * int((rows[0] ** 2).sum()) > 1 << 63
    expected = [label_of(row) for row in distances(rows, centers, [weight] * 4)]

    def operate(family):
        me = family.me
        layout = Layout("horizontal", 3, 4, rows=(3, *[0] * (len(me.world.owners) - 1)))
        own = (rows if me.rank == me.world.owners[0] else np.zeros_like(rows)) if me.owns else None
        table = family.table(own, layout)
        found = family.label(table, family.public(centers), weights=family.public(np.full((1, 4), weight)))
        return family.index(found)

    assert compute(protocol, owners, operate, problem=problem).tolist() == expected == [0, 1, 1]
