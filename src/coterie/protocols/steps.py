"""The steps of clustering, written once on the primitives of any family, and named as the paper names them.

A family overrides a step where it has a faster one of its own; a test holds each of those equal to the step here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.blocks import STEPS, Labels, Resident, Table, block_step, cut, labels_of, step_name, table_of
from coterie.protocols.interface import Holding, Ints, RowSets
from coterie.protocols.measures import Measures
from coterie.protocols.numerics import QUOTIENT_BITS, reciprocals
from coterie.protocols.sampling import Sampling
from coterie.protocols.scaling import weighed_scores
from coterie.sharing import Secret, Shared, concatenate, shared, stack, total
from coterie.transport import metered

__all__ = ["Family"]

Given = ParamSpec("Given")
Brought = TypeVar("Brought")


class Family(Measures):
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
            len(blocks), lambda me, b: step(self.at(me), blocks[b], *given, **named), lambda b: blocks[b].kind
        )

    # -- the data ----------------------------------------------------------------------------------------

    def table(self, own: Ints | None, holding: Holding) -> Table:
        """The data (n, d): each owner passes its own cells, zero elsewhere."""
        table = Table((holding.n, holding.d), cut(holding.n, self.problem.block_rows))
        sampling = Sampling.of(self.problem)
        for block in table.blocks:
            block.held["own"] = None if own is None else own[block.rows]
            if len(block.rows):
                block.groups = sampling.count_groups(block.rows)  # of one kind from the start to the end
        self.on_blocks(enter_rows, table.blocks, holding.d)()
        return table

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
        """The index of the least entry of each row (n,), the lowest where several are."""
        return concatenate(self.on_blocks(least_values, self.lay_out(values).blocks)())

    @metered("MatDist")
    def mat_dist(self, x: Shared, c: Shared) -> Shared:
        """[M], M[i][j] = |X[i] - C[j]|^2, for X (n, d) and C (k, d). Paper, Algorithm 3.

        Deviates: line 4 multiplies D with itself; a square may take less than a product.
        """
        return self.square(x[:, None, :] - c[None, :, :]).sum(2)

    @metered("LabelSamples")
    def label_samples(self, x: Shared, c: Shared) -> Shared:
        """[H], one-hot rows (n, k): H[i][j] = 1 for the centre closest to row i, the first of them if several are.

        Paper, Algorithm 4.

        1. M = MatDist(X, C).
        2. For j < l: b_jl = [M_l >= M_j], 1 if j is at least as close.
        3. H_j = the product of b_jl over l > j and of 1 - b_ij over i < j.

        Deviates: the paper compares all ordered pairs; b_lj = 1 - b_jl halves the work and makes exactly one
        H_j a 1, ties included. Step 3 is a tree of products, not a chain: ceil(log2(k - 1)) rounds for 2(k - 1).
        """
        if c.shape[0] == 1:
            return self.public(np.ones((x.shape[0], 1), np.int64), self.bits)
        return self.one_hot_least(self.mat_dist(x, c))

    def one_hot_least(self, m: Shared) -> Shared:
        """Bits (n, k), k > 1: which entry of each row of [M] (n, k) is least, the first of them if several are."""
        first, second = (list(side) for side in zip(*pairs_of(m.shape[1]), strict=True))
        return self.winner(1 - self.is_negative(m[:, second] - m[:, first]), m.shape[1])

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
    def arg_min_of(self, values: Shared) -> Shared:
        """[E], E[i] = the index of the least entry of row i, the lowest if several are.

        SecureNN's MaxPool (Algorithm 9) turned around. Deviates: neighbours play a tournament instead of each
        entry playing the best so far, so that the rounds grow with log2 k instead of k - 1.
        """
        n, k = values.shape
        index = values * 0 + np.arange(k)
        while (count := values.shape[1]) > 1:
            half = count // 2
            both = stack([values, index])  # (2, n, count)
            left, right = both[:, :, 0 : 2 * half : 2], both[:, :, 1 : 2 * half : 2]
            later = self.is_negative(right[0] - left[0])
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
        _check_table(rows, labels)
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

    def means(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """As `new_centers`, from sums and counts; by the division that this family has."""
        if self.divisions["secret"] == "quotient":
            return self.means_by_quotient(sums, counts, old)
        return self.means_by_reciprocal(sums, counts, old)

    def means_by_quotient(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """Signed means by the Division of non-negative numbers: `quotient_means` of numerics, secretly.

        x = 2 (T + H t) + s t and y = 2 s t, so that floor(x / y) is the mean, rounded to the nearest step.
        """
        t, shape, size = counts[:, None], sums.shape, sums.size
        step = self.problem.quotient_steps(QUOTIENT_BITS)
        edge = step << (QUOTIENT_BITS - 1)
        x = (sums + t * edge) * 2 + t * step
        y = t * (2 * step)
        quotient, empty = self.divide(x.reshape(size), y.reshape(size), QUOTIENT_BITS)
        mean = quotient.reshape(*shape) * step - np.broadcast_to(edge, shape)
        return self.select(empty.reshape(*shape), mean, old)

    @metered("Division")
    def divide(self, x: Shared, y: Shared, bits: int) -> tuple[Shared, Shared]:
        """[floor(x / y)] and [y == 0] for 0 <= x < 2^bits y, both one-dimensional; a comparison a quotient bit.

        SecureNN, Algorithm 8, with u the remainder instead of the part divided so far:

        1. u = x. For i = bits - 1 down to 0:
        2.   z = u - 2^i y;  b_i = [z >= 0];  u = u - 2^i b_i y.
        3. The quotient is the sum of 2^i b_i.

        Where y = 0 the quotient means nothing; [y == 0] = [-y >= 0] comes along with the first comparison.
        All of 2^(bits-1) y and x must lie below L/4.
        """
        count, u, quotient, y_is_zero = x.size, x, x * 0, x
        for i in reversed(range(bits)):
            z = u - y * (1 << i)
            if i == bits - 1:
                both = 1 - self.is_negative(concatenate([z, -y]))
                b, y_is_zero = both[:count], both[count:]
            else:
                b = 1 - self.is_negative(z)
            b_words = self.to_words(b)
            quotient = quotient + b_words * (1 << i)
            if i:
                u = u - self.product(b_words, y) * (1 << i)
        return quotient, y_is_zero

    def means_by_reciprocal(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """`reciprocal_means` of numerics, secretly: T q + [t = 0] 2^g C, truncated by g, with q looked up."""
        g, k, d = self.problem.reciprocal_bits, *sums.shape
        size = 1 << self.problem.rows.bit_length()
        q = self.look_up(counts, reciprocals(np.arange(size), g).view(np.uint64))
        empty = self.look_up(counts, (np.arange(size) == 0).astype(np.uint64) << np.uint64(g))
        factors = concatenate([_repeated(q, d), _repeated(empty, d)])
        product = self.product(factors, concatenate([sums.reshape(k * d), old.reshape(k * d)]))
        return self.truncate((product[: k * d] + product[k * d :]).reshape(k, d), g)

    def means_of_public_counts(self, sums: Shared, counts: Ints | None, old: Shared) -> Shared:
        """As `means`, for opened counts; None at one who was not told."""
        total, g = self.widen(sums), self.problem.reciprocal_bits
        if counts is None:
            return self.truncate(total, g)
        empty = (counts == 0).astype(np.int64)[:, None]
        return self.truncate(total * reciprocals(counts, g)[:, None] + old * (empty << g), g)

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
        chosen = self.select(_repeated(self.is_negative(second - first), left.size), left, right)
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
    block.held[name] = family.label_samples(block.held["rows"], centers)


@block_step
def label_rows_weighed(family: Family, block: Resident, name: str, weighed: Shared, squares: Shared) -> None:
    """By the scores |c|^2 - 2 x . c, which order as the distances do."""
    block.held[name] = family.one_hot_least(weighed_scores(family, block, weighed, squares))


@block_step
def least_values(family: Family, block: Resident) -> Shared:
    return family.arg_min_of(block.held["rows"])


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
    return family.to_words(block.held[name]).sum(0)


@block_step
def tally_rows(family: Family, block: Resident, name: str, sets: RowSets) -> Shared:
    one_hot = family.to_words(block.held[name])
    return concatenate([(one_hot * held[:, None]).sum(0) for held in sets.members[:, sets.kind_of[block.rows]]])


@block_step
def sum_rows(family: Family, block: Resident, name: str) -> tuple[Shared, Shared]:
    one_hot = family.to_words(block.held[name])
    return family.matrix_product(one_hot.transpose(), block.held["rows"]), one_hot.sum(0)


def pairs_of(k: int) -> list[tuple[int, int]]:
    return [(j, l) for j in range(k) for l in range(j + 1, k)]


def _check_table(rows: Secret, labels: Secret) -> None:
    if labels_of(labels).table is not rows:
        raise ProtocolError("the labels are those of another table")


def _repeated(value: Shared, times: int) -> Shared:
    """Each entry of (m,) so many times: (m times,)."""
    return concatenate([value[:, None]] * times, axis=1).reshape(value.size * times)


def clear_bits(opened: NDArray[Any] | None, count: int) -> list[bool]:
    """Bits as they were opened. Nobody goes on without them, or with anything but bits."""
    if opened is None or opened.size != count or not np.isin(opened, (0, 1)).all():
        raise ProtocolError(f"what was opened to this role is not there or not {count} bits")
    return [bool(bit) for bit in opened.flat]
