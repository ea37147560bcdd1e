"""How good the clusters are: the default start and stop, beside scikit-learn's defaults, over many seeds.

    python benchmarks/quality.py                 # 400 seeds each and 2,000 others, by the oracle; half an hour
    python benchmarks/quality.py --seeds 40 --again 0 iris wine

A run is *bad* if its inertia is more than 5 % above the best that either has found. Ours are those of the plaintext
oracle, which secure runs equal bit for bit; --secure says how many are run by the protocol, too, and compared with it.
--again: how many further seeds are tried, which tell chance from a difference. Of all data sets, the result is kept in
benchmarks/results/quality.json, and the table in docs/quality-of-clusters.md.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans
from coterie.clustering import Outcome
from coterie.data import gather, split
from coterie.parameters import name_parties, prepare_fit
from coterie.runtime.oracle import run_oracle

Floats = NDArray[np.float64]
HERE = Path(__file__).parent
RESULT, PAGE = HERE / "results" / "quality.json", HERE.parent / "docs" / "quality-of-clusters.md"
TABLE = re.compile(r"(<!-- table: quality -->\n)(?:\|.*\n)*")
ABOVE = 1.05
#: Ours are worse if they are bad more often by more than this, and by more than two standard errors.
POINTS = 0.02
HEAD = [
    "data",
    "rows x columns, k",
    "bad, of ours",
    "bad, of scikit-learn's",
    "difference (its standard error)",
    "difference over other seeds",
    "worst of ours, over the best",
    "worst of scikit-learn's",
    "secure runs equal to the oracle",
]


class Set(NamedTuple):
    """Rows, the number of clusters, and whether columns are standardised: in secret here, by StandardScaler there."""

    rows: Floats
    clusters: int
    standard: bool = False

    @property
    def options(self) -> dict[str, Any]:
        return {"scale": "standard"} if self.standard else {}


def paper() -> Set:
    """The four blobs of the paper's example."""
    from coterie.simulation.demo import make_points

    return Set(make_points()[0], 4)


def blobs(n: int, d: int, k: int, spread: float, seed: int) -> Set:
    rows, _ = datasets.make_blobs(n, d, centers=k, cluster_std=spread, center_box=(-10, 10), random_state=seed)
    return Set(rows, k)


def grid() -> Set:
    """Eight clusters that lie well apart."""
    means = np.array([(x, y) for x in range(4) for y in range(2)]) * 10
    return Set(np.repeat(means, 100, axis=0) + np.random.RandomState(4).normal(0, 1, (800, 2)), 8)


def unequal() -> Set:
    """Three large clusters, and five small ones far from them."""
    random = np.random.RandomState(8)
    means = [(0, 0), (0, 6), (6, 0), (40, 40), (40, 46), (46, 40), (46, 46), (43, 43)]
    sizes = [500, 500, 500, 40, 40, 40, 40, 40]
    return Set(np.concatenate([random.normal(m, 1, (s, 2)) for m, s in zip(means, sizes, strict=True)]), 8)


SETS: dict[str, Callable[[], Set]] = {
    "the paper's": paper,
    "iris": lambda: Set(datasets.load_iris().data, 3),
    "wine": lambda: Set(datasets.load_wine().data, 3),
    "wine, standardised": lambda: Set(datasets.load_wine().data, 3, standard=True),
    "breast cancer, standardised": lambda: Set(datasets.load_breast_cancer().data, 2, standard=True),
    "digits": lambda: Set(datasets.load_digits().data.astype(np.float64), 10),
    "eight blobs": lambda: blobs(800, 2, 8, 0.5, 1),
    "eight blobs, well apart": grid,
    "unequal sizes": unequal,
    "thirty clusters": lambda: blobs(1500, 2, 30, 0.4, 2),
    "fifty columns": lambda: blobs(600, 50, 12, 1.0, 3),
}


def ours(data: Set, seed: int) -> Outcome:
    """A fit with default options, by the oracle."""
    model = SecureKMeans(data.clusters, random_state=seed, quality=("inertia",), **data.options)
    prepared = prepare_fit(model, gather(split(data.rows, "horizontal", 2), "horizontal", name_parties(2)))
    return run_oracle(prepared.task, np.concatenate(prepared.blocks))


