"""How often, and on which data: what a policy allows of a study in the long run, and the ledger that is kept for it.

Each participant keeps a signed log beside its key, NAME.budget.jsonl, with an entry for each run that has opened a
result. The entry is written before that opening. A run that is taken up again counts once.

Each data party's greeting holds a commitment to its data. The same data give the same commitment in every run of a
study, in whatever order the rows stand. The key comes from the party's private key, so nobody else can try guesses.
"""

from __future__ import annotations

import hmac
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from coterie.clustering.rules import strictest
from coterie.data import Rows
from coterie.errors import FrameError, InputError, PolicyError, StudyError
from coterie.study.agreement import Study
from coterie.study.audit import Audit, verify_audit
from coterie.study.files import canonical
from coterie.study.greetings import Greeting
from coterie.study.handshake import Greeted
from coterie.study.identity import derived_key, same_key
from coterie.study.prepare import Ready
from coterie.typed import convert

__all__ = ["Budget", "commitment"]

#: What `runs` counts, each in its own study.
RUNS = ("fit", "survey")
COMMITMENT = re.compile(r"[0-9a-f]{64}")


class Counted(msgspec.Struct, frozen=True):
    """A run that has opened a result. `model`: the run whose model it predicted from; `rows`: of all parties; `rules`:
    the output rules that everybody's policies amounted to."""

    time: str
    study_hash: str
    run: str
    purpose: str
    rows: int
    commitments: dict[str, str]
    model: str = ""
    rules: str = ""


def commitment(key: str, study_hash: str, rows: Rows | None) -> str:
    """HMAC-SHA-256 of ids and values, whatever order the rows are in; empty where no data is owned.

    The key is derived from the private key and the study: commitments of two studies cannot be compared.
    """
    if rows is None:
        return ""
    weights = [] if rows.weights is None else [rows.weights.astype(np.float64)]
    values = np.column_stack([rows.values + 0.0, *weights])  # there is one zero
    order = np.lexsort(values.T[::-1]).tolist()
    if rows.ids is not None:
        order.sort(key=rows.ids.__getitem__)
    secret = derived_key(key, f"coterie data commitment {study_hash}")
    made = hmac.new(secret, canonical([*values.shape, rows.ids is not None]), "sha256")
    if rows.ids is not None:
        made.update(canonical([rows.ids[i] for i in order]))
    made.update(values[order].astype("<f8").tobytes())
    return made.hexdigest()


