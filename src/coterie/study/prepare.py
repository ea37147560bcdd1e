"""What a participant checks at home, before anything is sent: key, study, signatures, policy, data."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.columns import Column
from coterie.data import UTF8, CsvFormat, Rows, read_rows, sort_by_id
from coterie.data.lenient import read_with_gaps
from coterie.data.tables import Table
from coterie.errors import DataError, InputError
from coterie.events import tell
from coterie.matching import normalise
from coterie.study.agreement import RowWeights, Study, study_hash
from coterie.study.identity import Identity, load_key
from coterie.study.lifetimes import check_lifetimes, find_endings
from coterie.study.policy import Policy, check_policy, check_rows, load_policy
from coterie.study.protected import Passphrase
from coterie.study.renewals import keep_links, newest_identity
from coterie.study.signatures import find_missing
from coterie.study.study_file import load_study
from coterie.study.voice import Voice
from coterie.study.withdrawals import check_not_withdrawn
from coterie.transport import World
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.door import Comers
from coterie.transport.hello import Peer, Way
from coterie.transport.proxies import DIRECT, Proxies, find_proxies
from coterie.transport.relayed import ByRelay, RelayAt, ThroughProxy

__all__ = ["Known", "Orders", "Ready", "hello_session", "prepare", "read_data", "recognise", "tell_handled"]

log = logging.getLogger(__name__)


def hello_session(study_hash: str) -> bytes:
    """The session of frames that only say hello and agree on the real one. It names the study: whoever has another one
    is refused at the door."""
    return hashlib.sha256(b"coterie hello" + study_hash.encode()).digest()[:16]


@dataclass(frozen=True)
class Orders:
    """What somebody at the keyboard has said. `patience`: seconds that a peer may be silent; `stall`: seconds that it
    may send nothing but heartbeats, if not as long as the transport allows; `wait`: seconds for the others to
    start; `csv`: how a CSV file is written; `passphrase`: what opens the key; `proxy`: the URL of an HTTP proxy, in
    place of the environment's; `door`: where connections come from, if not from a socket of its own; `ledger`: the
    folder for the ledger of runs, if not the key's; `most_rows`: the most rows that all parties together may bring
    here; `own_process`: this process does nothing else."""

    study: Path
    key: Path
    data: str | Table | None = None
    table: str | None = None
    query: str | None = None
    out: Path = Path("results")
    policy: Path | None = None
    audit: Path | None = None
    state: Path | None = None
    model: Path | None = None
    listen: str | None = None
    wait: float = 3600.0
    patience: float = 10.0
    restart: bool = False
    stall: float | None = None
    csv: CsvFormat = UTF8
    passphrase: Passphrase = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)  # there may be a password in it
    door: Callable[[], Comers] | None = None
    ledger: Path | None = None
    most_rows: int | None = None
    own_process: bool = False

    @property
    def audit_path(self) -> Path:
        return self.audit or self.key.resolve().with_name("audit.jsonl")

    @property
    def ledger_beside(self) -> Path:
        """The ledger of runs is kept beside this: the key, or one that would be in its own folder."""
        return self.key if self.ledger is None else self.ledger / self.key.name

    def state_path(self, study_hash: str) -> Path:
        """Where checkpoints are: the same place however the key is reached, and wherever results go."""
        key = self.key.resolve()
        return self.state or key.with_name(f"{key.stem}.state") / study_hash[:16]


@dataclass(frozen=True, repr=False)
class Known:
    """A participant of a study that it has signed. `missing`: whose signatures are not here yet; `path`: of the
    study, beside which stands what is known of renewed keys."""

    study: Study
    hash: str
    rank: int
    credentials: Credentials
    missing: tuple[str, ...]
    proxies: Proxies = field(default=DIRECT, kw_only=True)
    path: Path | None = field(default=None, kw_only=True)

    @property
    def me(self) -> Identity:
        return self.study.at_rank(self.rank)

    @property
    def renewals(self) -> bool:
        """Does the study accept renewed keys?"""
        return self.study.participants.renewals

    @property
    def others(self) -> list[Identity]:
        return [one for one in self.study.everybody if one.name != self.me.name]

    @property
    def world(self) -> World:
        """Everybody, before a session is agreed on."""
        return self.study.world(hello_session(self.hash))

    @property
    def peers(self) -> list[Peer]:
        """By rank; nobody can be reached at a vacant one."""
        vacant = [] if self.world.ranks[0] == 0 else [Peer("", 0, "")]
        return [*vacant, *(self._peer(one) for one in self.study.everybody)]

    def _peer(self, one: Identity) -> Peer:
        """How a participant is dialled: directly, through a proxy, by way of a relay."""
        relay, proxy = self.relay_of(one), self.proxies.towards(one.host, one.port)
        way: Way | None = None if proxy is None else ThroughProxy(proxy)
        if relay is not None:
            way = ByRelay(relay, self.credentials, self.hash)
        path, newest = self.path, self.newest(one)
        keep = None
        if path is not None and self.renewals:
            keep = partial(keep_links, path, self.study, newest)
        return Peer(one.host, one.port, newest.certificate, way, one.fingerprint, keep)

    def newest(self, one: Identity) -> Identity:
        """A participant with the newest certificate that is known of it; this one, with its own."""
        if one.name == self.me.name:
            shown = self.credentials.certificate
            return msgspec.structs.replace(one, fingerprint=fingerprint(shown), certificate=shown)
        return one if self.path is None else newest_identity(self.path, self.study, one)

    def relay_of(self, one: Identity) -> RelayAt | None:
        """The relay by way of which a participant is reached, if there is one."""
        if one.via is None:
            return None
        return RelayAt(one.host, one.port, one.via.certificate, self.proxies.towards(one.host, one.port))

    @property
    def owns(self) -> bool:
        """Does it bring data?"""
        return self.rank in self.world.owners

    @property
    def serves(self) -> bool:
        """Does it hold shares and compute?"""
        return self.rank in self.world.servers

    def check_lifetimes(self) -> None:
        """Refuse certificates that have ended, or not begun."""
        check_lifetimes([self.newest(one) for one in self.study.everybody], self.me.name)

    @property
    def endings(self) -> list[str]:
        """Which certificates end soon."""
        return find_endings([self.newest(one) for one in self.study.everybody], self.me.name)

    @property
    def deals(self) -> bool:
        return self.rank == self.world.dealer


@dataclass(frozen=True, repr=False)
class Ready(Known):
    """One that may take part. `rows` (in common order) and `order` (where each stood in the source) are None where no
    data is owned. Where rows are matched in private, `slots`: where each row stands in the table; at the helper,
    `members`: 1 for each slot in which all parties' rows are of one id, else 0."""

    policy: Policy
    policy_called: str
    rows: Rows | None = None
    order: NDArray[np.intp] | None = None
    slots: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None


