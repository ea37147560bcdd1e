"""How time and bytes grow: n, k, d and p, one at a time, as a table and as plots in benchmarks/results/.

python benchmarks/growth.py [--large]        (--large: n up to 10^7)
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from floor import measure_floor
from measure import Workload, measure

RESULTS = Path(__file__).parent / "results"
BASE = Workload(10_000, 2, 4)


def series(large: bool) -> dict[str, list[tuple[int, Workload]]]:
    rows = [10_000, 30_000, 100_000, 300_000, 1_000_000] + ([10_000_000] if large else [])
    return {
        "n": [(n, replace(BASE, n=n)) for n in rows],
        "k": [(k, replace(BASE, k=k)) for k in (2, 4, 8, 16, 32, 64)],
        "d": [(d, replace(BASE, d=d)) for d in (2, 8, 32, 128, 256)],
        "p": [(p, replace(BASE, parties=p)) for p in (2, 3, 4, 6, 8)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {}
    for name, works in series(arguments.large).items():
        heads = ["ms / iteration", "x floor", "scikit-learn", "ratio", "rounds", "MB party", "MB helper"]
        print(f"\n{name:>10}" + "".join(f"{head:>16}" for head in heads))
        for value, work in works:
            long = 12 if work.n <= 100_000 else 6
            m = measure(work, 2, long, repeats=2)
            floor = measure_floor(work, batches=3).together.least
            sent = [m.traffic.bytes_sent[f"P{j}"] / (long + 1) / 1e6 for j in range(work.parties + 1)]
            row = {
                name: value,
                "ms": 1000 * m.slope,
                "floor_ms": 1000 * floor,
                "plain_ms": 1000 * m.plain_slope,
                "rounds": m.traffic.rounds_per_iteration,
                "party_mb": max(sent[1:]),
                "helper_mb": sent[0],
                "party_mib": max(m.peak[1:]) / 2**20,
                "helper_mib": m.peak[0] / 2**20,
                "forecast_ms": 1000 * m.forecast.seconds_per_iteration,
            }
            found.setdefault(name, []).append(row)
            print(
                f"{value:10,}{row['ms']:16.1f}{m.slope / floor:16.1f}{row['plain_ms']:16.2f}{m.ratio:16.0f}"
                f"{row['rounds']:16.0f}{row['party_mb']:16.2f}{row['helper_mb']:16.2f}",
                flush=True,
            )
    (RESULTS / "growth.json").write_text(json.dumps({"base": asdict(BASE), "series": found}, indent=1) + "\n")
    plot(found)


def plot(found: dict[str, list[dict[str, float]]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    titles = {"n": "rows n", "k": "clusters k", "d": "columns d", "p": "data parties p"}
    figure, axes = plt.subplots(2, 4, figsize=(15, 6.5), layout="constrained")
    for column, (name, rows) in enumerate(found.items()):
        x = [row[name] for row in rows]
        top, bottom = axes[0][column], axes[1][column]
        top.plot(x, [row["ms"] for row in rows], "o-", label="onetime, three or more processes over TLS")
        top.plot(x, [row["forecast_ms"] for row in rows], ":", color="tab:blue", label="its forecast")
        top.plot(
            x, [row["floor_ms"] for row in rows], "--", color="tab:red", label="the floor: bare exchange, expansion"
        )
        top.plot(x, [row["plain_ms"] for row in rows], "s-", color="tab:gray", label="scikit-learn, pooled data")
        bottom.plot(x, [row["helper_mb"] for row in rows], "o-", color="tab:orange", label="helper")
        bottom.plot(x, [row["party_mb"] for row in rows], "s-", color="tab:green", label="each party")
        for axis in (top, bottom):
            axis.set_yscale("log")
            axis.set_xscale("log", base=10 if name == "n" else 2)
            axis.set_xlabel(titles[name])
            axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("milliseconds an iteration")
    axes[1][0].set_ylabel("MB sent an iteration")
    axes[0][0].legend(fontsize=8)
    axes[1][0].legend(fontsize=8)
    figure.suptitle("Growth from 10,000 x 2, k = 4, p = 2")
    figure.savefig(RESULTS / "growth.png", dpi=120)


if __name__ == "__main__":
    main()
