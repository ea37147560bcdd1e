"""Whole transcripts: all that a coalition receives in a fit, compared between two data sets that give it the same
outputs.

The streams that the coalition holds are constant (`views.condition`), so whatever varies from seed to seed comes from
randomness that it does not have. Over the same seeds, both data sets must give

1. frames and notes of the same kinds, shapes and lengths in the same order, and no letters;
2. the same bytes where bytes do not vary;
3. bytes of the same distribution where they do, place by place and frame by frame;
4. the same differences between any two places that vary alike: a mask that serves twice leaves one.

To what is received belongs what masked openings add up to at the members of the coalition, and at the helper the sum of
what the parties sent: such a sum can tell what no part of it does.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from coterie.ring import Array
from coterie.runtime.oracle import run_oracle
from coterie.sharing import Party
from tests.security.fits import Study
from tests.security.onetime_fits import check_no_letters
from tests.security.views import KNOWN_BYTES, Q
from tests.support import Ran

#: How improbable a statistic must be before a test fails. A case has about a million of them.
RARE = 1e-12
#: Bytes of a part that is a word or two.
SHORT = 16
CLUSTERS, ROWS, COLUMNS = 3, 24, 6
#: What a run gives everybody; see `assert_same_results`.
RESULTS = ("n_iter", "inertia", "disclosures")
Bytes = NDArray[np.uint8]


# -- two data sets that a coalition cannot tell apart ---------------------------------------------------------------


def far_clusters() -> Array:
    """Row i lies in cluster i modulo 3, far from the others."""
    deviation = np.random.default_rng(3).integers(-400_000, 400_000, (ROWS, COLUMNS))
    return 6_000_000 * (np.arange(ROWS) % CLUSTERS - 1)[:, None] + deviation


def twin(study: Study, data: Array, honest: set[int]) -> Array:
    """Other data of the honest parties, with the same sums, squares and labels, and so the same results.

    In every column the honest parties' values change places within each cluster; by rows, where labels are the holder's
    alone, whole rows change places as well. Rows that a restart begins with stay.
    """
    layout = study.jobs(data)[0].task.layout
    held = np.any([layout.own_cells(rank) for rank in honest], axis=0)
    held[sorted({row for start in study.starts for row in start})] = False
    other, cluster = data.copy(), np.arange(len(data)) % CLUSTERS
    for column in range(data.shape[1]):
        for c in range(CLUSTERS):
            places = np.flatnonzero(held[:, column] & (cluster == c))
            other[places, column] = np.roll(data[places, column], 1 + column % 2)
    if study.partition == "horizontal":
        rows = np.flatnonzero(held.all(axis=1))
        other[rows] = other[np.roll(rows, 1)]
    assert (other[~held] == data[~held]).all()
    assert (other != data).any()
    return other


def assert_same_outputs(study: Study, one: Array, other: Array, coalition: set[int]) -> None:
    """By the oracle: all results that the coalition gets are the same; labels, those of rows it holds cells of."""
    task = study.jobs(one)[0].task
    a, b = run_oracle(task, one), run_oracle(task, other)
    assert a.n_iter == b.n_iter
    assert (a.inertia, a.silhouette, a.scatter) == (b.inertia, b.silhouette, b.scatter)
    for name in ("counts", "suppressed", "sizes"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    if study.partition == "vertical" and a.centers is not None and b.centers is not None:
        columns = sorted({column for rank in coalition - {0} for column in task.layout.own_columns(rank)})
        assert np.array_equal(a.centers[:, columns], b.centers[:, columns])
    elif study.options.get("centers") != "shared":
        assert np.array_equal(a.centers, b.centers)
    for rank in coalition - {0}:
        rows = task.layout.own_rows(rank)
        assert np.array_equal(a.labels[rows], b.labels[rows])


def assert_same_results(one: Ran, other: Ran, coalition: set[int], names: Sequence[str]) -> None:
    """As the run itself gave them to the coalition."""
    for rank in coalition:
        a, b = one.results[rank].outcome, other.results[rank].outcome
        for name in names:
            assert getattr(a, name) == getattr(b, name), name
        for name in ("centers", "rows", "labels", "counts", "suppressed", "sizes"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name


# -- views ----------------------------------------------------------------------------------------------------------


@contextmanager
def openings() -> Iterator[defaultdict[int, list[Array]]]:
    """What masked openings add up to at each role, in the order of the program, while this lasts."""
    sums: defaultdict[int, list[Array]] = defaultdict(list)

    def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
        def open_masked(me: Party, *args: Any, **values: Any) -> Any:
            totals = function(me, *args, **values)
            sums[me.rank] += [total.copy() for total in totals]
            return totals

        return open_masked

    def later(function: Callable[..., Any]) -> Callable[..., Any]:
        def start(me: Party, *args: Any) -> Any:
            receive = function(me, *args)

            def finish() -> Any:
                total = receive()
                sums[me.rank].append(total.copy())
                return total

            return finish

        return start

    wraps = {"open_masked": at_once, "start_opening": later}
    modules = [module for name, module in sys.modules.items() if name.startswith("coterie.protocols")]
    found = [(module, name, getattr(module, name)) for module in modules for name in wraps if hasattr(module, name)]
    try:
        for module, name, function in found:
            setattr(module, name, wraps[name](function))
        yield sums
    finally:
        for module, name, function in found:
            setattr(module, name, function)


@dataclass(frozen=True)
class View:
    """What a coalition got in one run: a line that says what each part is, and the parts' bytes one after another."""

    kinds: tuple[str, ...]
    edges: tuple[int, ...]
    data: Bytes

    @classmethod
    def of(cls, ran: Ran, coalition: set[int], sums: dict[int, list[Array]]) -> View:
        parts: list[tuple[str, Array]] = []
        for rank in sorted(coalition):
            recording = ran.recordings[rank]
            frames = [frame for frame in recording.received if frame.sender not in coalition]
            parts += [(f"frame P{frame.sender} to P{rank}", frame.array) for frame in frames]
            if rank == 0:
                parts += [("sum of frames to P0", total) for total in _sums_at_helper(frames, len(ran.results) - 1)]
            parts += [(f"opening at P{rank}", total) for total in sums[rank]]
            notes = [(sender, bit) for sender, receiver, bit in recording.notes if receiver == rank]
            parts += [(f"note P{sender} to P{rank}", np.array([bit], np.uint8)) for sender, bit in notes]
        raw = [np.frombuffer(array.tobytes(), np.uint8) for _, array in parts]
        kinds = tuple(f"{kind}, {array.dtype} {array.shape}" for kind, array in parts)
        edges = tuple(np.cumsum([0, *(part.size for part in raw)]).tolist())
        return cls(kinds, edges, np.concatenate(raw) if raw else np.empty(0, np.uint8))


