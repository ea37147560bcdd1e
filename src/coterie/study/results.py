"""What a participant has in the end, as files."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome
from coterie.data.sinks import write_labels
from coterie.errors import InputError, ProtocolError, StudyError
from coterie.protocols import FAMILIES
from coterie.report.facts import Facts, Participant, describe_role, facts_of, versions
from coterie.ring import fractional_bits
from coterie.runtime.job import Kept
from coterie.study.drafts import is_empty, remove_left_over, try_place
from coterie.study.files import read_text, write_file
from coterie.study.handshake import Agreed
from coterie.study.policy import MOST_LEAST
from coterie.study.prepare import Known, Ready

__all__ = ["Model", "Spent", "check_out", "in_source_order", "kept_share", "load_model", "write_results"]


#: A share of the centres: rows of words; or, where the scheme has several parts, each by its name.
Share = list[list[int]] | dict[str, list[list[int]]]


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant needs to label further rows: its columns of the centres, encoded; or its share of all of them,
    if it serves. Everybody but a helper has one.

    `run` names the run it comes from: models of one run fit together. A suppressed cluster's centre is zero, and a copy
    of an open one where centres are shared.
    """

    study_hash: str
    run: str
    party: str
    partition: str
    clusters: int
    fractional_bits: int
    least: int
    columns: list[str]
    made_with: str
    centers: list[list[int]] | None = None
    centers_in_data_units: list[list[float | None]] | None = None
    share: Share | None = None
    suppressed: list[bool] = []

    def __repr__(self) -> str:
        return f"<Model of run {self.run}>"  # never a share


@dataclass
class Spent:
    """What a run took: seconds by phase, seconds by iteration."""

    seconds: dict[str, float] = field(default_factory=dict)
    iterations: list[float] = field(default_factory=list)
    memory: int | None = None

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = time.perf_counter() - began


def check_out(out: Path, hash_: str, purpose: str) -> None:
    """Can results be shown there in the end? A folder that holds anything stays as it is; but what a killed run has
    left is removed."""
    if out.name in ("", ".."):
        raise InputError(f"--out {out}: name a folder that is yet to be made, such as {out / 'results'}")
    if out.is_symlink() and not out.exists():
        raise InputError(f"--out {out} is a link that leads nowhere; name a folder")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    remove_left_over(out)
    if out.is_dir() and not is_empty(out):
        what = "predictions" if purpose == "predict" else "results"
        if _finished(out) != (hash_, purpose):
            raise InputError(f"--out {out} holds something else than {what} of this study; choose another folder")
        again = (
            "; choose another folder"
            if purpose == "predict"
            else ". If other participants lack theirs, start it again, all of you, with another --out: everybody gets "
            "the same results, and nothing more is disclosed or counted"
        )
        raise InputError(f"--out {out} holds {what} of this study already{again}")
    try_place(out)


def _finished(folder: Path) -> tuple[object, object]:
    """Of which study and purpose finished results are."""
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=dict[str, Any])
    except (OSError, ValueError, RecursionError):
        return None, None
    return manifest.get("study_hash"), manifest.get("purpose")


def load_model(path: Path, known: Known) -> Model:
    """A participant's own model of this study; what it says twice, and what the study says as well, must agree."""
    try:
        model = msgspec.json.decode(read_text(path, "the model"), type=Model)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StudyError(f"{path} is not a model: {error}") from None
    if model.study_hash != known.hash:
        raise StudyError(f"{path} is a model of another study")
    if model.party != known.me.name:
        raise StudyError(f"{path} is the model of {model.party}; {known.me.name} has one of its own")
    wrong = _wrong_with(model, known)
    if wrong:
        raise StudyError(f"{path} was changed or damaged: its {wrong}; take the file as the run has written it")
    return model


def kept_share(model: Model, protocol: str) -> dict[str, NDArray[np.uint64]]:
    """A model's share of the centres, as the protocol family has exported it."""
    return {part: np.array(rows, np.uint64) for part, rows in _parts(model, protocol).items()}


def _parts(model: Model, protocol: str) -> dict[str, list[list[int]]]:
    if model.share is None:
        return {}
    return model.share if isinstance(model.share, dict) else {FAMILIES[protocol].share_parts[0]: model.share}


def _wrong_with(model: Model, known: Known) -> str:
    """What in a model cannot be, in this study; nothing, if all of it can."""
    study = known.study
    own = [study.column_names[l] for l in study.own_columns(known.rank)]
    k, columns = study.clustering.clusters, study.data.columns
    if (model.partition, model.clusters, model.columns) != (study.clustering.partition, k, own):
        return "partition, clusters or columns are not those of the study"
    shared = study.disclosures.centers == "shared"
    parts = _parts(model, study.clustering.protocol)
    held = [*parts.values(), *([] if model.centers is None else [model.centers])]
    width = len(columns) if shared else len(own)
    least, beyond = (0, 1 << 64) if shared else (-(1 << 63), 1 << 63)
    wanted = FAMILIES[study.clustering.protocol].share_parts if shared and known.serves else ()
    if sorted(parts) != sorted(wanted) or (model.centers is not None) != (known.owns and not shared):
        return f"centres are not {study.disclosures.centers}, as the study has them"
    for rows in held:
        if [len(row) for row in rows] != [width] * k or not all(least <= v < beyond for row in rows for v in row):
            return f"centres are not {k} rows of {width} numbers"
    if len(model.suppressed) not in (0, k) or not 1 <= model.least <= MOST_LEAST:
        return "suppressed clusters or least cluster size make no sense"
    low, high = [c.low for c in columns], [c.high for c in columns]
    scaled = study.clustering.scale == "bounds"
    try:
        fractional_bits(low, high, study.column_names, 1, k, scaled, model.fractional_bits)
    except InputError:
        return "fractional bits do not fit the bounds of the study"
    return ""


