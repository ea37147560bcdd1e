"""What a run will cost: rounds and bytes, exactly; memory and time, roughly. This counts `onetime`.

The sizes are those that the protocol's steps declare, from the same tables (`bracket`, `tree_of`,
`borrow_terms`). A test compares them with what the channel counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from coterie.clustering import Task
from coterie.clustering.rules import inertia_shift, rules_of, size_bits
from coterie.planning.rehearsal import Cost, Ending, rehearse
from coterie.protocols import FAMILIES
from coterie.protocols.onetime.bits import Terms, fours
from coterie.protocols.onetime.labelling import bracket, tournament
from coterie.protocols.onetime.means import borrow_terms, table_bits
from coterie.protocols.onetime.sign import tree_of
from coterie.protocols.onetime.table import Block, blocks_of
from coterie.ring.packing import packed_bytes
from coterie.transport import HEADER_BYTES
from coterie.transport.links import Link

__all__ = ["Cost", "Forecast", "forecast", "seconds"]

#: Nanoseconds of one core that a product with the data, and a byte on the wire take, all roles together; and seconds
#: for a step in Python. Measured on a 2.8 GHz Xeon.
PRODUCT_NS = 1.2
BYTE_NS = 2.2
STEP_SECONDS = 1.2e-3


class Forecast(msgspec.Struct):
    """What a fit will cost. Bytes and rounds are exact for the given number of iterations."""

    rounds: int
    rounds_per_iteration: int
    bytes_sent: dict[str, int]
    bytes_per_iteration: dict[str, int]
    comparisons_per_iteration: int
    memory: dict[str, int]
    seconds: float
    seconds_per_iteration: float


class _Counter:
    """Counts the steps of `onetime` for p parties."""

    def __init__(self, task: Task, p: int) -> None:
        self.p, self.task, self.problem = p, task, task.problem
        self.k, self.d = task.clusters, task.layout.d
        self.blocks = blocks_of(task.layout, p, task.block_rows)
        self.schedule = task.schedule or tournament(self.k)
        # as `OneTime.score_width` and `OneTime.sum_width`
        self.w = min(-(-(self.problem.distance_bits + 2) // 4) * 4, 64)
        rows = self.problem.rows
        self.u = max(rows.bit_length() + max(self.problem.half).bit_length() + 2, table_bits(rows))
        self._labels: dict[int, Cost] = {}  # most blocks are of one size

    def nothing(self) -> Cost:
        return Cost(0, [0] * (self.p + 1))

    def dealt(self, *parts: int) -> Cost:
        """The correction of a step, in bytes by part; one-way, so no round."""
        return Cost(0, [HEADER_BYTES + sum(parts), *[0] * self.p])

    def opened(self, *frames: int, to: Sequence[int] | None = None) -> Cost:
        """Frames of so many bytes, from every data party to all the others, or to some ranks."""
        recipients = range(1, self.p + 1) if to is None else to
        each = sum(HEADER_BYTES + frame for frame in frames)
        return Cost(1, [0, *(each * sum(j != i for j in recipients) for i in range(1, self.p + 1))])

    def products(self, terms: Terms, words: int) -> Cost:
        cost = self.opened(8 * terms.variables * words)
        return cost.then(self.dealt(8 * terms.monomials * words)) if terms.monomials else cost

    def signs(self, pairs: int, numbers: int, width: int) -> Cost:
        digits, total = width // 4, pairs * numbers
        cost = self.dealt(packed_bytes(digits * total, 16), total // 8).then(self.opened(packed_bytes(total, width)))
        for level in tree_of(digits):
            assert level.terms is not None
            cost = cost.then(self.products(level.terms, total // 64))
        return cost

    def select(self, rows: int, numbers: int, width: int) -> Cost:
        packed = packed_bytes(rows * numbers, width)
        return self.dealt(packed, packed).then(self.opened(rows * numbers // 8, packed))

    def labels(self, numbers: int) -> Cost:
        """One-hot labels of a block from its scores."""
        if numbers in self._labels:
            return self._labels[numbers]
        cost = self.nothing()
        levels = bracket(self.k, self.schedule)
        for level in levels:
            cost = cost.then(self.signs(len(level.left), numbers, self.w))
            for stage in level.stages:
                cost = cost.then(self.products(stage.terms, numbers // 64))
            last = self.nothing()
            if level.joined is not None:
                last = last.beside(self.products(level.joined.terms, numbers // 64))
            if level is not levels[-1]:
                last = last.beside(self.select(len(level.first), numbers, self.w))
            cost = cost.then(last)
        self._labels[numbers] = cost
        return cost

    def labelling(self, counted: bool) -> Cost:
        """Scores, labels and, where they are counted, labels as words, of all blocks."""
        total = self.nothing()
        for block in self.blocks:
            cost = self.dealt(packed_bytes(self.k * block.numbers, self.w)).then(self.labels(block.numbers))
            if counted and self.k > 1:
                cost = cost.then(self.as_words(self.k - 1, block))
            total = total.beside(cost)
        return total

    def masked_centers(self) -> Cost:
        return self.dealt(packed_bytes(self.k, 64)).then(self.opened(packed_bytes(self.k * self.d, 64)))

    def sums(self) -> Cost:
        total, rows = self.nothing(), self.k - 1
        for block in self.blocks if rows else []:
            cost = self.dealt(packed_bytes(rows * self.d, self.u))
            total = total.beside(cost.then(self.opened(packed_bytes(rows * block.numbers, self.u), to=block.holders)))
        return total

    def places(self) -> Cost:
        m = table_bits(self.problem.rows)
        return self.dealt(self.k * (1 << m) // 8).then(self.opened(packed_bytes(self.k, m)))

    def mean(self) -> Cost:
        cells, bits = self.k * self.d, self.problem.reciprocal_bits + 2
        parts = [cells, cells, self.k * bits, cells * (bits - 1), cells * (bits - 1), cells]
        cost = self.dealt(*(packed_bytes(part, 64) for part in parts))
        return cost.then(self.opened(8 * self.k, packed_bytes(cells, self.u)))

    def lifted(self, count: int) -> Cost:
        packed = packed_bytes(count, 64)
        return self.dealt(packed, packed).then(self.opened(packed_bytes(count, self.u)))

    def truncation(self, count: int, g: int) -> Cost:
        if g == 0:
            return self.nothing()
        digits = -(-g // 8)
        terms = borrow_terms(digits)
        packed = packed_bytes(count, 64)
        products = packed_bytes((terms.variables + terms.monomials) * count, 64)
        cost = self.dealt(packed, packed, 8 * count * digits * 4, products).then(self.opened(packed))
        return cost.then(self.opened(8 * terms.variables * -(-count // 64)))

    def stop_test(self) -> Cost:
        return self.dealt(packed_bytes(1, 64)).then(self.signs(1, 64, 64)).then(self.opened(1))

    def iteration(self, stop: bool) -> Cost:
        """New centres, labels for them, and the stop test beside the labelling."""
        cells, g = self.k * self.d, self.problem.reciprocal_bits
        if self.task.counts == "secret":
            cost = self.sums().beside(self.places()).then(self.mean())
        else:
            cost = self.sums().then(self.opened(8 * self.k)).then(self.lifted(cells))
        labelling = self.labelling(counted=True)
        if stop:
            labelling = labelling.beside(self.stop_test())
        return cost.then(self.truncation(cells, g)).then(self.masked_centers()).then(labelling)

    def revealing_iteration(self, stop: bool) -> Cost:
        """SVK-means: labels of distances that the parties have computed in the clear, opened; the stop test after
        them. All else is local."""
        cost = self.nothing()
        for block in self.blocks:
            cost = cost.beside(self.labels(block.numbers))
        cost = cost.then(self.opened(self.task.layout.n * self.label_bits))
        return cost.then(self.signs(1, 64, 64)).then(self.opened(1)) if stop else cost

    def begin(self) -> Cost:
        """The data enter; SHK-means labels them for the first time."""
        if self.task.labels == "revealed":
            return self.entry()
        return self.entry().then(self.masked_centers()).then(self.labelling(counted=True))

    def loop(self, stop: bool) -> Cost:
        return self.revealing_iteration(stop) if self.task.labels == "revealed" else self.iteration(stop)

    @property
    def label_bits(self) -> int:
        return max(self.k - 1, 0).bit_length()

    def entry(self) -> Cost:
        """Every owner broadcasts its masked cells, block by block."""
        sent = [0] * (self.p + 1)
        for block in self.blocks:
            for j in block.holders:
                sent[j] += (self.p - 1) * (HEADER_BYTES + 8 * self.cells(block, j))
        return Cost(1, sent)

    def cells(self, block: Block, owner: int) -> int:
        """How many cells of a block one of its holders has."""
        if len(block.holders) == 1:
            return len(block.rows) * self.d
        if self.task.layout.partition == "vertical":
            return len(block.rows) * len(self.task.layout.columns[owner - 1])
        return int((self.task.layout.owners_of(block.rows) == owner).sum())

    def results(self) -> Cost:
        """Centres, labels and inertia to those who may have them; no cluster suppressed. Where output rules hold, and
        after SVK-means, rows are labelled once more while the centres are opened."""
        ruled = self.task.least > 1
        cost = self.output_rules() if ruled else self.nothing()
        centers = self.nothing()
        for columns, to in self.task.layout.center_groups(self.p):
            centers = centers.beside(self.opened(8 * self.k * len(columns), to=to))
        labels = self.nothing()
        for rows, holders in self.task.layout.label_groups(self.p):
            width = self.k.bit_length() if ruled else self.label_bits  # one more label: none
            labels = labels.beside(self.opened(len(rows) * width, to=holders))
        if ruled or self.task.labels == "revealed":
            cost = cost.then(self.masked_centers())
            centers = centers.beside(self.labelling(counted=False))
        cost = cost.then(centers).then(labels)
        if ruled and self.task.sizes == "rounded":
            bits = size_bits(self.problem.rows, self.task.least)
            cost = cost.then(self.words()).then(self.lifted(self.k)).then(self.truncation(self.k, bits))
            cost = cost.then(self.opened(8 * self.k))
        inertia = (
            self.truncation(1, inertia_shift(self.problem, self.task.grid)).then(self.opened(8))
            if ruled
            else self.opened(16)
        )
        cost = cost.then(inertia)
        if self.task.counts == "revealed" and self.task.labels == "private":
            cost = cost.then(self.opened(8 * self.k))
        return cost

    def output_rules(self) -> Cost:
        """Rounding, labels for it, and the tests of both labellings."""
        task, rules = self.task, rules_of(self.task)
        sets = len(rules.sets.members)
        cost = self.lifted(sets * self.k)  # the labelling that made the centres
        if task.grid:
            cost = cost.then(self.truncation(self.k * self.d, max(task.grid)))
            cost = cost.then(self.masked_centers()).then(self.labelling(counted=True))
        cost = cost.then(self.lifted(sets * self.k))
        tests = 2 * sets * self.k
        for _ in range(2 if rules.lenient.any() else 1):
            cost = cost.then(self.signs(1, -(-tests // 64) * 64, 64))
        rows = 2 * sets
        while rows > 1:
            cost = cost.then(self.products(fours(rows), -(-self.k // 64)))
            rows = -(-rows // 4)
        return cost.then(self.opened(self.k))

    def words(self) -> Cost:
        """Labels as words, which were not counted when they were made."""
        total, rows = self.nothing(), self.k - 1
        for block in self.blocks if rows else []:
            total = total.beside(self.as_words(rows, block))
        return total

    def as_words(self, rows: int, block: Block) -> Cost:
        return self.dealt(packed_bytes(rows * block.numbers, self.u)).then(self.opened(8 * rows * block.numbers // 64))


def forecast(task: Task, parties: int, iterations: int, link: Link, ended_by: Ending) -> Forecast:
    """The cost of a fit with revealed centres and one start: `onetime` is counted here, other families rehearse."""
    if task.protocol == "onetime":
        counter = _Counter(task, parties)
        one = counter.loop(stop=True)
        around = counter.begin().then(counter.results())  # before and after the iterations; labels all rows once
        whole = around.then(one.times(iterations - 1)).then(counter.loop(stop=ended_by == "stop"))
        comparisons, memory = _comparisons(counter), _memory(counter)
    else:
        first, one = rehearse(task, parties, ended_by)
        whole, around = first.then(one.times(iterations - 1)), first.less(one)
        comparisons = FAMILIES[task.protocol].comparisons(task.clusters) * task.layout.n
        memory = _general_memory(task, parties)
    world = FAMILIES[task.protocol].world([f"P{j}" for j in range(1, parties + 1)])
    slope = seconds(task, one, comparisons, link)
    return Forecast(
        rounds=whole.rounds,
        rounds_per_iteration=one.rounds,
        bytes_sent={world.names[j]: whole.sent[j] for j in world.ranks},
        bytes_per_iteration={world.names[j]: one.sent[j] for j in world.ranks},
        comparisons_per_iteration=comparisons,
        memory={world.names[j]: memory[j] for j in world.ranks},
        seconds=seconds(task, around, comparisons, link) + slope * iterations,
        seconds_per_iteration=slope,
    )


def _comparisons(counter: _Counter) -> int:
    pairs = sum(len(level.left) for level in bracket(counter.k, counter.schedule))
    return pairs * sum(block.numbers for block in counter.blocks)


def seconds(task: Task, cost: Cost, comparisons: int, link: Link, cores: int = 2) -> float:
    """How long a part of a run takes: the larger of computing and sending, and every round's delay. A link is between
    two roles: the helper has one to each party, a party one to each other party."""
    products = task.layout.n * task.clusters * task.layout.d
    each = FAMILIES[task.protocol].comparison_ns
    computing = (each * comparisons + PRODUCT_NS * products + BYTE_NS * sum(cost.sent)) * 1e-9 / cores
    helper, *parties = cost.sent
    sending = max(helper / len(parties), max(parties) / (len(parties) - 1)) / link.bandwidth
    return max(computing, sending) + cost.rounds * (link.round_trip / 2 + STEP_SECONDS)


def _memory(counter: _Counter) -> list[int]:
    """The interpreter and kernels, the data in two forms, labels, and what the blocks in flight hold."""
    base, n = 200 << 20, counter.task.layout.n
    table = 16 * n * counter.d + 8 * n * max(counter.k - 1, 0) + n * counter.k // 4
    if counter.task.labels == "revealed":
        table += 24 * n * counter.k  # distances, their shares, and the zeros that blind them
    widest = max((len(level.left) for level in bracket(counter.k, counter.schedule)), default=1)
    largest = max((block.numbers for block in counter.blocks), default=0)
    flight = (max(counter.task.lanes, 1) + 1) * largest * (120 * widest + 40 * counter.k)
    lookup = 8 << table_bits(counter.problem.rows)
    parties = base + table + flight + lookup
    helper = base + flight + math.ceil(counter.k * (1 << table_bits(counter.problem.rows)) / 4) + (64 << 20)
    return [helper, *[parties] * counter.p]


def _general_memory(task: Task, parties: int) -> list[int]:
    """The interpreter and kernels, the data and their shares, labels, and a block's comparisons, of 64 bits each by
    shares of some bytes a bit. Measured for `securenn`, roughly."""
    n, pairs = task.layout.n, FAMILIES[task.protocol].comparisons(task.clusters)
    block = min(task.block_rows, n) * max(pairs, 1)
    flight = (max(task.lanes, 1)) * block * 400
    return [(200 << 20) + 24 * n * (task.layout.d + task.clusters) + flight] * (parties + 1)
