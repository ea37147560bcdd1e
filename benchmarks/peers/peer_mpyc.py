"""Lloyd's iterations in MPyC: Shamir shares between two data parties and a third that holds no data.

Points and centres are integers of 16 fractional bits, so that scores need no truncation: a product of matrices
gives exact ones of 32 bits, and comparisons are as wide as scores can be apart. k - 1 comparisons a row in
ceil(log2 k) batches. Cluster sizes are opened; sums are multiplied by their reciprocals and truncated.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import numpy as np
from common import FRACTION, Peer, main, points, timed, tournament

PEER = Peer(
    name="MPyC",
    processes=3,
    parties="2 data parties + 1 computing party",
    trust="no two of the three collude; semi-honest",
    discloses="cluster sizes to all three in every iteration, centres to all three at the end",
    note="Shamir over a prime field, t = 1, plain TCP",
)


def party(number: int, ports: list[int], sizes: argparse.Namespace) -> dict | None:
    sys.argv = [sys.argv[0], "--no-log", f"-I{number}"]  # MPyC reads the command line when imported
    sys.argv += [word for port in ports for word in ("-P", f"127.0.0.1:{port}")]
    from mpyc.runtime import mpc

    n, d, k = sizes.n, sizes.d, sizes.k
    x, start = points(n, d, k)
    fixed = np.vectorize(lambda value: round(value * 2**FRACTION), otypes="O")
    apart = 2 * FRACTION + (4 * d - 1).bit_length() + 2  # bits of a difference of scores, with its sign
    shift = FRACTION + n.bit_length()  # fractional bits of a reciprocal
    wide = max(apart, FRACTION + shift + 2)
    secint = mpc.SecInt(wide)
    levels = tournament(k)

    def wait(coroutine):
        return asyncio.get_event_loop().run_until_complete(coroutine)

    async def opened(array):
        return await mpc.output(array)

    def winners(scores):
        hot = None
        for level in levels:
            left, right = scores[:, level.left], scores[:, level.right]
            won = mpc.np_sgn(left - right, l=apart, LT=True)
            factor = mpc.np_matmul(won, level.sign.astype(object)) + level.offset.astype(object)
            hot = factor if hot is None else hot * factor
            if level is not levels[-1]:
                kept = right + won * (left - right)
                scores = mpc.np_hstack((kept, scores[:, level.bye])) if level.bye else kept
        return hot

    def fit(iterations: int) -> np.ndarray:
        centers = secint.array(fixed(start))
        for _ in range(iterations):
            norms = mpc.np_sum(centers * centers, axis=1)
            scores = norms - mpc.np_matmul(data, mpc.np_transpose(centers)) * 2
            hot = mpc.np_transpose(winners(scores))
            counts = wait(opened(mpc.np_sum(hot, axis=1)))
            sums = mpc.np_matmul(hot, data)
            inverse = np.array([[round(2**shift / max(int(c), 1))] for c in counts], dtype=object)
            centers = mpc.np_trunc(sums * inverse, f=shift, l=FRACTION + shift + 2)
        return np.array(wait(opened(centers)), dtype=float) / 2**FRACTION

    mpc.run(mpc.start())
    half = n // 2
    own = [
        secint.array(fixed(block) if number == j else fixed(0 * block)) for j, block in enumerate((x[:half], x[half:]))
    ]
    data = mpc.np_vstack(tuple(mpc.input(block, senders=j) for j, block in enumerate(own)))
    result = timed(fit, sizes.short, sizes.long)
    mpc.run(mpc.shutdown())
    return result if number == 0 else None


if __name__ == "__main__":
    main(PEER, party)
