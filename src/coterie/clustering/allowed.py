"""Holds the disclosure log to the ideal functionality (`coterie/ideal.py`): what it does not allow is not opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from coterie.clustering.rules import rounded_columns
from coterie.clustering.task import Task
from coterie.errors import ProtocolError
from coterie.ideal import Groups, Learnt, Roles, Terms, learnt
from coterie.sharing import Disclosure, Party
from coterie.transport import World

__all__ = ["Allowed", "allow", "allow_comparing_ids", "groups_of", "roles_of", "terms_of"]


def roles_of(world: World) -> Roles:
    owners, servers = (tuple(world.names[j] for j in ranks) for ranks in (world.owners, world.servers))
    return Roles(owners, servers, None if world.dealer is None else world.names[world.dealer])


def terms_of(task: Task, doing: Literal["fit", "predict"] = "fit") -> Terms:
    names = task.encoding.names
    return Terms(
        partition=task.layout.partition,
        doing=doing,
        counts=task.counts,
        labels=task.labels,
        centers=task.centers,
        least=task.least,
        contribution=task.contribution,
        coalition=task.coalition,
        sizes=task.sizes,
        quality=task.quality,
        clusters=task.clusters,
        chooses=bool(task.choices),
        choose=task.choose,
        measures=task.measures,
        columns=names,
        rounded=tuple(names[l] for l in rounded_columns(task)),
        scale="standard" if task.metric is not None else "none",
        scales=task.scales,
        init="k-means++" if task.seeds else "random" if task.starts else "given",
        starts=task.restarts,
        max_iter=task.max_iter,
        matching="private" if task.private else "equal",
        weighed=bool(task.most_weight),
    )


def groups_of(task: Task, owners: int) -> Groups:
    """Who learns which labels, and which columns of the centres."""
    layout, names = task.layout, task.encoding.names
    rows = [(f"{len(rows)} rows", held) for rows, held in layout.label_groups(owners)]
    columns = [(", ".join(names[l] for l in columns), held) for columns, held in layout.center_groups(owners)]
    return {
        each: [(called, tuple(j - 1 for j in held)) for called, held in parts]
        for each, parts in (("row", rows), ("column", columns))
    }


class Allowed:
    """A check of the ledger: every opening must be an item that is learnt, in its place, to its recipients, once."""

    def __init__(self, items: Iterable[Learnt]) -> None:
        self.items = {
            (one.item.what, frozenset(one.to), one.item.when == "iteration"): one
            for one in items
            if one.item.kind == "opened"
        }
        self.seen: set[tuple[str, frozenset[str], int | None, int | None]] = set()

    def __call__(self, entry: Disclosure) -> None:
        to = frozenset(entry.to)
        one = self.items.get((entry.what, to, entry.iteration is not None))
        if one is None or len(to) != len(entry.to) or one.detail not in (None, entry.detail):
            raise _refused(entry, "no option of the task allows it")
        if not one.has_place(entry.restart, entry.iteration):
            raise _refused(entry, "this is not the time for it")
        place = (entry.what, to, entry.restart, entry.iteration)
        if place in self.seen:
            raise _refused(entry, "it was opened before")
        self.seen.add(place)


def _refused(entry: Disclosure, why: str) -> ProtocolError:
    detail = f" ({entry.detail})" if entry.detail else ""
    to = ", ".join(entry.to)
    return ProtocolError(f"{entry.what!r}{detail} was to be opened to {to}, but {why}; nothing of it is sent")


def allow(me: Party, task: Task, doing: Literal["fit", "predict"] = "fit") -> None:
    """From here on, open what the task says and nothing else."""
    roles = roles_of(me.world)
    me.ledger.check = Allowed(learnt(terms_of(task, doing), roles, groups_of(task, len(roles.owners))))


def allow_comparing_ids(me: Party) -> None:
    """From here on, open whether all parties hold the same ids and nothing else."""
    items = learnt(Terms(partition="vertical", ids=True), roles_of(me.world))
    me.ledger.check = Allowed(one for one in items if one.item.when == "before")
