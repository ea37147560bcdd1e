"""A job, as every role of a local run does it, and how its parts travel between processes of one machine.

A package is a line of lengths, a header of typed fields (msgspec) and raw arrays: no pickle here either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome, Point, Task, Watch, fit, predict
from coterie.protocols import FAMILIES, Family
from coterie.protocols.interface import Ints
from coterie.ring import Bulk
from coterie.sharing import Disclosure, Party, Shared
from coterie.transport import Lap, Traffic
from coterie.typed import convert, from_msgpack

__all__ = ["Job", "Kept", "Report", "do", "read_package", "write_package"]

#: What a role keeps of its secrets: by name, the arrays that make up its share.
Kept = dict[str, dict[str, Bulk]]


class Job(msgspec.Struct):
    """What one role is to do: the task and what this role brings. `row_weights`: what its rows count for. All but the
    task is None at the helper, unless it is the one who knows which rows count.

    For a prediction: `centers`, own columns of public centres, encoded (k, d), or `kept_centers`, a share kept from a
    fit; `weights` of columns (1, d), public, or `kept_weights`; `closed`, which clusters have no centre of their own.
    """

    task: Task
    block: Ints | None = None
    predicting: bool = False
    centers: Ints | None = None
    kept_centers: dict[str, Bulk] | None = None
    weights: Ints | None = None
    kept_weights: dict[str, Bulk] | None = None
    closed: NDArray[np.bool_] | None = None
    row_weights: Ints | None = None

    def __repr__(self) -> str:
        return f"<Job {self.task.protocol}>"  # never what the role brings


class Report(msgspec.Struct):
    """What a role has in the end; as `Outcome`, with its secrets exported, how long each iteration took, and how
    many seconds it waited in all."""

    outcome: Outcome
    kept: Kept
    iterations: list[Lap] = []
    waited: float = 0.0

    def __repr__(self) -> str:
        return "<Report>"  # never a share


def _weights(family: Family, job: Job) -> Shared | None:
    """Of columns, where those were standardised: public, or shared."""
    task, shape = job.task, (1, job.task.layout.d)
    if task.metric is None:
        return None
    if task.centers == "shared" or task.scales == "secret":
        return family.restore(job.kept_weights, shape)
    return family.public(np.zeros(shape, np.int64) if job.weights is None else job.weights)


def do(me: Party, job: Job, say: Callable[[str], None] | None = None) -> Report:
    """Do a job at one role. `say`: told of each iteration that another one follows."""
    task, clock = job.task, _Clock(job.task.max_iter, say)
    family = FAMILIES[task.protocol](me, task.problem)
    if job.predicting:
        shape = (task.clusters, task.layout.d)
        if task.centers == "shared":
            centers = family.restore(job.kept_centers, shape)
        elif task.layout.partition == "vertical" or list(me.world.owners) != me.world.players:
            own = job.centers if task.layout.partition == "vertical" or me.rank == me.world.owners[0] else None
            centers = family.enter(own, shape)  # not everybody who computes knows them
        else:
            centers = family.public(np.zeros(shape, np.int64) if job.centers is None else job.centers)
        outcome = predict(family, task, job.block, centers, job.closed, _weights(family, job))
    else:
        outcome = fit(family, task, job.block, clock, row_weights=job.row_weights)
        family = family.of(task.chosen(outcome).problem)
    outcome.disclosures = list(me.ledger.entries)
    outcome.traffic = me.channel.traffic()
    gathered = {name: family.gather(secret) for name, secret in outcome.kept.items()}
    kept = {} if not me.serves else {name: family.export(secret) for name, secret in gathered.items()}
    outcome.kept = {}
    return Report(outcome, kept, me.channel.laps, me.channel.idling.waited)


class _Clock(Watch):
    """How long iterations take, and that they are done. In words, nothing that is not public."""

    def __init__(self, most: int, say: Callable[[str], None] | None) -> None:
        self.seconds: list[float] = []
        self.last, self.most, self.say = time.perf_counter(), most, say

    def iterated(self, point: Callable[[], Point]) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now
        if self.say is not None:
            here = point()
            if here.iteration == 1:
                self.say(f"Initialization complete, start {here.start + 1}")
            took = f"{1000 * self.seconds[-1]:.1f} ms"
            self.say(f"Iteration {here.iteration}, inertia not opened, of at most {self.most}, {took}")


class _Header(msgspec.Struct):
    fields: dict[str, Any]
    arrays: list[tuple[str, str, tuple[int, ...]]]


def write_package(stream: IO[bytes], fields: dict[str, Any], arrays: dict[str, NDArray[Any] | None]) -> None:
    """Write fields (anything msgspec encodes) and named arrays; None arrays are left out."""
    present = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    listed = [(name, array.dtype.str, array.shape) for name, array in present.items()]
    header = msgspec.msgpack.encode(
        _Header({k: msgspec.to_builtins(v, builtin_types=(bytes,)) for k, v in fields.items()}, listed)
    )
    stream.write(len(header).to_bytes(8, "little") + header)
    for array in present.values():
        stream.write(array.tobytes())
    stream.flush()


def read_package(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """The next package, or None where the stream has ended."""
    length = stream.read(8)
    if len(length) < 8:
        return None
    header = from_msgpack(stream.read(int.from_bytes(length, "little")), _Header)
    arrays = {}
    for name, kind, shape in header.arrays:
        dtype = np.dtype(kind)
        raw = bytearray(stream.read(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize))
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return header.fields, arrays


def write_job(stream: IO[bytes], job: Job) -> None:
    brought: dict[str, NDArray[Any] | None] = {name: getattr(job, name) for name in BROUGHT}
    held = {"centers": job.kept_centers or {}, "weights": job.kept_weights or {}}
    write_package(stream, {"task": job.task, "predicting": job.predicting}, brought | _named(held))


def read_job(stream: IO[bytes]) -> Job | None:
    package = read_package(stream)
    if package is None:
        return None
    fields, arrays = package
    kept = _kept_in(arrays)
    return Job(
        convert(fields["task"], Task, strict=False),
        predicting=fields["predicting"],
        kept_centers=kept.get("centers"),
        kept_weights=kept.get("weights"),
        **{name: arrays.get(name) for name in BROUGHT},
    )


def _named(kept: Kept) -> dict[str, NDArray[Any] | None]:
    return {f"kept {secret} {name}": array for secret, parts in kept.items() for name, array in parts.items()}


def _kept_in(arrays: dict[str, NDArray[Any]]) -> Kept:
    kept: Kept = {}
    for name, array in arrays.items():
        if name.startswith("kept "):
            _, secret, part = name.split(" ")
            kept.setdefault(secret, {})[part] = array
    return kept


#: The arrays of a job, and of an outcome.
BROUGHT = ("block", "centers", "weights", "closed", "row_weights")
ARRAYS = ("centers", "rows", "labels", "counts", "suppressed", "sizes", "scales", "capped")


def write_report(stream: IO[bytes], report: Report) -> None:
    outcome = report.outcome
    arrays: dict[str, NDArray[Any] | None] = {name: getattr(outcome, name) for name in ARRAYS}
    fields = {
        "n_iter": outcome.n_iter,
        "center_columns": outcome.center_columns,
        "inertia": outcome.inertia,
        "silhouette": outcome.silhouette,
        "scatter": outcome.scatter,
        "chosen": outcome.chosen,
        "k_measures": outcome.k_measures,
        "start_rows": outcome.start_rows,
        "disclosures": outcome.disclosures,
        "traffic": outcome.traffic,
        "iterations": report.iterations,
        "waited": report.waited,
    }
    write_package(stream, fields, arrays | _named(report.kept))


def report_of(fields: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Report:
    outcome = Outcome(
        n_iter=fields["n_iter"],
        center_columns=fields["center_columns"],
        inertia=fields["inertia"],
        silhouette=fields["silhouette"],
        scatter=fields["scatter"],
        chosen=fields["chosen"],
        k_measures={int(k): measure for k, measure in fields["k_measures"].items()},
        start_rows=fields["start_rows"],
        disclosures=[convert(entry, Disclosure, strict=False) for entry in fields["disclosures"]],
        traffic=convert(fields["traffic"], Traffic),
    )
    for name in ARRAYS:
        setattr(outcome, name, arrays.get(name))
    return Report(outcome, _kept_in(arrays), [Lap(*one) for one in fields["iterations"]], fields["waited"])
