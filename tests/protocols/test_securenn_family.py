"""The family against the oracle, operation by operation, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from coterie.protocols import Ints, Plaintext, Problem, SecureNN
from coterie.protocols.interface import Part
from coterie.protocols.plaintext import in_the_clear, whole
from coterie.ring import Words
from coterie.sharing import Party, Secret
from tests.protocols.problems import clusters
from tests.protocols.tiny import PARTIES, protocol_settings
from tests.support import given, run, splits, total

WORDS = Words(64)
SMALL = Problem(rows=12, clusters=3, half=(50, 9))
few_examples = settings(protocol_settings, max_examples=12)


def both(p: int, problem: Problem, operate, *inputs) -> list[tuple[Ints, Ints]]:
    """operate(family, *secrets) by the oracle and by P1..Pp: each result of the one beside the other's."""
    oracle = Plaintext(None, problem, divisions=SecureNN.divisions)
    expected = listed(operate(oracle, *(in_the_clear(np.asarray(values)) for values in inputs)))
    shares = [splits(WORDS, values, p, i) for i, values in enumerate(inputs)]

    def role(me: Party) -> list[Secret]:
        return listed(operate(SecureNN(me, problem), *(given(me, WORDS, s) for s in shares)))

    results = run(p, role).results
    found = [total(WORDS, list(ends)) for ends in zip(*results, strict=True)]
    for hollow, value in zip(results[0], found, strict=True):
        assert hollow.shape == value.shape
    return [(whole(one), WORDS.signed(value)) for one, value in zip(expected, found, strict=True)]


def listed(results) -> list:
    return list(results) if isinstance(results, list | tuple) else [results]


def check(p: int, problem: Problem, operate, *inputs) -> list[Ints]:
    """The results, which are the oracle's."""
    pairs = both(p, problem, operate, *inputs)
    for expected, found in pairs:
        assert found.tolist() == expected.tolist()
    return [found for _, found in pairs]


def at_data_parties(family, counts: Ints) -> Ints | None:
    """Opened counts, as the helper has none of them."""
    return None if isinstance(family, SecureNN) and family.me.deals else counts


# -- means ---------------------------------------------------------------------------------------------------


def means(family, sums, counts, old):
    return family.means(sums, counts, old)


def means_of(counts: Ints):
    return lambda family, sums, old: family.means_of_public_counts(sums, at_data_parties(family, counts), old)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_means_by_hand(p):
    """The second cluster is empty and keeps its centre."""
    sums, counts, old = [[100, -18], [0, 0], [7, 1]], [4, 0, 2], [[1, 1], [-33, 8], [2, 2]]
    expected = [[25, -4], [-33, 8], [4, 1]]
    assert check(p, SMALL, means, sums, counts, old)[0].tolist() == expected
    assert check(p, SMALL, means_of(np.array(counts)), sums, old)[0].tolist() == expected


@drawn(p=PARTIES, case=clusters())
@few_examples
def test_means_of_any_clusters(p, case):
    check(p, case.problem, means, case.sums, case.counts, case.old)


@drawn(p=PARTIES, case=clusters())
@protocol_settings
def test_means_of_any_opened_counts(p, case):
    check(p, case.problem, means_of(case.counts), case.sums, case.old)


@pytest.mark.parametrize("p", [2, 3])
def test_nothing_but_empty_clusters(p):
    nothing, old = np.zeros((3, 2), int), [[1, 2], [3, 4], [-50, -9]]
    counts = np.zeros(3, np.int64)
    assert check(p, SMALL, means, nothing, counts, old)[0].tolist() == old
    assert check(p, SMALL, means_of(counts), nothing, old)[0].tolist() == old


# -- stopping ------------------------------------------------------------------------------------------------


def movement(family, old, new):
    return family.movement(old, new)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_movement_by_hand(p):
    old, new = [[0, 0], [1, 2], [3, 4]], [[3, -4], [1, 2], [4, 4]]
    assert check(p, SMALL, movement, old, new)[0].tolist() == [26]


@drawn(p=PARTIES, case=clusters(), seed=st.integers(0, 2**32 - 1))
@protocol_settings
def test_movement_of_any_centers(p, case, seed):
    half = np.array(case.problem.half)
    new = np.random.default_rng(seed).integers(-half, half + 1, case.old.shape)
    check(p, case.problem, movement, case.old, new)


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("threshold", [0, 1, 25, 2**61 - 1])
@pytest.mark.parametrize("value", [0, 1, 2, 25, 26, 2**61 - 2, 2**61 - 1])
def test_at_most(p, threshold, value):
    (bit,) = check(p, SMALL, lambda family, moved: family.at_most(moved, threshold), [value])
    assert bit.tolist() == [int(value <= threshold)]


# -- restarts ------------------------------------------------------------------------------------------------


def objective(family, sums, counts, centers):
    return family.objective(sums, counts, centers)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_objective_by_hand(p):
    """Rows 1 and 3 at centre 2, row 10 at centre 9: 2 4 - 2 4 2 + 81 - 2 10 9 = 1 + 1 + 1 - (1 + 9 + 100)."""
    problem = Problem(rows=3, clusters=2, half=(10,))
    assert check(p, problem, objective, [[4], [10]], [2, 1], [[2], [9]])[0].tolist() == [3 - 110]


@drawn(p=PARTIES, case=clusters())
@protocol_settings
def test_objective_of_any_clusters(p, case):
    check(p, case.problem, objective, case.sums, case.counts, case.old)


