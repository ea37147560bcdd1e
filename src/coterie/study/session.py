"""A participant's life among the others: meeting them, agreeing with them, working, and saying that it is done."""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from coterie import __version__
from coterie.errors import InputError, StudyError, WrongSession
from coterie.events import tell
from coterie.matching import MATCHING, PLACING, count_slots
from coterie.protocols import FAMILIES, load_family
from coterie.randomness import SystemEntropy
from coterie.runtime.memory import hold_on
from coterie.runtime.threads import role_at
from coterie.sharing import Disclosure, Party
from coterie.software import software_digest
from coterie.study.audit import Audit, Head, check_head
from coterie.study.budget import Budget
from coterie.study.checkpoint import Checkpoints
from coterie.study.endings import declining, hidden, logging_the_end, naming_relays, raising_signals, telling_why
from coterie.study.greetings import Greeting, read_letter
from coterie.study.handshake import Agreed, Greeted, agree_on_task, check_brought, greet_everybody
from coterie.study.identity import split_address
from coterie.study.matched import Matching
from coterie.study.matching import check_private, match_rows
from coterie.study.openings import Openings
from coterie.study.papers import card_with_papers, exchange_papers, hear_withdrawal
from coterie.study.prepare import Orders, Ready
from coterie.study.reconnecting import Attempt
from coterie.study.results import Spent
from coterie.study.signatures import bring_signed
from coterie.study.tasks import strictest_least
from coterie.study.voice import Voice
from coterie.study.withdrawals import Withdrawn
from coterie.transport import Channel
from coterie.transport.door import Comers, Listener
from coterie.transport.meeting import MOST_LANES, Meeting
from coterie.transport.relayed_listener import RelayedListener
from coterie.transport.wording import say_why

__all__ = [
    "Attendance",
    "Session",
    "about",
    "attend",
    "everybody_is_done",
    "log_agreed",
    "meeting_of",
    "same_participants",
    "summary",
    "take_part",
]

log = logging.getLogger(__name__)


@dataclass
class Attendance:
    """Everybody is there and has said what it brings: who this participant is, where participants talk, and what is
    noted."""

    ready: Ready
    greeted: Greeted
    talk: Channel
    audit: Audit
    spent: Spent
    voice: Voice
    met: Meeting
    openings: Openings

    @contextlib.contextmanager
    def role(self, lanes: int = 0) -> Iterator[Party]:
        """This participant's role on connections of its own, with every opening logged before it happens."""
        self.voice.phase("computing")
        with self.spent.time("computing"):
            main, *beside = self.met.connect(range(1, lanes + 2), self.greeted.world)
            with role_at(main, SystemEntropy(), beside) as me:
                me.ledger.write = self.openings
                yield me


@dataclass
class Session(Attendance):
    """A run that everybody has agreed on; its participant has the rows that take part."""

    agreed: Agreed


@contextlib.contextmanager
def attend(
    orders: Orders,
    ready: Ready,
    voice: Voice,
    own: Greeting,
    goes_on: Callable[[], str] = str,
    attempt: Attempt | None = None,
) -> Iterator[Attendance]:
    """Meet the others and greet them; the work is what stands inside. Whatever happens is said to the others and to the
    audit log. `goes_on`: where the run would go on if it were started again, for people to read. `attempt`: which
    one it is, of a run that goes on after a break."""
    for ending in ready.endings:
        voice.note(ending)
    audit, attempt = Audit(orders.audit_path, ready.credentials), attempt or Attempt()
    wait = orders.wait if attempt.wait is None else attempt.wait
    _log_start(audit, ready, own, reconnecting=attempt.wait is not None)
    with logging_the_end(audit, goes_on):
        budget = Budget(orders.ledger_beside, ready, audit)
        with declining(orders, ready, voice):
            budget.check_own(own)
        own = msgspec.structs.replace(own, head=audit.head)
        voice.phase("loading kernels (the first time, they are compiled)")
        load_family(FAMILIES[ready.study.clustering.protocol], alone=orders.own_process)
        meeting = meeting_of(orders, ready, purpose=own.purpose, silence=attempt.wait, audit=audit)
        with hold_on(), raising_signals(), naming_relays(ready), meeting as met, hidden():
            spent = Spent()
            voice.phase("waiting for the others")
            with spent.time("waiting for the others"), same_participants():
                (talk,) = met.connect([0], timeout=wait, waiting=_say_who_is_missing(voice))
            attempt.met = True
            with telling_why(talk, ready, goes_on):
                with spent.time("agreeing on the run"):
                    try:
                        exchange_papers(talk, orders.study, ready.study, voice)
                    except Withdrawn as error:
                        log_withdrawal(audit, ready, error, None)
                        raise
                    greeted = greet_everybody(talk, ready.study, own)
                    check_brought(greeted, ready.study, orders.most_rows)
                openings = Openings(audit, talk, greeted, budget.check_greeted(greeted, own.purpose))
                yield Attendance(ready, greeted, talk, audit, spent, voice, met, openings)
            talk.close()
    audit.record("done", study_hash=ready.hash)


