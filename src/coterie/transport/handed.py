"""Connections that one process accepts and another one answers: handed over one by one, as they are.

Nothing is read of a connection before it is handed over, so the TLS handshake takes place in the process that answers.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from coterie.errors import CoterieError

__all__ = ["HandedListener", "hand_over"]

#: What travels beside the handle of a connection: there must be something.
TOKEN = b"c"


class HandedListener:
    """In the place of a listening socket: a Unix socket by which another process hands over what it has accepted."""

    trouble: str = ""
    error: CoterieError | None = None

    def __init__(self, source: socket.socket, abandoned: Callable[[], None]) -> None:
        """`abandoned`: what to do, once, if that process is gone, so that nobody will come any more."""
        self.socket, self.abandoned = source, abandoned
        self._left = False
        self.socket.setblocking(False)

    def fileno(self) -> int:
        return self.socket.fileno()

    def accept(self) -> socket.socket:
        token, handles, _, _ = socket.recv_fds(self.socket, 1, 1)
        if not token:
            if not self._left:
                self._left = True
                self.abandoned()
            raise OSError("nobody hands over connections any more")
        if not handles:
            raise OSError("a connection was not handed over")
        os.set_inheritable(handles[0], False)
        return socket.socket(fileno=handles[0])

    def close(self) -> None:
        self.socket.close()


def hand_over(plain: socket.socket, to: socket.socket) -> bool:
    """Hand a connection to the process at the other end of a Unix socket, which does not block; here it is closed.
    False if that process does not take it now: it is gone, or does not look."""
    try:
        return socket.send_fds(to, [TOKEN], [plain.fileno()]) == len(TOKEN)
    except OSError:
        return False
    finally:
        plain.close()
