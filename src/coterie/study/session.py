"""A participant's life among the others: meeting them, agreeing with them, working, and saying that it is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie import __version__
from coterie.errors import InputError, StudyError, WrongSession
from coterie.randomness import SystemEntropy
from coterie.runtime.memory import hold_on
from coterie.runtime.threads import role_at
from coterie.sharing import Disclosure, Party
from coterie.study.audit import Audit, Head, check_head
from coterie.study.budget import Budget
from coterie.study.endings import declining, hidden, logging_the_end, raising_signals, telling_why
from coterie.study.handshake import Agreed, Greeting, agree_on_run, card_of, read_letter
from coterie.study.identity import split_address
from coterie.study.openings import Openings
from coterie.study.prepare import Orders, Ready
from coterie.study.results import Spent
from coterie.study.voice import Voice
from coterie.transport import Channel
from coterie.transport.door import Listener
from coterie.transport.meeting import MOST_LANES, Meeting

__all__ = ["Session", "about", "everybody_is_done", "meeting_of", "same_participants", "summary", "take_part"]


@dataclass
class Session:
    """A run that everybody has agreed on: what was agreed, where participants talk, and what is noted."""

    agreed: Agreed
    talk: Channel
    audit: Audit
    spent: Spent
    voice: Voice
    met: Meeting
    openings: Openings

    @contextlib.contextmanager
    def role(self) -> Iterator[Party]:
        """This participant's role on connections of its own, with every opening logged before it happens."""
        self.voice.phase("computing")
        with self.spent.time("computing"):
            main, *lanes = self.met.connect(range(1, self.agreed.task.lanes + 2), self.agreed.world)
            with role_at(main, SystemEntropy(), lanes) as me:
                me.ledger.write = self.openings
                yield me


@contextlib.contextmanager
def take_part(
    orders: Orders, ready: Ready, voice: Voice, own: Greeting, goes_on: Callable[[], str] = str
) -> Iterator[Session]:
    """Meet the others and agree with them; the work is what stands inside. Whatever happens is said to the others and
    to the audit log. `goes_on`: where the run would go on if it were started again, for people to read."""
    audit = Audit(orders.audit_path, ready.credentials)
    _log_start(audit, ready, own)
    with logging_the_end(audit, goes_on):
        budget = Budget(orders.key, ready, audit)
        with declining(orders, ready, voice):
            budget.check_own(own)
        own = msgspec.structs.replace(own, head=audit.head)
        with hold_on(), raising_signals(), meeting_of(orders, ready) as met, hidden():
            spent = Spent()
            voice.phase("waiting for the others")
            with spent.time("waiting for the others"), same_participants():
                (talk,) = met.connect([0], timeout=orders.wait, waiting=voice.waiting)
            with telling_why(talk, ready, goes_on):
                with spent.time("agreeing on the run"):
                    agreed = agree_on_run(talk, ready.study, own.purpose, own)
                _log_agreed(audit, ready, agreed)
                count = budget.check_agreed(agreed, own.purpose)
                yield Session(agreed, talk, audit, spent, voice, met, Openings(audit, talk, agreed, count))
            talk.close()
    audit.record("done", study_hash=ready.hash)


# -- what is written into the log --------------------------------------------------------------------------


def _log_start(audit: Audit, ready: Ready, own: Greeting) -> None:
    audit.record(
        "started",
        **about(ready),
        purpose=own.purpose,
        policy=msgspec.to_builtins(ready.policy),
        policy_from=ready.policy_called,
        rows=own.rows,
        source=None if ready.rows is None else ready.rows.source,
    )


def _log_agreed(audit: Audit, ready: Ready, agreed: Agreed) -> None:
    audit.record(
        "agreed",
        run=agreed.run,
        session=agreed.world.session.hex(),
        heads={one.name: check_head(agreed.greetings[one.name].head, one) for one in ready.others},
        epoch=agreed.epoch,
        resumed_after=None if agreed.mark is None else agreed.mark.iteration,
        replayed=agreed.replayed,
        rows=agreed.task.layout.n,
        least_cluster_size=agreed.task.least,
        peers={one.name: one.fingerprint for one in ready.others},
    )


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
def meeting_of(orders: Orders, ready: Ready, lanes: int = MOST_LANES) -> Iterator[Meeting]:
    """Listen where the study says, and answer those who belong to it."""
    host, port = split_address(orders.listen or ready.me.address)
    try:
        listener = Listener(host, port)
    except OSError as error:
        raise InputError(
            f"{ready.me.name} cannot listen on {host}:{port} ({error.strerror}). Is another run using the port? Behind "
            "a forwarded address, say where to listen with --listen HOST:PORT"
        ) from None
    made = Meeting(
        ready.world,
        ready.rank,
        ready.credentials,
        ready.peers,
        listener,
        orders.patience,
        lanes,
        card=lambda: card_of(ready.study),
        progress=orders.stall,
    )
    try:
        yield made
    finally:
        made.close()


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
        heads[one.name] = check_head(read_letter(talk.collect(other), Finished, one.name, "last letter").head, one)
    audit.record("ready", heads=heads)


def about(ready: Ready) -> dict[str, Any]:
    return {
        "study": ready.study.study.name,
        "study_hash": ready.hash,
        "party": ready.me.name,
        "version": __version__,
    }


def summary(disclosures: list[Disclosure]) -> list[dict[str, Any]]:
    """What was opened to whom, and how often."""
    counted: dict[tuple[str, tuple[str, ...], str], int] = {}
    for entry in disclosures:
        key = entry.what, entry.to, entry.reason
        counted[key] = counted.get(key, 0) + 1
    return [{"what": w, "to": list(to), "reason": r, "times": times} for (w, to, r), times in counted.items()]
