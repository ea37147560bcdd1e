"""Organisations for tests: identities in folders of their own, one study that all sign, processes that run it.

    with Cast(tmp_path) as cast:                       # alice, bob and a helper
        cast.agree(*SMALL)                             # study create, study sign, copies for everybody
        cast.give("alice", x=..., y=...)               # alice/data.csv; file="data.parquet" writes Parquet
        cast.give("bob", x=..., y=...)
        processes = [cast.start(name) for name in cast.names]
        assert [cast.finish(process) for process in processes] == [0, 0, 0]

Nothing is shared between the folders. `cast.take_part()` does the same with threads of this process, much faster.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tomli_w

from coterie.cli.app import main
from coterie.clustering import Task, at_home
from coterie.errors import Interrupted
from coterie.study.agreement import Study
from coterie.study.audit import verify_audit
from coterie.study.predict import predict_rows
from coterie.study.prepare import Orders
from coterie.study.run import run_study
from coterie.study.study_file import load_study
from coterie.study.voice import Voice

__all__ = ["BRIEF", "SMALL", "Cast", "Said", "Stopping", "coterie", "free_addresses", "read_parquet", "wait_until"]

#: For `Cast.program`: the command line as it is, but with a report that takes no time to draw.
BRIEF = (
    "-c",
    "from coterie.report import write; write.write_report = lambda path, *facts: path.write_text('a report')\n"
    "from coterie.cli.app import main; main()",
)
#: Four clusters of points in the plane, by rows.
SMALL = ("--clusters", "4", "--columns", "x,y", "--bounds", "x=-12:12,y=-12:12")


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def coterie(*arguments: object) -> Said:
    """`coterie ARGUMENTS`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in arguments])
        except SystemExit as ending:
            code = ending.code
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


