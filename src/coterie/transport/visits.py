"""Connections that are no part of a run: to ask who is there, and to say that one will not come."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence

from coterie.errors import CoterieError, PeerUnreachable, WrongType
from coterie.events import tell
from coterie.transport.certificates import Credentials
from coterie.transport.channel import CONTROL, CONTROL_LIMIT, Letter, World, decode_control, letter
from coterie.transport.hello import (
    DECLINE,
    PROBE,
    NotYet,
    Peer,
    context,
    dial,
    greet,
    read_exactly,
    read_hello,
    say,
    server_name,
)
from coterie.transport.wording import say_why

__all__ = ["decline", "probe"]

log = logging.getLogger(__name__)
#: Seconds that each step of saying no may take, and all of it.
STEP, ALL = 2.0, 5.0


def probe(
    world: World, rank: int, other: int, credentials: Credentials, peer: Peer, timeout: float, patience: float
) -> bytes:
    """Ask a peer who is there, and nothing more: its card. It is answered whatever study the peer takes part in."""
    name = world.names[other]
    try:
        own = context(False, credentials, [peer.certificate])
        sock = dial(peer, name, own, patience, timeout, server_name(world.session))
    except NotYet as problem:
        raise PeerUnreachable(f"{name} cannot be reached {peer}: {problem}", name) from problem
    try:
        refusal = greet(sock, world, PROBE, rank, other, peer)
        if refusal is not None:
            raise PeerUnreachable(f"{name} does not want to be asked: {refusal.reason}", name)
        header = read_hello(sock, name)
        length = header.length if header.kind == CONTROL and header.length <= CONTROL_LIMIT else 0
        message = decode_control(read_exactly(sock, length, name), name)
        if not isinstance(message, Letter):
            raise WrongType(f"{name} answers something else than who it is", name)
        return message.body
    except (EOFError, OSError) as error:
        raise PeerUnreachable(f"{name} does not answer: {say_why(error)}", name) from error
    finally:
        sock.close()


def decline(
    world: World,
    rank: int,
    credentials: Credentials,
    peers: Sequence[Peer],
    patience: float = 10.0,
    proof: bytes = b"",
) -> None:
    """Tell every peer that is up that this party will not take part, and not why, unless there is a `proof` for all to
    see. Peers that wait for it stop waiting.

    Whoever cannot be told is not; all of it takes a few seconds at most."""
    tell(log, logging.WARNING, "declines", f"{world.names[rank]} declines to take part")
    step = min(patience, STEP)

    def inform(other: int) -> None:
        with contextlib.suppress(NotYet, CoterieError, OSError):
            own = context(False, credentials, [peers[other].certificate])
            asked = server_name(world.session)
            with dial(peers[other], world.names[other], own, step, step, asked) as sock:
                if greet(sock, world, DECLINE, rank, other, peers[other]) is None and proof:
                    say(sock, world, rank, other, letter(proof))

    threads = [
        threading.Thread(target=inform, args=(other,), name=f"coterie-decline-{other}", daemon=True)
        for other in world.peers(rank)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + ALL
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
