"""Lloyd's iterations in SPU: additive shares between two data parties (semi2k), triples as the package offers them.

64-bit ring, 16 fractional bits, truncated locally. k - 1 comparisons a row in ceil(log2 k) batches. One compiled
program gives sums and reveals cluster sizes, another multiplies by their reciprocals, taken in the clear.
"""

from __future__ import annotations

import argparse
import os
import pickle

import numpy as np
from common import FRACTION, Peer, main, points, timed, tournament

PEER = Peer(
    name="SPU (semi2k)",
    processes=2,
    parties="2 data parties",
    trust="the first data party, which generates the triples of both and so could read the other's data; semi-honest",
    discloses="cluster sizes to both data parties in every iteration, centres to both at the end",
    note="64-bit ring, triples by TrustedFirstParty (a dealer's server does not come with the package), plain TCP",
)


def party(number: int, ports: list[int], sizes: argparse.Namespace) -> dict | None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax.numpy as jnp
    from spu import libspu
    from spu.api import Io, Runtime
    from spu.experimental.reveal_impl import reveal
    from spu.utils import frontend

    n, d, k = sizes.n, sizes.d, sizes.k
    x, start = (a.astype(np.float32) for a in points(n, d, k))
    levels = tournament(k)
    scale = 2.0 ** round(np.log2(max(n / k, 1)))  # keeps reciprocals near one

    def winners(scores):
        hot = [None] * k
        for level in levels:
            left, right = scores[jnp.array(level.left)], scores[jnp.array(level.right)]
            won = left < right
            lost = jnp.logical_not(won)
            factor = [None] * k
            for pair, c in zip(*np.nonzero(level.sign), strict=True):
                factor[c] = (won if level.sign[pair, c] > 0 else lost)[pair]
            both = [c for c in range(k) if hot[c] is not None and factor[c] is not None]
            if both:
                product = jnp.logical_and(jnp.stack([hot[c] for c in both]), jnp.stack([factor[c] for c in both]))
            hot = [
                product[both.index(c)] if c in both else factor[c] if factor[c] is not None else hot[c]
                for c in range(k)
            ]
            if level is not levels[-1]:
                kept = jnp.where(won, left, right)
                scores = jnp.concatenate([kept, scores[jnp.array(level.bye)]]) if level.bye else kept
        return jnp.stack(hot)

    def iteration(one, two, centers):
        data = jnp.concatenate([one, two])
        norms = jnp.sum(centers * centers, axis=1)[:, None]
        hot = winners(norms - 2 * centers @ data.T).astype(jnp.float32)
        return (hot @ data) * (1 / scale), reveal(jnp.sum(hot, axis=1))

    def division(sums, inverse):
        return sums * inverse

    desc = libspu.link.Desc()
    for j, port in enumerate(ports):
        desc.add_party(f"P{j}", f"127.0.0.1:{port}")
    link = libspu.link.create_brpc(desc, number)
    config = libspu.RuntimeConfig(libspu.ProtocolKind.SEMI2K, libspu.FieldType.FM64, FRACTION)
    config.trunc_allow_msb_error = True
    runtime, io = Runtime(link, config), Io(2, config)
    secret, public = libspu.Visibility.VIS_SECRET, libspu.Visibility.VIS_PUBLIC
    half = n // 2
    blocks, ones = (x[:half], x[half:], start), np.ones((k, 1), np.float32)

    def compiled(function, values, inputs, visible, outputs):
        return frontend.compile(frontend.Kind.JAX, function, values, {}, inputs, visible, lambda _: outputs)[0]

    assign = compiled(iteration, blocks, ["one", "two", "centers"], [secret] * 3, ["sums", "counts"])
    update = compiled(division, (start, ones), ["sums", "inverse"], [secret, public], ["centers"])

    def packed(share) -> bytes:
        return pickle.dumps((share.meta, list(share.share_chunks)))

    def unpacked(data: bytes):
        share = libspu.Share()
        share.meta, share.share_chunks = pickle.loads(data)  # noqa: S301, from ourselves
        return share

    def put(name: str, block: np.ndarray, owner: int) -> None:
        """The owner keeps a share and sends the other."""
        if number == owner:
            shares = io.make_shares(block, secret)
            link.send(1 - owner, packed(shares[1 - owner]))
            runtime.set_var(name, shares[owner])
        else:
            runtime.set_var(name, unpacked(link.recv(owner)))

    def fit(iterations: int) -> np.ndarray:
        put("centers", start, 0)
        for _ in range(iterations):
            runtime.run(assign)
            counts = io.reconstruct([runtime.get_var("counts")] * 2)
            inverse = (scale / np.maximum(counts, 1))[:, None].astype(np.float32)
            runtime.set_var("inverse", io.make_shares(inverse, public)[number])
            runtime.run(update)
        link.send(1 - number, packed(runtime.get_var("centers")))
        other = unpacked(link.recv(1 - number))
        mine = runtime.get_var("centers")
        return io.reconstruct([mine, other] if number == 0 else [other, mine])

    put("one", x[:half], 0)
    put("two", x[half:], 1)
    result = timed(fit, sizes.short, sizes.long)
    link.stop_link()
    return result if number == 0 else None


if __name__ == "__main__":
    main(PEER, party)