@contextlib.contextmanager
def take_part(
    orders: Orders,
    ready: Ready,
    voice: Voice,
    own: Greeting,
    goes_on: Callable[[], str] = str,
    checkpoints: Checkpoints | None = None,
    attempt: Attempt | None = None,
) -> Iterator[Session]:
    """Attend, and agree with the others on a fit or a prediction. `checkpoints`: where a fit keeps what rows were
    matched to."""
    with attend(orders, ready, voice, own, goes_on, attempt) as here:
        talk, greeted, spent, matched = here.talk, here.greeted, here.spent, None
        if ready.study.data.matching != "equal":
            voice.phase("matching rows")
            with spent.time("matching rows"):
                matching = _match(talk, ready, greeted, here.openings, checkpoints)
                ready, matched = matching.apply(ready), matching.layout
        with spent.time("agreeing on the plan"):
            agreed = agree_on_task(talk, ready.study, own.purpose, greeted, matched)
        log_agreed(here.audit, ready, agreed, agreed.task.layout.n, agreed.task.least)
        _tell_resumed(agreed)
        yield Session(ready, greeted, talk, here.audit, spent, voice, here.met, here.openings, agreed)


def _match(
    talk: Channel, ready: Ready, greeted: Greeted, openings: Openings, checkpoints: Checkpoints | None
) -> Matching:
    """Find the rows that all owners hold. From here on the run counts: each learns which of its ids the others have; in
    private matching, the helper how many ids match. A run that is taken up again goes on with what it began with:
    otherwise whoever brings other ids could have them compared, and no new run would be counted."""
    if greeted.mark is not None and checkpoints is not None:
        return checkpoints.load_matching(greeted.run)
    study = ready.study
    lengths = {name: greeted.greetings[name].rows for name in study.roles.owners}
    least = strictest_least(study, greeted.greetings)
    if study.private:
        assert study.roles.dealer is not None
        check_private(least, count_slots(list(lengths.values())))
        openings(Disclosure("tags of ids", (study.roles.dealer,), PLACING))
    else:
        openings(Disclosure("matching ids", study.roles.everybody, MATCHING))
    matching = match_rows(talk, ready, greeted.world.session, lengths, max(least, study.clustering.choices[-1]))
    if checkpoints is not None:
        checkpoints.save_matching(greeted.run, matching)
    return matching


def _say_who_is_missing(voice: Voice) -> Callable[[list[str]], None]:
    """Tell people and operators who is waited for, and since when."""
    since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

    def say(names: list[str]) -> None:
        voice.waiting(names)
        tell(log, logging.INFO, "waiting", f"waiting for {', '.join(names)} since {since}", peers=names, since=since)

    return say


# -- what is written into the log --------------------------------------------------------------------------


def _log_start(audit: Audit, ready: Ready, own: Greeting, reconnecting: bool) -> None:
    audit.record(
        "started",
        **about(ready),
        purpose=own.purpose,
        policy=msgspec.to_builtins(ready.policy),
        policy_from=ready.policy_called,
        rows=own.rows,
        source=None if ready.rows is None else ready.rows.source,
        reconnecting=reconnecting,
    )


def log_withdrawal(audit: Audit, ready: Ready, error: Withdrawn, source: str | None) -> None:
    """Who has withdrawn, and who has said so."""
    found = error.withdrawal
    audit.record("withdrawn", study_hash=ready.hash, party=found.name, withdrawn=found.withdrawn, peer=source)


def log_agreed(audit: Audit, ready: Ready, agreed: Greeted, rows: int, least: int) -> None:
    """What everybody has agreed on."""
    audit.record(
        "agreed",
        run=agreed.run,
        session=agreed.world.session.hex(),
        heads={one.name: check_head(agreed.greetings[one.name].head, one, ready.renewals) for one in ready.others},
        epoch=agreed.epoch,
        resumed_after=None if agreed.mark is None else agreed.mark.iteration,
        replayed=agreed.replayed,
        rows=rows,
        least_cluster_size=least,
        peers={one.name: one.fingerprint for one in ready.others},
    )


