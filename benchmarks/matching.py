"""How long two parties and a helper take to match rows by ids, in a study between processes, over TLS.

    python benchmarks/matching.py [--rows 1000000] [--matching shared]

Each party has a Parquet file of so many rows, in an order of its own; half of its ids are the other's, too. `matching
rows` is the phase of docs/matching.md, from ids in memory to aligned rows: tags, sorting, both ways over the wire.
`reading` and the rest of the run (one iteration of two clusters) are beside it. Peak memory is each process's own.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

COTERIE = (sys.executable, "-m", "coterie")
LEHMER = (48271, 2147483647)  # i -> 48271 i mod a prime: ids that look like numbers of patients, no two alike


def write_table(path: Path, column: str, first: int, rows: int) -> None:
    """Rows of the people `first` and following, in an order that is this file's own."""
    factor, prime = LEHMER
    people = f"select range as i from range({first}, {first + rows})"
    values = f"'patient ' || (i * {factor} % {prime}) as patient, (i % 1000) / 1000.0 as {column}"
    duckdb.connect().execute(f"copy (select {values} from ({people}) order by hash(i + {first})) to '{path}'")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def tell(*arguments: object) -> None:
    subprocess.run([*COTERIE, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def set_up(folder: Path, rows: int, matching: str) -> None:
    """Identities, data, a study that all have signed."""
    names = ("helper", "alice", "bob")
    for name, port in zip(names, free_ports(3), strict=True):
        tell("identity", "create", name, "--address", f"127.0.0.1:{port}", "--folder", folder)
    write_table(folder / "alice.parquet", "x", 0, rows)
    write_table(folder / "bob.parquet", "y", rows // 2, rows)
    study = folder / "study.toml"
    parties = [word for name in names[1:] for word in ("--party", folder / f"{name}.identity.toml")]
    columns = ("--columns", "x,y", "--bounds", "x=0:1,y=0:1", "--holds", "alice=x,bob=y", "--id", "patient")
    options = ("--partition", "vertical", "--matching", matching, "--max-iter", 1, "--most-rows", rows)
    quality = ("--quality", "inertia")
    tell("study", "create", study, *parties, "--helper", folder / "helper.identity.toml", "-k", 2, *columns, *options,
         *quality)  # fmt: skip
    for name in names:
        tell("study", "sign", study, "--key", folder / f"{name}.key")


def run(folder: Path) -> dict[str, dict[str, float]]:
    """What each participant's own account of the run says."""
    processes = {}
    began = time.perf_counter()
    for name in ("helper", "alice", "bob"):
        data = () if name == "helper" else ("--data", folder / f"{name}.parquet")
        arguments = ("run", folder / "study.toml", "--key", folder / f"{name}.key", "--out", folder / name, *data)
        processes[name] = subprocess.Popen([*COTERIE, *map(str, arguments)], stdout=subprocess.DEVNULL)
    if any(process.wait() for process in processes.values()):
        raise SystemExit("a participant failed")
    whole = time.perf_counter() - began
    found = {}
    for name in processes:
        costs = json.loads((folder / name / "traffic.json").read_text())
        found[name] = {"seconds": costs["seconds"]["matching rows"], "whole": whole, "peak": costs["peak_memory_bytes"]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="ids at each party")
    parser.add_argument("--matching", choices=("shared", "private"), default="shared")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        set_up(Path(folder), asked.rows, asked.matching)
        found = run(Path(folder))
    print(f"{asked.rows:,} ids at each of two parties, half of them common; matching {asked.matching}")
    for name, one in found.items():
        print(
            f"  {name:8} matching rows {one['seconds']:6.1f} s, the whole study {one['whole']:6.1f} s, peak memory "
            f"{one['peak'] / 2**20:,.0f} MiB"
        )


if __name__ == "__main__":
    main()
