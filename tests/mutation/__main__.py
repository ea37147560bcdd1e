"""`python -m tests.mutation`: tries a seeded sample of mutants, from where it was left, within a time.

    make mutate                                            # goes on where the last one ended
    make mutate MUTATE_MINUTES=30                          # for half an hour
    python -m tests.mutation --sample 20 --folder ring     # a small sample of one folder
    python -m tests.mutation --fresh                       # forget what was tried

What was tried is kept in build/mutants, a line a mutant; a module that was changed since is tried anew. The exit code
is 1 if part of the sample is still to be tried.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue

import msgspec

from tests.mutation.mutants import Mutant, find, sample
from tests.mutation.running import Copy
from tests.mutation.score import Tried, table
from tests.mutation.targets import FOLDERS, ROOT, modules

SAMPLE, SEED, MINUTES = 300, 10, 120.0


def main(line: list[str] | None = None) -> int:
    given = arguments(line)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an orderly end: no test is left running
    given.state.mkdir(parents=True, exist_ok=True)
    results: Path = given.state / "tried.jsonl"
    if given.fresh:
        results.unlink(missing_ok=True)
    everything = list(find(ROOT, modules(tuple(given.folder or FOLDERS))))
    chosen = sample(everything, given.sample, given.seed)
    known = remembered(results)
    todo = [mutant for mutant in chosen if mutant not in known]
    print(f"{len(everything)} mutants; a sample of {len(chosen)}, {len(todo)} still to be tried", flush=True)
    for one in attempts(todo, given.state, time.monotonic() + 60 * given.minutes, given.processes):
        with results.open("ab") as out:
            out.write(msgspec.json.encode(one) + b"\n")
        known[one.mutant] = one
        print(
            f"{one.fate:9} {one.seconds:6.1f} s  {one.mutant.module}:{one.mutant.line}  {' '.join(one.lines)}",
            flush=True,
        )
    tried = [known[mutant] for mutant in chosen if mutant in known]
    places = len({(mutant.module, mutant.line, mutant.column) for mutant in everything})
    text = table(tried, len(chosen), given.seed, places)
    (given.state / "report.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    return int(len(tried) < len(chosen))


def attempts(todo: list[Mutant], folder: Path, deadline: float, processes: int) -> Iterator[Tried]:
    """What becomes of the mutants, in the order in which it is known; so many at a time, each in a copy of its own."""
    copies: Queue[Copy] = Queue()
    for number in range(min(processes, len(todo))):
        copies.put(Copy(folder / f"copy {number}"))

    def attempt(mutant: Mutant) -> Tried | None:
        if time.monotonic() > deadline:
            return None
        copy = copies.get()
        try:
            return copy.attempt(mutant)
        finally:
            copies.put(copy)

    pool = ThreadPoolExecutor(processes)
    try:
        for done in as_completed([pool.submit(attempt, mutant) for mutant in todo]):
            if (one := done.result()) is not None:
                yield one
    finally:
        pool.shutdown(cancel_futures=True)  # those under way come to their end


def remembered(path: Path) -> dict[Mutant, Tried]:
    """What was tried before. A line that was cut off is tried anew."""
    found = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            one = msgspec.json.decode(line, type=Tried)
        except msgspec.DecodeError:
            continue
        found[one.mutant] = one
    return found


def arguments(line: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="mutation testing of a sample")
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"how many mutants ({SAMPLE})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the sample ({SEED})")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"begin no mutant after so long ({MINUTES:.0f})")
    parser.add_argument("--processes", type=int, default=1, help="how many mutants to try at a time (1)")
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="only this folder; may be repeated")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "mutants", help="where the state is kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was tried")
    return parser.parse_args(line)


if __name__ == "__main__":
    sys.exit(main())
