"""Blocks that live elsewhere: steps go there by name, with what can be written down, and rows stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np
import pytest

import coterie
from coterie.clustering import Layout
from coterie.errors import ProtocolError
from coterie.protocols.blocks import STEPS, block_step, step_name
from coterie.protocols.interface import RowSets
from coterie.protocols.onetime.centers import CenterMask
from coterie.protocols.sampling import Sampling, trials
from coterie.protocols.steps import Family
from coterie.ring import Words
from coterie.runtime.oracle import run_oracle
from coterie.sharing import Shared
from tests.clustering.comparison import task_and_table
from tests.contract import families
from tests.support import one_column_decides

#: The steps that bring labels back, row by row: to be opened to whom they belong, or kept by this party.
OF_LABELS = {"index_rows", "least_values", "hand_over", "index_cells", "least_cells", "hand_over_cells"}
#: The steps of a start, with L candidates and about as many groups as a group has rows: sums by group for each
#: candidate, or what one group holds for each, and nothing in between.
BY_GROUP = {"measure_rows", "consider_rows", "measure_cells", "consider_cells"}
OF_ONE_GROUP = {"spread_rows", "spread_cells"}
DATA = {one.__name__: one for one in (CenterMask, RowSets)}
STRUCTS = {one.__name__: one for one in (Layout, Sampling)}
K, D = 3, 2
L = trials(K)
MOST = 2 * K * (D + 4)
ROWS = np.random.RandomState(5).normal(0, 1, (150, D)) + np.repeat([[0, 0], [9, 9], [-9, 9]], 50, axis=0)


def written(value: Any) -> Any:
    """Numbers, texts and arrays, as they would travel."""
    match value:
        case np.ndarray():
            return ["array", value.dtype.str, list(value.shape), b"" if value.dtype.itemsize == 0 else value.tobytes()]
        case Shared():
            assert isinstance(value.ring, Words)
            return ["shared", value.ring.width, [written(share) for share in value.shares], list(value.adds)]
        case CenterMask() | RowSets():
            fields = [written(getattr(value, field.name)) for field in dataclasses.fields(value)]
            return ["data", type(value).__name__, fields]
        case Layout() | Sampling():
            return ["struct", type(value).__name__, msgspec.msgpack.encode(value)]
        case tuple():
            return ["tuple", [written(one) for one in value]]
        case int() | str() | bool() | None:
            return ["plain", value]
    raise AssertionError(f"a step takes along, or brings back, a {type(value).__name__}")


def read(value: Any) -> Any:
    match value:
        case ["array", dtype, shape, data]:
            return np.frombuffer(bytearray(data), dtype).reshape(shape) if data else np.empty(shape, dtype)
        case ["shared", width, shares, adds]:
            return Shared(Words(width), tuple(map(read, shares)), tuple(adds))
        case ["data", name, fields]:
            return DATA[name](*map(read, fields))
        case ["struct", name, data]:
            return msgspec.msgpack.decode(data, type=STRUCTS[name])
        case ["tuple", values]:
            return tuple(map(read, values))
        case ["plain", value]:
            return value
    raise AssertionError("unknown")


def secrets(value: Any) -> list[int]:
    """The sizes of all arrays that are, or may be, shares."""
    match value:
        case np.ndarray():
            return [value.size]
        case Shared():
            return [share.size for share in value.shares]
        case CenterMask():
            return [value.f.size, value.b.size, value.squares.size]
        case tuple():
            return [size for one in value for size in secrets(one)]
    return []


def sizes_back(step: str, block: Any, values: list[Any]) -> Collection[int]:
    """How large what a step brings back may be."""
    sampling = next((one for one in values if isinstance(one, Sampling)), None)
    if step in OF_LABELS:
        return range(len(block.rows) * K + 1)
    if step in BY_GROUP:
        return range(L * sampling.groups + 1)
    if step in OF_ONE_GROUP:
        return {0, L * (1 + D) * sampling.size}
    return range(MOST + 1)


def most_along(step: str, values: list[Any]) -> int:
    """How large what a step takes along may be: one-hot words of groups, or about the centres."""
    if step in OF_ONE_GROUP:
        return max(MOST, *(L * one.groups for one in values if isinstance(one, Sampling)))
    return MOST


def elsewhere(family: Family, step: Any, blocks: Any, *given: Any) -> Any:
    """As `on_blocks`, for blocks that are reached by bytes alone."""
    name = step_name(step)
    order = msgspec.msgpack.encode([name, [written(one) for one in given]])

    def work(me: Any, b: int) -> bytes:
        called, arguments = msgspec.msgpack.decode(order)
        values = [read(one) for one in arguments]
        step, most = called.rpartition(".")[2], most_along(called.rpartition(".")[2], values)
        assert all(size <= most for one in values for size in secrets(one)), f"{name} takes too much along"
        found = STEPS[called](family.at(me), blocks[b], *values)
        allowed = sizes_back(step, blocks[b], values)
        assert all(size in allowed for size in secrets(found)), f"{name} brings rows back"
        return msgspec.msgpack.encode(written(found))

    wait = family.me.in_blocks(len(blocks), work)
    return lambda: [read(msgspec.msgpack.decode(one)) for one in wait()]


def assert_equals_oracle(model: coterie.SecureKMeans, blocks: list) -> None:
    task, table = task_and_table(model, blocks)
    expected = run_oracle(task, table)
    assert model.labels_.tolist() == expected.labels.tolist()
    assert (model.n_iter_, model.inertia_) == (expected.n_iter, expected.inertia)
    if expected.suppressed is not None:
        assert model.suppressed_.tolist() == expected.suppressed.tolist()


@pytest.fixture
def far(monkeypatch):
    monkeypatch.setattr(Family, "on_blocks", elsewhere)
    monkeypatch.setitem(coterie.protocols.FAMILIES, "replicated", families.Replicated)


@pytest.mark.parametrize("lanes", [0, 2])
@pytest.mark.parametrize("least", [1, 5])
@pytest.mark.parametrize("way", ["horizontal", "vertical", "mixed"])
@pytest.mark.parametrize("protocol", ["onetime", "securenn", "falcon"])
@one_column_decides
def test_a_fit_is_the_same_wherever_its_blocks_live(far, protocol, way, least, lanes):
    model = coterie.SecureKMeans(
        K, protocol=protocol, partition=way, least_cluster_size=least, random_state=1, max_iter=4,
        plan={"block_rows": 64, "lanes": lanes}, n_init=2 if lanes else 1,
    )  # fmt: skip
    blocks = coterie.data.split(ROWS, way, 2)
    assert_equals_oracle(model.fit_parties(blocks), blocks)


@one_column_decides
def test_of_a_family_that_others_have_written(far):
    model = coterie.SecureKMeans(K, protocol="replicated", random_state=1, max_iter=2)
    blocks = coterie.data.split(ROWS[:60], "horizontal", 3)
    assert_equals_oracle(model.fit_parties(blocks), blocks)


@one_column_decides
def test_revealed_labels(far):
    model = coterie.SecureKMeans(K, partition="vertical", labels="revealed", random_state=1, max_iter=4)
    blocks = coterie.data.split(ROWS, "vertical", 2)
    assert_equals_oracle(model.fit_parties(blocks), blocks)


def plant(monkeypatch, module, step):
    """In the place of a step of `onetime`, under its name."""
    real = getattr(module, step.__name__)
    step.__module__, step.__qualname__ = real.__module__, step.__name__
    monkeypatch.setitem(STEPS, step_name(step), step)
    monkeypatch.setattr(module, step.__name__, step)


def assert_found(step):
    with pytest.raises(coterie.errors.PartyFailed, match=f"{step.__name__} brings rows back"):
        model = coterie.SecureKMeans(K, random_state=1, plan={"schedule": "tournament"})  # no dry run before
        model.fit_parties(coterie.data.split(ROWS, "horizontal", 2))


@one_column_decides
def test_a_step_that_brings_rows_back_is_found(far, monkeypatch):
    """Planted: instead of the rows that are asked for, all of a block."""
    from coterie.protocols.onetime import family as module

    def pick_cells(family, block, numbers):
        return np.zeros((len(block.rows), D), np.uint64)

    plant(monkeypatch, module, pick_cells)
    assert_found(pick_cells)


@one_column_decides
def test_a_step_that_brings_distances_back_row_by_row_is_found(far, monkeypatch):
    """Planted: instead of sums by group, or of what one group holds, the distances of a block."""
    from coterie.protocols.onetime import family as module

    measure, spread = module.measure_cells, module.spread_cells

    def measure_cells(family, block, sampling, mask):
        found = measure(family, block, sampling, mask)
        return found if family.me.deals else family.me.shared(found.ring, block.held["nearest"])

    def spread_cells(family, block, hot, sampling):
        found = spread(family, block, hot, sampling)
        return found if family.me.deals else block.held["nearest"]

    for planted in (measure_cells, spread_cells):
        with monkeypatch.context() as patch:
            plant(patch, module, planted)
            assert_found(planted)


def test_only_what_is_declared_goes_to_a_block():
    def stray(family, block):
        return block.held

    with pytest.raises(ProtocolError, match="stray is not declared as a step on a block"):
        Family.on_blocks(None, stray, [])
    assert block_step(stray) is stray
    assert STEPS.pop(step_name(stray)) is stray


def test_a_block_shows_nothing_and_cannot_be_pickled():
    import pickle

    block = coterie.protocols.blocks.Resident(3, np.arange(4))
    block.held["rows"] = "a secret"
    assert repr(block) == "<Resident 3>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(block)
