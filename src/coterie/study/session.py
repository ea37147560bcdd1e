"""A participant's life among the others: meeting them, agreeing with them, and what they hear when it ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import msgspec

from coterie import __version__
from coterie.clustering import Outcome
from coterie.errors import (
    CoterieError,
    DataError,
    InputError,
    Interrupted,
    PeerLost,
    PeerUnreachable,
    PolicyError,
    StudyError,
    TransportError,
    WrongSession,
)
from coterie.randomness import SystemEntropy
from coterie.runtime.job import Kept
from coterie.runtime.memory import hold_on
from coterie.runtime.threads import run_role
from coterie.sharing import Disclosure, Party
from coterie.study.audit import Audit, Head, check_head
from coterie.study.budget import Budget
from coterie.study.dumps import undumpable
from coterie.study.handshake import Agreed, Greeting, agree_on_run, card_of, read_letter
from coterie.study.identity import split_address
from coterie.study.openings import Openings
from coterie.study.prepare import Known, Orders, Ready
from coterie.study.results import Spent
from coterie.transport import Channel
from coterie.transport.door import Listener
from coterie.transport.meeting import MOST_LANES, Meeting
from coterie.transport.visits import decline

__all__ = [
    "Lanes",
    "Role",
    "Voice",
    "Work",
    "about",
    "declining",
    "everybody_is_done",
    "meeting_of",
    "same_participants",
    "summary",
    "take_part",
]


class Voice:
    """Hears how a run goes on. This one says nothing."""

    def phase(self, text: str) -> None:
        """Another part of the run begins."""

    def note(self, text: str) -> None:
        """Something to know that does not pass."""

    def waiting(self, names: list[str]) -> None:
        """These participants are not there yet."""

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        """An iteration of at most `most` is done; so many bytes were sent from here."""


Role = Callable[[Party], tuple[Outcome, Kept]]
Lanes = Callable[[Role], tuple[Outcome, Kept]]


Work = Callable[[Agreed, Channel, Lanes, Audit, Spent], None]


def take_part(
    orders: Orders, ready: Ready, voice: Voice, own: Greeting, work: Work, goes_on: Callable[[], str] = str
) -> None:
    """Meet the others, agree with them, do the work; whatever happens is said to the others and to the audit log.
    `goes_on`: where the run would go on if it were started again, for people to read."""
    audit = Audit(orders.audit_path, ready.credentials)
    _log_start(audit, ready, own)
    with _logging_the_end(audit, goes_on):
        budget = Budget(orders.key, ready, audit)
        with declining(orders, ready, voice):
            budget.check_own(own)
        own = msgspec.structs.replace(own, head=audit.head)
        with hold_on(), _signals(), meeting_of(orders, ready) as met, _hidden():
            spent = Spent()
            voice.phase("waiting for the others")
            with spent.time("waiting for the others"), same_participants():
                (talk,) = met.connect([0], timeout=orders.wait, waiting=voice.waiting)
            with _telling_why(talk, ready, goes_on):
                with spent.time("agreeing on the run"):
                    agreed = agree_on_run(talk, ready.study, own.purpose, own)
                _log_agreed(audit, ready, agreed)
                count = budget.check_agreed(agreed, own.purpose)
                openings = Openings(audit, talk, agreed, count)
                work(agreed, talk, _lanes(met, agreed, openings, voice, spent), audit, spent)
            talk.close()
    audit.record("done", study_hash=ready.hash)


def _lanes(met: Meeting, agreed: Agreed, openings: Openings, voice: Voice, spent: Spent) -> Lanes:
    """What runs a role on connections of the session that was agreed on, with every opening logged."""

    def run(role: Role) -> tuple[Outcome, Kept]:
        def logged(me: Party) -> tuple[Outcome, Kept]:
            me.ledger.write = openings
            return role(me)

        voice.phase("computing")
        with spent.time("computing"):
            main, *lanes = met.connect(range(1, agreed.task.lanes + 2), agreed.world)
            return run_role(main, SystemEntropy(), logged, lanes)

    return run


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
def _logging_the_end(audit: Audit, goes_on: Callable[[], str]) -> Iterator[None]:
    """If the run stops, the log says so, and the error says what to do next."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(InputError):  # the log cannot be written: what led here matters more
            audit.record(
                "stopped",
                error=type(error).__name__,
                peer=getattr(error, "peer", "") or None,
                code=error.exit_code if isinstance(error, CoterieError) else 70,
            )
        if isinstance(error, KeyboardInterrupt):
            interrupted = Interrupted("interrupted")
            _say_what_next(interrupted, goes_on())
            raise interrupted from None
        if isinstance(error, PeerLost | PeerUnreachable | Interrupted):
            _say_what_next(error, goes_on())
        raise


# -- what is said when it ends -----------------------------------------------------------------------------


@contextlib.contextmanager
def _telling_why(talk: Channel, ready: Ready, goes_on: Callable[[], str]) -> Iterator[None]:
    """If the run stops here, the others hear whose fault it is and what kind of error."""
    try:
        yield
    except BaseException as error:
        peer = error.peer if isinstance(error, TransportError) else ""
        names = talk.world.names
        talk.abort(names.index(peer) if peer in names else ready.rank, type(error).__name__)
        if isinstance(error, InputError) and not isinstance(error, DataError):  # a full disk, say
            _say_what_next(error, goes_on())
        raise


def _say_what_next(error: CoterieError, goes_on: str) -> None:
    """What to do is said behind what has happened."""
    error.args = (f"{error.args[0]}; start it again, all of you{goes_on and ': '}{goes_on}",)


@contextlib.contextmanager
def declining(orders: Orders, known: Known, voice: Voice) -> Iterator[None]:
    """If this participant's own data or policy is refused, tell those who wait for it: that it does not take part, and
    not why."""
    try:
        yield
    except (DataError, PolicyError):
        voice.phase("telling the others that this participant does not take part")
        with contextlib.suppress(CoterieError, OSError):
            decline(known.world, known.rank, known.credentials, known.peers, orders.patience)
        raise


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


@contextlib.contextmanager
def _hidden() -> Iterator[None]:
    """Where the process is there for this run alone, nobody may look into it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with undumpable():
        yield


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Being told to stop is an exception like any other, so that the others hear of it."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise Interrupted(f"stopped by {signal.Signals(number).name}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
