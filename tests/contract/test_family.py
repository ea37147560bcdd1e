"""What every family must fulfil: primitives over all of a tiny ring, steps, and what it declares."""

from __future__ import annotations

from copy import copy
from types import MethodType

import numpy as np
import pytest

from coterie.clustering import Layout
from coterie.protocols import Problem, sampling
from coterie.protocols.interface import Primitives, RowSets
from coterie.protocols.sampling import Sampling, public_draws
from coterie.protocols.steps import Family
from coterie.ring import Words
from coterie.sharing import concatenate
from tests.contract.families import CASES, FAMILIES, compute

TINY = Words(8)
ALL = np.arange(-128, 128)
#: What comparisons and truncation take: a quarter of the ring to either side.
SOME = np.arange(-64, 64)
every_family = pytest.mark.parametrize(("protocol", "owners"), CASES)


def wrapped(values: np.ndarray) -> list:
    return TINY.signed(TINY.encode(values)).tolist()


# -- primitives, over all inputs ---------------------------------------------------------------------------


@every_family
def test_a_value_comes_out_as_it_went_in(protocol, owners):
    assert compute(protocol, owners, lambda _, x: x, ALL, ring=TINY).tolist() == ALL.tolist()
    public = compute(protocol, owners, lambda family: family.public(ALL), ring=TINY)
    assert public.tolist() == ALL.tolist()


@every_family
def test_linear_algebra(protocol, owners):
    x, y = np.meshgrid(ALL, np.arange(-2, 3), indexing="ij")

    def operate(_, a, b):
        return a + b, a - b, -a, 3 - a, a * np.arange(5), a[::7, [2, 0]], a.sum(1), concatenate([a, b]).transpose()

    found = compute(protocol, owners, operate, x, y, ring=TINY)
    both = np.concatenate([x, y]).T
    expected = [x + y, x - y, -x, 3 - x, x * np.arange(5), x[::7, [2, 0]], x.sum(1), both]
    assert [one.tolist() for one in found] == [wrapped(one) for one in expected]


@every_family
def test_every_product(protocol, owners):
    x, y = np.meshgrid(ALL, ALL, indexing="ij")
    assert compute(protocol, owners, lambda f, a, b: f.product(a, b), x, y, ring=TINY).tolist() == wrapped(x * y)
    assert compute(protocol, owners, lambda f, a: f.square(a), ALL, ring=TINY).tolist() == wrapped(ALL * ALL)


@every_family
def test_matrix_products(protocol, owners):
    x, y = ALL.reshape(32, 8), ALL[:40].reshape(8, 5)
    assert compute(protocol, owners, lambda f, a, b: f.matrix_product(a, b), x, y, ring=TINY).tolist() == wrapped(x @ y)


@every_family
@pytest.mark.parametrize("g", range(6))
def test_every_truncation(protocol, owners, g):
    x = SOME[64 - (1 << g >> 1) > SOME]
    expected = (x + (1 << g >> 1)) >> g
    assert compute(protocol, owners, lambda f, a: f.truncate(a, g), x, ring=TINY).tolist() == expected.tolist()


@every_family
def test_every_sign(protocol, owners):
    expected = (SOME < 0).astype(int).tolist()
    assert compute(protocol, owners, lambda f, x: f.is_negative(x), SOME, ring=TINY).tolist() == expected
    assert compute(protocol, owners, lambda f, x: f.to_words(f.is_negative(x)), SOME, ring=TINY).tolist() == expected


