"""What a participant has in the end, as files."""

from __future__ import annotations

import datetime
import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome
from coterie.data.sinks import write_labels
from coterie.errors import InputError, ProtocolError
from coterie.events import tell
from coterie.report.centers import centers_as_csv
from coterie.report.facts import Facts, Participant, describe_choices, describe_role, facts_of, versions
from coterie.runtime.job import Kept
from coterie.software import software_digest
from coterie.study.drafts import is_empty, remove_left_over, try_place
from coterie.study.files import write_file
from coterie.study.handshake import Agreed
from coterie.study.home import home_encoding, standardised_at_home
from coterie.study.model import make_model
from coterie.study.prepare import Ready
from coterie.transport import Lap
from coterie.typed import from_json

__all__ = ["Spent", "check_out", "tell_results", "write_manifest", "write_own_labels", "write_results"]

log = logging.getLogger(__name__)


@dataclass
class Spent:
    """What a run took: seconds by phase; for each iteration since it was begun or taken up; and of the seconds of
    computing, those in which it only waited for messages."""

    seconds: dict[str, float] = field(default_factory=dict)
    iterations: list[Lap] = field(default_factory=list)
    waited: float | None = None
    memory: int | None = None

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = time.perf_counter() - began


def tell_results(out: Path) -> Path:
    """Operators want to know that results are there, and where."""
    tell(log, logging.INFO, "results", f"results are in {out}", out=str(out))
    return out


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
            if purpose != "fit"
            else ". If other participants lack theirs, start it again, all of you, with another --out: everybody gets "
            "the same results, and nothing more is disclosed or counted"
        )
        raise InputError(f"--out {out} holds {what} of this study already{again}")
    try_place(out)


def _finished(folder: Path) -> tuple[object, object]:
    """Of which study and purpose finished results are."""
    try:
        manifest = from_json((folder / "manifest.json").read_bytes(), dict[str, Any])
    except (OSError, ValueError, RecursionError):
        return None, None
    return manifest.get("study_hash"), manifest.get("purpose")


def write_own_labels(path: Path, ready: Ready, labels: NDArray[np.int64]) -> None:
    """Labels of this party's rows, as they stand in the source; of those that take part."""
    if ready.order is None or ready.rows is None:
        raise ProtocolError(f"{ready.me.name} has labels, but no rows")
    back = np.argsort(ready.order)
    ids = None if ready.rows.ids is None else [ready.rows.ids[i] for i in back.tolist()]
    write_labels(path, labels[back], ids, ready.study.data.id or None, ready.order[back])


def write_results(folder: Path, ready: Ready, agreed: Agreed, outcome: Outcome, kept: Kept, spent: Spent) -> None:
    """Fill a folder: centres, labels, model, disclosures, traffic, report. Centres and labels are for who owns data; a
    model is for everybody but a helper."""
    from coterie.report.write import write_report

    facts = _facts(ready, agreed, outcome, spent)
    own_labels = None
    if outcome.labels is not None and ready.rows is not None:
        own_labels = outcome.labels
        write_own_labels(folder / "labels.parquet", ready, own_labels)
    if ready.rows is not None and facts.centers is not None:
        write_file(folder / "centers.csv", centers_as_csv(facts).encode())
    if not ready.deals and not ready.study.private:
        model = make_model(ready, agreed, outcome, kept)
        secret = model.share is not None or model.weights_share is not None
        mode = 0o600 if secret else 0o644
        write_file(folder / "model.json", msgspec.json.format(msgspec.json.encode(model), indent=1), mode)
    log = b"".join(msgspec.json.encode(entry) + b"\n" for entry in outcome.disclosures)
    write_file(folder / "disclosures.jsonl", log)
    costs: dict[str, Any] = {
        "traffic": outcome.traffic,
        "seconds": spent.seconds,
        "seconds_per_iteration": [lap.seconds for lap in spent.iterations],
        "seconds_waiting_per_iteration": [lap.waited for lap in spent.iterations],
    }
    if spent.waited is not None:
        costs["seconds_waiting_while_computing"] = spent.waited
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
        "digest": software_digest(),
        "audit": audit,
        "files": files,
    }
    if ready.rows is not None:
        manifest["rows"] = asdict(ready.rows.handled)
    write_file(folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def _facts(ready: Ready, agreed: Agreed, outcome: Outcome, spent: Spent) -> Facts:
    study = ready.study
    participants = [
        Participant(one.name, describe_role(study.roles, one.name), one.way, one.fingerprint) for one in study.everybody
    ]
    at_home = standardised_at_home(ready)
    own = [study.features[l] for l in study.own_columns(ready.rank)]
    deviations = [] if at_home is None else zip(own, at_home.deviations, strict=True)
    return facts_of(
        msgspec.structs.replace(agreed.task, encoding=home_encoding(ready, agreed.task)),
        outcome,
        ready.rank,
        participants,
        {
            "seed": str(study.clustering.seed),
            "scale": study.clustering.scale,
            **({} if study.clustering.partition == "horizontal" else {"matching": study.data.matching}),
            **({"row_weights": study.data.row_weights.column} if study.data.row_weights.column else {}),
            **describe_choices(study.clustering.choices, study.clustering.choose, study.disclosures.measures),
        },
        [(feature.low, feature.high) for feature in study.features],
        None if at_home is None else {one.name: spread for one, spread in deviations if not one.distance},
        [column.name for column in study.data.columns if column.kind == "date"],
        title=f"{study.study.name}: report of {ready.me.name}",
        study=study.study.name,
        study_hash=ready.hash,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=spent.seconds,
        laps=spent.iterations,
        waited=spent.waited,
        memory=spent.memory,
        versions=versions(),
        hashes={"study": ready.hash, "run": agreed.run, "software": software_digest()},
        own_table=[] if ready.rows is None else ready.rows.handled.describe(),
    )
