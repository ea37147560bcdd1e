"""What an insider could read off a result, as attacks; and the rules that stop them, equal to the oracle everywhere."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from coterie.clustering import Layout, Outcome, Task
from coterie.clustering.rules import check_rules, grid_of, rules_of
from coterie.errors import InputError, ProtocolError
from coterie.protocols import FAMILIES
from coterie.protocols.plaintext import whole
from coterie.ring import FixedPoint, fractional_bits
from coterie.runtime import oracle as oracle_module
from coterie.runtime.oracle import run_oracle
from tests.clustering.test_least_size import assert_all_as_the_oracle, fitted, kept_centers

M = 10


def task_for(
    table: np.ndarray, layout: Layout, k: int, bounds: tuple[float, float], **fields
) -> tuple[Task, np.ndarray]:
    d = table.shape[1]
    low, high = (bounds[0],) * d, (bounds[1],) * d
    names = tuple(f"c{l}" for l in range(d))
    f = fractional_bits(low, high, names, len(table), k, False, None)
    encoding = FixedPoint(low, high, names, f)
    task = Task("onetime", k, layout, encoding, **{"least": M, **fields})
    return task, encoding.encode(table, range(d))


# -- 1. which labelling is counted -----------------------------------------------------------------------


#: Of the variance: more than the first iteration moves the centres by.
STOP_AT_ONCE = 20.0


def duplicate_heavy(seed: int) -> np.ndarray:
    """Small values, most of them alike."""
    return np.random.RandomState(seed).geometric(0.35, (300, 2)) / 1000


def attacked(seed: int, contribution: str) -> tuple[Task, Outcome]:
    layout = Layout("horizontal", 300, 2, rows=(150, 150))
    task, table = task_for(duplicate_heavy(seed), layout, 8, (0, 0.04), contribution=contribution, tol=STOP_AT_ONCE)
    starts = np.random.RandomState(seed).choice(300, 8, replace=False)
    task = msgspec.structs.replace(task, starts=(tuple(starts.tolist()),))
    return task, run_oracle(task, table)


def test_an_opened_centre_is_a_mean_of_enough_rows():
    """The attack: two clusters start from the same values, so one is empty and keeps the row that it started from, and
    attracts ten rows with the next labelling. The oracle raises if such a centre is opened."""
    closed = 0
    for seed in range(40):
        task, outcome = attacked(seed, "least")
        assert outcome.n_iter < task.max_iter
        closed += int(outcome.suppressed.sum())
    assert closed


def test_counting_the_final_labels_alone_is_noticed(monkeypatch):
    """Planted: what was counted when the centres were made is left out, as it was once."""
    from coterie.clustering import opening

    honest = opening.small_clusters
    monkeypatch.setattr(opening, "small_clusters", lambda family, rules, _, final: honest(family, rules, final, final))
    with pytest.raises(ProtocolError, match="no labelling of enough rows made it"):
        for seed in range(40):
            attacked(seed, "off")


@pytest.mark.parametrize("protocol", FAMILIES)
def test_counts_are_carried_through_restarts(protocol):
    """The winner's own counts are tested, whichever restart it is."""
    x = np.concatenate([duplicate_heavy(3)[:40], duplicate_heavy(4)[:40]])
    task, outcomes, oracle, _ = fitted(
        "horizontal", 2, 6, protocol, x=x, bounds=[(0, 0.04)] * 2, n_init=3, seed=4, contribution="least", max_iter=5
    )
    assert_all_as_the_oracle(task, outcomes, oracle)
    assert oracle.suppressed.any()


# -- 2. contributions ------------------------------------------------------------------------------------

OUTLIER = np.array([7.5, 6.25])


def planted_rows() -> list[np.ndarray]:
    """Alice has thirty rows at home and one outlier; Mallory puts nine rows beside it, and thirty at home too."""
    random = np.random.RandomState(0)
    alice = np.concatenate([random.normal(0, 0.3, (30, 2)), OUTLIER[None]])
    mallory = np.concatenate([random.normal(0, 0.3, (30, 2)), np.tile([7.0, 6.0], (9, 1))])
    return [alice, mallory]