class Budget:
    """The budget of one participant in one study. `audit`: where other data are noted; None: nowhere."""

    def __init__(self, key: Path, ready: Ready, audit: Audit | None) -> None:
        self.ready, self.policy, self.audit = ready, ready.policy, audit
        path = key.resolve().with_name(f"{ready.me.name}.budget.jsonl")
        self.log = Audit(path, ready.credentials, "the ledger of runs")

    # -- before anybody is greeted -----------------------------------------------------------------------

    def check_own(self, own: Greeting) -> None:
        """Is another run allowed, as far as can be known at home? A run that was counted may be taken up again."""
        self._check_writable()
        counted = self._counted()
        if own.purpose == "predict":
            if own.model:
                self._check_predicted(counted, own.model, own.rows)
            return
        resumable = set() if own.restart else {mark.run for mark in own.marks}
        if not resumable & {one.run for one in counted if one.purpose in RUNS}:
            self._check_runs(counted)
        if own.commitment:
            self._check_data(counted, self.ready.me.name, own.commitment)

    def describe(self) -> str:
        """How much is used, for people to read."""
        used = sum(one.purpose in RUNS for one in self._counted())
        if self.policy.runs is None:
            return f"{used} {'run' if used == 1 else 'runs'} of this study used; the policy sets no limit (`runs`)"
        return f"{used} of {self.policy.runs} runs of this study used"

    def _check_writable(self) -> None:
        path = self.log.path
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputError(f"the ledger of runs {path} cannot be written; keep the key in a folder that can be")

    # -- when everybody has greeted, and nothing of the data has left -------------------------------------

    def check_greeted(self, greeted: Greeted, purpose: str) -> Callable[[], None]:
        """Is this run allowed? Returns what counts it, to be called before its first result is opened."""
        entry = self._entry(greeted, purpose)
        counted = self._counted()
        self._check_limits(counted, entry)
        for name, shown in entry.commitments.items():
            self._check_data(counted, name, shown)
        self._check_rules(counted, entry)
        lock, done = threading.Lock(), False

        def count() -> None:
            nonlocal done
            with lock:
                if not done:
                    self._count(entry)
                    done = True

        return count

    def _entry(self, greeted: Greeted, purpose: str) -> Counted:
        owners, commitments, model = self.ready.study.roles.owners, {}, ""
        brought = [greeted.greetings[name].rows for name in owners]
        rows = max(brought) if self.ready.study.clustering.partition == "vertical" else sum(brought)  # at most
        if purpose in RUNS:
            for name in owners:
                commitments[name] = greeted.greetings[name].commitment
                if not COMMITMENT.fullmatch(commitments[name]):
                    raise FrameError(f"{name} sent a greeting that makes no sense (it does not commit to data)", name)
        else:
            model = greeted.greetings[owners[0]].model
        rules = _rules_of(self.ready.study, greeted) if purpose in RUNS else ""
        return Counted("", self.ready.hash, greeted.run, purpose, rows, commitments, model, rules)

    def _check_limits(self, counted: list[Counted], entry: Counted) -> None:
        if _among(counted, entry):
            return
        if entry.purpose in RUNS:
            self._check_runs(counted)
        else:
            self._check_predicted(counted, entry.model, entry.rows)

    def _count(self, entry: Counted) -> None:
        """Check once more and count, in one: another process with the same key may be about to do the same."""
        fields = {name: value for name, value in msgspec.to_builtins(entry).items() if name != "time"}
        with self.log.exclusively():
            counted = self._counted()
            if not _among(counted, entry):
                self._check_limits(counted, entry)
                self.log.record("counted", **fields)

    # -- the rules ---------------------------------------------------------------------------------------

    def _check_runs(self, counted: list[Counted]) -> None:
        fits = [one for one in counted if one.purpose in RUNS]
        if self.policy.runs is not None and len(fits) >= self.policy.runs:
            last = f", the last on {fits[-1].time[:10]}" if fits else ""
            raise PolicyError(
                f"{self.ready.policy_called}: the rule `runs` = {self.policy.runs} allows no further run of this "
                f"study; {len(fits)} used{last} ({self.log.path})"
            )

    def _check_predicted(self, counted: list[Counted], model: str, rows: int) -> None:
        used = sum(one.rows for one in counted if one.purpose == "predict" and one.model == model)
        if self.policy.predicted_rows is not None and used + rows > self.policy.predicted_rows:
            raise PolicyError(
                f"{self.ready.policy_called}: the rule `predicted_rows` = {self.policy.predicted_rows} does not allow "
                f"{rows} more rows to be predicted from this model; {used} used ({self.log.path})"
            )

    def _check_data(self, counted: list[Counted], name: str, shown: str) -> None:
        """Data that a party has not brought to a counted run of this study are named, and refused or logged."""
        earlier = [one for one in counted if name in one.commitments]
        if not earlier or any(hmac.compare_digest(one.commitments[name], shown) for one in earlier):
            return
        rule = self.policy.other_data
        if self.audit is not None:
            self.audit.record("other data", study_hash=self.ready.hash, party=name, since=earlier[-1].run, rule=rule)
        if rule == "refuse":
            raise PolicyError(
                f"{self.ready.policy_called}: the rule `other_data` = 'refuse': {name} returns to this study with "
                f"other data than in the run of {earlier[-1].time[:10]}. Agree on a new study, or allow it with "
                'other_data = "log"'
            )

    def _check_rules(self, counted: list[Counted], entry: Counted) -> None:
        """The same data under other rules are as good as other data: one run after the other, each with a least size
        that is larger by one, would tell every number that is rounded to it, or compared with it."""
        earlier = [one for one in counted if one.rules and one.purpose == entry.purpose]
        if not earlier or any(one.rules == entry.rules for one in earlier) or self.policy.other_data != "refuse":
            return
        raise PolicyError(
            f"{self.ready.policy_called}: the rule `other_data` = 'refuse': the run of {earlier[-1].time[:10]} had "
            f"{earlier[-1].rules}, and by everybody's policies this one has {entry.rules}. Both together would tell "
            'what each keeps back. Agree on a new study, or allow it with other_data = "log"'
        )

    def _counted(self) -> list[Counted]:
        """The runs of this study that count, from a ledger that nobody else has written."""
        path = self.log.path
        if not path.exists():
            return []
        log = verify_audit(path)
        mine = self.ready.credentials.keys or (self.ready.credentials.key,)
        if not all(any(same_key(key, one) for key in mine) for one in log.signers.values()):
            raise StudyError(f"{path} is not the ledger of {self.ready.me.name}: it is signed by somebody else, too")
        try:
            found = [convert(entry, Counted) for entry in log.entries if entry.get("event") == "counted"]
        except msgspec.ValidationError:
            raise StudyError(f"{path} is not a ledger of runs: an entry lacks something") from None
        return [one for one in found if one.study_hash == self.ready.hash]


def _rules_of(study: Study, greeted: Greeted) -> str:
    """The output rules that hold for all, in words."""
    said = [greeted.greetings[name] for name in study.roles.owners]
    least = max(study.disclosures.least_cluster_size, *(one.least for one in said))
    rule = strictest([study.disclosures.contribution, *(one.contribution for one in said)])
    together = max(one.coalition for one in said)
    return f"a least size of {least}, contribution {rule!r} and coalitions of {together}"


def _among(counted: list[Counted], entry: Counted) -> bool:
    """Is the run counted already?"""
    return any((one.run, one.purpose) == (entry.run, entry.purpose) for one in counted)