def _sums_at_helper(frames: list[Any], p: int) -> Iterator[Array]:
    """What the helper adds up: a frame from each of P1..Pp, in that order."""
    for at in range(0, len(frames) - p + 1, p):
        group = [frame.array for frame in frames[at : at + p]]
        if len({(array.dtype, array.shape) for array in group}) == 1:
            total = np.sum(group, axis=0, dtype=np.uint64)
            yield (total % Q).astype(np.uint8) if group[0].dtype == np.uint8 else total


def views(study: Study, data: Array, coalition: set[int], seeds: range) -> tuple[list[View], Ran]:
    made = []
    for seed in seeds:
        with openings() as sums:
            ran = study.fit(data, frozenset(coalition), KNOWN_BYTES[1], seed)
        check_no_letters(ran)
        made.append(View.of(ran, coalition, sums))
    return made, ran


# -- comparing ------------------------------------------------------------------------------------------------------


def check_transcripts(study: Study, coalition: set[int], seeds: int, planted: bool = False) -> None:
    """The coalition cannot tell the data from its twin. A planted fault may make a measure of quality wrong."""
    data = far_clusters()
    other = twin(study, data, {1, 2, 3} - coalition)
    assert_same_outputs(study, data, other, coalition)
    one, last = views(study, data, coalition, range(seeds))
    two, other_last = views(study, other, coalition, range(seeds, 2 * seeds))
    names = RESULTS if planted else (*RESULTS, "silhouette", "scatter")
    assert_same_results(last, other_last, coalition, names)
    compare(one, two)


def compare(one: list[View], two: list[View], short: int = SHORT) -> None:
    """`short`: see `compare_frames`."""
    first = one[0]
    for view in (*one, *two):
        assert view.kinds == first.kinds, "transcripts of other kinds or lengths"
    a, b = (np.stack([view.data for view in views], axis=1) for views in (one, two))
    where = Where(first)
    compare_constants(a, b, where)
    compare_bits(a, b, where)
    for i, kind in enumerate(first.kinds):
        compare_frames(a[first.edges[i] : first.edges[i + 1]], b[first.edges[i] : first.edges[i + 1]], kind, short)
    for begins in ("frame", "opening"):  # an opening is a frame plus what the coalition knows
        sizes = np.diff(first.edges)
        places = np.flatnonzero(np.repeat([kind.startswith(begins) for kind in first.kinds], sizes))
        for operation in OPERATIONS:
            compare_masks(a, b, places, operation, where)
            compare_masks(b, a, places, operation, where)