def in_source_order(ready: Ready, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels as the rows stand in the source."""
    if ready.order is None:
        raise ProtocolError(f"{ready.me.name} has labels, but no rows")
    out = np.empty_like(labels)
    out[ready.order] = labels
    return out


def source_ids(ready: Ready) -> list[str] | None:
    """Ids as the rows stand in the source."""
    if ready.rows is None or ready.order is None or ready.rows.ids is None:
        return None
    ids = np.empty(len(ready.rows.ids), object)
    ids[ready.order] = ready.rows.ids
    return list(ids)


def write_results(folder: Path, ready: Ready, agreed: Agreed, outcome: Outcome, kept: Kept, spent: Spent) -> None:
    """Fill a folder: centres, labels, model, disclosures, traffic, report. Centres and labels are for who owns data; a
    model is for everybody but a helper."""
    from coterie.report.write import write_report

    facts = _facts(ready, agreed, outcome, spent)
    own_labels = None
    if outcome.labels is not None and ready.rows is not None:
        own_labels = outcome.labels
        write_labels(
            folder / "labels.parquet",
            in_source_order(ready, own_labels),
            source_ids(ready),
            ready.study.data.id or None,
        )
        if facts.centers is not None:
            write_file(folder / "centers.csv", _centers(facts, facts.centers).encode())
    if not ready.deals:
        model = _model(ready, agreed, outcome, kept)
        mode = 0o600 if model.share is not None else 0o644
        write_file(folder / "model.json", msgspec.json.format(msgspec.json.encode(model), indent=1), mode)
    log = b"".join(msgspec.json.encode(entry) + b"\n" for entry in outcome.disclosures)
    write_file(folder / "disclosures.jsonl", log)
    costs: dict[str, Any] = {
        "traffic": outcome.traffic,
        "seconds": spent.seconds,
        "seconds_per_iteration": spent.iterations,
    }
    if spent.memory is not None:
        costs["peak_memory_bytes"] = spent.memory
    write_file(folder / "traffic.json", msgspec.json.format(msgspec.json.encode(costs), indent=1))
    write_report(folder / "report.html", facts, None if ready.rows is None else ready.rows.values, own_labels)


def write_manifest(folder: Path, ready: Ready, purpose: str, run: str, audit: str) -> None:
    """The last file: what study and run these are results of, and the hash of each other file."""
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}
    manifest = {
        "study": ready.study.study.name,
        "study_hash": ready.hash,
        "purpose": purpose,
        "run": run,
        "party": ready.me.name,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "audit": audit,
        "files": files,
    }
    write_file(folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def _facts(ready: Ready, agreed: Agreed, outcome: Outcome, spent: Spent) -> Facts:
    study = ready.study
    participants = [
        Participant(one.name, describe_role(study.roles, one.name), one.address, one.fingerprint)
        for one in study.everybody
    ]
    return facts_of(
        agreed.task,
        outcome,
        ready.rank,
        participants,
        {"seed": str(study.clustering.seed)},
        title=f"{study.study.name}: report of {ready.me.name}",
        study=study.study.name,
        study_hash=ready.hash,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=spent.seconds,
        seconds_per_iteration=spent.iterations,
        memory=spent.memory,
        versions=versions(),
        hashes={"study": ready.hash, "run": agreed.run},
    )


def _model(ready: Ready, agreed: Agreed, outcome: Outcome, kept: Kept) -> Model:
    task, own = agreed.task, ready.study.own_columns(ready.rank)
    model = Model(
        ready.hash,
        agreed.run,
        ready.me.name,
        task.layout.partition,
        task.clusters,
        task.encoding.f,
        task.least,
        [ready.study.column_names[l] for l in own],
        f"coterie {versions()['coterie']}",
        suppressed=[] if outcome.suppressed is None else [bool(flag) for flag in outcome.suppressed],
    )
    if task.centers == "shared" and ready.serves:
        parts = {part: share.tolist() for part, share in kept["centers"].items()}
        share: Share = parts if len(parts) > 1 else next(iter(parts.values()))
        return msgspec.structs.replace(model, share=share)
    if outcome.centers is None:
        return model
    shown: list[list[float | None]] = task.encoding.decode(outcome.centers, outcome.center_columns).tolist()
    if outcome.suppressed is not None:
        shown = [[None] * len(row) if flag else row for row, flag in zip(shown, outcome.suppressed, strict=True)]
    return msgspec.structs.replace(model, centers=outcome.centers.tolist(), centers_in_data_units=shown)


def _centers(facts: Facts, centers: list[list[float]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    sizes = facts.sizes if facts.options["counts"] == "revealed" or facts.options["sizes"] == "rounded" else None
    writer.writerow(["cluster", *(["size"] if sizes else []), *facts.center_columns])
    for j, row in enumerate(centers):
        size = [sizes[j]] if sizes else []
        writer.writerow([j, *size, *([""] * len(row) if facts.closed(j) else map(repr, row))])
    return stream.getvalue()
