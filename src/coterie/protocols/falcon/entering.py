"""How values get into the three servers' shares, and out of them (docs/protocols/falcon.md#falcon-entering)."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.protocols.falcon.servers import Move, Round, Step, Trio, words_piece
from coterie.protocols.interface import Ints
from coterie.randomness import Stream
from coterie.randomness.material import Elements
from coterie.ring import Array, Ring, Words
from coterie.sharing import Shared

__all__ = ["enter", "open_to"]

#: Words of 64 bits in a seed.
SEED = Elements(Words(64), 2)


def enter(trio: Trio, ring: Words, owner: int, count: int, values: Ints | None) -> Step[Shared]:
    """[x] (count,): what an owner, by its rank, enters. It passes the values, or None for zeros; nobody else does. One
    round.

    By server S_a: x_a = F_a, x_(a+1) = x - F_a, to S_(a+1); x_(a+2) = 0. A word a number.
    By another owner: seeds s_0 to S_0 and S_2, s_1 to S_1 and S_0; x_0 = G(s_0), x_1 = G(s_1), and
    x_2 = x - G(s_0) - G(s_1) to S_2 and S_1. Two words a number.

    Sees: S_(a+1) x - F_a, which F_a of K_a masks; it lacks K_a. Of another owner S_0 sees two seeds, S_1 and S_2 one
    and
    x_2, which the seed that each of them lacks masks.
    """
    me = trio.me
    word, own = words_piece(ring, count), ring.zeros((count,)) if values is None else ring.encode(values).reshape(count)
    if owner in me.world.servers:
        by = Trio(me, list(me.world.servers).index(owner))
        moves = [by.move(0, 1, word)]
        if by.role is None:
            yield Round(moves)
            return me.hollow(ring, (count,))
        f = by.fresh(0, ring, count) if by.role != 1 else ring.zeros((0,))
        if by.role == 0:
            rest = ring.sub(own, f)
            yield Round(moves, [rest])
            return by.of_roles(ring, (count,), f, rest, None)
        received = yield Round(moves)
        return by.of_roles(ring, (count,), f, *received, *[None] * (2 - len(received)))
    moves = [Move(owner, trio.rank(role), SEED) for role in (0, 2, 1, 0)]
    moves += [Move(owner, trio.rank(role), word) for role in (2, 1)]
    if me.rank == owner:
        seeds = SEED.ring.sample(me.streams.private("seeds of an input"), (2, *SEED.shape))
        masks = [_expand(seed, ring, count) for seed in seeds]
        rest = ring.sub(ring.sub(own, masks[0]), masks[1])
        yield Round(moves, [seeds[0], seeds[0], seeds[1], seeds[1], rest, rest])
        return me.hollow(ring, (count,))
    received = yield Round(moves)
    if trio.role is None:
        return me.hollow(ring, (count,))
    first, second = received
    if trio.role == 0:
        return trio.held(ring, _expand(first, ring, count), _expand(second, ring, count))
    mask = _expand(first, ring, count)
    return trio.held(ring, mask, second) if trio.role == 1 else trio.held(ring, second, mask)


def _expand(seed: Array, ring: Words, count: int) -> Array:
    """G: the key stream of a seed."""
    return ring.sample(Stream(seed.tobytes()), (count,))


def open_to(trio: Trio, value: Shared, to: Sequence[int]) -> Step[Array | None]:
    """The value at the ranks that the gate has permitted to have it, None elsewhere. One round.

    To server S_i: x_(i+2) from S_(i+1). To an owner who does not serve: x_i + F_i - F_(i+1) from each S_i.

    Sees: a server the share that it lacks, which its own two and the value determine. Another owner three shares that
    are uniform but for their sum, also to a server that tells it its own.
    """
    me, ring, servers = trio.me, value.ring, list(trio.me.world.servers)
    piece, others = Elements(ring, *value.shape), [rank for rank in to if rank not in servers]
    moves = [trio.move(servers.index(rank) + 1, servers.index(rank), piece) for rank in to if rank in servers]
    moves += [Move(rank, other, piece) for other in others for rank in servers]
    if trio.role is None:
        received = yield Round(moves)
        return _total(ring, received) if me.rank in to else None
    own, following = value.shares
    sent = [following] if trio.rank(trio.role - 1) in to else []
    if others:
        zero = ring.sub(trio.fresh(trio.role, ring, *value.shape), trio.fresh(trio.role + 1, ring, *value.shape))
        sent += [ring.add(own, zero)] * len(others)
    received = yield Round(moves, sent)
    return _total(ring, [own, following, *received]) if me.rank in to else None


def _total(ring: Ring, shares: Sequence[Array]) -> Array:
    total = shares[0]
    for share in shares[1:]:
        total = ring.add(total, share)
    return total
