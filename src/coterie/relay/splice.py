"""Two connections, joined: what comes from one goes to the other, and as fast as that one takes it.

A pair has one small buffer in each direction, and reads again when all of it has been taken: whoever sends to somebody
that does not read is held back by TCP, and the relay holds no more. After each piece the others have their turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

__all__ = ["CHUNK", "Pair"]

#: Bytes that a pair holds in one direction, at most.
CHUNK = 1 << 16


class Pair:
    """`held`: bytes that have been read and not been taken, by direction; `passed`: bytes that have been."""

    def __init__(self, study: str, one: socket.socket, other: socket.socket) -> None:
        self.study, self.ends = study, (one, other)
        self.held, self.passed = [0, 0], [0, 0]
        self.ended = [False, False]
        self._loop = asyncio.get_running_loop()
        self.last = self._loop.time()

    async def run(self, first: tuple[bytes, bytes]) -> None:
        """Until both ends have said all, or one is gone. `first`: what has been read from each already."""
        pumps = [asyncio.create_task(self._pump(way, first[way])) for way in (0, 1)]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, way: int, first: bytes) -> None:
        source, target = self.ends[way], self.ends[1 - way]
        buffer = memoryview(bytearray(CHUNK))
        await self._pass_on(way, target, memoryview(first))
        while True:
            count = await self._loop.sock_recv_into(source, buffer)
            if not count:
                break
            await self._pass_on(way, target, buffer[:count])
            await asyncio.sleep(0)  # neither of the two need have waited: the others' turn
        self.ended[way] = True
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)  # what comes the other way may go on

    async def _pass_on(self, way: int, target: socket.socket, piece: memoryview[int]) -> None:
        self.held[way] = len(piece)
        self.last = self._loop.time()
        await self._loop.sock_sendall(target, piece)
        self.passed[way] += len(piece)
        self.held[way] = 0
        self.last = self._loop.time()
