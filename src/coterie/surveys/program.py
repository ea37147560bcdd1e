"""A survey, as every role runs it. Nothing but four small arrays is opened, and none of them is a count of rows.

Notation: of column l, C_i counts the values at places 0 to i (`tally.py`), N all of them; C_i^s and N^s those of the
contributors in set s, of which the first holds all; m is the least size, q a quantile.

1. Owners enter how many of their values lie at each place, and the sum of these values. All else is linear in that.
2. A column is closed if N^s < m for some s. Opened: a bit a column.
3. The place of q is the first with C_i >= q N: how often <C_i < q N>, over i.
4. What is missing, n - N, is rounded to a multiple of m. Opened. N' is the least N that this leaves possible.
5. A quantile stays closed unless, for every s, at least m values lie at or before its place and at least m at or behind
   it, and at least m of all values lie on its outer side: min(q, 1 - q) N' >= m. Opened: place + 1, or 0. With N in the
   place of N', quantiles that open and such that do not would tell exactly how many values are missing.
6. The mean is the sum over N, by the division of the family, rounded to a public step. Opened.

Of a closed column, 4 to 6 open zeros. Sees: everybody shares and masked values, as in any comparison, product, division
and truncation; what is sent depends on nothing but the task.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering.allowed import Allowed, roles_of
from coterie.clustering.rules import rounded_sizes
from coterie.ideal import Terms, learnt
from coterie.protocols import Family
from coterie.protocols.interface import Ints
from coterie.sharing import Disclosure, Party, Shared, concatenate, stack
from coterie.surveys.tally import tally_size
from coterie.surveys.task import WHOLE, SurveyTask
from coterie.transport import Traffic

__all__ = ["Surveyed", "allow_survey", "take_survey", "terms_of_survey"]

CLOSED = "columns that do not pass the output rules stay closed"
RESULT = "the result of the survey"


class Surveyed(msgspec.Struct):
    """What one role knows at the end; None where it was not told. `places` (d, quantiles): -1 where one stays closed.
    Means are encoded; of a closed column all is 0 or -1."""

    closed: NDArray[np.bool_] | None = None
    missing: Ints | None = None
    means: Ints | None = None
    places: Ints | None = None
    disclosures: list[Disclosure] = []
    traffic: Traffic | None = None

    def __repr__(self) -> str:
        return "<Surveyed>"  # never what was opened


class Counts(NamedTuple):
    """Of each set and column: values at or before each place but the last (sets, d, cells + 1), and in all (sets, d).
    A place behind which nothing lies is the last."""

    upto: Shared
    total: Shared


def terms_of_survey(task: SurveyTask) -> Terms:
    return Terms(
        partition=task.partition,
        doing="survey",
        least=task.least,
        contribution=task.contribution,
        coalition=task.coalition,
        columns=task.names,
    )


def allow_survey(me: Party, task: SurveyTask) -> None:
    """From here on, open what the survey says and nothing else."""
    me.ledger.check = Allowed(learnt(terms_of_survey(task), roles_of(me.world)))


def take_survey(family: Family, task: SurveyTask, own: Ints | None) -> Surveyed:
    """Steps 1 to 6. `own`: what this party enters (`tally_values`); None where it holds nothing."""
    family.begin()
    allow_survey(family.me, task)
    entered = family.enter(own, (tally_size(task),))
    sums = entered[-task.columns :]
    counts = count_sets(task, entered[: -task.columns])
    out = Surveyed()
    closed = family.open(too_few(family, task, counts), family.me.world.players, "closed columns", CLOSED)
    is_open = np.ones(task.columns, np.int64) if closed is None else 1 - closed
    out.closed = None if closed is None else closed.astype(np.bool_)
    missing = rounded_sizes(family, task.least, task.column_rows - counts.total[0])
    found = _open(family, missing * is_open, "missing values")
    out.missing = None if found is None else found * task.least
    out.means = _open(family, mean_on_grid(family, task, sums, counts) * is_open, "column means")
    shown = task.offered * is_open[:, None]
    sure = task.sure_rows - missing * task.least
    found = _open(family, (open_places(family, task, counts, sure) * shown).reshape(shown.size), "quantiles")
    out.places = None if found is None else found.reshape(shown.shape) - 1
    out.disclosures = list(family.me.ledger.entries)
    return out


def _open(family: Family, value: Shared, what: str) -> Ints | None:
    return family.open(value, family.me.world.owners, what, RESULT)


def count_sets(task: SurveyTask, entered: Shared) -> Counts:
    """Step 1: running sums over the places, for each set of contributors."""
    running = entered.reshape(task.contributors, task.columns, task.places).running()
    of_sets = stack([(running * members[:, None, None]).sum(0) for members in task.sets])
    return Counts(of_sets[:, :, :-1], of_sets[:, :, -1])


def too_few(family: Family, task: SurveyTask, counts: Counts) -> Shared:
    """Step 2: a bit a column, whether some set has fewer than m values of it."""
    few = family.at_most(counts.total.reshape(counts.total.size), task.least - 1)
    return family.any_of(few, task.columns)


def open_places(family: Family, task: SurveyTask, counts: Counts, sure: Shared) -> Shared:
    """Steps 3 and 5: for each column and quantile (d, quantiles), its place and 1 more, or 0 where it stays closed.
    `sure` (d,): N'."""
    upto, total, m = counts.upto, counts.total, task.least
    parts = np.array(task.quantiles, np.int64)
    before_q = upto[0][:, None, :] * WHOLE - total[0][:, None, None] * parts[:, None]
    before_m = upto - m
    behind_m = total[:, :, None] - upto - m
    place, first, last = _count_negative(family, [before_q, before_m, behind_m])
    last = task.places - 1 - last  # the last place with at least m values at or behind it
    outside = [
        place[None] - first[:, :, None],
        last[:, :, None] - place[None],
        (sure[:, None] * task.tails - m * WHOLE)[None],
    ]
    bad = family.is_negative(concatenate(outside).reshape((2 * len(task.sets) + 1) * place.size))
    fine = family.to_words(1 - family.any_of(bad, place.size)).reshape(*place.shape)
    return family.product(fine, place + 1)


def _count_negative(family: Family, numbers: list[Shared]) -> list[Shared]:
    """How many entries of the last axis are negative, for each array; in one comparison."""
    flat = family.is_negative(concatenate([one.reshape(one.size) for one in numbers]))
    words, found, at = family.to_words(flat), [], 0
    for one in numbers:
        found.append(words[at : at + one.size].reshape(*one.shape).sum(len(one.shape) - 1))
        at += one.size
    return found


def mean_on_grid(family: Family, task: SurveyTask, sums: Shared, counts: Counts) -> Shared:
    """Step 6: encoded means (d,), to the nearest multiple of each column's step."""
    nothing = family.public(np.zeros((task.columns, 1), np.int64))
    means = family.means(sums.reshape(task.columns, 1), counts.total[0], nothing).reshape(task.columns)
    shifts, most = task.mean_shifts, int(task.mean_shifts.max())
    return family.truncate(means * (np.int64(1) << (most - shifts)), most) * (np.int64(1) << shifts)
