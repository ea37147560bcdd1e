"""The relay at work: one port, one thread, a coroutine for each connection.

A connection is *half-open* until it has shown a certificate and said what it wants, for which it has a few seconds.
Nobody is told anything of a study that does not list it. What a participant may ask for: `relay_messages`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coterie.errors import CoterieError
from coterie.relay.crowd import Crowd, refuse, say_end
from coterie.relay.guest import Guest, leave_both
from coterie.relay.registry import Registry, check_brought
from coterie.relay.splice import Pair
from coterie.transport.relay_messages import (
    MOST_BROUGHT,
    MOST_MESSAGE,
    Answer,
    Ask,
    Bring,
    Call,
    Dial,
    Joined,
    Listen,
    Ping,
    Pong,
    Recorded,
    Refused,
    Request,
)
from coterie.transport.wording import say_kind, say_why

__all__ = ["Limits", "Relay"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Connections: in all, of one study, of one participant, half-open ones, those that bring a study. Seconds: for a
    handshake and the request after it; between two pings; for a ping to be answered if another process wants to
    listen; for a pair on which nothing passes, and for one of which an end has said all; between two looks at the
    folder of studies."""

    connections: int = 4096
    per_study: int = 2048
    per_participant: int = 1024
    half_open: int = 256
    bringing: int = 16
    handshake: float = 10.0
    ping: float = 15.0
    pong: float = 3.0
    idle: float = 900.0
    half_closed: float = 60.0
    look: float = 2.0


class Listening:
    """A participant that waits for calls, on a connection of its own."""

    def __init__(self, guest: Guest, now: float) -> None:
        self.guest, self.heard = guest, now
        self.studies: tuple[str, ...] = ()
        self.alive = asyncio.Event()


class Dialled:
    """A call that is to be answered by one participant, with the token."""

    def __init__(self, who: str, study: str) -> None:
        self.who, self.study = who, study
        self.answered: asyncio.Future[Guest] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()