def recognise(orders: Orders) -> Known:
    """Check key, study and the signatures that are here: from then on there are others to whom this participant is
    known."""
    key = load_key(orders.key, orders.passphrase)
    study = load_study(orders.study)
    rank, credentials = study.enter_with(key)
    me = study.at_rank(rank)
    missing = tuple(find_missing(orders.study, study, me.name))
    proxies = find_proxies(orders.proxy)
    known = Known(study, study_hash(study), rank, credentials, missing, proxies=proxies, path=orders.study)
    known.check_lifetimes()
    about = {"study": study.study.name, "study_hash": known.hash, "participant": known.me.name}
    tell(log, logging.INFO, "recognised", f"{known.me.name} takes part in {study.study.name}", **about)
    return known


def prepare(orders: Orders, known: Known | None = None) -> Ready:
    """Check all that can be checked at home. Data is read where orders name it."""
    known = known or recognise(orders)
    study, rank = known.study, known.rank
    check_not_withdrawn(orders.study, study)
    policy, called = load_policy(orders.policy, orders.key)
    check_policy(policy, study, known.me.name, called)
    rows, order = read_data(orders, study, rank)
    check_rows(policy, 0 if rows is None else len(rows.values), called)
    held = {name: getattr(known, name) for name in ("credentials", "missing", "proxies", "path")}
    return Ready(study, known.hash, rank, policy=policy, policy_called=called, rows=rows, order=order, **held)


def read_data(orders: Orders, study: Study, rank: int) -> tuple[Rows | None, NDArray[np.intp] | None]:
    """This party's rows, checked against the study's schema and in common order; nothing where no data is owned."""
    name = study.at_rank(rank).name
    if name not in study.roles.owners:
        if orders.data is not None:
            what = "the helper, which" if name == study.roles.dealer else "a server that"
            raise InputError(f"{name} is {what} holds no data; leave --data out")
        return None, None
    own = study.own_declared(rank)
    if orders.data is None and orders.model is not None and study.clustering.partition == "horizontal":
        nothing = np.empty((0, len(study.features)))  # others have rows to label
        return Rows(nothing, [] if study.data.id else None, "no data"), np.empty(0, np.intp)
    if orders.data is None:
        raise InputError(f"{name} is a data party; say where its data is with --data")
    if study.survey is not None:
        rows = read_with_gaps(orders.data, own, table=orders.table, query=orders.query, csv=orders.csv)
    else:
        weighs = orders.model is None and study.weighs(rank)  # a label does not depend on what a row counts for
        wanted = [*own, weight_column(study.data.row_weights)] if weighs else own
        rows = read_rows(
            orders.data, wanted, study.data.id or None, table=orders.table, query=orders.query, csv=orders.csv
        )
        if weighs:
            rows = split_off_weights(rows, study.data.row_weights)
    if not len(rows.values):
        raise DataError(f"{rows.source} has no rows")
    if len(rows.values) > study.data.most_rows:
        raise DataError(
            f"{rows.source} has {len(rows.values)} rows; the study allows each party at most {study.data.most_rows}"
        )
    if study.clustering.partition != "horizontal" and study.survey is None:
        rows, order = sort_by_id(_with_keys(rows, study))
        return rows, order if rows.places is None else rows.places
    return rows, np.arange(len(rows.values), dtype=np.intp) if rows.places is None else rows.places


def weight_column(weights: RowWeights) -> Column:
    """The column that says what rows count for. Half a step is the least that does not round to nothing."""
    return Column(weights.column, weights.step / 2, weights.most)


def split_off_weights(rows: Rows, weights: RowWeights) -> Rows:
    """What the last column says of each row, in steps; at least one."""
    steps = np.rint(rows.values[:, -1] / weights.step).astype(np.int64)
    return replace(rows, values=rows.values[:, :-1], weights=np.clip(steps, 1, weights.largest))


def tell_handled(ready: Ready, voice: Voice) -> None:
    """What was done about this party's missing values and such: told to nobody else."""
    for text in [] if ready.rows is None else ready.rows.handled.describe():
        voice.note(text)


def _with_keys(rows: Rows, study: Study) -> Rows:
    """The same rows, with their ids as the study's rule has them: still all there and no two alike."""
    keys = [normalise(text, study.data.id_rule) for text in rows.ids or []]
    empty, twice = keys.count(""), len(keys) - len(set(keys))
    for count, what in ((empty, "have no id left"), (twice, "have the same id as another row")):
        if count:
            raise DataError(
                f"{rows.source}: {count} rows {what}, once ids in column {study.data.id!r} are written as the study's "
                "id_rule says; keep one row for each id"
            )
    return replace(rows, keys=keys)
