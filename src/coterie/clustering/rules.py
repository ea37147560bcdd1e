"""What of a result may be opened: output rules, tested inside the protocol (docs/output-rules.md).

A centre is a mean over the rows that one labelling put into its cluster; afterwards rows are labelled once more. A
cluster is opened only if it passes in both labellings: it has at least the least size, and whatever party (or coalition
of so many parties) takes its own rows away, at least the least size is left. Only k bits are learnt from the tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.layout import Layout, kinds_of_rows
from coterie.clustering.task import Contribution, Task
from coterie.errors import InputError
from coterie.protocols import Family, Problem
from coterie.protocols.interface import Ints, RowSets
from coterie.ring import FixedPoint
from coterie.sharing import Shared, concatenate

__all__ = [
    "Rules",
    "check_rules",
    "coalitions",
    "grid_of",
    "inertia_shift",
    "round_to_grid",
    "rounded_columns",
    "rounded_sizes",
    "rules_of",
    "size_bits",
    "small_clusters",
    "strictest",
    "too_small",
    "weighted_inertia_shift",
]

SMALL = "clusters that do not pass the output rules stay closed"
#: The most coalitions that are tested.
MOST_COALITIONS = 1024
#: The largest grid of the inertia, as a power of two: what truncation takes.
MOST_INERTIA_SHIFT = 56
#: Bits of the inertia that are opened where columns are standardised, and so a step of it is not public.
INERTIA_BITS = 12


@dataclass(frozen=True)
class Rules:
    """`sets`: the sets of rows that must have at least `least` rows in a cluster; the first holds all rows. `lenient`:
    for each set, whether none at all will do as well. `without`: for each set, whose rows are left out."""

    least: int
    sets: RowSets
    lenient: NDArray[np.bool_]
    without: tuple[tuple[int, ...], ...]


def rules_of(task: Task) -> Rules:
    """The sets follow from who holds which cells: for each coalition of `task.coalition` parties, the rows of which
    others hold cells; in a patchwork, column by column. Where every party holds cells of every row (vertical) there is
    nothing to take away, and where others hold no cell at all there is nothing to protect: both are public."""
    layout = task.layout
    kinds, kind_of = _kinds(layout)
    sets, lenient = [np.ones(len(kinds), np.int64)], [False]
    without: list[tuple[int, ...]] = [()]
    if task.contribution != "off" and layout.partition != "vertical":
        strict = task.contribution == "least"
        for coalition in coalitions(layout.parties, task.coalition, strict):
            outside = ~np.isin(kinds, coalition)  # (kinds, columns): cells of others
            for column in np.unique(outside, axis=1).T:
                if column.any():
                    sets.append(column.astype(np.int64))
                    lenient.append(not strict)
                    without.append(coalition)
    members, first = np.unique(np.array(sets), axis=0, return_index=True)
    order = np.argsort(first)
    chosen = first[order]
    return Rules(
        task.least,
        RowSets(kind_of, members[order]),
        np.array(lenient)[chosen],
        tuple(without[i] for i in chosen),
    )


def _kinds(layout: Layout) -> tuple[NDArray[np.uint8], Ints]:
    """Which kinds of rows there are by who holds their cells (kinds, d), and of which kind each row is; rows that one
    party holds whole, and columns, count once."""
    if layout.partition == "vertical":
        return np.zeros((1, 1), np.uint8), np.zeros(layout.n, np.int64)
    owners = layout.owners_of(np.arange(layout.n))
    return kinds_of_rows(owners[:, :1] if layout.partition == "horizontal" else owners)


def coalitions(parties: int, most: int, strict: bool) -> list[tuple[int, ...]]:
    """All of the largest size. (What is left of a smaller one is more; but where none at all will do, each size is a
    question of its own.)"""
    largest = min(most, parties - 1)
    sizes = [largest] if strict else range(1, largest + 1)
    count = sum(math.comb(parties, size) for size in sizes)
    if count > MOST_COALITIONS:
        raise InputError(
            f"a contribution rule for coalitions of {most} of {parties} parties has {count} of them to test; at most "
            f"{MOST_COALITIONS} can be tested. Choose smaller coalitions, or all but one"
        )
    return [chosen for size in sizes for chosen in combinations(range(1, parties + 1), size)]


def strictest(wanted: Sequence[Contribution]) -> Contribution:
    """The rule that satisfies all."""
    return next(rule for rule in ("least", "none-or-least", "off") if rule in wanted)


def check_rules(task: Task, names: tuple[str, ...] = ()) -> None:
    """Refuse what could only end with every cluster closed. `names` by rank, for the message."""
    if task.least <= 1:
        return
    if task.choices and task.choices[-1] * task.least > task.layout.n:
        raise InputError(
            f"{task.choices[-1]} clusters of {task.least} rows each, the least cluster size, are more than the "
            f"{task.layout.n} rows there are; try smaller numbers of clusters"
        )
    rules = rules_of(task)
    for held, lenient, without in zip(rules.sets.sizes, rules.lenient, rules.without, strict=True):
        if held < task.least and not lenient:
            apart = f" apart from {', '.join(names[j] if names else f'P{j}' for j in without)}" if without else ""
            raise InputError(
                f"all parties{apart} together hold {held} rows, so with a least cluster size of {task.least} every "
                "cluster would stay closed; bring more rows, or agree on a smaller least size"
            )


def small_clusters(family: Family, rules: Rules, made: Shared, final: Shared) -> Ints | None:
    """Which clusters do not pass: k bits, opened to the data parties."""
    return family.open(too_small(family, rules, made, final), family.me.world.players, "suppression bits", SMALL)


def too_small(family: Family, rules: Rules, made: Shared, final: Shared) -> Shared:
    """Which clusters do not pass, in secret (k,). `made`, `final`: how many rows of each set each cluster has (sets
    times k), in the labelling that made the centres and in the final one. Where rows have weights: how much they weigh,
    which must be the least size times the largest weight, lest many light rows hide a heavy one.

    1. <t < least> for each value; where none will do as well, <0 < t < least>, which is <t < least> XOR <t < 1>.
    2. For each cluster, OR over all sets and both labellings.
    """
    values = concatenate([made, final])
    mass, clusters = family.problem.mass, family.problem.clusters
    least = rules.least * max(family.problem.most_weight, 1)
    small = family.at_most(values, min(least, mass + 1) - 1)
    if rules.lenient.any():
        lenient = np.tile(np.repeat(rules.lenient.astype(np.int64), clusters), 2)
        small = small - family.at_most(values, 0) * lenient
    return family.any_of(small, clusters)


def grid_of(
    encoding: FixedPoint, resolution: Mapping[str, float], least: int, groups: Sequence[Sequence[int]] = ()
) -> tuple[int, ...]:
    """Per column the power of two to which centres are rounded: the least that is at least resolution / least.

    The mean of t values that are multiples of r is a multiple of r / t. A cell of the grid is at least r / least wide,
    so for every t >= least it holds such a multiple: no admissible size is ruled out by an opened centre. At most
    half a column's range, so that widths hold.

    `groups`: the columns of a category add up to 1, which leaves fewer multiples to choose from: their step is twice as
    large, and the last one is not rounded but follows from the others (`round_to_grid`).
    """
    if least <= 1:
        return ()
    shifts = []
    times = {l: 2 if l != group[-1] else 0 for group in groups for l in group}
    for l, name in enumerate(encoding.names):
        step = times.get(l, 1) * resolution.get(name, 0.0) / encoding.unit[l] * 2.0**encoding.f / least
        shift = max(0, math.ceil(math.log2(step))) if step > 0 else 0
        shifts.append(min(shift, int(encoding.half[l]).bit_length() - 1))
    return tuple(shifts) if any(shifts) else ()


def round_to_grid(family: Family, task: Task, centers: Shared) -> Shared:
    """Each column of [C] to the nearest multiple of its step: one truncation for all columns. The last one of a
    category is what the others leave of 1, and so tells nothing that they do not."""
    if not task.grid:
        return centers
    shifts = np.array(task.grid, np.int64)
    most = int(shifts.max())
    rounded = family.truncate(centers * (np.int64(1) << (most - shifts)), most) * (np.int64(1) << shifts)
    groups = _rounded_groups(task)
    if not groups:
        return rounded
    columns = [rounded[:, l : l + 1] for l in range(len(shifts))]
    for *others, last in groups:
        none, whole = (int(one) for one in task.encoding.encode([[0.0], [1.0]], [last])[:, 0])
        columns[last] = -concatenate([columns[l] for l in others], 1).sum(1).reshape(centers.shape[0], 1) + (
            whole + len(others) * none
        )
    return concatenate(columns, 1)


def _rounded_groups(task: Task) -> list[tuple[int, ...]]:
    """The categories whose columns are rounded."""
    return [group for group in task.groups if task.grid and any(task.grid[l] for l in group)]


def rounded_columns(task: Task) -> list[int]:
    """The columns of which opened centres are rounded."""
    follow = {group[-1] for group in _rounded_groups(task)}
    return [l for l, shift in enumerate(task.grid) if shift or l in follow]


def inertia_shift(problem: Problem, grid: tuple[int, ...], least: int = 1) -> int:
    """The inertia is opened in multiples of 2^this. Where centres are rounded, that is about what one step of their
    grid changes, and no less than what half as many rows as the least size change by going to another cluster: inertia,
    scatter and centres together would tell the sizes. (Rows lie in about half of their range, and centres apart by
    a few standard deviations.)"""
    shift = problem.objective_shift
    if grid:
        step = problem.mass * sum(4**s for s in grid if s) // 4
        step = max(step, least * max(problem.most_weight, 1) * sum(h * h for h in problem.half) // 32)
        shift = max(shift, min(step.bit_length() - 1, MOST_INERTIA_SHIFT))
    return shift


def weighted_inertia_shift(problem: Problem, shift: int, grid: tuple[int, ...], least: int) -> int:
    """As `inertia_shift`, where columns are standardised, on top of `shift`: of the most that the scatter can be, so
    many bits are opened; and where centres are rounded, multiples of about the least size times half a standard
    deviation squared in every column. Rows that weigh more make both larger."""
    assert problem.metric is not None
    weight = max(problem.most_weight, 1)
    scale = problem.metric.scale(problem.rows, max(problem.half))
    bits = scale + problem.columns.bit_length() - INERTIA_BITS + weight.bit_length() - 1
    if grid:
        bits = max(bits, scale + (least * weight * problem.columns).bit_length() - 1 - problem.rows.bit_length())
    return min(max(0, bits - shift), MOST_INERTIA_SHIFT)


def size_bits(rows: int, least: int) -> int:
    """g of `rounded_sizes`: large enough for the quotient to be exact for every t up to n, while t R < 2^61."""
    return 59 - rows.bit_length() + min(least, rows).bit_length()


def rounded_sizes(family: Family, least: int, counts: Shared) -> Shared:
    """Counts over the least size m, to the nearest whole number, halves upwards: t R / 2^g with R = ceil(2^g / m)."""
    g = size_bits(family.problem.rows, least)
    return family.truncate(counts * (-(-(1 << g) // least)), g)
