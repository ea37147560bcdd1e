"""Every byte of every file that a participant reads, changed in turn: an error of the kind that is documented, or the
same meaning as before.

What is nobody's but its owner's may come to mean something else: another valid policy, another model.
"""

from __future__ import annotations

import atexit
import base64
import bisect
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, PolicyError, StudyError
from coterie.study.audit import Audit, verify_audit
from coterie.study.budget import Budget
from coterie.study.checkpoint import Checkpoints
from coterie.study.model import load_model
from coterie.study.policy import load_policy
from coterie.study.predict import _nearest
from coterie.study.prepare import Orders, prepare, recognise
from coterie.study.signatures import verify_signatures
from coterie.study.study_file import load_study
from tests.fuzz.campaign import Campaign, Finding

__all__ = ["WAYS", "Files", "change"]

WAYS: dict[str, Callable[[bytes], bytes]] = {
    "lowest bit": lambda byte: bytes([byte[0] ^ 1]),
    "highest bit": lambda byte: bytes([byte[0] ^ 0x80]),
    "deleted": lambda byte: b"",
    "doubled": lambda byte: byte + byte,
    "newline": lambda byte: b"\n",
}


def change(raw: bytes, at: int, way: str) -> bytes:
    return raw[:at] + WAYS[way](raw[at : at + 1]) + raw[at + 1 :]


class Files(Campaign):
    """Case i changes byte i // 5 of all files, one behind the other, in way i mod 5."""

    name = "files"
    chunk = 500

    def __init__(self, material: Path, seed: int) -> None:
        super().__init__(material, seed)
        self.folder = Path(tempfile.mkdtemp(prefix="coterie-fuzz-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.at = self.folder / "alice"
        shutil.copytree(material / "cast" / "alice", self.at)
        self.orders = Orders(self.at / "study.toml", self.at / "alice.key", data=str(self.at / "data.csv"))
        self.ready = prepare(self.orders)
        self.purpose = (material / "purpose").read_text()
        self.signatures = self._signed()
        self.policy = self.ready.policy
        self.model = load_model(self.at / "results" / "model.json", self.ready)
        (self.state,) = {path.parent for path in self.at.rglob("checkpoint-*")}
        self.logs = {path: verify_audit(path).entries for path in self.at.glob("*.jsonl")}
        self.files = self._files()
        self.originals = [path.read_bytes() for path, _ in self.files]
        self.starts = [0, *accumulate(len(raw) for raw in self.originals)]

    def _files(self) -> list[tuple[Path, Callable[[Path], str]]]:
        """Each file with what reads it."""
        signatures = sorted(self.at.glob("*.sig.toml"))
        found: list[tuple[Path, Callable[[Path], str]]] = [
            (self.at / "policy.toml", self.read_policy),
            (self.at / "results" / "model.json", self.read_model),
            *((path, self.read_checkpoint) for path in sorted(self.state.glob("checkpoint-*"))),
            (self.at / "study.toml", self.read_study),
            *((path, self.read_study) for path in signatures),
            (self.at / "alice.budget.jsonl", self.read_ledger),
            (self.at / "audit.jsonl", self.read_log),
        ]
        return found

    def total(self) -> int:
        return self.starts[-1] * len(WAYS)

    def case(self, number: int) -> str:
        byte, way = number // len(WAYS), list(WAYS)[number % len(WAYS)]
        which = bisect.bisect_right(self.starts, byte) - 1
        (path, read), raw = self.files[which], self.originals[which]
        changed = change(raw, byte - self.starts[which], way)
        if changed == raw:
            return f"{_called(path)}: no change"
        path.write_bytes(changed)
        try:
            outcome = read(path)
        except CoterieError as error:
            wrong = PolicyError if path.name == "policy.toml" else StudyError
            if type(error) is not wrong:
                raise Finding(f"{path.name}: {type(error).__name__}: {error}") from error
            outcome = type(error).__name__
        finally:
            path.write_bytes(raw)
        return f"{_called(path)}: {outcome}"

    # -- what reads them ---------------------------------------------------------------------------------

    def _signed(self) -> dict[str, Any]:
        found = verify_signatures(self.orders.study, load_study(self.orders.study))
        return {name: (one.message(), base64.b64decode(one.signature)) for name, one in found.items()}

    def read_study(self, path: Path) -> str:
        if recognise(self.orders).study != self.ready.study or self._signed() != self.signatures:
            raise Finding(f"{path.name} means something else, and all signatures hold")
        return "the same"

    def read_policy(self, path: Path) -> str:
        policy, _ = load_policy(None, self.orders.key)
        return "the same" if policy == self.policy else "another valid policy"

    def read_model(self, path: Path) -> str:
        model = load_model(path, self.ready)
        if model == self.model:
            return "the same"
        assert self.ready.rows is not None
        labels = _nearest(self.ready, self.ready.rows, model)
        if len(labels) != len(self.ready.rows.values):
            raise Finding("not as many labels as rows")
        fields = [name for name in model.__struct_fields__ if getattr(model, name) != getattr(self.model, name)]
        return f"another model ({', '.join(fields)})"

    def read_checkpoint(self, path: Path) -> str:
        kept = Checkpoints(self.state, self.purpose)
        if any(kept._path(mark) == path for mark in kept.marks()):
            raise Finding(f"{path.name} was changed and counts")
        return "does not count"

    def read_log(self, path: Path) -> str:
        """Also as a run does that goes on with it: it looks for openings; and it appends, for which the end matters."""
        run = next(entry["run"] for entry in self.logs[path] if "run" in entry)
        audit = Audit(path, self.ready.credentials)
        changed, original = path.read_bytes(), self.originals[-1]
        with contextlib.suppress(StudyError):
            audit.openings(run)
        if changed.split(b"\n")[-2:] != original.split(b"\n")[-2:]:
            with contextlib.suppress(StudyError):
                audit.record("fuzzed")
            path.write_bytes(changed)
        return self._still(path, verify_audit(path).entries)

    def read_ledger(self, path: Path) -> str:
        Budget(self.orders.key, self.ready, Audit(self.at / "audit.jsonl", self.ready.credentials))._counted()
        return self._still(path, verify_audit(path).entries)

    def _still(self, path: Path, entries: list[dict[str, Any]]) -> str:
        """A log cannot tell by itself that entries were cut off at its end."""
        right = self.logs[path]
        if entries == right:
            return "the same"
        if entries == right[: len(entries)]:
            return "the last entry is torn off"
        raise Finding(f"{path.name} holds something else, and can be verified")


def _called(path: Path) -> str:
    return "checkpoint" if path.name.startswith("checkpoint-") else path.name