@pytest.mark.parametrize("p", [2, 3])
def test_objective_that_must_be_shifted_to_fit(p):
    """2^20 rows at the ends of a range of 2^21: their squares take 65 bits and drop four."""
    problem, n, h = Problem(rows=2**20, clusters=2, half=(2**20,)), 2**20, 2**20
    assert problem.objective_shift == 4
    (value,) = check(p, problem, objective, [[-(n // 2) * h], [n // 2 * h]], [n // 2, n // 2], [[-h], [h]])
    assert value.tolist() == [-n * h * h >> 4]


def choose(family, first, second, a, b, c, d):
    return family.choose(first, second, [(a, b), (c, d)])


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize(
    ("first", "second"), [(1, 2), (2, 1), (5, 5), (-3, 0), (0, -3), (-(2**60), 2**60), (2**60, -(2**60))]
)
def test_choose_takes_the_left_unless_the_second_is_less(p, first, second):
    left, right = np.arange(6).reshape(3, 2), -np.arange(6).reshape(3, 2) - 1
    chosen = check(p, SMALL, choose, [first], [second], left, right, [7], [-7])
    assert [chosen[0].tolist(), chosen[1].tolist()] == (
        [left.tolist(), [7]] if first <= second else [right.tolist(), [-7]]
    )


# -- labels and the rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("block_rows", [1, 5, 6, 12, 100])
def test_labels_whatever_the_blocks(p, block_rows):
    rng = np.random.default_rng(block_rows)
    rows, centers = rng.integers(-9, 10, (12, 2)), rng.integers(-9, 10, (3, 2))
    problem = Problem(12, 3, SMALL.half, block_rows)

    def labelled(family, x, c):
        table = family.lay_out(x)
        hot = family.label(table, c)
        return [family.gather(hot), family.index(hot), *family.sums(table, hot)]

    check(p, problem, labelled, rows, centers)
    check(p, problem, lambda family, x: family.arg_min(x), rng.integers(0, 3, (12, 3)))


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("half", [(1,), (2, 1), (32767,), (46340, 46340), (2**17 - 1, 3), (2**16, 2**16)])
def test_labels_at_the_ends_of_the_range(p, half):
    """Rows in the corners, and centres there, or as far outside as rounding to a step may put them: distances differ by
    as much as they can."""
    step = Problem(4, 2, half).quotient_steps(16)
    edge = np.array(half) + np.where(step > 1, step // 2 + 1, 0)
    rows = np.array([half, [-h for h in half], [0] * len(half)])
    problem = Problem(3, 3, half)
    for centers in ([edge, -edge, edge], [-edge, -edge, edge], [edge, edge * 0, -edge]):
        (labels,) = check(p, problem, lambda f, x, c: f.gather(f.label(f.lay_out(x), c)), rows, centers)
        distances = ((rows[:, None] - np.array(centers)) ** 2).sum(axis=2)
        assert labels.argmax(axis=1).tolist() == distances.argmin(axis=1).tolist()
        check(p, problem, lambda f, m: f.arg_min(m), distances)


@pytest.mark.parametrize("p", [2, 3])
def test_labels_of_no_rows(p):
    check(p, SMALL, lambda f, x, c: f.gather(f.label(f.lay_out(x), c)), np.zeros((0, 2), int), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("p", [2, 3, 5])
def test_picking_adding_and_public_values(p):
    rows = np.arange(-12, 12).reshape(12, 2)
    check(p, SMALL, lambda family, x: family.pick(family.lay_out(x), [3, 0, 11]), rows)
    check(p, SMALL, lambda _, x, y: x + y, rows, rows[::-1])
    check(p, SMALL, lambda family, x: x + family.public(rows), rows)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_contributions_add_up_and_every_share_is_fresh(p):
    """A party's share is not what it holds, and not the same in two contributions."""
    parts = [np.full((4, 2), 10**j) for j in range(p)]

    def role(me: Party) -> list[Secret]:
        own = None if me.deals else parts[me.rank - 1]
        return [SecureNN(me, SMALL).enter(own, (4, 2)) for _ in range(2)]

    ran = run(p, role)
    for ends in zip(*ran.results, strict=True):
        assert (total(WORDS, list(ends)) == sum(parts)).all()
    for j, (one, other) in enumerate(ran.results[1:]):
        assert (one.share != other.share).all()
        assert (one.share != WORDS.encode(parts[j])).all()
    assert ran.traffic.messages == 0


def test_a_kept_share_comes_back():
    def role(me: Party) -> Ints | None:
        family = SecureNN(me, SMALL)
        value = family.enter(None if me.deals else np.array([me.rank, -7]), (2,))
        kept = None if me.deals else family.export(value)
        return family.open(family.restore(kept, (2,)), [1, 2, 3], "x", "a test")

    helper, *parties = run(3, role).results
    assert helper is None
    assert [opened.tolist() for opened in parties] == [[6, -21]] * 3


def test_parts_are_opened_in_whole_numbers_and_logged():
    def role(me: Party):
        family = SecureNN(me, SMALL)
        value = family.public(np.array([[1, -2], [3, -4]]))
        parts = [Part((slice(None), [1]), [2], "b"), Part(0, [1, 2])]
        return family.open_parts(value, parts, "centers", "a test"), me.ledger.entries

    ran = run(2, role)
    opened = [[None if part is None else part.tolist() for part in parts] for parts, _ in ran.results]
    assert opened == [[None, None], [None, [1, -2]], [[[-2], [-4]], [1, -2]]]
    for _, entries in ran.results:
        assert [(entry.to, entry.detail) for entry in entries] == [(("P2",), "b"), (("P1", "P2"), "")]
