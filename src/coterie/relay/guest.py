"""Somebody's connection to the relay: TLS until it is joined with another one, plain bytes from then on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from coterie.transport.certificates import fingerprint
from coterie.transport.hello import shown_chain
from coterie.transport.relay_messages import LENGTH_BYTES, MOST_MESSAGE, Message, Request, pack, read_length, unpack

__all__ = ["Guest", "leave_both"]

#: Bytes that are read at once while TLS lasts.
READ = 1 << 14
T = TypeVar("T")


class Guest:
    """One connection. `who`: the fingerprint of the certificate that it has shown, or of one that vouches for it and
    which studies list (then it is `renewed`); nothing, if it has shown none."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock, self.who, self.study, self.renewed = sock, "", "", False
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = asyncio.Lock()

    async def shake_hands(self, listed: Callable[[str], bool]) -> None:
        """`listed`: does some study list the certificate with this fingerprint?"""
        await self._do(self._tls.do_handshake)
        shown = [fingerprint(one) for one in shown_chain(self._tls)]
        if shown:
            self.who = next(filter(listed, shown), shown[0])
            self.renewed = self.who != shown[0]

    async def hear(self, most: int = MOST_MESSAGE) -> Request:
        """The next message; a ValueError, if it is none."""
        length = read_length(await self._read(LENGTH_BYTES), most)
        found: Request = unpack(await self._read(length), Request)  # type: ignore[arg-type]
        return found

    async def say(self, message: Message) -> None:
        self._tls.write(pack(message))
        await self._flush()

    async def leave_tls(self) -> bytes:
        """End TLS on both sides, and return what has come behind its end."""
        await self._do(self._tls.unwrap)
        return self._incoming.read()

    def close(self) -> None:
        self.sock.close()

    async def _read(self, count: int) -> bytes:
        raw = bytearray()
        while len(raw) < count:
            part = await self._do(partial(self._tls.read, count - len(raw)))
            if not part:
                raise EOFError
            raw += part
        return bytes(raw)

    async def _do(self, step: Callable[[], T]) -> T:
        """A step of TLS, with as much of what it needs as it takes."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                await self._flush()
                part = await self._loop.sock_recv(self.sock, READ)
                if not part:
                    raise EOFError from None
                await asyncio.sleep(0)  # there may have been nothing to wait for: the others' turn
                self._incoming.write(part)
            except ssl.SSLError:
                await self._flush()  # an alert, which says why
                raise
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        async with self._sending:
            if self._outgoing.pending:
                await self._loop.sock_sendall(self.sock, self._outgoing.read())


async def leave_both(guest: Guest, other: Guest) -> tuple[bytes, bytes]:
    """End TLS with both at once: one that takes its time does not keep the other from hearing of it."""
    mine, theirs = await asyncio.gather(guest.leave_tls(), other.leave_tls(), return_exceptions=True)
    for behind in (mine, theirs):
        if isinstance(behind, BaseException):
            raise behind
    return mine, theirs  # type: ignore[return-value]
