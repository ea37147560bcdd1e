"""The paper's example: four blobs of 100 points, held by Alice and Bob, clustered without pooling them.

Fits SHK-means with both divisions and SVK-means over real processes and mutual TLS, and compares with
scikit-learn on the pooled data, from the same start.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.cluster import KMeans

from coterie import SecureKMeans

MEANS = [(5, 3), (5, -5), (-5, 5), (-3, -5)]


def paper_points(seed: int = 0) -> np.ndarray:
    """400 points, in random order: four normal blobs with unit variance (paper, section 3.1)."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(mean, 1.0, size=(100, 2)) for mean in MEANS])
    return points[rng.permutation(400)]


def main() -> None:
    x = paper_points()
    ways = [
        ("SHK-means, rows split, counts secret", {"partition": "horizontal"}),
        ("SHK-means, rows split, counts revealed", {"partition": "horizontal", "counts": "revealed"}),
        ("SHK-means, a column each, labels private", {"partition": "vertical"}),
        ("SVK-means, a column each, labels revealed", {"partition": "vertical", "labels": "revealed"}),
    ]
    runs = [
        (f"{protocol:9} {title}", {"protocol": protocol, **options})
        for protocol in ("onetime", "securenn")
        for title, options in ways
    ]
    print("The paper's example: 400 points of Alice (P1) and Bob (P2), a helper (P0), TLS on loopback\n")
    print(f"{'':54}{'seconds':>8}{'iterations':>11}{'rounds':>8}{'KiB sent':>10}{'labels':>10}{'centres off by':>16}")
    for title, options in runs:
        started = time.perf_counter()
        secure = SecureKMeans(4, transport="tls", random_state=2, tol=0, **options).fit(x)
        seconds = time.perf_counter() - started
        pooled = KMeans(4, init=x[secure.init_rows_], n_init=1, algorithm="lloyd", tol=0).fit(x)
        differing = int((secure.labels_ != pooled.labels_).sum())
        off = float(np.abs(secure.cluster_centers_ - pooled.cluster_centers_).max())
        sent = sum(secure.traffic_.bytes_sent.values()) / 1024
        verdict = "equal" if differing == 0 else f"{differing} differ"
        print(
            f"{title:54}{seconds:8.1f}{secure.n_iter_:11d}{secure.traffic_.rounds:8d}{sent:10.0f}{verdict:>10}{off:16.1e}"
        )
    print("\nCompared with scikit-learn's KMeans on the pooled data, from the same starting rows.")
    print("What the first of these runs disclosed, and to whom:")
    first = SecureKMeans(4, random_state=2, tol=0).fit(x)
    for what in dict.fromkeys(entry.what for entry in first.disclosures_):
        entries = [entry for entry in first.disclosures_ if entry.what == what]
        to = sorted({name for entry in entries for name in entry.to})
        when = f"{len(entries)} iterations" if entries[0].iteration else "once"
        print(f"  {what:9} to {', '.join(to):12} {when:14} ({entries[0].reason})")


if __name__ == "__main__":
    main()