def free_addresses(count: int) -> list[str]:
    """HOST:PORT that nothing listens at: ports of the system's choice, on a loopback host that is all one's own, so
    that neither another test nor an outgoing connection takes one before it is used."""
    host = ".".join(["127", *(str(random.SystemRandom().randrange(1, 255)) for _ in range(3))])
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.socket())
            try:
                sockets[-1].bind((host, 0))
            except OSError:  # not every system has more than one loopback address
                host = "127.0.0.1"
                sockets[-1].bind((host, 0))
        return [f"{one.getsockname()[0]}:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_until(holds: Callable[[], Any], within: float = 60.0, what: str = "it") -> Any:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what} did not happen within {within:g} s"
        time.sleep(0.02)
    return found


def read_parquet(path: Path) -> dict[str, list[Any]]:
    """A Parquet file's columns by name, in their order."""
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute("select * from read_parquet(?)", [str(path)])
        names = [entry[0] for entry in found.description or ()]
        return dict(zip(names, map(list, zip(*found.fetchall(), strict=True)), strict=False))


#: Seconds after which a process counts as hung. Nothing is measured by it: a machine may be busy many times over.
LIMIT = 600.0


class Cast:
    """Who takes part. Leaving the block ends whatever is still running."""

    def __init__(self, folder: Path, parties: Sequence[str] = ("alice", "bob"), helper: str | None = "helper",
                 addresses: Sequence[str] | None = None, servers: Sequence[str] = ()) -> None:  # fmt: skip
        """The identities of everybody, each in FOLDER/NAME. `addresses`: that of who owns no data first. `servers`: in
        place of a helper."""
        self.folder, self.parties, self.servers = folder, tuple(parties), tuple(servers)
        self.helper = None if servers else helper
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.sources: dict[str, tuple[str, ...]] = {}
        self.prefix: dict[str, tuple[str, ...]] = {}
        self.program: tuple[str, ...] = ("-m", "coterie")
        for name, address in zip(self.names, addresses or free_addresses(len(self.names)), strict=True):
            made = coterie("identity", "create", name, "--address", address, "--folder", self.at(name))
            assert made.code == 0, made.err

    def __enter__(self) -> Cast:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def names(self) -> tuple[str, ...]:
        """By rank: who owns no data comes first."""
        others = [name for name in (self.helper, *self.servers) if name and name not in self.parties]
        return (*others, *self.parties)

    def at(self, name: str, *more: str) -> Path:
        """In a participant's folder."""
        return self.folder.joinpath(name, *more)

    def key(self, name: str) -> Path:
        return self.at(name, f"{name}.key")

    def identity(self, name: str) -> Path:
        return self.at(name, f"{name}.identity.toml")

    def study_file(self, name: str) -> Path:
        """A participant's own copy."""
        return self.at(name, "study.toml")

    @property
    def study(self) -> Study:
        return load_study(self.study_file(self.parties[0]))

    # -- agreeing ----------------------------------------------------------------------------------------

    def create(self, *options: object) -> Said:
        """`coterie study create`, of FOLDER/study.toml."""
        (self.folder / "study.toml").unlink(missing_ok=True)
        parties = [word for name in self.parties for word in ("--party", self.identity(name))]
        others: list[object] = ["--helper", self.identity(self.helper)] if self.helper else []
        for name in self.servers:
            others += ["--server", name if name in self.parties else self.identity(name)]
        if "--reconnect" not in options and "--survey" not in options:  # whoever is killed is to be named at once
            options = (*options, "--reconnect", 0)
        return coterie("study", "create", self.folder / "study.toml", *parties, *others, *options)

    def agree(self, *options: object) -> Study:
        """Create a study; everybody gets a copy, signs it, and gets the signatures of all."""
        made = self.create(*options)
        assert made.code == 0, made.err
        for name in self.names:
            shutil.copy(self.folder / "study.toml", self.study_file(name))
            signed = coterie("study", "sign", self.study_file(name), "--key", self.key(name))
            assert signed.code == 0, signed.err
        self.exchange_signatures()
        return self.study

    def exchange_signatures(self) -> None:
        for name in self.names:
            for other in self.names:
                if other != name:
                    shutil.copy(self.at(name, f"study.{name}.sig.toml"), self.at(other))

    def policy(self, name: str, **rules: object) -> Path:
        """Write a participant's policy.toml."""
        path = self.at(name, "policy.toml")
        path.write_text(tomli_w.dumps(rules), encoding="utf-8")
        for one, mode in ((path, 0o644), (path.parent, 0o755)):
            one.chmod(mode)  # whatever the umask: nobody else may write it
        return path

    def policies(self, **rules: object) -> None:
        """The same policy for everybody."""
        for name in self.names:
            self.policy(name, **rules)

    # -- data --------------------------------------------------------------------------------------------

    def give(self, name: str, file: str = "data.csv", **columns: Any) -> Path:
        """Write a party's data, which its runs then read: CSV or Parquet, by the file's name."""
        path = self.write(name, file, **columns)
        self.sources[name] = ("--data", str(path))
        return path

    def write(self, name: str, file: str, **columns: Any) -> Path:
        """Write data that is not (yet) a party's source."""
        path = self.at(name, file)
        arrays = {column: np.asarray(values) for column, values in columns.items()}
        if path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(arrays)
                writer.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))
            return path
        import duckdb

        with duckdb.connect() as connection:
            connection.register("given", arrays)
            connection.execute(f"copy (select * from given) to '{path}' (format parquet)")
        return path

    # -- running -----------------------------------------------------------------------------------------

    def arguments(self, name: str, verb: str = "run", *more: object) -> list[str]:
        """The command line of a participant's part: with its own key, data and --out, unless `more` says otherwise."""
        given = [str(word) for word in more]
        line = [verb, str(self.study_file(name)), "--key", str(self.key(name))]
        if "--data" not in given:
            line += self.sources.get(name, ())
        if verb == "run" and "--out" not in given:
            line += ["--out", str(self.at(name, "results"))]
        if verb == "predict" and "--out" not in given:
            line += ["--out", str(self.at(name, "predictions"))]
        if verb == "predict" and "--model" not in given and name != self.helper:
            line += ["--model", str(self.at(name, "results", "model.json"))]
        return [*line, *given]

    def start(
        self, name: str, verb: str = "run", *more: object, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A process of its own. What it says goes to NAME/out.txt and NAME/err.txt, which are begun anew."""
        command = [*self.prefix.get(name, ()), sys.executable, *self.program, *self.arguments(name, verb, *more)]
        with self.at(name, "out.txt").open("wb") as out, self.at(name, "err.txt").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=self.at(name),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(environment or {})},
            )
        self.processes[name] = process
        return process

    @staticmethod
    def finish(process: subprocess.Popen[bytes], within: float = LIMIT) -> int:
        """Wait for the end of a process; its exit code."""
        try:
            return process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"a participant was still running after {within:g} s") from None

    def finish_all(self, within: float = LIMIT) -> dict[str, int]:
        """Wait for everybody who was started; exit codes by name."""
        deadline = time.monotonic() + within
        return {n: self.finish(p, max(deadline - time.monotonic(), 0.1)) for n, p in self.processes.items()}

    def out(self, name: str) -> str:
        """What a participant's process has said so far."""
        return self.at(name, "out.txt").read_text(encoding="utf-8")

    def err(self, name: str) -> str:
        return self.at(name, "err.txt").read_text(encoding="utf-8")

    def said(self) -> str:
        """What everybody said: for the message of an assertion."""
        return "\n".join(f"--- {name}\n{self.out(name)}{self.err(name)}" for name in self.processes)

    def orders(self, name: str, **changes: Any) -> Orders:
        """What `arguments` says, for a run in this process."""
        source = dict(zip(*[iter(self.sources.get(name, ()))] * 2, strict=True))
        given: dict[str, Any] = {
            "data": source.get("--data"),
            "query": source.get("--query"),
            "out": self.at(name, "results"),
            "wait": 60.0,
            **changes,
        }
        return Orders(self.study_file(name), self.key(name), **given)

    def take_part(
        self,
        act: Callable[[Orders, Voice], object] = run_study,
        names: Sequence[str] | None = None,
        each: dict[str, dict[str, Any]] | None = None,
        voices: dict[str, Voice] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Everybody (or `names`) at once, in threads of this process: what each returned, or the exception."""
        ended: dict[str, Any] = {}

        def one(name: str) -> None:
            try:
                orders = self.orders(name, **{**changes, **(each or {}).get(name, {})})
                ended[name] = act(orders, (voices or {}).get(name) or Voice())
            except BaseException as error:
                ended[name] = error

        threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names or self.names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), f"still running; so far: {ended}"
        return ended

    def run(self, **changes: Any) -> None:
        """Everybody runs the study, in threads, and nothing goes wrong."""
        self._fine(self.take_part(**changes))

    def predict(self, each: dict[str, dict[str, Any]], **changes: Any) -> None:
        """Those named in `each` predict, in threads, and nothing goes wrong."""
        for name in each:
            given = {"out": self.at(name, "predictions")}
            if name != self.helper:
                given["model"] = self.at(name, "results", "model.json")
            each = {**each, name: {**given, **each[name]}}
        self._fine(self.take_part(predict_rows, list(each), each, **changes))

    @staticmethod
    def _fine(ended: dict[str, Any]) -> None:
        for error in ended.values():
            if isinstance(error, BaseException):
                raise AssertionError(f"it went wrong: {ended}") from error

    # -- results -----------------------------------------------------------------------------------------

    def labels(self, name: str, folder: str = "results") -> dict[str, list[Any]]:
        """The columns of labels.parquet."""
        return read_parquet(self.at(name, folder, "labels.parquet"))

    def centers(self, name: str, folder: str = "results") -> list[dict[str, str]]:
        """The rows of centers.csv."""
        with self.at(name, folder, "centers.csv").open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))

    def document(self, name: str, file: str, folder: str = "results") -> dict[str, Any]:
        """A JSON file of the results."""
        return msgspec.json.decode(self.at(name, folder, file).read_bytes())

    def with_homes(self, task: Task, folder: str = "results") -> Task:
        """The task, with the columns that parties have standardised at home as their models have them."""
        study = self.study
        if study.clustering.scale != "standard" or study.clustering.partition != "vertical":
            return task
        for rank, name in zip(study.world().owners, self.parties, strict=True):
            model = self.document(name, "model.json", folder)
            home = at_home(task.encoding, study.own_columns(rank), model["means"], model["deviations"])
            task = msgspec.structs.replace(task, encoding=home)
        return task

    def audit(self, name: str) -> list[dict[str, Any]]:
        """The entries of the audit log, verified."""
        return verify_audit(self.at(name, "audit.jsonl")).entries

    def audit_of_runs(self, name: str) -> list[dict[str, Any]]:
        """The ledger of runs, for the budget."""
        return list(verify_audit(self.at(name, f"{name}.budget.jsonl")).entries)

    def entry(self, name: str, event: str) -> dict[str, Any]:
        """The last entry of this kind."""
        return [entry for entry in self.audit(name) if entry["event"] == event][-1]

    def events(self, name: str) -> list[str]:
        """What happened, in order; openings count once in a row."""
        found = [entry["event"] for entry in self.audit(name)]
        return [event for i, event in enumerate(found) if event != "opening" or found[i - 1] != "opening"]


class Stopping(Voice):
    """Breaks off after so many iterations, counted over all starts; each of them keeps a checkpoint."""

    def __init__(self, after: int) -> None:
        self.left = after

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        self.left -= 1
        if not self.left:
            raise Interrupted("stopped by a test")