@pytest.mark.parametrize("protocol", FAMILIES)
def test_nine_rows_beside_an_outlier_do_not_show_it(protocol):
    blocks = planted_rows()
    ways = {}
    for contribution in ("off", "least"):
        task, outcomes, oracle, _ = fitted(
            "horizontal", 2, M, protocol, x=np.concatenate(blocks), blocks=blocks, init=np.array([[0.0, 0], [7, 6]]),
            contribution=contribution,
        )  # fmt: skip
        assert_all_as_the_oracle(task, outcomes, oracle)
        ways[contribution] = task, outcomes[2]
    task, mallory = ways["off"]
    centre = task.encoding.decode(mallory.centers, mallory.center_columns)[1]
    np.testing.assert_allclose(centre * 10 - 9 * np.array([7.0, 6.0]), OUTLIER, atol=1e-2)  # the attack works
    _, mallory = ways["least"]
    assert mallory.suppressed.tolist() == [False, True]
    assert not mallory.centers[1].any()


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize(
    ("contribution", "closed"),
    [("least", [0, 1, 1, 1]), ("none-or-least", [0, 0, 1, 1]), ("off", [0, 0, 0, 1])],
)
def test_what_the_others_must_contribute(protocol, contribution, closed):
    """Clusters of 12 + 12, 12 + 0, 12 + 3 and 2 + 2 rows; an empty one stays closed under every rule."""
    corners = np.array([[0.0, 0], [6, 0], [0, 6], [6, 6], [3, 3]])
    blocks = [np.repeat(corners, (12, 12, 12, 2, 0), axis=0), np.repeat(corners, (12, 0, 3, 2, 0), axis=0)]
    task, outcomes, oracle, _ = fitted(
        "horizontal", 2, M, protocol, x=np.concatenate(blocks), blocks=blocks,
        init=corners + np.array([0, 0.01]), contribution=contribution,
    )  # fmt: skip
    assert oracle.suppressed.tolist() == [*closed, 1]
    assert_all_as_the_oracle(task, outcomes, oracle)


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize(("coalition", "closed"), [(1, [0, 0]), (2, [0, 1])])
def test_coalitions(protocol, coalition, closed):
    """Three parties with 5 + 5 + 5, and with 5 + 5 + 1 rows: without any two of them 5, or 1, are left."""
    corners = np.array([[0.0, 0], [6, 6]])
    blocks = [np.repeat(corners, sizes, axis=0) for sizes in ((5, 5), (5, 5), (5, 1))]
    task, outcomes, oracle, _ = fitted(
        "horizontal", 3, 5, protocol, x=np.concatenate(blocks), blocks=blocks, init=corners, contribution="least",
        coalition=coalition,
    )  # fmt: skip
    assert oracle.suppressed.tolist() == closed
    assert_all_as_the_oracle(task, outcomes, oracle)


@pytest.mark.parametrize("protocol", FAMILIES)
def test_a_patchwork_is_tested_column_by_column(protocol):
    """Of the second cluster's second column Bob holds three cells: what is not his can be subtracted."""
    corners = np.array([[0.0, 0], [6, 6]])
    x = np.repeat(corners, (20, 20), axis=0)
    bobs = np.zeros((40, 2), bool)
    bobs[:10] = True
    bobs[20:30, 0] = bobs[20:23, 1] = True
    blocks = [np.where(bobs, np.nan, x), np.where(bobs, x, np.nan)]
    for least, closed in ((3, [0, 0]), (4, [0, 1])):
        task, outcomes, oracle, _ = fitted(
            "mixed", 2, least, protocol, x=x, blocks=blocks, init=corners, contribution="least"
        )
        assert oracle.suppressed.tolist() == closed
        assert_all_as_the_oracle(task, outcomes, oracle)


def test_sets_of_rows():
    """By hand: who is left when a party, or a coalition, takes its rows away."""

    def sets(layout: Layout, **fields) -> list[list[int]]:
        task, _ = task_for(np.zeros((layout.n, layout.d)), layout, 1, (0, 1), **fields)
        rules = rules_of(task)
        held = rules.sets.members[:, rules.sets.kind_of]
        assert rules.sets.sizes.tolist() == held.sum(axis=1).tolist()
        return [np.flatnonzero(row).tolist() for row in held]

    rows = Layout("horizontal", 6, 2, rows=(3, 2, 1))
    assert sets(rows) == [[0, 1, 2, 3, 4, 5], [3, 4, 5], [0, 1, 2, 5], [0, 1, 2, 3, 4]]
    assert sets(rows, contribution="off") == [[0, 1, 2, 3, 4, 5]]
    assert sets(rows, coalition=2) == [[0, 1, 2, 3, 4, 5], [5], [3, 4], [0, 1, 2]]
    assert sets(rows, coalition=9) == sets(rows, coalition=2)
    assert len(sets(rows, coalition=2, contribution="none-or-least")) == 7
    assert sets(Layout("vertical", 3, 2, columns=((0,), (1,)))) == [[0, 1, 2]]
    # the second column is all of P2's: nothing is left there to protect from P2, and all of it from P1
    owners = np.array([[1, 2], [1, 2], [2, 2]], np.uint8).tobytes()
    assert sets(Layout("mixed", 3, 2, owners=owners)) == [[0, 1, 2], [2], [0, 1]]


