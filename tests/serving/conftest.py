from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.study.walk import SMALL, Cast


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cast]:
    """Alice, Bob and a helper, who have all signed one study."""
    before = os.umask(0o022)
    with Cast(tmp_path_factory.mktemp("cast")) as made:
        made.agree(*SMALL)
        yield made
    os.umask(before)


@pytest.fixture
def studies(cast: Cast, tmp_path: Path) -> Path:
    """A folder with the study and everybody's signatures."""
    folder = tmp_path / "studies"
    folder.mkdir()
    for paper in cast.at("helper").glob("study*.toml"):
        shutil.copy(paper, folder)
    return folder
