"""What the peers share: the data, the tournament, one process a party on loopback, and the slope.

A peer is one script. Without `--party` it starts itself once for every party and prints one line of JSON; with it,
it is that party. Parties time `short` iterations, then `long` of them, each from the shared data to open centres.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FRACTION = 16  # fractional bits of fixed-point numbers
PATIENCE = 60.0  # seconds an iteration from which a smaller n is taken


@dataclass(frozen=True)
class Peer:
    """What is said about a framework, and who runs."""

    name: str
    processes: int
    parties: str
    trust: str
    discloses: str
    note: str


@dataclass(frozen=True)
class Level:
    """One level of a tournament between groups of clusters."""

    left: list[int]
    right: list[int]
    bye: list[int]
    sign: np.ndarray  # (pairs, k): how a pair's bit enters a cluster's factor
    offset: np.ndarray  # (k,)


def points(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same as benchmarks/measure.py's, which a peer's environment cannot import."""
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return x, x[np.argsort(x.sum(axis=1))[:k]]


def lloyd(x: np.ndarray, centers: np.ndarray, iterations: int) -> np.ndarray:
    """The centres in the clear."""
    for _ in range(iterations):
        labels = np.argmin((centers**2).sum(axis=1) - 2 * x @ centers.T, axis=1)
        hot = np.eye(len(centers))[labels]
        centers = hot.T @ x / hot.sum(axis=0)[:, None]
    return centers


def tournament(k: int) -> list[Level]:
    """Levels from k groups of one to one group of k. A cluster's one-hot entry is the product over the levels of
    bits @ sign + offset, where a bit says that the left group of a pair won."""
    groups, levels = [[c] for c in range(k)], []
    while len(groups) > 1:
        pairs = len(groups) // 2
        sign, offset = np.zeros((pairs, k), dtype=int), np.ones(k, dtype=int)
        for p in range(pairs):
            sign[p, groups[2 * p]], sign[p, groups[2 * p + 1]] = 1, -1
            offset[groups[2 * p]] = 0
        last = list(range(2 * pairs, len(groups)))
        levels.append(Level(list(range(0, 2 * pairs, 2)), list(range(1, 2 * pairs, 2)), last, sign, offset))
        groups = [groups[2 * p] + groups[2 * p + 1] for p in range(pairs)] + [groups[g] for g in last]
    return levels


def timed(fit: Callable[[int], np.ndarray], short: int, long: int) -> dict:
    """The seconds of a short and of a long run, and the centres of the long one."""
    seconds = []
    for iterations in (short, long):
        began = time.perf_counter()
        centers = fit(iterations)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "centers": np.asarray(centers, dtype=float).tolist()}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def launch(peer: Peer, n: int, d: int, k: int, short: int, long: int) -> tuple[float, float]:
    """Every party as a process: seconds an iteration, and the largest error of a centre."""
    ports = free_ports(peer.processes)
    sizes = [f"--{name}={value}" for name, value in (("n", n), ("d", d), ("k", k), ("short", short), ("long", long))]
    command = [sys.executable, sys.argv[0], *sizes, "--ports", *map(str, ports)]
    parties, began = [], time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            for i in range(peer.processes):
                stdout = out if i == 0 else subprocess.DEVNULL
                parties.append(subprocess.Popen([*command, f"--party={i}"], stdout=stdout, stderr=err))
            while parties[0].poll() is None and not any(p.poll() for p in parties):
                time.sleep(0.05)
                if time.perf_counter() - began > PATIENCE * (short + long) + 60:
                    raise TimeoutError
            for party in parties:  # a party may still be saying goodbye
                try:
                    party.wait(10)
                except subprocess.TimeoutExpired:
                    break
        finally:
            for party in parties:
                party.kill()
                party.wait()
        out.seek(0)
        err.seek(0)
        lines = [line for line in out.read().splitlines() if line.startswith('{"seconds"')]
        if not lines:
            sys.exit(f"{peer.name}: " + ((err.read().strip().splitlines() or ["no result"])[-1])[:300])
    result = json.loads(lines[0])
    x, start = points(n, d, k)
    error = float(np.abs(np.array(result["centers"]) - lloyd(x, start, long)).max())
    return (result["seconds"][1] - result["seconds"][0]) / (long - short), error


def main(peer: Peer, party: Callable[[int, list[int], argparse.Namespace], dict | None]) -> None:
    """`party` is told its number, the ports and the sizes; the first returns what `timed` returned."""
    parser = argparse.ArgumentParser()
    for name, default in (("n", 10_000), ("d", 2), ("k", 4), ("short", 0), ("long", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--party", type=int)
    parser.add_argument("--ports", type=int, nargs="*")
    a = parser.parse_args()
    if a.party is not None:
        result = party(a.party, a.ports, a)
        if result is not None:
            print(json.dumps(result), flush=True)
        return
    n, notes = a.n, [peer.note]
    tenth = max(n // 10, a.k)  # says whether all rows are bearable; else its figure stands
    slope, error = launch(peer, tenth, a.d, a.k, 1, 2)
    try:
        if slope * n / tenth > PATIENCE:
            raise TimeoutError
        long = 12 if slope * n / tenth < 2 else 3 if slope * n / tenth < 20 else 2
        slope, error = launch(peer, n, a.d, a.k, 2 if long > 3 else 1, long)
    except TimeoutError:
        notes.append(f"n = {tenth:,} only: {n:,} rows would take over a minute an iteration")
        n = tenth
    notes.append(f"largest centre error {error:.0e}")
    answer = {
        "peer": peer.name,
        "ms": round(1000 * slope, 1),
        "parties": peer.parties,
        "trust": peer.trust,
        "discloses": peer.discloses,
        "n": n,
        "note": "; ".join(notes),
    }
    print(json.dumps(answer), flush=True)
