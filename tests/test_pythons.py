"""The Pythons that are promised are those that are tested, wherever they are named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTED = re.search(r'^versions="(.*)"$', (ROOT / ".ci" / "pythons").read_text(), re.MULTILINE)[1].split()


def test_the_package_promises_the_versions_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    assert [one.rsplit(" ", 1)[1] for one in project["classifiers"] if one.startswith(prefix)] == TESTED
    after_the_last = int(TESTED[-1].split(".")[1]) + 1
    assert project["requires-python"] == f">={TESTED[0]},<3.{after_the_last}"


def test_the_documents_name_the_versions_that_are_tested():
    sentence = f"Python {', '.join(TESTED[:-1])} or {TESTED[-1]}"
    for page in ("README.md", "docs/installation.md"):
        assert sentence in (ROOT / page).read_text(), page
