"""Openings by way of collectors: bytes for each party that do not grow with the number of parties.

Directly, each of p parties sends its masked share to p - 1 others. Here each party is the collector of a p-th part of
what is opened:

1. Everybody sends every collector its part of the own share.
2. A collector adds up its part and sends the sum to everybody.

So a party sends 2 (p - 1) / p times the size of its share instead of p - 1 times, in two rounds instead of one.

Sees: a collector the others' shares of its part, which all see where an opening is direct; everybody the sums. The
masks make all of it uniform but for what is opened.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.randomness import Masked
from coterie.ring import Array
from coterie.sharing.party import Party

__all__ = ["begin_collecting"]


def begin_collecting(me: Party, masked: Masked) -> tuple[Callable[[], Array], Callable[[Array], Array]]:
    """Step 1, sent at once. Call the first of what is returned to add up this collector's part; the second, with that
    sum, does step 2 and gives the whole."""
    channel, servers = me.channel, me.world.servers
    values, parts = masked.array.reshape(-1), masked.piece.split(len(servers))
    frames = [part.pack(values[where]) for where, part in parts]
    others = [(j, *part, frame) for j, part, frame in zip(servers, parts, frames, strict=True) if j != me.rank]
    place = servers.index(me.rank)
    (mine, own), own_frame = parts[place], frames[place]
    for j, _, _, frame in others:
        channel.send(j, frame)

    def add_up() -> Array:
        total = values[mine]
        for j, *_ in others:
            total = own.add(total, channel.receive(j, own_frame.dtype, own_frame.shape)[0])
        return total

    def finish(total: Array) -> Array:
        channel.receive_under_way()  # others have sent it before their sums
        arrive, collected = channel.turns.begin_round(), own.pack(total)
        for j, *_ in others:
            channel.send(j, collected)
        arrive()
        whole = np.zeros(values.shape, values.dtype)
        whole[mine] = total
        for j, where, part, frame in others:
            whole[where] = part.add(whole[where], channel.receive(j, frame.dtype, frame.shape)[0])
        return whole.reshape(masked.array.shape)

    return add_up, finish