def _tell_resumed(agreed: Greeted) -> None:
    """Operators want to know that a run is not a new one."""
    if agreed.mark is not None:
        after = agreed.mark.iteration
        text = (
            "the results of a run are opened once more"
            if agreed.replayed
            else f"the run goes on after iteration {after}"
        )
        fields = {"run": agreed.run, "epoch": agreed.epoch, "iteration": after, "replayed": agreed.replayed}
        tell(log, logging.INFO, "resumed", text, **fields)


@contextlib.contextmanager
def same_participants() -> Iterator[None]:
    """Before they agree on a session, peers misunderstand each other only if they have different studies."""
    try:
        yield
    except WrongSession as error:
        raise StudyError(
            f"{error}: it has another study, or another version; compare the study's hash (coterie study verify)"
        ) from None


@contextlib.contextmanager
def meeting_of(
    orders: Orders,
    ready: Ready,
    lanes: int = MOST_LANES,
    purpose: str = "",
    silence: float | None = None,
    audit: Audit | None = None,
) -> Iterator[Meeting]:
    """Listen where the study says, and answer those who belong to it. `purpose`: what they meet for; `silence`: see
    `Meeting`; `audit`: where withdrawals are noted."""
    listener = _listen(orders, ready) if orders.door is None else orders.door()

    def told(sender: int, proof: bytes) -> Exception:
        name = ready.world.names[sender]
        error = hear_withdrawal(orders.study, ready.study, proof, name)
        if audit is not None and isinstance(error, Withdrawn):
            log_withdrawal(audit, ready, error, name)
        return error

    made = Meeting(
        ready.world,
        ready.rank,
        ready.credentials,
        ready.peers,
        listener,
        orders.patience,
        lanes,
        card=lambda: card_with_papers(orders.study, ready.study, ready.me.name),
        progress=orders.stall,
        told=told,
        silence=silence,
        purpose=purpose,
    )
    try:
        yield made
    finally:
        made.close()


def _listen(orders: Orders, ready: Ready) -> Comers:
    """At a port, or at the relay by way of which the others reach this participant."""
    relay = ready.relay_of(ready.me)
    if relay is not None:
        if orders.listen is not None:
            raise InputError(
                f"--listen: the others reach {ready.me.name} by way of {relay}, and no port is opened here"
            )
        bring = partial(bring_signed, orders.study, ready.study)
        return RelayedListener(relay, ready.credentials, [ready.hash], orders.patience, bring)
    host, port = split_address(orders.listen or ready.me.address)
    try:
        return Listener(host, port)
    except OSError as error:
        raise InputError(
            f"{ready.me.name} cannot listen on {host}:{port}: {say_why(error)}. Is another run using the port? Behind "
            "a forwarded address, say where to listen with --listen HOST:PORT"
        ) from None


class Finished(msgspec.Struct, frozen=True):
    """The last letter: results are ready. `head`: the last entry of the sender's audit log."""

    head: Head


def everybody_is_done(talk: Channel, ready: Ready, audit: Audit) -> None:
    """Results are shown when everybody has theirs ready; whoever does not hear of it gets them by starting again with
    the others. Heads of the audit logs are kept."""
    letter = msgspec.msgpack.encode(Finished(audit.head))
    for other in talk.world.peers(talk.rank):
        talk.post(other, letter)
    heads = {}
    for other in talk.world.peers(talk.rank):
        one = ready.study.at_rank(other)
        last = read_letter(talk.collect(other), Finished, one.name, "last letter")
        heads[one.name] = check_head(last.head, one, ready.renewals)
    audit.record("ready", heads=heads)


def about(ready: Ready) -> dict[str, Any]:
    return {
        "study": ready.study.study.name,
        "study_hash": ready.hash,
        "party": ready.me.name,
        "version": __version__,
        "digest": software_digest(),
    }


def summary(disclosures: list[Disclosure]) -> list[dict[str, Any]]:
    """What was opened to whom, and how often."""
    counted: dict[tuple[str, tuple[str, ...], str], int] = {}
    for entry in disclosures:
        key = entry.what, entry.to, entry.reason
        counted[key] = counted.get(key, 0) + 1
    return [{"what": w, "to": list(to), "reason": r, "times": times} for (w, to, r), times in counted.items()]
