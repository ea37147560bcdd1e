"""Three servers with replicated shares, what each pair of them can expand, and rounds of messages
(docs/protocols/falcon.md#falcon-shares).

x = x_0 + x_1 + x_2. Share i is held by S_i and S_(i-1), indices modulo 3: S_i holds x_i and x_(i+1). Each server lacks
one share, and any two have all. Key K_i belongs to the holders of share i; F_i stands for a fresh stretch of it, read
once. A public value v is (v, 0, 0).

A protocol is a *step*: a generator that yields its rounds, at every role the same ones, and returns its result. So
steps can be run side by side, round by round (`run_steps`): what they send in a round travels together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from coterie.randomness.material import Elements, Packed, Piece
from coterie.ring import Array, Ring, Words
from coterie.sharing import Party, Shared

__all__ = [
    "Move",
    "Round",
    "Step",
    "Trio",
    "around",
    "cross",
    "reshare",
    "run_step",
    "run_steps",
    "side_by_side",
    "words_piece",
]

T = TypeVar("T")


class Move(NamedTuple):
    """A message, by the ranks of who sends it and who receives it."""

    sender: int
    receiver: int
    piece: Piece


class Round(NamedTuple):
    """Messages of which none depends on another, and the contents of those that this role sends, in their order: all
    blinded with fresh stretches, or permitted by the gate."""

    moves: Sequence[Move]
    sent: Sequence[Array] = ()


#: Is sent what this role receives in a round, in the order of the moves.
Step = Generator[Round, list[Any], T]


@dataclass(frozen=True)
class Trio:
    """The three servers, seen from one role. In a step that treats them differently, server `turn` is S_i, the next one
    S_j, the one after it S_k: roles 0, 1 and 2. Whoever does not serve has no place and no role."""

    me: Party
    turn: int = 0

    @cached_property
    def place(self) -> int | None:
        return self.me.world.servers.index(self.me.rank) if self.me.serves else None

    @cached_property
    def role(self) -> int | None:
        return None if self.place is None else (self.place - self.turn) % 3

    def rank(self, role: int) -> int:
        return self.me.world.servers[(role + self.turn) % 3]

    def move(self, sender: int, receiver: int, piece: Piece) -> Move:
        """A message between two roles."""
        return Move(self.rank(sender), self.rank(receiver), piece)

    def fresh(self, share: int, ring: Ring, *shape: int) -> Array:
        """F: a stretch of the key of the share of this role, 0 to 2, if this server holds it; else nothing."""
        if self.role is None or (share - self.role) % 3 == 2:
            return ring.zeros((0,))
        other = self.rank(self.role - 1 if share % 3 == self.role else self.role + 1)
        return ring.sample(self.me.streams.pair_run(other), shape)

    def held(self, ring: Ring, first: Array, second: Array) -> Shared:
        """This server's shares x_i and x_(i+1) of a value; whoever holds x_0 adds public values to it."""
        return Shared(ring, (first, second), (self.place == 0, self.place == 2))

    def of_roles(self, ring: Ring, shape: tuple[int, ...], *shares: Array | None) -> Shared:
        """A value by its shares i, j and k, as far as this role holds them; None: a share that is zero."""
        if self.role is None:
            return self.me.hollow(ring, shape)
        first, second = shares[self.role], shares[(self.role + 1) % 3]
        zero = ring.zeros(shape) if first is None or second is None else None
        mine = [zero if one is None else one for one in (first, second)]
        return self.held(ring, *(one.reshape(shape) for one in mine if one is not None))

    def public(self, values: Any, ring: Ring) -> Shared:
        if self.place is None:
            return self.me.hollow(ring, np.shape(values))
        nothing = ring.zeros(np.shape(values))
        return self.held(ring, nothing, nothing) + ring.encode(values)


