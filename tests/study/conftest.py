from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.study.walk import Cast


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Files that others can write are refused here and there."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    """Alice, Bob and a helper, who have not agreed on anything yet."""
    with Cast(tmp_path) as made:
        yield made


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process write a report without content: drawing one takes longer than the run."""
    monkeypatch.setattr("coterie.report.write.write_report", lambda path, *facts: path.write_text("a report"))
