"""How a run ends before its time: what the others hear of it, what the log says, and what to do next."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from coterie.errors import (
    AuthenticationError,
    CoterieError,
    DataError,
    InputError,
    Interrupted,
    PeerLost,
    PeerUnreachable,
    PolicyError,
    TransportError,
)
from coterie.study.audit import Audit
from coterie.study.dumps import undumpable
from coterie.study.papers import pack_withdrawal
from coterie.study.prepare import Known, Orders, Ready
from coterie.study.voice import Voice
from coterie.study.withdrawals import Withdrawn
from coterie.transport import Channel
from coterie.transport.visits import decline

__all__ = [
    "declining",
    "hidden",
    "logging_the_end",
    "naming_relays",
    "raising_signals",
    "tell_withdrawal",
    "telling_why",
]


@contextlib.contextmanager
def logging_the_end(audit: Audit, goes_on: Callable[[], str]) -> Iterator[None]:
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


@contextlib.contextmanager
def telling_why(talk: Channel, ready: Ready, goes_on: Callable[[], str]) -> Iterator[None]:
    """If the run stops here, the others hear whose fault it is and what kind of error."""
    try:
        yield
    except BaseException as error:
        peer = error.peer if isinstance(error, TransportError) else ""
        names = talk.world.names
        talk.abort(names.index(peer) if peer and peer in names else ready.rank, type(error).__name__)
        if isinstance(error, InputError) and not isinstance(error, DataError):  # a full disk, say
            _say_what_next(error, goes_on())
        raise


@contextlib.contextmanager
def naming_relays(known: Known) -> Iterator[None]:
    """If a peer is lost that was connected by way of a relay, the relay may have failed and not the peer."""
    try:
        yield
    except (PeerLost, PeerUnreachable, AuthenticationError) as error:
        ends = [known.me, *(one for one in known.others if one.name == error.peer)]
        relays = dict.fromkeys(str(relay) for one in ends if (relay := known.relay_of(one)) is not None)
        if len(ends) > 1 and relays and not any(relay in str(error.args[0]) for relay in relays):
            error.args = (f"{error.args[0]} (connected by way of {' and '.join(relays)}: is it up?)",)
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
    except Withdrawn as error:
        tell_withdrawal(orders, known, error, voice)
        raise
    except (DataError, PolicyError):
        voice.phase("telling the others that this participant does not take part")
        with contextlib.suppress(CoterieError, OSError):
            decline(known.world, known.rank, known.credentials, known.peers, orders.patience)
        raise


def tell_withdrawal(orders: Orders, known: Known, error: Withdrawn, voice: Voice) -> None:
    """Let those who are up know who has withdrawn, so that they neither wait nor run the study."""
    voice.phase(f"telling the others that {error.withdrawal.name} has withdrawn")
    with contextlib.suppress(CoterieError, OSError):
        proof = pack_withdrawal(error.withdrawal)
        decline(known.world, known.rank, known.credentials, known.peers, orders.patience, proof)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Where the process is there for this run alone, nobody may look into it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with undumpable():
        yield


@contextlib.contextmanager
def raising_signals() -> Iterator[None]:
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