class Where:
    """Says of a place in a view which part it is in."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __call__(self, place: int) -> str:
        part = int(np.searchsorted(self.view.edges, place, side="right")) - 1
        return f"part {part} ({self.view.kinds[part]}), byte {place - self.view.edges[part]}"


def compare_constants(a: Bytes, b: Bytes, where: Where) -> None:
    """Where one data set gives the same byte for every seed, so does the other, and it is the same byte. A single bit
    may be the same by chance for all seeds of one data set, not for those of both."""
    still_a, still_b = ((x == x[:, :1]).all(axis=1) for x in (a, b))
    both = np.sort(np.concatenate([a, b], axis=1), axis=1)
    is_bit = (np.diff(both, axis=1) != 0).sum(axis=1) <= 1
    other_byte = still_a & still_b & (a[:, 0] != b[:, 0])
    differ = other_byte | ((still_a != still_b) & ~is_bit)
    assert not differ.any(), f"a byte that the data decide: {where(int(np.argmax(differ)))}"


def compare_bits(a: Bytes, b: Bytes, where: Where) -> None:
    """How often each bit is set: among 2 m fair bits, no such difference between the two halves."""
    seeds = a.shape[1]
    limit = binom.isf(RARE / 2, 2 * seeds, 0.5) - seeds
    for bit in range(8):
        set_a, set_b = (((x >> bit) & 1).sum(axis=1, dtype=np.int64) for x in (a, b))
        differ = np.abs(set_a - set_b) > limit
        assert not differ.any(), f"a bit that the data decide: {where(int(np.argmax(differ)))}"


def compare_frames(a: Bytes, b: Bytes, kind: str, short: int = SHORT) -> None:
    """Chi-square for two samples: are the bytes of a part, of all seeds together, distributed alike? In a part of at
    most `short` bytes they are no independent draws: what a coalition contributes to it is one byte over and over, so
    that a byte that comes several times in a part counts once a seed."""
    if len(a) <= short:
        a, b = (np.concatenate([np.unique(column) for column in x.T]) for x in (a, b))
    counts = np.array([np.bincount(x.ravel(), minlength=256) for x in (a, b)], np.float64)
    common = counts.sum(axis=0) >= 10
    cells = np.column_stack([counts[:, common], counts[:, ~common].sum(axis=1)])
    cells = cells[:, cells.sum(axis=0) > 0]
    statistic = float(((cells[0] - cells[1]) ** 2 / cells.sum(axis=0)).sum())
    assert statistic <= chi2.isf(RARE, max(cells.shape[1] - 1, 1)), f"bytes of another distribution: {kind}"


def _xor(x: Bytes, y: Bytes) -> Bytes:
    return x ^ y


def _minus(x: Bytes, y: Bytes) -> Bytes:
    return x - y


def _minus_in_field(x: Bytes, y: Bytes) -> Bytes:
    return ((x.astype(np.int16) - y) % Q).astype(np.uint8)


OPERATIONS = (_xor, _minus, _minus_in_field)


def compare_masks(
    a: Bytes, b: Bytes, places: NDArray[np.intp], operation: Callable[[Bytes, Bytes], Bytes], where: Where
) -> None:
    """Places that vary alike over the seeds of one data set have a mask in common: then the difference between them is
    known, and must be the same for the other data set. Not for each of its seeds: where one place is the other plus a
    number that the coalition knows, a carry from the byte below makes another difference now and then."""
    change = operation(a[places], a[places, :1])
    different = (np.diff(np.sort(change, axis=1), axis=1) != 0).sum(axis=1)
    places, change = places[different > 3], change[different > 3]  # single bits vary alike by chance
    keys = np.ascontiguousarray(change).view(f"V{a.shape[1]}").ravel()
    _, index, inverse = np.unique(keys, return_index=True, return_inverse=True)
    firsts = places[index[inverse]]
    places, firsts = places[places != firsts], firsts[places != firsts]
    known = operation(a[places, :1], a[firsts, :1])
    same = (operation(b[places], b[firsts]) == known).sum(axis=1)
    differ = same < b.shape[1] // 4
    if differ.any():
        at = int(np.argmax(differ))
        raise AssertionError(f"a mask that serves twice: {where(int(firsts[at]))}; {where(int(places[at]))}")
