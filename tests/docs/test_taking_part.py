"""The walk of docs/taking-part.md, typed in by alice as it stands, while bob and a helper take part."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import coterie
from tests.docs.pages import DOCS, blocks
from tests.study.walk import SMALL, Cast

PAGE = DOCS / "taking-part.md"
RANDOM = np.random.RandomState(6)
CORNERS = np.array([(-8, -8), (-8, 8), (8, -8), (8, 8)])


def some_rows(each: int) -> pd.DataFrame:
    points = RANDOM.normal(0, 1, (4 * each, 2)) + np.repeat(CORNERS, each, axis=0)
    return pd.DataFrame(points, columns=["x", "y"], index=[f"row {i}" for i in range(len(points))])


def test_alice_s_cells_run_as_they_stand(tmp_path, monkeypatch, capsys):
    (cells,) = [block for block in blocks(PAGE, "python") if block.note == "study: alice"]
    own, new, ended = some_rows(15), some_rows(2), {}

    def take_part(name: str, data: Any) -> None:
        study = coterie.Study.load(cast.study_file(name))
        ended[name] = study.run(cast.key(name), data, verbose=0, timeout=60.0, wait=120.0)

    with Cast(tmp_path) as cast:
        cast.agree(*SMALL)
        cast.at("alice", "study.alice.sig.toml").unlink()
        own.to_parquet(cast.at("alice", "alice.parquet"))
        new.to_parquet(cast.at("alice", "new.parquet"))
        monkeypatch.chdir(cast.at("alice"))
        others = [
            threading.Thread(target=take_part, args=("helper", None), daemon=True),
            threading.Thread(target=take_part, args=("bob", some_rows(15)), daemon=True),
        ]
        for thread in others:
            thread.start()
        namespace: dict[str, Any] = {}
        exec(compile("\n" * (cells.line - 1) + cells.body, str(PAGE), "exec"), namespace)
        for thread in others:
            thread.join(120)
        assert set(ended) == {"helper", "bob"}
    fit, said = namespace["fit"], capsys.readouterr().out
    assert "WHO TAKES PART" in said
    assert "60 rows of 2 columns in the data frame" in said
    assert "iteration 1 of at most 300" in said
    assert list(fit.centers.columns) == ["x", "y"]
    assert (np.abs(np.sort(fit.centers.abs().to_numpy().ravel()) - 8) < 1).all()
    assert list(fit.labels.index) == list(own.index)
    assert list(namespace["new"].labels.index) == list(new.index)
    for labels, each in ((fit.labels, 15), (namespace["new"].labels, 2)):
        assert (labels.to_numpy().reshape(4, each) == labels.to_numpy()[::each, None]).all()
    assert fit.inertia > 0
    assert fit.sizes is None
    report = Path("report.html").read_text(encoding="utf-8")
    assert "Coterie report of alice" in report
    assert report == str(fit.report())
