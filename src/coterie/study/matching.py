"""Which rows all parties hold, found on tags of their ids before anything is shared (docs/matching.md).

1. Every owner sends every other one a random number, and they derive a key from all of them. Nothing of it goes to the
   helper.
2. Every owner sends the helper the tags of its ids under that key, sorted.

Shared matching:

3. The helper says how many ids all have in common and, to each owner, which of its tags; or that these are too few.
4. Every owner goes on with the rows that all have, in the order of their ids.

Private matching:

3. The helper sends each owner a slot for each of its tags, so that ids which all hold meet (`matching/pairing.py`).
4. Every owner puts its rows into these slots. The helper deals shares of which slots count.

A patchwork (partition "mixed"):

3. The helper works out who holds which cell of the rows that are complete (`matching/patchwork.py`), and says so to
   all, with the rows in random order; and to each owner where its own rows stand. Or it says how many cells several
   hold, or nobody does.
4. Every owner goes on with those of its rows that are complete, in that order.

Sees: the helper how long the lists are and how many tags each set of parties has in common; without the key, tags are
random. An owner: which of its own ids all others hold, and so how many; in private matching, random slots that do not
depend on it; in a patchwork, who holds which cells of its rows, and of others without knowing which these are. Of the
helper's together with an owner's, all: they could try every id.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import MOST_MASS, Layout
from coterie.errors import DataError, FrameError, ProtocolError
from coterie.matching import (
    KEY_BYTES,
    SLOT_BYTES,
    TAG_BYTES,
    Tags,
    count_slots,
    draw_words,
    find_common,
    find_twins,
    lay_out,
    make_tags,
    place,
    sort_tags,
)
from coterie.study.agreement import Study
from coterie.study.greetings import MOST_ROWS, read_letter
from coterie.study.matched import Matching
from coterie.study.prepare import Ready
from coterie.study.tasks import layout_by_columns
from coterie.transport import Channel

__all__ = ["match_rows"]


#: The number of a slot, as it travels.
SLOT = np.dtype(f"<u{SLOT_BYTES}")


class Share(msgspec.Struct, frozen=True):
    """One owner's part of the key."""

    part: bytes

    def __repr__(self) -> str:
        return "<Share>"  # never the part


class Found(msgspec.Struct, frozen=True):
    """How many rows all owners hold; None, if too few. In a patchwork, by column, how many cells several owners hold
    and how many nobody does, where that is in the way; `few`: there are such cells, and of some column so few that it
    is not said of which, nor which of the two."""

    rows: int | None
    twice: dict[str, int] = {}
    absent: dict[str, int] = {}
    few: bool = False


