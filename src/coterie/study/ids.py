"""A party's rows as a run takes them in; parties that hold columns first find out whether they hold the same ids."""

from __future__ import annotations

import hmac

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.allowed import allow_comparing_ids
from coterie.data import Rows
from coterie.errors import DataError, InputError
from coterie.protocols import Family
from coterie.sharing import concatenate
from coterie.study.files import canonical
from coterie.study.handshake import Agreed
from coterie.study.home import AtHome, home_encoding
from coterie.study.prepare import Ready

__all__ = ["compare_ids", "own_block"]

#: A tag of the ids in so many numbers of so many bits: differences keep their sign in 64-bit words.
WORDS, BITS = 4, 56
REASON = "a vertical study needs the same rows at every party"


def own_block(ready: Ready, agreed: Agreed, family: Family, known: AtHome | None = None) -> NDArray[np.int64] | None:
    """This party's rows, encoded; after all parties have found that they hold the same ids, if vertical. `known`:
    for a prediction, how the columns of the fit were standardised at home."""
    if agreed.task.layout.partition == "vertical" and ready.study.data.matching == "equal":
        compare_ids(family, ready.rows)
    if ready.rows is None:
        return None
    try:
        own = home_encoding(ready, agreed.task, known).encode(ready.rows.values, ready.study.own_columns(ready.rank))
    except InputError as error:  # the bounds were checked when the data was read
        raise DataError(f"{ready.rows.source}: {error}") from None
    if ready.slots is None:
        return own
    layout, columns = agreed.task.layout, ready.study.own_columns(ready.rank)
    if layout.partition != "mixed":
        columns = list(range(len(columns)))
    placed = np.zeros((layout.n, layout.d if layout.partition == "mixed" else len(columns)), np.int64)
    placed[ready.slots[:, None], columns] = own
    return placed


def compare_ids(family: Family, rows: Rows | None) -> None:
    """Do all data parties hold the same ids? One bit, to the data parties and whoever serves.

    1. Each derives a tag of its sorted ids, under a key that all but a dealer share and that is fresh in every run.
    2. [h_1 - h_j] for every other party j: P1 contributes its tag, Pj its own, negated.
    3. <difference < 0> and <0 < difference> for every word; one bit, the OR of all of them, is opened.

    Sees: a data party the bit, and shares and masked values as in any comparison; nobody has another's tag to try
    guesses against, and with more than two parties nobody learns whose ids differ. A helper receives nothing of it.
    """
    family.begin()
    me = family.me
    allow_comparing_ids(me)
    pairs = me.world.p - 1
    own: NDArray[np.int64] | None = None
    key = b"" if me.deals else me.streams.common("ids").read(32).tobytes()
    if me.owns:
        if rows is None:
            raise DataError("a data party has no rows to compare the ids of")
        tag = np.frombuffer(hmac.digest(key, canonical(rows.keys or rows.ids), "sha256"), np.uint64) >> np.uint64(
            64 - BITS
        )
        parts = np.zeros((pairs, WORDS), np.int64)
        if me.rank == me.world.owners[0]:
            parts[:] = tag.astype(np.int64)
        else:
            parts[me.rank - 2] = -tag.astype(np.int64)
        own = parts.reshape(-1)
    differences = family.enter(own, (pairs * WORDS,))
    both = concatenate([differences, -differences])
    differ = family.any_of(family.at_most(both, -1), 1)
    opened = family.open(differ, me.world.players, "equal ids", REASON)
    if opened is not None and opened[0]:
        where = "" if rows is None else f" Those of {me.world.names[me.rank]} are in {rows.source}."
        raise DataError(
            f"the parties do not all hold the same ids; in a vertical study they must.{where} Agree on a list of ids "
            "and leave out the others"
        )
