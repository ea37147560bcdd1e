"""A run that goes on by itself after a break of the network, within the time that its study allows.

Every participant that loses another ends its attempt and says so to the rest, as ever; keeps its process; meets all
others again; and goes on exactly as if all had been started again by hand: fresh keys, data masked anew, the newest
checkpoint that all hold. What is refused, declined or forbidden is no break, nor is a peer that says that it stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from coterie.errors import PeerLost, PeerUnreachable
from coterie.events import tell
from coterie.study.endings import raising_signals
from coterie.study.voice import Voice

__all__ = ["Attempt", "keep_going"]

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Seconds between two attempts.
PAUSE = 0.2


@dataclass
class Attempt:
    """One attempt at a run. `wait`: seconds for the others to come back; None, if this is the first one. `met`:
    everybody was there. `began`: what --restart asks for is done. `advanced`: it came further than the one before."""

    wait: float | None = None
    met: bool = False
    began: bool = False
    advanced: bool = False


def keep_going(make: Callable[[Attempt], T], seconds: int, voice: Voice) -> T:
    """Attempt after attempt until one comes to its end. Each break may take `seconds`; one that follows on another,
    with nothing won in between, is the same break."""
    attempt, deadline = Attempt(), 0.0
    with raising_signals():
        while True:
            try:
                return make(attempt)
            except (PeerLost, PeerUnreachable) as error:
                now, again = time.monotonic(), attempt.wait is not None
                if not seconds or not _is_break(error, attempt):
                    raise
                if attempt.advanced or not again:
                    deadline = now + seconds
                    _say_lost(error, seconds, voice)
                if now + PAUSE >= deadline:
                    raise _gone(error, seconds) from error
            time.sleep(PAUSE)
            attempt = Attempt(wait=max(deadline - time.monotonic(), PAUSE), began=attempt.began)


def _is_break(error: PeerLost | PeerUnreachable, attempt: Attempt) -> bool:
    """Could the one who is lost come back? Whoever never came is not waited for any longer than --wait says."""
    if isinstance(error, PeerLost):
        return not error.for_good
    return attempt.met or attempt.wait is not None


def _say_lost(error: PeerLost | PeerUnreachable, seconds: int, voice: Voice) -> None:
    text = f"connection to {error.peer} lost; reconnecting (at most {seconds} s)"
    voice.note(text)
    fields = {"peer": error.peer, "seconds": seconds, "error": type(error).__name__}
    tell(log, logging.WARNING, "reconnecting", text, **fields)


def _gone(error: PeerLost | PeerUnreachable, seconds: int) -> PeerLost:
    """The end of all attempts, by name."""
    return PeerLost.stopped(f"{error.peer} did not come back within {seconds} s: {error}", error.peer)
