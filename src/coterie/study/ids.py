"""A party's rows as a run takes them in; vertical parties first find out whether they hold the same ids."""

from __future__ import annotations

import hmac

import numpy as np
from numpy.typing import NDArray

from coterie.data import Rows
from coterie.errors import DataError, InputError
from coterie.sharing import Party
from coterie.study.files import canonical
from coterie.study.handshake import Agreed
from coterie.study.prepare import Ready

__all__ = ["compare_ids", "own_block"]


def own_block(ready: Ready, agreed: Agreed, me: Party) -> NDArray[np.int64] | None:
    """This party's rows, encoded; after all parties have found that they hold the same ids, if vertical."""
    if agreed.task.layout.partition == "vertical":
        compare_ids(me, ready.rows)
    if ready.rows is None:
        return None
    try:
        return agreed.task.encoding.encode(ready.rows.values, ready.study.own_columns(ready.rank))
    except InputError as error:  # the bounds were checked when the data was read
        raise DataError(f"{ready.rows.source}: {error}") from None


def compare_ids(me: Party, rows: Rows | None) -> None:
    """Do all data parties hold the same ids? One bit, to everybody.

    1. The data parties derive a fresh key, which the helper lacks. Each sends the helper HMAC(key, its sorted ids).
    2. The helper tells all of them whether the tags are equal.

    Sees: the helper, random numbers and which of them are equal; a data party the bit. No data party gets another's
    tag, against which it could try guesses.
    """
    me.ledger.record("equal ids", me.world.names, "a vertical study needs the same rows at every party")
    if me.is_helper:
        tags = [me.channel.collect(j) for j in me.world.data_ranks]
        same = all(hmac.compare_digest(tag, tags[0]) for tag in tags)
        for j in me.world.data_ranks:
            me.channel.tell(j, same)
    else:
        assert rows is not None
        key = me.streams.common("ids").read(32).tobytes()
        me.channel.post(0, hmac.digest(key, canonical(rows.ids), "sha256"))
        same = me.channel.hear(0)
    if not same:
        where = "" if rows is None else f" Those of {me.world.names[me.rank]} are in {rows.source}."
        raise DataError(
            f"the parties do not all hold the same ids; in a vertical study they must.{where} Agree on a list of ids "
            "and leave out the others"
        )