def test_what_can_only_end_closed_is_refused():
    layout = Layout("horizontal", 24, 1, rows=(15, 9))
    task, _ = task_for(np.zeros((24, 1)), layout, 1, (0, 1))
    with pytest.raises(InputError, match="all parties apart from alice together hold 9 rows"):
        check_rules(task, ("helper", "alice", "bob"))
    check_rules(msgspec.structs.replace(task, contribution="none-or-least"))
    with pytest.raises(InputError, match="all parties together hold 24 rows"):
        check_rules(msgspec.structs.replace(task, contribution="off", least=25))
    check_rules(msgspec.structs.replace(task, least=1))


def test_too_many_coalitions_are_refused():
    layout = Layout("horizontal", 40, 1, rows=(2,) * 20)
    task, _ = task_for(np.zeros((40, 1)), layout, 1, (0, 1), coalition=10)
    with pytest.raises(InputError, match="smaller coalitions"):
        rules_of(task)


# -- 3. the grid -----------------------------------------------------------------------------------------


def sizes_that_fit(center: np.ndarray, error: np.ndarray, sizes: range) -> list[int]:
    """The attack: which sizes t have, in every column, a multiple of 1 / t that rounds to the opened mean?"""
    t = np.array(sizes)[:, None]
    fits = (np.abs(np.rint(center * t) / t - center) <= error + 1e-12).all(axis=1)
    return np.flatnonzero(fits).tolist()