def match_rows(talk: Channel, ready: Ready, session: bytes, lengths: Mapping[str, int], least: int) -> Matching:
    """Which of this participant's rows take part, and who holds which cells of the table; in private matching all rows
    take part, in slots. `lengths`: of the owners' tables; `least`: fewer rows are none."""
    study = ready.study
    if ready.deals:
        lists = [_receive_tags(talk, rank, lengths[talk.world.names[rank]]) for rank in talk.world.owners]
        if study.clustering.partition == "mixed":
            return Matching(_lay_out_cells(talk, study, lists, least))
        if study.private:
            return _place_rows(talk, study, lists)
        return Matching(layout_by_columns(study, _find_rows(talk, lists, least)))
    if ready.rows is None or ready.rows.keys is None or ready.order is None:
        raise ProtocolError(f"{ready.me.name} has no ids to match")
    tags, row_of = sort_tags(make_tags(ready.rows.keys, _agree_on_key(talk, session)))
    dealer = _dealer(talk)
    talk.send(dealer, tags.view(np.uint8))
    if study.private:
        return _take_slots(talk, ready, row_of, count_slots(list(lengths.values())))
    if study.clustering.partition == "mixed":
        return _take_cells(talk, ready, row_of, least)
    name = talk.world.names[dealer]
    rows = read_letter(talk.collect(dealer), Found, name, "answer").rows
    if rows is None:
        raise too_few(least)
    packed, _ = talk.receive(dealer, np.uint8, (-(-len(tags) // 8),))
    common = np.unpackbits(packed, count=len(tags)).astype(bool)
    if common.sum() != rows:
        raise FrameError(f"{name} says that {rows} rows match, and then something else", name)
    kept = np.sort(row_of[common])  # rows stand in the order of their ids already
    return Matching(layout_by_columns(study, rows), kept=kept)


def _take_cells(talk: Channel, ready: Ready, row_of: NDArray[np.intp], least: int) -> Matching:
    """Who holds which cells, and where this owner's rows stand, as the helper says."""
    study, dealer = ready.study, _dealer(talk)
    name, d = talk.world.names[dealer], len(study.features)
    found = read_letter(talk.collect(dealer), Found, name, "answer")
    _refuse_cells(found, least)
    n = found.rows or 0
    if not 0 < n <= MOST_ROWS:
        raise FrameError(f"{name} says that there are {n} rows, which makes no sense", name)
    owners, _ = talk.receive(dealer, np.uint8, (n * d,))
    raw, _ = talk.receive(dealer, np.uint8, (SLOT.itemsize * len(row_of),))
    slots = np.ascontiguousarray(raw).view(SLOT).astype(np.int64) - 1
    layout = Layout("mixed", n, d, owners=owners.tobytes())
    if not 1 <= int(owners.min()) <= int(owners.max()) <= talk.world.p or slots.max(initial=-1) >= n:
        raise FrameError(f"{name} sent places for rows that make no sense", name)
    own = layout.own_rows(talk.rank)  # where others come first in all columns, this owner holds nothing
    here = (slots >= 0) & own[slots]
    order = np.argsort(slots[here])
    if not np.array_equal(slots[here][order], np.flatnonzero(own)):
        raise FrameError(f"{name} sent places for rows that make no sense", name)
    return Matching(layout, kept=row_of[here][order], slots=np.flatnonzero(own))


def check_private(least: int, slots: int) -> None:
    """Refuse before any tag is sent what could not be computed afterwards."""
    if least < 2:
        raise DataError(
            "private matching needs a least cluster size of at least 2, in the study or in a party's policy"
        )
    if slots >= MOST_MASS:
        raise DataError(
            f"rows that are matched in private would take {slots} slots (of three parties and more, all rows "
            f"together); fewer than {MOST_MASS} are possible. Bring fewer rows"
        )


def too_few(least: int) -> DataError:
    return DataError(
        f"fewer than {least} rows are held by all parties: too few to cluster. Were ids written in the same way "
        "everywhere (id_rule of the study)?"
    )


def _dealer(talk: Channel) -> int:
    if talk.world.dealer is None:
        raise ProtocolError("rows are matched by a helper, and there is none")
    return talk.world.dealer


def _agree_on_key(talk: Channel, session: bytes) -> bytes:
    """From parts of all owners: fresh as long as one of them is."""
    owners, own = talk.world.owners, Share(secrets.token_bytes(KEY_BYTES))
    others = [other for other in owners if other != talk.rank]
    for other in others:
        talk.post(other, msgspec.msgpack.encode(own))
    parts = {talk.rank: own.part}
    for other in others:
        name = talk.world.names[other]
        parts[other] = read_letter(talk.collect(other), Share, name, "part of the key").part
        if len(parts[other]) != KEY_BYTES:
            raise FrameError(f"{name} sent a part of the key that makes no sense", name)
    whole = b"coterie matching" + session + b"".join(parts[rank] for rank in owners)
    return hashlib.sha256(whole).digest()


def _take_slots(talk: Channel, ready: Ready, row_of: NDArray[np.intp], slots: int) -> Matching:
    """Where each of this owner's rows stands, as the helper says."""
    dealer = _dealer(talk)
    name = talk.world.names[dealer]
    raw, _ = talk.receive(dealer, np.uint8, (SLOT.itemsize * len(row_of),))
    given = np.ascontiguousarray(raw).view(SLOT)
    taken = np.zeros(slots, bool)
    taken[given[given < slots]] = True
    if taken.sum() != len(given):  # beyond the last one, or one of them twice
        raise FrameError(f"{name} sent slots for rows that make no sense", name)
    placed = np.empty(len(row_of), np.int64)
    placed[row_of] = given
    return Matching(layout_by_columns(ready.study, slots), slots=placed)


def _place_rows(talk: Channel, study: Study, lists: list[Tags]) -> Matching:
    """The helper's part of private matching."""
    slots, members = place(lists, draw_words)
    for rank, own in zip(talk.world.owners, slots, strict=True):
        talk.send(rank, own.astype(SLOT).view(np.uint8))
    return Matching(layout_by_columns(study, len(members)), members=members.astype(np.int64))


def _lay_out_cells(talk: Channel, study: Study, lists: list[Tags], least: int) -> Layout:
    """The helper's part of a patchwork."""
    data, owners, names = study.data, study.roles.owners, [column.name for column in study.data.columns]
    holders = [[owners.index(name) for name in column.holders] for column in data.columns]
    precedence = [owners.index(name) for name in data.precedence or owners]
    laid = lay_out(lists, holders, precedence, draw_words)
    twice, absent = (
        {name: count for name, count in zip(names, counts, strict=True) if count and refused}
        for counts, refused in ((laid.twice, not data.precedence), (laid.absent, data.incomplete == "refuse"))
    )
    few = any(0 < count < least for counts in (twice, absent) for count in counts.values())
    if few:  # which of its rows others hold is nobody's to find out by bringing a single one
        twice, absent = {}, {}
    cells = np.repeat(laid.owners, [len(column.features) for column in data.columns], axis=1)
    n, d = cells.shape
    found = Found(n if n >= least and not (twice or absent or few) else None, twice, absent, few)
    for rank, slots in zip(talk.world.owners, laid.slots, strict=True):
        talk.post(rank, msgspec.msgpack.encode(found))
        if found.rows is not None:
            talk.send(rank, cells.reshape(-1))
            talk.send(rank, (slots + 1).astype(SLOT).view(np.uint8))
    _refuse_cells(found, least)
    return Layout("mixed", n, d, owners=cells.tobytes())


def _refuse_cells(found: Found, least: int) -> None:
    for cells, what, advice in (
        (found.twice, "are held by several parties", "agree on a precedence, or leave the rows out at all but one"),
        (found.absent, "are held by nobody", 'leave these rows out at home, or agree on incomplete = "drop"'),
    ):
        if cells:
            each = ", ".join(f"{count} of column {name!r}" for name, count in cells.items())
            raise DataError(f"cells {what}: {each}; {advice}")
    if found.few:
        raise DataError(
            f"cells are held by several parties or by nobody, of some column fewer than {least}, and so nobody learns "
            'of which: agree on a precedence and on incomplete = "drop", or compare who should hold what'
        )
    if found.rows is None:
        raise too_few(least)


def _find_rows(talk: Channel, lists: list[Tags], least: int) -> int:
    """The helper's part of shared matching."""
    world, common = talk.world, find_common(lists)
    rows = int(common[0].sum())
    for rank, bits in zip(world.owners, common, strict=True):
        talk.post(rank, msgspec.msgpack.encode(Found(rows if rows >= least else None)))
        if rows >= least:
            talk.send(rank, np.packbits(bits))
    if rows < least:
        raise too_few(least)
    return rows


def _receive_tags(talk: Channel, rank: int, length: int) -> Tags:
    raw, _ = talk.receive(rank, np.uint8, (length * TAG_BYTES,))
    tags = np.ascontiguousarray(raw).view(f"S{TAG_BYTES}")
    twins, name = find_twins(tags), talk.world.names[rank]
    if twins < 0:
        raise FrameError(f"{name} sent tags that are not sorted", name)
    if twins:
        raise DataError(f"{name} holds {twins} ids twice; it must keep one row for each id")
    return tags
