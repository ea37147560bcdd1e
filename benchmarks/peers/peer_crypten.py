"""Lloyd's iterations in CrypTen: additive shares between two data parties, triples from a dealer process.

64-bit ring, 16 fractional bits, truncated locally. k - 1 comparisons a row in ceil(log2 k) batches; bits are
unscaled, so that products with them need no truncation. Cluster sizes are opened and sums divided by them.
"""

from __future__ import annotations

import argparse
import os
import sys
import types

import numpy as np
from common import FRACTION, Peer, main, points, timed, tournament

PEER = Peer(
    name="CrypTen",
    processes=3,
    parties="2 data parties + 1 dealer",
    trust="the dealer, which colludes with neither data party; semi-honest",
    discloses="cluster sizes to both data parties in every iteration, centres to both at the end",
    note="64-bit ring, plain TCP, the dealer sends products on request and the rest as seeds",
)


def party(number: int, ports: list[int], sizes: argparse.Namespace) -> dict | None:
    os.environ |= {
        "WORLD_SIZE": "2",
        "RANK": str(number),
        "RENDEZVOUS": f"tcp://127.0.0.1:{ports[0]}",
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    import torch

    torch.set_num_threads(1)
    # CrypTen imports parts of torch.onnx that are gone; networks are not needed here
    stub = types.ModuleType("crypten.nn.onnx_converter")
    for name in ("from_onnx", "from_pytorch", "from_tensorflow", "TF_AND_TF2ONNX"):
        setattr(stub, name, None)
    sys.modules[stub.__name__] = stub
    import crypten
    from crypten.config import cfg

    cfg["mpc.provider"] = "TTP"
    cfg["encoder.precision_bits"] = FRACTION
    if number == 2:
        crypten.mpc.provider.TTPServer()
        return None
    crypten.init()
    n, d, k = sizes.n, sizes.d, sizes.k
    x, start = (torch.tensor(a) for a in points(n, d, k))
    levels = tournament(k)

    def winners(scores):
        hot = None
        for level in levels:
            left, right = scores[level.left], scores[level.right]
            won = left < right
            beaten = 1 - won
            rows = [None] * k  # each cluster's factor; none where its group has a bye
            for pair, c in zip(*np.nonzero(level.sign), strict=True):
                rows[c] = (won if level.sign[pair, c] > 0 else beaten)[int(pair)]
            if hot is None:
                hot = rows
            else:
                both = [c for c in range(k) if rows[c] is not None and hot[c] is not None]
                product = crypten.stack([hot[c] for c in both]) * crypten.stack([rows[c] for c in both])
                for c in range(k):
                    hot[c] = product[both.index(c)] if c in both else hot[c] if rows[c] is None else rows[c]
            if level is not levels[-1]:
                kept = right + won * (left - right)
                scores = crypten.cat([kept, scores[level.bye]]) if level.bye else kept
        return crypten.stack(hot)

    def fit(iterations: int) -> np.ndarray:
        centers = crypten.cryptensor(start)
        for _ in range(iterations):
            norms = (centers * centers).sum(1).unsqueeze(1)
            hot = winners(norms - centers.matmul(data) * 2)  # clusters by rows of data
            counts = hot.sum(1).get_plain_text().round().long().clamp(min=1)
            centers = hot.matmul(tall).div(counts.unsqueeze(1).expand(k, d))
        return centers.get_plain_text().numpy()

    half = n // 2
    tall = crypten.cat([crypten.cryptensor(x[:half], src=0), crypten.cryptensor(x[half:], src=1)])
    data = tall.t()
    result = timed(fit, sizes.short, sizes.long)
    crypten.uninit()
    return result if number == 0 else None


if __name__ == "__main__":
    main(PEER, party)