class Relay:
    """`half_open`, `guests`, `pairs`: what there is at the moment, for those who look."""

    def __init__(self, registry: Registry, limits: Limits | None = None) -> None:
        self.registry, self.limits = registry, limits or Limits()
        self.guests: set[asyncio.Task[None]] = set()
        self.half_open, self.bringing = Crowd(), Crowd()  # of the half-open ones, those that show no certificate
        self.pairs: set[Pair] = set()
        self.of_study: Counter[str] = Counter()
        self.of_participant: Counter[str] = Counter()
        self.listening: dict[tuple[str, str], Listening] = {}
        self.calls: dict[bytes, Dialled] = {}
        self._arrival = asyncio.Condition()
        self._checking = asyncio.Semaphore(1)

    async def serve(self, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
        """Until it is cancelled."""
        listener.setblocking(False)
        minders = [asyncio.create_task(self._look_again()), asyncio.create_task(self._cut_idle())]
        ready()
        try:
            while True:
                try:
                    sock, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError:  # the guest is gone, or there are no more sockets for now
                    await asyncio.sleep(0.05)
                    continue
                self._receive(sock)
                await asyncio.sleep(0)  # whoever is there has a turn before the next one is let in
        finally:
            tasks = [*minders, *self.guests]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- guests ------------------------------------------------------------------------------------------

    def _receive(self, sock: socket.socket) -> None:
        self.half_open.make_room(self.limits.half_open)
        if len(self.guests) >= self.limits.connections:
            refuse(f"a connection was refused: there are {len(self.guests)}", sock)
            sock.close()
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        task = asyncio.create_task(self._attend(sock))
        self.guests.add(task)
        self.half_open.enter(task, self.limits.half_open)
        task.add_done_callback(self.guests.discard)
        task.add_done_callback(lambda _: sock.close())  # also if it was cancelled before it began

    async def _attend(self, sock: socket.socket) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            guest = Guest(sock, self.registry.context)
            async with asyncio.timeout(self.limits.handshake):
                await guest.shake_hands(self.registry.lists)
                if not guest.who:
                    self.bringing.enter(me, self.limits.bringing)  # a study may be long, and takes a while to check
                request = await guest.hear(MOST_MESSAGE if guest.who else MOST_BROUGHT)
            if guest.who:
                self.half_open.discard(me)
            await self._grant(guest, request)
        except ssl.SSLError as error:
            refuse(f"a stranger was refused: {say_why(error)}", sock)
        except TimeoutError:
            refuse("a connection ended: it took too long", sock)
        except (EOFError, OSError, ValueError) as error:  # gone, or something that makes no sense
            refuse(f"a connection ended: {say_end(error)}", sock)

    async def _grant(self, guest: Guest, request: Request) -> None:
        if isinstance(request, Bring):
            await self._register(guest, request)
        elif not guest.who:
            refuse("a stranger was refused (no certificate)")
        elif isinstance(request, Ask):
            await guest.say(self._recorded(guest, request.studies))
        elif isinstance(request, Answer):
            await self._answer(guest, request)
        elif isinstance(request, Dial):
            await self._dial(guest, request)
        elif isinstance(request, Listen):
            await self._listen(guest, request)

    def _recorded(self, guest: Guest, studies: tuple[str, ...]) -> Recorded:
        return Recorded(tuple(study for study in studies if self.registry.knows(study, guest.who, guest.renewed)))

    @contextlib.contextmanager
    def _counted(self, who: str, study: str) -> Iterator[bool]:
        """One more connection of a participant in a study, if there may be; `study`: none, for one that listens."""
        room = self.of_participant[who] < self.limits.per_participant
        room = room and (not study or self.of_study[study] < self.limits.per_study)
        if not room:
            refuse("a connection was refused: a participant or a study has too many")
            yield False
            return
        self.of_participant[who] += 1
        self.of_study[study] += 1
        try:
            yield True
        finally:
            for counter, key in ((self.of_participant, who), (self.of_study, study)):
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]

    # -- registering studies -----------------------------------------------------------------------------

    async def _register(self, guest: Guest, brought: Bring) -> None:
        if not self.registry.open:
            await guest.say(Refused("closed"))
            return
        try:
            async with self._checking:  # whoever brings rubbish keeps one processor busy, at most
                for crowd in (self.half_open, self.bringing):
                    crowd.discard(asyncio.current_task())  # a check that has begun cannot be broken off
                entry = await asyncio.to_thread(check_brought, brought, self.registry.fingerprint)
        except CoterieError as error:
            refuse(f"a study that was brought was refused: {say_kind(type(error).__name__)}", guest.sock)
            await guest.say(Refused("other" if "by way of this relay" in str(error) else "invalid"))
            return
        used = {*self.of_study, *(study for study, _ in self.listening)}
        if self.registry.get(entry.study) is None and not self.registry.add(entry, used):
            await guest.say(Refused("full"))
            return
        await guest.say(Recorded((entry.study,)))

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self.limits.look)
            try:
                self.registry.look()
            except OSError as error:
                log.warning("the folder of studies cannot be read (%s)", error.strerror)

    # -- those who listen --------------------------------------------------------------------------------

    async def _listen(self, guest: Guest, request: Listen) -> None:
        """Keep a participant registered for as long as it is there."""
        me = Listening(guest, asyncio.get_running_loop().time())
        with self._counted(guest.who, "") as room:
            if not room:
                await guest.say(Refused("busy"))
                return
            pinging = asyncio.create_task(self._ping(me))
            try:
                await self._announce(me, request.studies)
                while True:
                    message = await guest.hear()
                    await asyncio.sleep(0)  # whoever says much at once waits for the others' turns
                    me.heard = asyncio.get_running_loop().time()
                    me.alive.set()
                    if isinstance(message, Listen):
                        await self._announce(me, message.studies)
                    elif not isinstance(message, Pong):
                        raise ValueError("not what was due")
            finally:
                pinging.cancel()
                self._forget(me)

    async def _announce(self, me: Listening, studies: tuple[str, ...]) -> None:
        """What is free is heard by `me` from now on. A study that another process has does not keep the rest away."""
        who = me.guest.who
        known: list[str] = []
        taken: list[str] = []
        for study in self._recorded(me.guest, studies).studies:
            entry = self.registry.get(study)
            if entry is None or who not in entry.reached:
                await self._turn_away(me, Refused("elsewhere"))
            other = self.listening.get((study, who))
            there = other is not None and other is not me and await self._is_there(other)
            (taken if there else known).append(study)
        if taken and not known:
            await self._turn_away(me, Refused("taken"))
        self._forget(me)
        me.studies = tuple(known)
        for study in known:
            self.listening[study, who] = me
        log.info("a participant (%s) listens for %d studies", who[:16], len(known))
        await me.guest.say(Recorded(me.studies, tuple(taken)))
        async with self._arrival:
            self._arrival.notify_all()

    async def _turn_away(self, me: Listening, refused: Refused) -> None:
        await me.guest.say(refused)
        raise ValueError("it may not listen")

    async def _is_there(self, other: Listening) -> bool:
        """Whoever was registered before stays so, if it is still there."""
        other.alive.clear()
        try:
            async with asyncio.timeout(self.limits.pong):
                await other.guest.say(Ping())
                await other.alive.wait()
        except (OSError, ValueError, TimeoutError):
            self._forget(other)
            return False
        return other in self.listening.values()

    def _forget(self, me: Listening) -> None:
        for study in me.studies:
            if self.listening.get((study, me.guest.who)) is me:
                del self.listening[study, me.guest.who]
        me.studies = ()
        me.alive.set()

    async def _ping(self, me: Listening) -> None:
        """One that has been silent for three pings is gone."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, ValueError):
            while loop.time() < me.heard + 3 * self.limits.ping:
                await asyncio.sleep(self.limits.ping)
                async with asyncio.timeout(self.limits.ping):
                    await me.guest.say(Ping())
        self._forget(me)
        with contextlib.suppress(OSError):
            me.guest.sock.shutdown(socket.SHUT_RDWR)  # wakes the one who reads

    # -- those who dial ----------------------------------------------------------------------------------

    async def _dial(self, guest: Guest, request: Dial) -> None:
        entry = self.registry.get(request.study)
        known = self.registry.knows(request.study, guest.who, guest.renewed)
        if entry is None or not known or request.to not in entry.certificates:
            await guest.say(Refused("unknown"))
        elif request.to not in entry.reached or request.to == guest.who:
            await guest.say(Refused("elsewhere"))
        else:
            with self._counted(guest.who, request.study) as room:
                if not room:
                    await guest.say(Refused("busy"))
                    return
                await self._call(guest, request)

    async def _call(self, guest: Guest, request: Dial) -> None:
        """Have the one who listens answer, and join the two."""
        listening = await self._find(request)
        if listening is None:
            await guest.say(Refused("absent"))
            return
        token, call = secrets.token_bytes(16), Dialled(request.to, request.study)
        self.calls[token] = call
        try:
            try:
                async with asyncio.timeout(max(request.wait, 1.0)):
                    await listening.guest.say(Call(request.study, token))
                    other = await call.answered
            except (TimeoutError, OSError, ValueError):
                await guest.say(Refused("absent"))
                return
            finally:
                self.calls.pop(token, None)
            async with asyncio.timeout(self.limits.handshake):
                for one in (guest, other):
                    await one.say(Joined())
                first = await leave_both(guest, other)
            await self._join(Pair(request.study, guest.sock, other.sock), first)
        finally:
            call.over.set()

    async def _join(self, pair: Pair, first: tuple[bytes, bytes]) -> None:
        self.pairs.add(pair)
        log.debug("two participants of study %s are joined", pair.study)
        try:
            await pair.run(first)
        finally:
            self.pairs.discard(pair)

    async def _find(self, request: Dial) -> Listening | None:
        """The one who listens; if it is not there yet, it may come within the time that the caller allows."""
        key = request.study, request.to
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.wait), self._arrival:
                await self._arrival.wait_for(lambda: key in self.listening)
        return self.listening.get(key)

    async def _answer(self, guest: Guest, request: Answer) -> None:
        """Whoever was called comes with a connection, which belongs to the one who called from then on."""
        call = self.calls.get(request.token)
        if call is None or call.who != guest.who or call.answered.done():
            await guest.say(Refused("absent"))
            return
        with self._counted(guest.who, call.study) as room:
            if not room:
                await guest.say(Refused("busy"))
                return
            call.answered.set_result(guest)
            await call.over.wait()

    # -- what has gone quiet -----------------------------------------------------------------------------

    async def _cut_idle(self) -> None:
        """Pairs on which nothing has passed for too long are cut."""
        loop, limits = asyncio.get_running_loop(), self.limits
        while True:
            await asyncio.sleep(min(5.0, limits.half_closed))
            for pair in list(self.pairs):
                quiet = loop.time() - pair.last
                if quiet > limits.idle or (any(pair.ended) and quiet > limits.half_closed):
                    for end in pair.ends:
                        with contextlib.suppress(OSError):
                            end.shutdown(socket.SHUT_RDWR)
