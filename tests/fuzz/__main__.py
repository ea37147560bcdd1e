"""`python -m tests.fuzz`: all campaigns, from where they were left, within a time.

    make fuzz                                        # goes on where the last one ended
    make fuzz FUZZ_MINUTES=30                        # for half an hour in all
    python -m tests.fuzz --campaign frames --case 123     # one case alone
    python -m tests.fuzz --fresh                     # from the start, with new material

The state is one JSON file a campaign, in build/fuzz. The exit code is 1 if there was a finding, now or before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import msgspec

from tests.fuzz.campaign import Campaign, Tally
from tests.fuzz.campaigns import CAMPAIGNS
from tests.fuzz.material import make_material

SEED = 9


class State(msgspec.Struct):
    """How far a campaign is. `seconds`: of all processes together."""

    campaign: str
    seed: int
    total: int
    done: int = 0
    seconds: float = 0.0
    tally: Tally = msgspec.field(default_factory=Tally)


def main(line: list[str] | None = None) -> int:
    given = arguments(line)
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    names = given.campaign or list(CAMPAIGNS)
    if given.fresh:
        for name in names:
            (folder / f"{name}.json").unlink(missing_ok=True)
    os.umask(0o022)
    material = make_material(folder / "material", given.fresh and not given.campaign)
    if given.case is not None:
        return run_alone(names, material, given.case)
    deadline = time.monotonic() + 60 * given.minutes
    states = []
    for at, name in enumerate(names):
        share = (deadline - time.monotonic()) / (len(names) - at)  # what one leaves, the others have
        states.append(go_on(name, folder, material, time.monotonic() + share, given.processes))
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(states), indent=1))
    return report(states)


def arguments(line: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--campaign", action="append", choices=CAMPAIGNS, help="this one only; may be repeated")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--minutes", type=float, default=60.0, help="in all; each campaign gets its share")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget what was done")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args(line)
    if given.case is not None and len(given.campaign or ()) != 1:
        parser.error("--case needs one --campaign")
    return given


def run_alone(names: list[str], material: Path, case: int) -> int:
    tally = CAMPAIGNS[names[0]](material, SEED).run([case])
    print(msgspec.json.format(msgspec.json.encode(tally), indent=1).decode())
    return 1 if tally.findings else 0


def go_on(name: str, folder: Path, material: Path, until: float, processes: int) -> State:
    """Run a campaign from where it was left until it is done or time is up. Every chunk is kept at once."""
    path = folder / f"{name}.json"
    set_up(name, material)
    state = State(name, SEED, _campaign.total())
    if path.exists():
        state = msgspec.json.decode(path.read_bytes(), type=State)
        state.total = _campaign.total()
    for count, seconds, tally in tallies(name, material, state, until, processes):
        state.done += count
        state.seconds += seconds
        state.tally.add(tally)
        draft = path.with_suffix(".part")
        draft.write_bytes(msgspec.json.encode(state))
        draft.replace(path)
    return state


Part = tuple[int, float, Tally]


def tallies(name: str, material: Path, state: State, until: float, processes: int) -> Iterator[Part]:
    """Chunk by chunk, in order, while there is time."""
    chunk = CAMPAIGNS[name].chunk
    starts = iter(range(state.done, state.total, chunk))
    parts = (range(start, min(start + chunk, state.total)) for start in starts)
    if processes == 1:
        while time.monotonic() < until and (part := next(parts, None)) is not None:
            yield run_part(part)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, set_up_process, (name, material)) as pool:
        waiting: list[Future[Part]] = [pool.submit(run_part, part) for part in islice(parts, 2 * processes)]
        while waiting:
            yield waiting.pop(0).result()
            if time.monotonic() < until:
                waiting += [pool.submit(run_part, part) for part in islice(parts, 1)]


_campaign: Campaign


def set_up(name: str, material: Path) -> None:
    global _campaign
    os.umask(0o022)
    _campaign = CAMPAIGNS[name](material, SEED)


def set_up_process(name: str, material: Path) -> None:
    """In a process of its own, which lets others go first."""
    os.nice(max(0, 10 - os.nice(0)))
    set_up(name, material)


def run_part(numbers: range) -> Part:
    began = time.monotonic()
    tally = _campaign.run(numbers)
    return len(numbers), time.monotonic() - began, tally


def report(states: list[State]) -> int:
    found = 0
    for state in states:
        print(f"{state.campaign}: {state.done:,} of {state.total:,} cases in {state.seconds:,.0f} s")
        for kind, count in state.tally.outcomes.items():
            print(f"    {count:>10,}  {kind}")
        for one in state.tally.findings[:20]:
            print(f"    FINDING in case {one.case}: {one.what}")
        found += len(state.tally.findings)
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
