"""Taking part in a study from Python: `coterie.Study`."""

from __future__ import annotations

import contextlib
import csv
import importlib
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from coterie.cli.run import check_orders
from coterie.clustering import Outcome
from coterie.data import UTF8, CsvFormat
from coterie.data.sinks import read_labels
from coterie.data.tables import Table
from coterie.errors import CoterieError, InputError
from coterie.report.formats import format_bytes
from coterie.reporting import Page
from coterie.sharing import Disclosure
from coterie.study.agreement import study_hash
from coterie.study.identity import load_key
from coterie.study.policy import check_policy, load_policy
from coterie.study.predict import predict_rows
from coterie.study.preflight import Finding
from coterie.study.preflight import preflight as check_beforehand
from coterie.study.prepare import Orders
from coterie.study.run import fit_in_study
from coterie.study.signatures import sign_study, verify_signatures
from coterie.study.study_file import load_study
from coterie.study.survey import run_survey
from coterie.study.voice import Voice
from coterie.study.withdrawing import withdraw_and_tell
from coterie.transport import Traffic
from coterie.typed import from_json

__all__ = ["Fit", "Results", "Study"]

PathLike = str | os.PathLike[str]


class Study:
    """A study file, to look at, to sign and to take part in: what the command line does, from Python.

    `data` is a data frame (pandas, polars, pyarrow; anything with the Arrow interface), which gets the same checks as a
    file, or what `--data` takes: a path, or a postgresql:// URL, with `table` or `query`. Where the study's id column
    is not among the columns of a pandas frame, an index of that name is taken. `out`: a folder for the files that the
    command line writes; if left out, they are in a folder that goes when the result does. `verbose=1` shows progress,
    `verbose=0` nothing. `options`: what the command line has besides, in Python's spelling: `table`, `query`, `policy`,
    `audit`, `state`, `listen`, `proxy`, `wait`, `timeout`, `stall`, `restart`, `passphrase` (bytes or text),
    `delimiter`, `decimal`, `encoding`.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.agreement = load_study(self.path)

    @classmethod
    def load(cls, path: PathLike) -> Study:
        """Read and check a study file."""
        return cls(path)

    def __repr__(self) -> str:
        return f"<Study {self.agreement.study.name!r} of {', '.join(self.agreement.names)}>"

    @property
    def hash(self) -> str:
        """What participants compare: the hash of all that they agree on."""
        return study_hash(self.agreement)

    def explain(self, rows: int = 100_000, iterations: int = 20) -> str:
        """What is computed, what everybody learns, what it rests on, and what it costs for so many rows."""
        if self.agreement.survey is not None:
            from coterie.cli.explain_survey import explain_survey

            return explain_survey(self.agreement, rows)[0]
        from coterie.cli.explain import explain_study

        return explain_study(self.agreement, rows, iterations)[0]

    def sign(self, key: PathLike, *, policy: PathLike | None = None, passphrase: bytes | str | None = None) -> Path:
        """Sign the study, if the policy allows it; returns the file to send to all other participants."""
        with _in_python():
            text = load_key(Path(key), _bytes(passphrase))
            rules, called = load_policy(None if policy is None else Path(policy), Path(key))
            one = self.agreement.at_rank(self.agreement.rank_of(text))
            check_policy(rules, self.agreement, one.name, called)
            return sign_study(self.path, text)

    def verify(self) -> dict[str, str]:
        """When each participant has signed; an error that says who has not, or what was changed afterwards."""
        return {name: one.signed for name, one in verify_signatures(self.path, self.agreement).items()}

    def withdraw(self, key: PathLike, *, passphrase: bytes | str | None = None) -> Path:
        """Take the own signature back, for good, and tell the others who are up; returns the file to send to the rest.
        Whoever has seen it does not run the study any more."""
        with _in_python():
            return withdraw_and_tell(self.path, load_key(Path(key), _bytes(passphrase)))[1]

    def preflight(
        self, key: PathLike, data: Any = None, *, verbose: int = 1, wait: float = 0.0, **options: Any
    ) -> list[Finding]:
        """Check what can be checked before a run; raises what is wrong."""

        def tell(finding: Finding) -> None:
            if verbose:
                print(f"{finding.what}: {finding.text}", flush=True)

        with _in_python():
            orders = self._orders(key, data, Path("results"), {**options, "wait": wait})
            return check_beforehand(orders, tell)

    def run(
        self, key: PathLike, data: Any = None, *, out: PathLike | None = None, verbose: int = 1, **options: Any
    ) -> Fit:
        """Take part in the study, to the end. Interrupted, it tells the others; run again by all, it goes on."""
        with _place(out) as (folder, kept), _in_python():
            orders = self._orders(key, data, folder, options)
            fitted = fit_in_study(orders, Printed() if verbose else Voice())
            return Fit(folder, kept, data, fitted.outcome)

    def predict(
        self,
        key: PathLike,
        data: Any = None,
        *,
        model: Any = None,
        out: PathLike | None = None,
        verbose: int = 1,
        **options: Any,
    ) -> Results:
        """Label new rows: `model` is what `run` has returned, or the path of its model.json."""
        with _place(out) as (folder, kept), _in_python():
            path = model.out / "model.json" if isinstance(model, Results) else model
            found = None if path is None else Path(path)
            orders = self._orders(key, data, folder, options, model=found)
            predict_rows(orders, Printed() if verbose else Voice())
            return Results(folder, kept, data)

    def survey(
        self, key: PathLike, data: Any = None, *, out: PathLike | None = None, verbose: int = 1, **options: Any
    ) -> Results:
        """Take part in a survey. What was found is in `found`."""
        with _place(out) as (folder, kept), _in_python():
            orders = self._orders(key, data, folder, options)
            run_survey(orders, Printed() if verbose else Voice())
            return Results(folder, kept, data)

    def _orders(
        self, key: PathLike, data: Any, out: Path, options: dict[str, Any], model: Path | None = None
    ) -> Orders:
        given = dict(options)
        for name in ("policy", "audit", "state"):
            if given.get(name) is not None:
                given[name] = Path(given[name])
        form = CsvFormat(given.pop("delimiter", None), given.pop("decimal", "."), given.pop("encoding", "utf-8"))
        if "timeout" in given:
            given["patience"] = given.pop("timeout")
        given["passphrase"] = _bytes(given.get("passphrase"))
        known = {
            "table",
            "query",
            "policy",
            "audit",
            "state",
            "listen",
            "proxy",
            "wait",
            "patience",
            "stall",
            "restart",
        }
        for name in given:
            if name not in {*known, "passphrase"}:
                raise TypeError(f"{name} is not an option of Study; see its documentation")
        source = self._source(data)
        csv_format = UTF8 if form == UTF8 else form
        return check_orders(Orders(self.path, Path(key), source, out=out, model=model, csv=csv_format, **given))

    def _source(self, data: Any) -> str | Table | None:
        if data is None or isinstance(data, str | os.PathLike):
            return None if data is None else os.fspath(data)
        id_column = self.agreement.data.id
        named = id_column and id_column not in list(getattr(data, "columns", [id_column]))
        if named and getattr(getattr(data, "index", None), "name", None) == id_column:
            data = data.reset_index()
        return Table(data)


class Results:
    """What a participant has in the end. `out`: the folder with the files that the command line writes."""

    def __init__(self, out: Path, kept: Path | None, data: Any) -> None:
        self.out = out
        if kept is not None:
            weakref.finalize(self, shutil.rmtree, kept, ignore_errors=True)
        self._index = getattr(data, "index", None) if hasattr(data, "iloc") else None
        self.rows: np.ndarray | None = None
        self._labels: np.ndarray | None = None
        if (out / "labels.parquet").exists():
            self.rows, self._labels = read_labels(out / "labels.parquet")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.out}>"

    @property
    def labels(self) -> Any:
        """Of the own rows that took part: a Series with the index of a pandas frame, else an array whose rows are
        `rows`, counted from 0. None where there are none."""
        if self._labels is None or self._index is None:
            return self._labels
        pandas = importlib.import_module("pandas")
        return pandas.Series(self._labels, index=self._index[self.rows], name="label")

    @property
    def found(self) -> dict[str, Any] | None:
        """What a survey has found, as in survey.json. None where this participant does not learn it."""
        path = self.out / "survey.json"
        return from_json(path.read_bytes(), dict[str, Any]) if path.exists() else None

    def report(self, path: PathLike | None = None) -> Page | Path:
        """The report: the page, which a notebook shows (`str` of it is its HTML), or with `path` that of the file that
        it is written to."""
        page = self._page()
        return page if path is None else page.write(path)

    def _repr_html_(self) -> str:
        return self._page()._repr_html_()

    def _page(self) -> Page:
        for name in ("report.html", "survey.html"):
            if (self.out / name).exists():
                return Page((self.out / name).read_text(encoding="utf-8"))
        raise InputError(f"there is no report in {self.out}")


class Fit(Results):
    """What a run came to. What this participant does not learn is None."""

    def __init__(self, out: Path, kept: Path | None, data: Any, outcome: Outcome) -> None:
        super().__init__(out, kept, data)
        self.n_iter: int = outcome.n_iter
        self.inertia: float | None = outcome.inertia
        self.silhouette: float | None = outcome.silhouette
        self.suppressed = outcome.suppressed
        self.sizes = outcome.counts if outcome.sizes is None else outcome.sizes
        self.disclosures: list[Disclosure] = outcome.disclosures
        self.traffic: Traffic | None = outcome.traffic

    @property
    def centers(self) -> Any:
        """In data units, as in centers.csv: a pandas DataFrame if pandas is there, else an array of numbers; NaN for a
        closed cluster. None where this participant does not learn them."""
        path = self.out / "centers.csv"
        if not path.exists():
            return None
        with path.open(newline="", encoding="utf-8") as stream:
            names, *lines = csv.reader(stream)
        columns = range(1 if self.sizes is None else 2, len(names))
        cells = [[_number(line[at]) for at in columns] for line in lines]
        with contextlib.suppress(ImportError):
            pandas = importlib.import_module("pandas")
            index = pandas.RangeIndex(len(lines), name="cluster")
            return pandas.DataFrame(cells, columns=[names[at] for at in columns], index=index)
        return np.array(cells)


def _number(text: str) -> float | str:
    """What stands in a cell; a date stays a text."""
    try:
        return float(text or "nan")
    except ValueError:
        return text


class Printed(Voice):
    """Progress as lines, which a notebook shows."""

    def phase(self, text: str) -> None:
        self._print(text)

    def note(self, text: str) -> None:
        self._print(text)

    def waiting(self, names: list[str]) -> None:
        self._print(f"waiting for {', '.join(names)}")

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        of = f" of start {start + 1}" if start else ""
        self._print(f"iteration {iteration} of at most {most}{of}, {format_bytes(sent)} sent")

    @staticmethod
    def _print(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


@contextlib.contextmanager
def _place(out: PathLike | None) -> Iterator[tuple[Path, Path | None]]:
    """Where results go, and the folder to remove with them."""
    if out is not None:
        yield Path(out), None
        return
    kept = Path(tempfile.mkdtemp(prefix="coterie-"))
    try:
        yield kept / "results", kept
    except BaseException:
        shutil.rmtree(kept, ignore_errors=True)
        raise


@contextlib.contextmanager
def _in_python() -> Iterator[None]:
    """Errors name arguments as they are written here, and not as options of the command line."""
    try:
        yield
    except CoterieError as error:
        first, *rest = error.args or ("",)
        error.args = (OPTION.sub(_argument, str(first)), *rest)
        raise


OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_argument: Callable[[re.Match[str]], str] = lambda match: match[1].replace("-", "_") + "="  # noqa: E731


def _bytes(passphrase: bytes | str | None) -> bytes | None:
    return passphrase.encode() if isinstance(passphrase, str) else passphrase