@lru_cache(maxsize=1024)
def words_piece(ring: Ring, *shape: int) -> Piece:
    """How words travel: in as few bytes as they need."""
    if isinstance(ring, Words) and 1 < ring.width < 64:
        return Packed(*shape, width=ring.width)
    return Elements(ring, *shape)


def cross(x: Shared, y: Shared, times: Callable[[Array, Array], Array]) -> Array:
    """A server's part of x y: x_i y_i + x_i y_(i+1) + x_(i+1) y_i. The parts of the three add up to the product."""
    ring, (a, b), (c, d) = x.ring, x.shares, y.shares
    return ring.add(times(a, ring.add(c, d)), times(b, c))


def reshare(trio: Trio, ring: Ring, shape: tuple[int, ...], part: Array | None) -> Step[Shared]:
    """[z] from a part of it at each server. One round, a word from each server.

    S_i: z_i = part + F_i - F_(i+1), to S_(i-1).
    Sees: S_(i-1) z_i, which F_(i+1) of K_(i+1) makes uniform: it holds K_(i-1) and K_i. What F_i and F_(i+1) add is
    zero in all.
    """
    piece = words_piece(ring, *shape)
    moves = [trio.move(role, role - 1, piece) for role in range(3)]
    if trio.role is None or part is None:
        yield Round(moves)
        return trio.me.hollow(ring, shape)
    own, following = around(trio, ring, *shape)
    z = ring.add(part, ring.sub(own, following))
    (theirs,) = yield Round(moves, [z])
    return trio.held(ring, z, theirs)


def around(trio: Trio, ring: Ring, *shape: int) -> tuple[Array, Array]:
    """F_i and F_(i+1) at server i; nothing at others."""
    role = trio.role or 0
    return trio.fresh(role, ring, *shape), trio.fresh(role + 1, ring, *shape)


def side_by_side(me: Party, *steps: Step[Any]) -> Step[list[Any]]:
    """Steps round by round: their first rounds together, their second ones together, and so on."""
    results: list[Any] = [None] * len(steps)
    given: dict[int, Any] = dict.fromkeys(range(len(steps)))
    while given:
        rounds: dict[int, Round] = {}
        for i, received in given.items():
            try:
                rounds[i] = steps[i].send(received)
            except StopIteration as end:
                results[i] = end.value
        given = {}
        if rounds:
            moves = [move for one in rounds.values() for move in one.moves]
            received = iter((yield Round(moves, [array for one in rounds.values() for array in one.sent])))
            for i, one in rounds.items():
                given[i] = [next(received) for move in one.moves if move.receiver == me.rank]
    return results


def run_steps(me: Party, *steps: Step[Any]) -> list[Any]:
    """Run steps side by side."""
    return run_step(me, side_by_side(me, *steps))


def run_step(me: Party, step: Step[T]) -> T:
    received = None
    while True:
        try:
            one = step.send(received)  # type: ignore[arg-type]  # None starts it
        except StopIteration as end:
            result: T = end.value
            return result
        received = _pass_round(me, one)


def _pass_round(me: Party, one: Round) -> list[Array]:
    """Send what this role sends, let other tasks take a turn, and receive what this role is sent."""
    channel = me.channel
    arrive = channel.turns.begin_round()
    if not me.serves:  # who holds no share follows the sizes alone
        channel.others_send([([m.sender], [m.receiver], m.piece.wire) for m in one.moves if m.sender != me.rank])()
    for move, array in zip([m for m in one.moves if m.sender == me.rank], one.sent, strict=True):
        channel.send(move.receiver, move.piece.pack(array))
    arrive()
    return [_receive(me, move) for move in one.moves if move.receiver == me.rank]


def _receive(me: Party, move: Move) -> Array:
    piece = move.piece
    if isinstance(piece, Packed):
        return piece.total([me.channel.receive(move.sender, np.uint8, (piece.wire,))[0]])
    assert isinstance(piece, Elements)
    return me.channel.receive(move.sender, piece.ring.dtype, piece.shape)[0]