def theirs(data: Set, seed: int) -> float:
    rows = StandardScaler().fit_transform(data.rows) if data.standard else data.rows
    return float(KMeans(data.clusters, random_state=seed).fit(rows).inertia_)


def runs_as_the_oracle(data: Set, seed: int, known: Outcome) -> bool:
    """Does the protocol come to the same clusters, to the last bit?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a column of wine outweighs the others; that is the point of it
        model = SecureKMeans(data.clusters, random_state=seed, quality=("inertia",), **data.options).fit(data.rows)
    assert known.labels is not None
    return model.inertia_ == known.inertia and np.array_equal(model.labels_, known.labels)


class Shares(NamedTuple):
    """How often runs are bad, ours and theirs; the standard error of the difference; the worst, over the best."""

    bad: float
    their_bad: float
    error: float
    worst: float
    their_worst: float


def compare(mine: Floats, other: Floats) -> Shares:
    """From as many inertias of ours as of theirs."""
    best = min(mine.min(), other.min())
    bad, their_bad = (float((inertias > ABOVE * best).mean()) for inertias in (mine, other))
    error = math.sqrt((bad * (1 - bad) + their_bad * (1 - their_bad)) / len(mine))
    return Shares(bad, their_bad, error, float(mine.max() / best), float(other.max() / best))


def measure(data: Set, seeds: int, again: int = 0, secure: int = 0) -> dict[str, Any]:
    """Over some seeds, over further ones, and whether the first of them are as the oracle has them."""
    known = [ours(data, seed) for seed in range(seeds)]
    mine = np.array([one.inertia for one in known], np.float64)
    found = compare(mine, np.array([theirs(data, seed) for seed in range(seeds)]))
    others = range(seeds, seeds + again)
    return {
        "rows": len(data.rows),
        "columns": data.rows.shape[1],
        "clusters": data.clusters,
        "seeds": seeds,
        **found._asdict(),
        "worse": found.bad - found.their_bad > max(POINTS, 2 * found.error),
        "again": again and {"seeds": again, **_compare_over(data, others)._asdict()},
        "secure": secure,
        "equal": sum(runs_as_the_oracle(data, seed, known[seed]) for seed in range(secure)),
    }


def _compare_over(data: Set, seeds: Iterable[int]) -> Shares:
    pairs = [(ours(data, seed).inertia, theirs(data, seed)) for seed in seeds]
    return compare(*np.array(pairs, np.float64).T)


def points(one: dict[str, Any]) -> str:
    return f"{100 * (one['bad'] - one['their_bad']):+.1f} ({100 * one['error']:.1f})"


def row(name: str, one: dict[str, Any]) -> str:
    cells = [
        name,
        f"{one['rows']:,} x {one['columns']}, {one['clusters']}",
        f"{one['bad']:.1%}",
        f"{one['their_bad']:.1%}",
        f"{points(one)}{' **worse**' if one['worse'] else ''}",
        f"{points(one['again'])} of {one['again']['seeds']:,}" if one["again"] else "",
        f"{one['worst']:.3f}",
        f"{one['their_worst']:.3f}",
        f"{one['equal']} of {one['secure']}",
    ]
    return "| " + " | ".join(cells) + " |"


def table(found: dict[str, dict[str, Any]]) -> Iterable[str]:
    yield "| " + " | ".join(HEAD) + " |"
    yield "|" + "---|" * len(HEAD)
    yield from (row(name, one) for name, one in found.items())


def renew(page: str, found: dict[str, dict[str, Any]]) -> str:
    """The page with its table as it should be."""
    return TABLE.sub(lambda match: match[1] + "".join(f"{line}\n" for line in table(found)), page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--again", type=int, default=2000, help="how many further seeds to try")
    parser.add_argument("--secure", type=int, default=3, help="how many to run by the protocol, too")
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for name in given.sets or SETS:
        found[name] = measure(SETS[name](), given.seeds, given.again, given.secure)
        print("\n".join(table(found)) if len(found) == 1 else row(name, found[name]), flush=True)
    if not given.sets:
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(renew(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
