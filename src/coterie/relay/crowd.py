"""Those who have not said yet what they want: only so many at a time, and what operators hear of who is turned away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket

from coterie.events import tell
from coterie.transport.wording import say_why

__all__ = ["Crowd", "refuse", "say_end"]

log = logging.getLogger(__name__)


class Crowd(set[asyncio.Task[None]]):
    """Tasks of guests, each of which is here until it ends or leaves."""

    def enter(self, task: asyncio.Task[None], most: int) -> None:
        """One more; if there are too many, one of the others is sent away."""
        self.make_room(most)
        self.add(task)
        task.add_done_callback(self.discard)

    def make_room(self, most: int) -> None:
        if len(self) >= most:
            victim = random.choice(list(self))  # by chance, so that a flood cannot push all others out
            victim.cancel()
            self.discard(victim)


def refuse(why: str, sock: socket.socket | None = None) -> None:
    """Tell operators that somebody was turned away."""
    address = None
    with contextlib.suppress(OSError, ValueError):
        address = None if sock is None else "{}:{}".format(*sock.getpeername()[:2])
    tell(log, logging.WARNING, "refused", why, why=why, **({"address": address} if address else {}))


def say_end(error: Exception) -> str:
    return "what it sent makes no sense" if isinstance(error, ValueError) else say_why(error)
