"""The steps of clustering, written once on the primitives of any family, and named as the paper names them.

A family overrides a step where it has a faster one of its own; a test holds each of those equal to the step here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.blocks import STEPS, Labels, Resident, Table, block_step, cut, labels_of, step_name, table_of
from coterie.protocols.division import Means, repeated
from coterie.protocols.interface import Holding, Ints, RowSets
from coterie.protocols.sampling import Sampling
from coterie.protocols.scaling import weighed_scores
from coterie.sharing import Party, Secret, Shared, concatenate, shared, stack, total
from coterie.transport import metered

__all__ = ["Family", "check_table", "counted_words"]

Given = ParamSpec("Given")
Brought = TypeVar("Brought")


class Family(Means):
    """Shapes: n rows, d columns, k clusters. Rows and labels may be of a family's own kind; all else is `Shared`."""

    def on_blocks(
        self,
        step: Callable[Concatenate[Any, Any, Given], Brought],
        blocks: Sequence[Resident],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Callable[[], list[Brought]]:
        """Start a step on every block, where it lives; call what is returned to wait for what the step brings back."""
        if STEPS.get(step_name(step)) is not step:
            raise ProtocolError(f"{step_name(step)} is not declared as a step on a block")
        return self.me.in_blocks(
            len(blocks),
            lambda me, b: step(self.at_block(me, blocks[b]), blocks[b], *given, **named),
            lambda b: blocks[b].kind,
        )

    def at_block(self, me: Party, block: Resident) -> Self:  # noqa: ARG002
        """The same family where a block lives."""
        return self.at(me)

    # -- the data ----------------------------------------------------------------------------------------

    def table(self, own: Ints | None, holding: Holding, weights: Ints | None = None) -> Table:
        """The data (n, d): each owner passes its own cells, zero elsewhere; and where rows are weighted, whoever gives
        them their `weights` (n,), zero elsewhere."""
        table = Table((holding.n, holding.d), cut(holding.n, self.problem.block_rows))
        self.hand_out(table, own, weights)
        self.on_blocks(enter_rows, table.blocks, holding.d)()
        return table

    def hand_out(self, table: Table, own: Ints | None, weights: Ints | None) -> None:
        """To each block what this party holds of its rows."""
        sampling = Sampling.of(self.problem)
        for block in table.blocks:
            if len(block.rows):
                block.groups = sampling.count_groups(block.rows)  # of one kind from the start to the end
            block.held["own"] = None if own is None else own[block.rows]
            if self.problem.most_weight:
                block.held["own cells"] = block.held["own"]
                block.held["own weights"] = None if weights is None else weights[block.rows]

    def lay_out(self, values: Shared) -> Table:
        """A table of rows that are secret already."""
        table = Table(values.shape, cut(values.shape[0], self.problem.block_rows))
        for block in table.blocks:
            block.held["rows"] = values[block.rows]
        return table

    def pick(self, rows: Secret, numbers: Sequence[int]) -> Shared:
        """The given rows, still secret."""
        return total(self.on_blocks(pick_rows, table_of(rows).blocks, tuple(numbers))())

    # -- labels ------------------------------------------------------------------------------------------

    def label(
        self,
        rows: Secret,
        centers: Shared,
        counted: bool = False,  # noqa: ARG002
        weights: Shared | None = None,
    ) -> Labels:
        """One-hot labels (n, k), as bits: the closest centre, the lowest index where several are; `weights` (1, d) of
        the columns' squared distances. They may still be under way when this returns: whatever uses them waits for
        them. `counted`: sums will be made of them, which a family may prepare at once."""
        table = table_of(rows)
        name = table.name_labels()
        if weights is None or centers.shape[0] == 1:
            wait = self.on_blocks(label_rows, table.blocks, name, centers)
        else:
            wait = self.on_blocks(label_rows_weighed, table.blocks, name, *self.weigh(centers, weights)[:2])
        return Labels(table, name, wait)

    def arg_min(self, values: Shared) -> Secret:
        """The index of the least entry of each row (n,) of distances, the lowest where several are."""
        return concatenate(self.on_blocks(least_values, self.lay_out(values).blocks)())

    @metered("MatDist")
    def mat_dist(self, x: Shared, c: Shared) -> Shared:
        """[M], M[i][j] = |X[i] - C[j]|^2, for X (n, d) and C (k, d). Paper, Algorithm 3.

        Deviates: line 4 multiplies D with itself; a square may take less than a product.
        """
        return self.square(x[:, None, :] - c[None, :, :]).sum(2)

    @metered("LabelSamples")
    def label_samples(self, x: Shared, c: Shared, bits: int | None = None) -> Shared:
        """[H], one-hot rows (n, k): H[i][j] = 1 for the centre closest to row i, the first of them if several are.

        Paper, Algorithm 4.

        1. M = MatDist(X, C).
        2. For j < l: b_jl = [M_l >= M_j], 1 if j is at least as close.
        3. H_j = the product of b_jl over l > j and of 1 - b_ij over i < j.

        `bits`: of the largest difference of distances, where that is known.
        Deviates: the paper compares all ordered pairs; b_lj = 1 - b_jl halves the work and makes exactly one
        H_j a 1, ties included. Step 3 is a tree of products, not a chain: ceil(log2(k - 1)) rounds for 2(k - 1).
        """
        if c.shape[0] == 1:
            return self.public(np.ones((x.shape[0], 1), np.int64), self.bits)
        return self.one_hot_least(self.mat_dist(x, c), bits)

    def one_hot_least(self, m: Shared, bits: int | None = None) -> Shared:
        """Bits (n, k), k > 1: which entry of each row of [M] (n, k) is least, the first of them if several are. `bits`:
        of the largest difference."""
        first, second = (list(side) for side in zip(*pairs_of(m.shape[1]), strict=True))
        return self.winner(1 - self.is_negative_within(m[:, second] - m[:, first], bits), m.shape[1])

    def winner(self, b: Shared, k: int) -> Shared:
        """Bits (n, k): which of k wins against all others, from bits (n, pairs): does the first of a pair win?"""
        pairs = pairs_of(k)
        closer = dict(zip(pairs, range(len(pairs)), strict=True))
        factors = stack(
            [
                stack([b[:, closer[j, l]] if j < l else 1 - b[:, closer[l, j]] for l in range(k) if l != j])
                for j in range(k)
            ]
        )  # (k, k - 1, n)
        return self.product_over(factors, 1).transpose()

    def product_over(self, factors: Shared, axis: int) -> Shared:
        """The product over an axis: a tree, so that its rounds grow with the logarithm."""
        lead = (slice(None),) * axis
        while (count := factors.shape[axis]) > 1:
            half = count // 2
            product = self.product(factors[*lead, :half], factors[*lead, half : 2 * half])
            factors = concatenate([product, factors[*lead, 2 * half :]], axis)
        return factors[*lead, 0]

    @metered("ArgMin")
    def arg_min_of(self, values: Shared, bits: int | None = None) -> Shared:
        """[E], E[i] = the index of the least entry of row i, the lowest if several are. `bits`: of the largest
        difference of two entries, where that is known.

        SecureNN's MaxPool (Algorithm 9) turned around. Deviates: neighbours play a tournament instead of each
        entry playing the best so far, so that the rounds grow with log2 k instead of k - 1.
        """
        n, k = values.shape
        index = values * 0 + np.arange(k)
        while (count := values.shape[1]) > 1:
            half = count // 2
            both = stack([values, index])  # (2, n, count)
            left, right = both[:, :, 0 : 2 * half : 2], both[:, :, 1 : 2 * half : 2]
            later = self.is_negative_within(right[0] - left[0], bits)
            winners = self.select(stack([later, later]), left, right)
            both = concatenate([winners, both[:, :, 2 * half :]], axis=2)
            values, index = both[0], both[1]
        return index.reshape(n)

    def index(self, labels: Secret, called: Ints | None = None) -> Secret:
        """One-hot labels (n, k) as numbers (n,): 0 to k - 1 or, from `called` (k,), what each cluster is to be
        called, 0 to k; public."""
        return concatenate(self._of_labels(index_rows, labels, called))

    def gather(self, value: Secret) -> Shared:
        """A secret in one piece, to be kept: labels come from their blocks."""
        if isinstance(value, Labels):
            return concatenate(self._of_labels(hand_over, value))
        return shared(value)

    # -- sums and means ----------------------------------------------------------------------------------

    def counts(self, labels: Secret) -> Shared:
        """How many rows each cluster has (k,)."""
        return total(self._of_labels(count_rows, labels))

    def tally(self, labels: Secret, sets: RowSets) -> Shared:
        """How many rows of each set each cluster has (sets times k,), as whole words."""
        return total(self._of_labels(tally_rows, labels, sets))

    def sums(self, rows: Secret, labels: Secret) -> tuple[Shared, Shared]:
        """Of each cluster, the sum of its rows (k, d) and how many they are (k,). Paper, Algorithm 5, lines 3 and 4."""
        check_table(rows, labels)
        sums, counts = zip(*self._of_labels(sum_rows, labels), strict=True)
        return total(sums), total(counts)

    def _of_labels(
        self,
        step: Callable[Concatenate[Any, Any, str, Given], Brought],
        labels: Secret,
        *given: Given.args,
        **named: Given.kwargs,
    ) -> list[Brought]:
        held = labels_of(labels)
        held.settle()
        return self.on_blocks(step, held.blocks, held.name, *given, **named)()

    def new_centers(self, rows: Secret, labels: Secret, old: Shared) -> Shared:
        """The mean of each cluster (k, d), without opening the counts; an empty cluster keeps its old centre."""
        return self.means(*self.sums(rows, labels), old)

    # -- comparing ---------------------------------------------------------------------------------------

    def movement(self, old: Shared, new: Shared, weights: Shared | None = None) -> Shared:
        """The total squared distance between old and new centres, a scalar (1,)."""
        if weights is None:
            moved = self.square(old - new)
        else:
            before, after = self.weigh(old, weights), self.weigh(new, weights)
            moved = self.product(new - old, after.centers - before.centers)
        return moved.reshape(1, moved.size).sum(1)

    def at_most(self, values: Shared, threshold: int) -> Shared:
        """A bit for each of the values (m,): is it at most the public threshold?"""
        return 1 - self.is_negative(threshold - self.widen(values))

    def any_of(self, bits: Shared, into: int) -> Shared:
        """From bits (rows times into,), row by row, the OR of each column (into,)."""
        return 1 - self.product_over(1 - bits.reshape(bits.size // into, into), 0)

    def choose(self, first: Shared, second: Shared, pairs: Sequence[tuple[Shared, Shared]]) -> list[Shared]:
        """Of each pair the left one if the scalar `first` is at most `second`, else the right one."""
        left, right = (concatenate([side.reshape(side.size) for side in sides]) for sides in zip(*pairs, strict=True))
        chosen = self.select(repeated(self.is_negative(second - first), left.size), left, right)
        edges = np.cumsum([0, *(a.size for a, _ in pairs)])
        return [chosen[edges[i] : edges[i + 1]].reshape(*a.shape) for i, (a, _) in enumerate(pairs)]

    def open_stop_bit(self, movement: Shared, threshold: int, reason: str) -> bool:
        """Is the movement at most the threshold? Opened to everybody, a dealer included."""
        return self.open_to_all(self.at_most(movement, threshold), "stop bit", reason)[0]

    def open_to_all(self, bits: Shared, what: str, reason: str) -> list[bool]:
        """Bits (m,) that everybody must know, a dealer included."""
        return clear_bits(self.open(bits, self.me.world.ranks, what, reason), bits.size)


# -- on a block of rows ----------------------------------------------------------------------------------


@block_step
def enter_rows(family: Family, block: Resident, columns: int) -> None:
    block.held["rows"] = family.enter(block.held.pop("own"), (len(block.rows), columns))
    if family.problem.most_weight:
        enter = family.enter_dealt if family.problem.weigher == "dealer" else family.enter
        block.held["weights"] = enter(block.held.pop("own weights"), (len(block.rows),))


def counted_words(family: Family, block: Resident, name: str) -> Shared:
    """What each row counts for in each cluster (rows, k): one-hot labels, times the row's weight if it has one."""
    one_hot: Shared = family.to_words(block.held[name])
    if "weights" in block.held:
        return family.product(one_hot, stack([block.held["weights"]] * one_hot.shape[1], 1))
    return one_hot


@block_step
def pick_rows(family: Family, block: Resident, numbers: Sequence[int]) -> Shared:
    """The numbered rows (m, d), zero where they lie elsewhere."""
    rows: Shared = block.held["rows"]
    here, places = block.places(numbers)
    padding = family.public(np.zeros((len(numbers) - len(here), rows.shape[1]), np.int64))
    elsewhere = [i for i in range(len(numbers)) if i not in here]
    return concatenate([rows[places], padding])[np.argsort([*here, *elsewhere])]


@block_step
def label_rows(family: Family, block: Resident, name: str, centers: Shared) -> None:
    block.held[name] = family.label_samples(block.held["rows"], centers, family.problem.compared_bits)


@block_step
def label_rows_weighed(family: Family, block: Resident, name: str, weighed: Shared, squares: Shared) -> None:
    """By the scores |c|^2 - 2 x . c, which order as the distances do."""
    scores = weighed_scores(family, block, weighed, squares)
    block.held[name] = family.one_hot_least(scores, family.problem.compared_bits)


@block_step
def least_values(family: Family, block: Resident) -> Shared:
    return family.arg_min_of(block.held["rows"], family.problem.compared_bits)


@block_step
def index_rows(family: Family, block: Resident, name: str, called: Ints | None) -> Shared:
    one_hot = family.to_words(block.held[name])
    return (one_hot * (np.arange(one_hot.shape[1]) if called is None else called)).sum(1)


@block_step
def hand_over(family: Family, block: Resident, name: str) -> Shared:  # noqa: ARG001
    labels: Shared = block.held[name]
    return labels


@block_step
def count_rows(family: Family, block: Resident, name: str) -> Shared:
    return counted_words(family, block, name).sum(0)


@block_step
def tally_rows(family: Family, block: Resident, name: str, sets: RowSets) -> Shared:
    counted = counted_words(family, block, name)
    return concatenate([(counted * held[:, None]).sum(0) for held in sets.members[:, sets.kind_of[block.rows]]])


@block_step
def sum_rows(family: Family, block: Resident, name: str) -> tuple[Shared, Shared]:
    counted = counted_words(family, block, name)
    return family.matrix_product(counted.transpose(), block.held["rows"]), counted.sum(0)


def pairs_of(k: int) -> list[tuple[int, int]]:
    return [(j, l) for j in range(k) for l in range(j + 1, k)]


def check_table(rows: Secret, labels: Secret) -> None:
    if labels_of(labels).table is not rows:
        raise ProtocolError("the labels are those of another table")


def clear_bits(opened: NDArray[Any] | None, count: int) -> list[bool]:
    """Bits as they were opened. Nobody goes on without them, or with anything but bits."""
    if opened is None or opened.size != count or not ((opened == 0) | (opened == 1)).all():
        raise ProtocolError(f"what was opened to this role is not there or not {count} bits")
    return [bool(bit) for bit in opened.flat]