def test_the_attack_finds_sizes_without_a_grid_and_none_with_one():
    random = np.random.RandomState(5)
    found = ruled_out = 0
    for _ in range(40):
        size = random.randint(M, 1000)
        x = random.randint(0, 100, (size, 4)).astype(float)
        layout = Layout("horizontal", size, 4, rows=(size // 2, size - size // 2))
        task, table = task_for(x, layout, 1, (0, 100), contribution="off", starts=((0,),))
        exact = task.encoding.decode(run_oracle(task, table).centers)[0]
        found += sizes_that_fit(exact, np.full(4, 2.0**-task.encoding.f), range(M, 1001))[:1] == [size - M]
        grid = grid_of(task.encoding, dict.fromkeys(task.encoding.names, 1.0), M)
        task = msgspec.structs.replace(task, grid=grid)
        rounded = task.encoding.decode(run_oracle(task, table).centers)[0]
        error = np.array([2.0 ** (s - 1 - task.encoding.f) for s in grid])
        assert (np.abs(rounded - exact) <= 1 / M).all()
        ruled_out += len(range(M, 1001)) - len(sizes_that_fit(rounded, error, range(M, 1001)))
    assert found > 20
    assert ruled_out == 0


@pytest.mark.parametrize("least", [2, 3, 10, 17])
@pytest.mark.parametrize("resolution", [1.0, 0.1, 5.0])
def test_every_size_stays_possible_in_every_cell(least, resolution):
    """By enumeration of all cells: each holds a multiple of resolution / t for every t from the least size on."""
    low, high = (0.0,), (50.0,)
    encoding = FixedPoint(low, high, ("c",), fractional_bits(low, high, ("c",), 1000, 2, False, None))
    (shift,) = grid_of(encoding, {"c": resolution}, least)
    step = 2**shift
    half = int(encoding.half[0])
    edges = np.arange(-half // step * step - step // 2, half + step, step)
    for a, b in itertools.pairwise(edges):
        left, right = max(a, -half) / 2**encoding.f + 25, min(b, half) / 2**encoding.f + 25
        if left >= right:
            continue
        unit = resolution / np.arange(least, 200)
        assert (np.floor(right / unit + 1e-9) * unit >= left - 1e-9).all()


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("centers", ["revealed", "shared"])
@pytest.mark.parametrize(("partition", "p"), [("horizontal", 2), ("mixed", 3)])
def test_rounded_centres_and_sizes_equal_the_oracle(protocol, centers, partition, p):
    random = np.random.RandomState(2)
    corners = np.array([[10.0, 10, 3], [60, 20, 9], [30, 80, 5]])
    x = np.concatenate([random.normal(c, 3, (s, 3)) for c, s in zip(corners, (25, 31, 8), strict=True)]).round()
    x = random.permutation(x).clip(0, 100)
    task, outcomes, oracle, _ = fitted(
        partition, p, 10, protocol, centers, x=x, init=corners, bounds=[(0, 100), (0, 100), (0, 20)],
        grid=(11, 11, 10), sizes="rounded", contribution="off",
    )  # fmt: skip
    assert oracle.suppressed.tolist() == [False, False, True]
    labels = assert_all_as_the_oracle(task, outcomes, oracle)
    kept = whole(oracle.kept["centers"])
    assert not (kept % 2 ** np.array(task.grid)).any()
    final = np.bincount(labels, minlength=3)
    assert oracle.sizes.tolist() == [int(10 * np.floor(t / 10 + 0.5)) for t in final]
    # labelled by the rounded centres, as a prediction would
    table = task.encoding.encode(x, range(3))
    distances = ((table[:, None] - kept[None, :2]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(labels, distances.argmin(axis=1))


def test_the_inertia_is_opened_in_steps():
    x = np.random.RandomState(1).randint(0, 100, (200, 2)).astype(float)
    layout = Layout("horizontal", 200, 2, rows=(100, 100))
    task, table = task_for(x, layout, 2, (0, 100), contribution="off", starts=((0, 1),))
    exact = run_oracle(task, table).inertia
    task = msgspec.structs.replace(task, grid=grid_of(task.encoding, {"c0": 1.0, "c1": 1.0}, M))
    rounded = run_oracle(task, table).inertia
    of_grid = 200 * 2 * (2.0 ** task.grid[0] / 2**task.encoding.f) ** 2 / 4
    step = M * (task.encoding.half.astype(float) ** 2).sum() / 32 / 4**task.encoding.f
    assert of_grid < step, "rows that change their cluster matter more than the grid"
    assert rounded % (2.0 ** np.floor(np.log2(step))) == 0
    assert abs(rounded - exact) < step


def test_no_resolution_rounds_nothing():
    encoding = FixedPoint((0.0, 0.0), (1.0, 1.0), ("a", "b"), 16)
    assert grid_of(encoding, {}, 10) == ()
    assert grid_of(encoding, {"a": 1.0}, 1) == ()
    assert grid_of(encoding, {"a": 1.0}, 10) == (13, 0)
    assert grid_of(encoding, {"a": 5.0}, 2) == (15, 0)  # never more than half the range


@pytest.mark.parametrize("least", [2, 3, 7, 10, 16, 1000, 65537])
def test_rounded_sizes_are_exact(least):
    """For every count: through the oracle's arithmetic."""
    from coterie.clustering.rules import rounded_sizes
    from coterie.protocols import Problem
    from coterie.protocols.plaintext import Plaintext, in_the_clear

    for rows in (100, 70_000):
        family = Plaintext(None, Problem(rows, 1, (1,)))
        counts = np.arange(rows + 1)
        found = whole(rounded_sizes(family, least, in_the_clear(counts)))
        np.testing.assert_array_equal(found, (2 * counts + least) // (2 * least))


# -- 4. closed centres in what is kept -------------------------------------------------------------------


@pytest.mark.parametrize("protocol", FAMILIES)
def test_nothing_of_a_closed_centre_is_kept(protocol):
    """The attack: label a grid of made-up rows by the kept centres and see where the closed one lies."""
    blocks = planted_rows()
    _, outcomes, oracle, _ = fitted(
        "horizontal", 2, M, protocol, "shared", x=np.concatenate(blocks), blocks=blocks,
        init=np.array([[0.0, 0], [7, 6]]), contribution="least",
    )  # fmt: skip
    assert oracle.suppressed.tolist() == [False, True]
    kept = kept_centers(outcomes)
    np.testing.assert_array_equal(kept[1], kept[0])
    assert all(set(out.kept) == {"centers"} for out in outcomes[1:])


def test_a_kept_closed_centre_is_noticed(monkeypatch):
    """Planted: closed centres are kept as they are."""
    from coterie.clustering import opening

    monkeypatch.setattr(opening, "open_first", lambda closed: list(range(len(closed))))
    blocks = planted_rows()
    layout = Layout("horizontal", 70, 2, rows=(31, 39))
    task, table = task_for(np.concatenate(blocks), layout, 2, (-3, 9), contribution="least")
    given = task.encoding.encode(np.array([[0.0, 0], [7, 6]]), range(2))
    task = msgspec.structs.replace(task, centers_given=tuple(map(tuple, given.tolist())))
    kept = whole(oracle_module.run_oracle(task, table).kept["centers"])
    assert not np.array_equal(kept[1], kept[0])
