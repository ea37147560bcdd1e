"""AES-128-CTR streams, named by who holds them and addressed by phase, block and step.

A stream's key is HKDF of a secret agreed freshly at every connection and of the address: session,
epoch, holders, purpose, phase (the iteration, counted on through restarts), block and step. So every
stream is used once, and holders who run the same program stay in step without talking.

holders     who can expand it
private     this party alone
pair i-j    two players, that is, neither of them the dealer
dealt j     the dealer and player j
common      all players, never the dealer
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

from coterie.errors import MaterialReused, ProtocolError
from coterie.transport import Channel, World

__all__ = ["Entropy", "Stream", "Streams", "SystemEntropy", "agree"]

SECRET_BYTES = 32
_ZEROS = memoryview(bytes(1 << 20))


class Entropy(Protocol):
    """Where a party's own secrets come from. Tests inject their own; the public API cannot."""

    def draw(self, count: int) -> bytes: ...


class SystemEntropy:
    """The operating system's generator."""

    def draw(self, count: int) -> bytes:
        import secrets

        return secrets.token_bytes(count)


class Stream:
    """The key stream of one address, read front to back."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def read(self, count: int) -> NDArray[np.uint8]:
        out = np.empty(count, np.uint8)
        view = out.data
        if count <= len(_ZEROS):
            self._encryptor.update_into(_ZEROS[:count], view)
            return out
        for at in range(0, count, len(_ZEROS)):
            size = min(len(_ZEROS), count - at)
            self._encryptor.update_into(_ZEROS[:size], view[at : at + size])
        return out


class Streams:
    """All streams that one role can expand."""

    def __init__(self, world: World, rank: int, secrets: dict[str, bytes], epoch: int = 0) -> None:
        self.world, self.rank = world, rank
        self._secrets = secrets
        self._epoch = epoch
        self._phase, self._block = 0, 0
        self._steps: defaultdict[str, int] = defaultdict(int)
        self._runs: dict[str, Stream] = {}
        self._blocks = 0
        self._values = 0

    def __repr__(self) -> str:
        return f"Streams(rank={self.rank})"

    def __reduce__(self) -> str:
        raise TypeError("streams cannot be pickled: they hold the session's secrets")

    def begin(self, phase: int) -> None:
        """From here on, addresses lie in this phase. A phase is entered once and in order."""
        self._no_block()
        if phase <= self._phase:
            raise MaterialReused(f"phase {phase} was entered before")
        self._phase, self._blocks = phase, 0
        self._steps.clear()
        self._runs.clear()

    @property
    def phase(self) -> int:
        return self._phase

    def for_blocks(self, count: int) -> list[Streams]:
        """Streams for the next `count` blocks of this phase: each has steps of its own."""
        self._no_block()
        blocks = []
        for _ in range(count):
            self._blocks += 1
            own = Streams(self.world, self.rank, self._secrets, self._epoch)
            own._phase, own._block = self._phase, self._blocks
            blocks.append(own)
        return blocks

    def _no_block(self) -> None:
        if self._block:
            raise MaterialReused("a block has no blocks or phases of its own: their addresses would repeat")

    def dealt_run(self, party: int) -> Stream:
        """The stream of the dealer and a party for all steps of this phase and block, read on from where the last
        step stopped: both ends read the same amounts in the same order. Setting up a stream for every step would
        take longer than what small steps compute."""
        return self._run(f"dealt {party}")

    def pair_run(self, other: int) -> Stream:
        """The stream of this player and another for all steps of this phase and block that are read on from each other,
        as `dealt_run`. What `pair` gives lies at other addresses."""
        self._no_dealer(other)
        return self._run(_holders(self.world, self.rank, other))

    def _run(self, holders: str) -> Stream:
        run = self._runs.get(holders)
        if run is None:
            run = self._runs[holders] = self._at(holders, f"run|{self._phase}|{self._block}")
        return run

    def new_value(self) -> int:
        """A number for a value whose mask it keeps for life; no two values have the same."""
        self._no_block()
        self._values += 1
        return self._values

    def lasting(self, party: int, value: int, block: int) -> Stream:
        """A stream of the dealer and one party that both may expand again: the mask of a block of one
        value, for life (docs/randomness.md#masks). Its address lies outside phases and steps."""
        return self._at(f"dealt {party}", f"lasting|{value}|{block}")

    def private(self, purpose: str) -> Stream:
        return self._next("private", purpose)

    def common(self, purpose: str) -> Stream:
        return self._next("common", purpose)

    def pair(self, other: int, purpose: str) -> Stream:
        self._no_dealer(other)
        return self._next(_holders(self.world, self.rank, other), purpose)

    def _no_dealer(self, other: int) -> None:
        if self.world.dealer in (self.rank, other):
            raise ProtocolError("a pair's stream is for two players; the dealer would know it")

    def _next(self, holders: str, purpose: str) -> Stream:
        step = self._steps[holders]
        self._steps[holders] += 1
        return self._at(holders, f"{purpose}|{self._phase}|{self._block}|{step}")

    def _at(self, holders: str, address: str) -> Stream:
        info = b"coterie stream|" + self.world.session + f"|{self._epoch}|{holders}|{address}".encode()
        return Stream(HKDFExpand(hashes.SHA256(), 16, info).derive(self._secrets[holders]))


def _holders(world: World, a: int, b: int) -> str:
    low, high = sorted((a, b))
    return f"dealt {high}" if low == world.dealer else f"pair {low}-{high}"


def agree(channel: Channel, entropy: Entropy, epoch: int = 0) -> Streams:
    """Agree on the secrets of this session, one message each way between every two roles.

    Both ends contribute to a pair's secret, all players to the common one, so that a secret is
    fresh if one of its holders is. Nothing is stored.
    """
    world, rank = channel.world, channel.rank
    players = [] if rank == world.dealer else world.players
    own_common = entropy.draw(SECRET_BYTES)
    own = {other: entropy.draw(SECRET_BYTES) for other in world.peers(rank)}
    for other in world.peers(rank):
        message = own[other] + (own_common if other in players else b"")
        channel.send(other, np.frombuffer(message, np.uint8))
    secrets = {"private": _derive(world, "private", entropy.draw(SECRET_BYTES))}
    common = {rank: own_common}
    for other in world.peers(rank):
        length = SECRET_BYTES * (2 if other in players else 1)
        theirs = channel.receive(other, np.uint8, (length,))[0].tobytes()
        low, high = (own[other], theirs[:SECRET_BYTES]) if rank < other else (theirs[:SECRET_BYTES], own[other])
        holders = _holders(world, rank, other)
        secrets[holders] = _derive(world, holders, low + high)
        common[other] = theirs[SECRET_BYTES:]
    if players:
        secrets["common"] = _derive(world, "common", b"".join(common[j] for j in players))
    return Streams(world, rank, secrets, epoch)


def _derive(world: World, holders: str, material: bytes) -> bytes:
    info = b"coterie secret|" + holders.encode()
    return HKDF(hashes.SHA256(), SECRET_BYTES, salt=world.session, info=info).derive(material)
