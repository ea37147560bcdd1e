"""A model that was changed after the run wrote it: what cannot be is refused before any row is labelled with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.errors import StudyError
from coterie.study.predict import predict_rows
from tests.study.walk import SMALL, Cast

WRONG: dict[str, dict[str, Any]] = {
    "a row is missing": {"centers": [[1, 2]] * 3},
    "a row is short": {"centers": [[1, 2], [3], [4, 5], [6, 7]]},
    "a number beyond 64 bits": {"centers": [[1 << 63, 2]] * 4},
    "no centres": {"centers": None},
    "a share as well": {"share": [[1, 2]] * 4},
    "another number of clusters": {"clusters": 5},
    "another partition": {"partition": "vertical"},
    "columns in another order": {"columns": ["y", "x"]},
    "too few flags": {"suppressed": [False]},
    "a least size of none": {"least": 0},
    "far too precise": {"fractional_bits": 166},
    "not precise at all": {"fractional_bits": -(1 << 62)},
}


@pytest.fixture
def model(cast: Cast, no_pictures: None) -> Path:
    """Alice's, of a run."""
    cast.agree(*SMALL)
    rng = np.random.RandomState(0)
    for name in cast.parties:
        cast.give(name, x=rng.uniform(-12, 12, 60), y=rng.uniform(-12, 12, 60))
    cast.run()
    return cast.at("alice", "results", "model.json")


def test_a_model_that_cannot_be_is_refused(cast, model):
    def predict() -> Path:
        return predict_rows(cast.orders("alice", model=model, out=cast.at("alice", "predictions")))

    right = msgspec.json.decode(model.read_bytes())
    for wrong in WRONG.values():
        model.write_bytes(msgspec.json.encode({**right, **wrong}))
        with pytest.raises(StudyError, match="was changed or damaged"):
            predict()
    model.write_bytes(b'{"columns":' + b"[" * 100_000)
    with pytest.raises(StudyError, match="is not a model"):
        predict()
    model.write_bytes(msgspec.json.encode(right))
    assert predict().is_dir()
