"""The fused steps of a start of `onetime`: over all inputs and share splits of a tiny ring. What a start costs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from coterie.clustering import Layout
from coterie.protocols import Problem
from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime.centers import mask_centers, mask_of
from coterie.protocols.onetime.seeding import block_spread, consider_cells, distance_width, keep_cells
from coterie.protocols.onetime.table import Block, Run
from coterie.protocols.sampling import Sampling, public_draws, trials
from coterie.ring import Words
from coterie.sharing import Shared
from tests.protocols.tiny import every_split, value_of
from tests.support import given, run, splits

#: One column of -1, 0 and 1: distances of 0, 1 and 4, in words of eight bits, the smallest that there are.
LINE = Problem(1, 3, (1,), block_rows=1 << 20)
BYTE = Words(8)


def sampled(problem, size):
    """Groups of that size, of whose distances no bit is dropped."""
    return Sampling(problem.rows, size, problem.distance_bits, 0, 0, 0)


ROW_BY_ROW = sampled(LINE, 1)


def mine(me, shares, count):
    """This party's share, padded to a number of rows that blocks have; nothing at the helper."""
    if me.deals:
        return np.empty((len(shares[0]), 0), np.uint64)
    out = np.zeros((len(shares[0]), -(-count // 64) * 64), np.uint64)
    out[:, :count] = shares[me.rank - 1]
    return out


def added_up(ring, results, count):
    return ring.reduce(np.sum([result[:, :count] for result in results[1:]], axis=0, dtype=np.uint64))


def test_widths_are_whole_bytes_and_hold_a_group():
    assert distance_width(ROW_BY_ROW) == 8
    assert distance_width(sampled(Problem(10**6, 8, (1 << 15,) * 2), 1024)) == 48
    assert distance_width(sampled(Problem(10**6, 8, (1 << 27,)), 16)) == 64


# -- keep ------------------------------------------------------------------------------------------------------------


def kept(p, best, hot_shares, gained, nearest):
    count = len(gained[0][0])

    def role(me):
        block = Block(0, np.arange(count), (Run(0, count, (1,)),))
        block.held |= {"gained": mine(me, gained, count), "nearest": mine(me, nearest, count)}
        family = SimpleNamespace(me=me, problem=LINE)
        keep_cells(family, block, given(me, Words(64), hot_shares), ROW_BY_ROW)
        return block.held["nearest"]

    ran = run(p, role)
    found = added_up(BYTE, ran.results, count)
    chosen = value_of(BYTE, [BYTE.reduce(share) for share in gained])[best]
    expected = BYTE.add(value_of(BYTE, nearest), chosen[None])
    assert (found == expected).all()
    assert ran.traffic.rounds == 1


@pytest.mark.parametrize("best", [0, 1, 2])
def test_every_gain_in_every_split_is_kept(best):
    """Three candidates; each has all values in all splits, in an order of its own."""
    every = every_split(BYTE, 2)
    orders = [np.random.RandomState(l).permutation(len(every[0])) for l in range(3)]
    gained = [np.stack([share[order] for order in orders]) for share in every]
    nearest = [share[None, ::-1] for share in every]
    hot = np.eye(3, dtype=np.int64)[[best]]
    for seed in range(4):
        kept(2, best, splits(Words(64), hot, 2, seed), gained, nearest)


def test_gains_of_three_parties_with_rubbish_above_their_width():
    every = every_split(Words(4), 3)
    rubbish = [share * np.uint64(16) + (share << np.uint64(8)) * np.uint64(77 + j) for j, share in enumerate(every)]
    gained = [np.stack([share, share[::-1]]) for share in rubbish]
    kept(3, 1, splits(Words(64), [[0, 1]], 3), gained, [share[None] for share in every])


# -- consider --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3])
def test_every_candidate_for_every_row_and_every_split_of_its_distance(p):
    """All rows, all candidates, all distances that a row may have, in many splits, or in all of two parties."""
    ring = Words(8) if p == 2 else Words(4)
    share_of = every_split(ring, p)
    distances = value_of(ring, share_of)
    share_of = [share[distances <= 4] for share in share_of]
    if p == 3:  # a small share at each but the last, which is as large as it has to be
        share_of[-1] = BYTE.sub(value_of(ring, share_of), value_of(BYTE, share_of[:-1]))
    near = value_of(BYTE, share_of).astype(np.int64)
    count = len(near)
    rows = np.repeat([-1, 0, 1], count)[:, None]
    nearest = [np.tile(share, 3)[None] for share in share_of]
    candidates = np.array([[-1], [0], [1]])
    problem = Problem(3 * count, 3, (1,), block_rows=1 << 20)

    def role(me):
        family = OneTime(me, problem)
        layout = Layout("horizontal", 3 * count, 1, rows=(count, 2 * count, *[0] * (p - 2)))
        own = None if me.deals else np.where(layout.own_cells(me.rank), rows, 0)
        table, centers = family.table(own, layout), given(me, Words(64), splits(Words(64), candidates, p))
        mask_centers(me, centers)
        left = []
        for block in table.blocks:
            here = [share[:, block.rows] for share in nearest]
            block.held["nearest"] = mine(me, here, len(block.rows))
            sums = consider_cells(family, block, sampled(problem, 1), mask_of(centers))
            assert sums.ring == BYTE
            left.append((block.rows, sums, block.held["gained"]))
        return left

    ran = run(p, role)
    expected = np.minimum(np.tile(near, 3), ((rows - candidates.T) ** 2).T)
    for parts in zip(*ran.results[1:], strict=True):
        at = parts[0][0]
        sums = value_of(BYTE, [sums.share for _, sums, _ in parts])
        gained = added_up(BYTE, [None, *(gained for _, _, gained in parts)], len(at))
        assert (sums == expected[:, at]).all()
        assert (BYTE.add(gained, np.tile(near, 3)[at].astype(np.uint64)) == expected[:, at]).all()


# -- spread ----------------------------------------------------------------------------------------------------------


def spread(p, hot, nearest, rows, size, ring, width=None):
    """The step on words over a tiny ring, and distances over the same or a smaller one: (L, 1 + d, s)."""
    n, d = rows.shape

    def role(me):
        problem = Problem(n, 2, (7,) * d, block_rows=1 << 20)
        layout = Layout("vertical", n, d, columns=tuple(tuple(range(j, d, p)) for j in range(p)))
        own = None if me.deals else np.where(layout.own_cells(me.rank), rows, 0)
        (block,) = OneTime(me, problem).table(own, layout).blocks
        block.held["pull"] = mine(me, nearest, n)
        words = given(me, ring, hot)
        return block_spread(me, block, words, d, sampled(problem, size), width or ring.width, ring.width)

    ran = run(p, role)
    assert ran.traffic.rounds == 2  # the data enter, and the step
    assert all((result[:, 0] < 1 << (width or ring.width)).all() for result in ran.results[1:])
    return ring.reduce(np.sum(ran.results[1:], axis=0, dtype=np.uint64))


def test_every_word_in_every_split_times_every_distance_in_every_split():
    """One group, in which every place has another split of a distance; the words take all values, not only 0 and 1."""
    ring = Words(4)
    every = every_split(ring, 2)
    size = len(every[0])
    rows = np.random.RandomState(0).randint(-7, 8, (size, 2))
    hot, nearest = [share[:, None] for share in every], [share[None] for share in every]
    found = spread(2, hot, nearest, rows, size, ring)
    word, near = (value_of(ring, every).astype(np.int64) for _ in range(2))
    expected = np.stack([np.outer(word, column) for column in (near, *rows.T)], axis=1)
    assert (found == ring.encode(expected)).all()


def test_distances_of_a_smaller_ring_than_words():
    """Every value in every split, with rubbish above its width."""
    ring, narrow = Words(16), Words(4)
    every = every_split(narrow, 2)
    nearest = [(share + (share << np.uint64(4)) * np.uint64(9 + j))[None] for j, share in enumerate(every)]
    rows = np.random.RandomState(1).randint(-7, 8, (len(every[0]), 2))
    found = spread(2, splits(ring, [[1], [0]], 2), nearest, rows, len(rows), ring, 4)
    assert (narrow.reduce(found[:, 0]) == np.stack([value_of(narrow, every), 0 * every[0]])).all()
    assert (ring.signed(found[:, 1:]) == np.stack([rows.T, 0 * rows.T])).all()


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("n", [64, 61, 3])
def test_a_group_comes_out_row_by_row_and_a_partial_one_with_nothing_behind_it(p, n):
    ring, size, random = Words(16), 8, np.random.RandomState(n)
    groups = -(-n // size)
    rows, near = random.randint(-7, 8, (n, 3)), random.randint(0, 1000, (1, n))
    found = spread(p, splits(ring, np.eye(groups, dtype=int), p), splits(ring, near, p), rows, size, ring)
    expected = np.zeros((4, groups * size), np.int64)
    expected[:, :n] = [near[0], *rows.T]
    assert (ring.signed(found) == expected.reshape(4, groups, size).transpose(1, 0, 2)).all()


# -- costs -----------------------------------------------------------------------------------------------------------


def cost(p, n, d, k, protocol=OneTime, block_rows=1 << 14):
    """Rounds, and bytes that P1 sends, of a start alone."""
    rows = np.random.RandomState(0).randint(-(1 << 15), 1 << 15, (n, d))

    def role(me):
        family = protocol(me, Problem(n, k, (1 << 15,) * d, block_rows))
        layout = Layout("horizontal", n, d, rows=(n, *[0] * (p - 1)))
        own = None if me.deals else rows * (me.rank == 1)
        centers, numbers = family.seed(family.table(own, layout), *public_draws(b"a cost", n, k))
        assert isinstance(centers, Shared)
        return numbers

    traffic = run(p, role).traffic
    return traffic.by_protocol["KMeans++"]


@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_rounds_of_a_start_do_not_depend_on_n_d_and_p(k):
    """As docs/protocols/onetime.md adds them up, where no bits of a row's distance are dropped. Who receives a
    correction rotates, so that a chain may end a message later."""
    few, *others = (cost(*shape, k).rounds for shape in ((2, 1000, 2), (2, 3000, 2), (2, 1000, 7), (3, 1000, 2)))
    assert Sampling.of(Problem(1000, k, (1 << 15,) * 2)).row_shift == 0
    assert others[:2] == [few, few]
    counted = 3 + (25 + (trials(k) - 2).bit_length()) * (k - 1)
    assert {few, others[2]} <= {counted, counted + 1}


def test_bytes_of_a_start_grow_with_rows_candidates_and_centres():
    """A row costs a centre's comparisons: by and large the same for each."""
    few, more, most = (cost(2, n, 2, 4).bytes_sent for n in (2000, 4000, 6000))
    a_row = (most - more) / 2000 / 3
    assert 200 < a_row < 300
    assert (more - few) / 2000 / 3 == pytest.approx(a_row, rel=0.05)


def test_one_cluster_costs_nothing():
    assert cost(2, 100, 2, 1).messages == 0