@every_family
def test_every_pair_of_bits(protocol, owners):
    x, y = np.array([-1, -1, 1, 1]), np.array([-1, 1, -1, 1])

    def operate(family, a, b):
        first, second = family.is_negative(a), family.is_negative(b)
        return family.product(first, second), 1 - first, family.public(np.ones(4, np.int64), family.bits) - second

    found = compute(protocol, owners, operate, x, y, ring=TINY)
    assert [one.tolist() for one in found] == [[1, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]


@every_family
def test_every_selection(protocol, owners):
    x = np.tile(ALL, 2)
    y = -3 * x
    which = np.repeat([-1, 1], len(ALL))

    def operate(family, bit, a, b):
        return family.select(family.is_negative(bit), a, b)

    expected = wrapped(np.where(which < 0, y, x))
    assert compute(protocol, owners, operate, which, x, y, ring=TINY).tolist() == expected


@every_family
def test_every_bit_of_every_number(protocol, owners):
    found = compute(protocol, owners, lambda f, x: f.to_words(f.to_bits(x, 7)), ALL, ring=TINY)
    assert found.tolist() == (ALL >> np.arange(7)[:, None] & 1).tolist()


@every_family
@pytest.mark.parametrize("bits", [1, 3, 7])
def test_every_place_of_a_table(protocol, owners, bits):
    table = np.random.RandomState(bits).randint(0, 256, 1 << bits).astype(np.uint64)
    found = compute(protocol, owners, lambda f, i: f.look_up(i, table), np.arange(1 << bits), ring=TINY)
    assert found.tolist() == TINY.signed(table).tolist()


@every_family
def test_a_part_that_was_kept_is_the_same_secret(protocol, owners):
    def operate(family, x):
        return family.restore(family.export(x) if family.me.serves else None, x.shape) + x

    assert compute(protocol, owners, operate, SOME, ring=TINY).tolist() == wrapped(2 * SOME)


# -- steps: a family's own beside the general one ----------------------------------------------------------

ROWS = np.random.RandomState(3).randint(-40, 40, (23, 2))
CENTERS = np.array([[0, 0], [30, 30], [0, 0], [-20, 10]])
PROBLEM = Problem(len(ROWS), len(CENTERS), (40, 40), block_rows=64)
LAYOUT = Layout("horizontal", len(ROWS), 2, rows=(len(ROWS),))
LABELS = ((ROWS[:, None] - CENTERS) ** 2).sum(2).argmin(1)
HOT = np.eye(len(CENTERS), dtype=int)[LABELS]
SETS = RowSets(np.arange(len(ROWS)) % 3, np.array([[1, 1, 1], [0, 1, 1]]))


class Data:
    """The same rows as the family's own table and as words, and their labels by its own step and by the general one."""

    def __init__(self, family: Family) -> None:
        me = family.me
        first = me.owns and me.rank == me.world.owners[0]
        layout = Layout("horizontal", len(ROWS), 2, rows=(len(ROWS), *[0] * (me.world.p - 1)))
        own = (ROWS if first else np.zeros_like(ROWS)) if me.owns else None
        self.table, self.words = family.table(own, layout), family.enter(own, ROWS.shape)
        self.centers, self.again = family.public(CENTERS), family.public(CENTERS)
        self.labels = family.label(self.table, self.centers)
        self.laid_out = family.lay_out(self.words)
        self.general = Family.label(family, self.laid_out, self.again)


def labels(f: Family, data: Data):
    return f.index(data.labels), Family.index(f, data.general)


def named_labels(f: Family, data: Data):
    called = np.array([4, 0, 2, 1])
    return f.index(data.labels, called), Family.index(f, data.general, called)


def counts(f: Family, data: Data):
    return f.counts(data.labels), Family.counts(f, data.general)


def tally(f: Family, data: Data):
    return f.tally(data.labels, SETS), Family.tally(f, data.general, SETS)


def sums(f: Family, data: Data):
    return f.sums(data.table, data.labels)[0], Family.sums(f, data.laid_out, data.general)[0]


def picked(f: Family, data: Data):
    return f.pick(data.table, [3, 0, 22]), Family.pick(f, data.laid_out, [3, 0, 22])


def new_centers(f: Family, data: Data):
    return (
        f.new_centers(data.table, data.labels, data.centers),
        Family.means(f, *Family.sums(f, data.laid_out, data.general), data.again),
    )


def means_of_public_counts(f: Family, data: Data):
    told = None if f.me.deals else HOT.sum(0)
    own, general = f.sums(data.table, data.labels)[0], Family.sums(f, data.laid_out, data.general)[0]
    return (
        f.means_of_public_counts(own, told, data.centers),
        Family.means_of_public_counts(f, general, told, data.again),
    )


def arg_min(f: Family, data: Data):
    distances = Family.mat_dist(f, data.words, data.again)
    return f.arg_min(distances), Family.arg_min_of(f, distances)


def movement(f: Family, data: Data):
    other, same = f.public(CENTERS + 3), f.public(CENTERS + 3)
    return f.movement(data.centers, other), Family.movement(f, data.again, same)


def objective(f: Family, data: Data):
    own = f.objective(*f.sums(data.table, data.labels), data.centers)
    return own, Family.objective(f, *Family.sums(f, data.laid_out, data.general), data.again)


def any_of(f: Family, data: Data):
    bits = f.at_most(data.words.reshape(data.words.size), 10)
    return f.any_of(bits, 2), Family.any_of(f, bits, 2)


# -- of a start: k-means++, of which the last group of rows is partial

SAMPLING = Sampling.of(PROBLEM)
DRAWN = sampling._Draws(SAMPLING, np.ones(SAMPLING.rows, np.int64), False)
FIRST, CANDIDATES, BEST = 4, [7, 11, 4], 1
DISTANCES = ((ROWS[:, None] - ROWS) ** 2).sum(2)
NEAREST = DISTANCES[:, FIRST]
LEFT = np.minimum(NEAREST, DISTANCES[CANDIDATES])  # the last candidate is the first centre: nothing is closer to it
PAIRS = np.array([[0, 0], [1 << 19, 1 << 19], [(1 << 20) - 1, (1 << 20) - 1], [(1 << 20) - 1, 5], [777, 999_999]])
DRAWS = public_draws(b"a contract", len(ROWS), len(CENTERS))


def by_group(values):
    return np.add.reduceat(values, np.arange(0, len(ROWS), SAMPLING.size), axis=-1)


def held_by(nearest):
    """By group, what it holds (2, 1 + d, s)."""
    out = np.zeros((3, 2 * SAMPLING.size), np.int64)
    out[:, : len(ROWS)] = [nearest, *ROWS.T]
    return out.reshape(3, 2, SAMPLING.size).transpose(1, 0, 2)


def generally(family):
    """The same family with none of its own steps of a start."""
    general = copy(family)
    for name in ("pick", "measure", "consider", "keep", "spread", "draw", "one_hot_least", "seed"):
        setattr(general, name, MethodType(getattr(Family, name), general))
    return general


def both(f: Family, data: Data, operate):
    """By the family's own steps on its table, and by the general ones on rows that are words."""
    return operate(f, data.table), operate(generally(f), data.laid_out)


def measure(f: Family, data: Data):
    return both(f, data, lambda g, rows: g.widen(g.measure(rows, g.public(ROWS[[FIRST]]), SAMPLING)))


def begun(g: Family, rows):
    g.measure(rows, g.public(ROWS[[FIRST]]), SAMPLING)


def consider(f: Family, data: Data):
    def operate(g, rows):
        begun(g, rows)
        return g.widen(g.consider(rows, g.public(ROWS[CANDIDATES]), SAMPLING))

    return both(f, data, operate)


def spread(f: Family, data: Data):
    def operate(g, rows):
        begun(g, rows)
        return g.spread(rows, g.public(np.array([[0, 1], [1, 0], [0, 1]])), SAMPLING)

    return both(f, data, operate)


def keep(f: Family, data: Data):
    """Of what is kept, by the next step; several times over."""

    def operate(g, rows):
        begun(g, rows)
        for best in (2, BEST):
            g.consider(rows, g.public(ROWS[CANDIDATES]), SAMPLING)
            g.keep(rows, g.public(np.eye(3, dtype=np.int64)[[best]]), SAMPLING)
        return g.spread(rows, g.public(np.eye(2, dtype=np.int64)), SAMPLING)

    return both(f, data, operate)


def draw(f: Family, data: Data):
    def operate(g, rows):
        begun(g, rows)
        found, numbers = g.draw(rows, g.public(DRAWN.of_groups(NEAREST)), PAIRS, SAMPLING)
        return concatenate([found, numbers[:, None]], axis=1)

    return both(f, data, operate)


def seed(f: Family, data: Data):
    def operate(g, rows):
        centers, numbers = g.seed(rows, *DRAWS)
        return concatenate([centers, numbers[:, None]], axis=1)

    return both(f, data, operate)


def with_numbers(rows):
    return np.column_stack([ROWS[rows], rows])


STEPS = {
    measure: by_group(NEAREST)[None],
    consider: by_group(LEFT),
    spread: held_by(NEAREST)[[1, 0, 1]],
    keep: held_by(LEFT[BEST]),
    draw: with_numbers([DRAWN.draw(DRAWN.of_groups(NEAREST), NEAREST, u, v) for u, v in PAIRS.tolist()]),
    seed: with_numbers(sampling.plus_plus(SAMPLING, ROWS, *DRAWS)),
    labels: LABELS,
    named_labels: np.array([4, 0, 2, 1])[LABELS],
    counts: HOT.sum(0),
    tally: np.concatenate([HOT[member[SETS.kind_of] == 1].sum(0) for member in SETS.members]),
    sums: HOT.T @ ROWS,
    picked: ROWS[[3, 0, 22]],
    new_centers: None,
    means_of_public_counts: None,
    arg_min: LABELS,
    movement: np.array([9 * CENTERS.size]),
    objective: np.array([(HOT.sum(0) * (CENTERS**2).sum(1) - 2 * ((HOT.T @ ROWS) * CENTERS).sum(1)).sum()]),
    any_of: (ROWS <= 10).any(0).astype(int),
}


@every_family
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_step_of_a_familys_own_is_the_general_one(protocol, owners, step):
    """On ties, on an empty cluster and on two equal centres."""
    own, general = compute(protocol, owners, lambda family: step(family, Data(family)), problem=PROBLEM)
    assert own.tolist() == general.tolist()
    if STEPS[step] is not None:
        assert own.tolist() == STEPS[step].tolist()


#: (rows, clusters, half, rows of a block).
STARTS = {
    "one cluster": (20, 1, 40, 64),
    "two clusters": (20, 2, 40, 64),
    "one row": (1, 1, 40, 64),
    "a cluster for every row": (5, 5, 40, 64),
    "one group, not full": (9, 3, 40, 64),
    "one group": (16, 3, 40, 64),
    "several blocks that cut through groups": (150, 4, 40, 64),
    "blocks of less than a group": (40, 3, 40, 5),
    "all rows alike": (40, 3, 0, 64),
    "as wide as can be": (70, 3, 1 << 26, 64),
}


@pytest.mark.parametrize("case", STARTS)
@pytest.mark.parametrize(
    ("protocol", "owners"), [("plaintext", 1), ("securenn", 2), ("onetime", 3), ("falcon", 2), ("replicated", 2)]
)
def test_a_start_is_that_of_the_clear(protocol, owners, case):
    n, k, half, block = STARTS[case]
    rows = np.random.RandomState(n).randint(-half, half + 1, (n, 2))
    draws = public_draws(case.encode(), n, k)

    def operate(family):
        me = family.me
        layout = Layout("horizontal", n, 2, rows=(n, *[0] * (me.world.p - 1)))
        own = (rows if me.rank == me.world.owners[0] else np.zeros_like(rows)) if me.owns else None
        centers, numbers = (family if protocol != "plaintext" else generally(family)).seed(
            family.table(own, layout), *draws
        )
        return centers, numbers

    problem = Problem(n, k, (max(half, 1),) * 2, block_rows=block)
    centers, numbers = compute(protocol, owners, operate, problem=problem)
    chosen = sampling.plus_plus(Sampling.of(problem), rows, *draws)
    assert (centers.tolist(), numbers.tolist()) == (rows[chosen].tolist(), chosen)


@every_family
@pytest.mark.parametrize("better", [True, False])
def test_the_better_of_two(protocol, owners, better):
    def operate(family, first, second, a, b):
        return tuple(family.choose(first, second, [(first, second), (a, b)]))

    first, second = ([3], [4]) if better else ([5], [4])
    least, chosen = compute(protocol, owners, operate, first, second, ALL, -ALL)
    assert (least.tolist(), chosen.tolist()) == (first, ALL.tolist()) if better else (second, (-ALL).tolist())
    assert chosen.tolist() == (ALL if better else -ALL).tolist()


@every_family
@pytest.mark.parametrize("division", ["means_by_quotient", "means_by_reciprocal"])
def test_both_divisions_are_those_of_the_oracle(protocol, owners, division):
    from coterie.protocols.numerics import quotient_means, reciprocal_means

    expected = {"means_by_quotient": quotient_means, "means_by_reciprocal": reciprocal_means}[division]
    totals, held = np.array([[-900, 77], [5, 5], [0, 0], [39, -39]]), np.array([23, 4, 0, 1])
    found = compute(
        protocol, owners, lambda f, t, c, old: getattr(f, division)(t, c, old), totals, held, CENTERS, problem=PROBLEM
    )
    assert found.tolist() == expected(PROBLEM, totals, held, CENTERS).tolist()


# -- what it declares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", FAMILIES)
def test_a_family_says_what_it_is(protocol):
    family = FAMILIES[protocol]
    assert family.name == protocol
    assert set(family.divisions) == {"secret", "revealed"}
    assert family.dealer_hears <= {"array", "note"}
    assert not getattr(family, "__abstractmethods__", None)
    assert issubclass(family, Primitives)
