"""What `make dist` makes: the date, the files, the bill of materials; and the whole of it, twice."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from tools.dist import copy_source, find_date, hash_files
from tools.sbom import find_needed, make_bill

import coterie
from coterie.software import digest_files

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WHEN = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
FILES = {"coterie-1.2.3.tar.gz": "a" * 64, "coterie-1.2.3-py3-none-any.whl": "b" * 64}


# -- date and files ----------------------------------------------------------------------------------------


def test_the_date_is_that_of_the_newest_release(tmp_path):
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text("# Changelog\n\n## Unreleased\n\n- x\n\n## 1.2.3 (2026-01-31)\n\n## 1.2.2 (2025-12-31)\n")
    assert find_date(tmp_path) == WHEN.timestamp()
    changes.write_text("# Changelog\n\n## Unreleased\n")
    with pytest.raises(ValueError, match="no heading of a release"):
        find_date(tmp_path)


def test_the_changelog_has_the_version():
    assert re.findall(r"^## (\d\S*) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == coterie.__version__


@pytest.fixture
def repository(tmp_path):
    """With one commit."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.txt").write_text("committed")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    return root


def test_what_is_released_is_the_commit(repository, tmp_path):
    (repository / ".git" / "info" / "exclude").write_text("own.txt\n")
    (repository / "own.txt").write_text("in nobody else's clone")
    copy_source(repository, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["a.txt", "new.txt"])
def test_what_is_not_committed_is_refused(repository, tmp_path, name):
    (repository / name).write_text("not committed")
    with pytest.raises(ValueError, match="not committed"):
        copy_source(repository, tmp_path / "copy")


def test_without_git_it_is_the_folder(tmp_path):
    (tmp_path / "unpacked" / "dist").mkdir(parents=True)
    for name in ("a.txt", "PKG-INFO", "dist/old.whl"):
        (tmp_path / "unpacked" / name).write_text("x")
    copy_source(tmp_path / "unpacked", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["a.txt"]


# -- the bill of materials ---------------------------------------------------------------------------------


def bill(digest: str = "c" * 64) -> str:
    return make_bill(PROJECT, "1.2.3", digest, FILES, WHEN)


def test_the_bill_is_the_same_every_time(tmp_path, monkeypatch):
    first = bill()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert bill() == first
    serials = {json.loads(text)["serialNumber"] for text in (first, bill("d" * 64))}
    assert len(serials) == 2, "another content has another number"


def test_the_bill_lists_what_is_needed_and_what_that_needs():
    from importlib.metadata import version

    listed = {one["name"]: one for one in json.loads(bill())["components"]}
    required = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    optional = {re.match(r"[\w-]+", line)[0] for line in PROJECT["optional-dependencies"]["postgres"]}
    assert {name for name in required if listed[name]["scope"] == "required"} == required
    assert {name for name in optional if listed[name]["scope"] == "optional"} == optional
    assert listed["llvmlite"]["scope"] == "required", "which numba needs"
    assert "pytest" not in listed
    for name, one in listed.items():
        assert one["purl"] == f"pkg:pypi/{name}@{version(name)}"
        assert one["licenses"], name


def test_the_bill_says_what_depends_on_what():
    depends = {one["ref"].partition("@")[0]: one.get("dependsOn", []) for one in json.loads(bill())["dependencies"]}
    assert [ref.partition("@")[0] for ref in depends["pkg:pypi/numba"]] == ["pkg:pypi/llvmlite", "pkg:pypi/numpy"]
    direct = {ref.partition("@")[0] for ref in depends["pkg:pypi/coterie"]}
    assert {"pkg:pypi/numba", "pkg:pypi/pyarrow"} <= direct
    assert "pkg:pypi/llvmlite" not in direct


def test_the_bill_describes_the_release_and_no_machine():
    made = json.loads(bill())
    released = made["metadata"]["component"]
    assert (released["name"], released["version"]) == ("coterie", "1.2.3")
    assert released["properties"] == [{"name": "coterie:digest", "value": "c" * 64}]
    assert {one["name"]: one["hashes"][0]["content"] for one in released["components"]} == FILES
    assert made["metadata"]["timestamp"] == "2026-01-31T00:00:00+00:00"
    text = json.dumps({**made, "$schema": ""})
    assert "://" not in text
    for path in (ROOT, Path.home(), Path(sys.prefix)):
        assert str(path) not in text


def test_what_is_not_installed_is_named():
    with pytest.raises(LookupError, match="no-such-thing is needed and not installed"):
        find_needed(["no-such-thing>=1"])


# -- the whole ---------------------------------------------------------------------------------------------


def make_dist(folder: Path, umask: int) -> dict[str, str]:
    """Hashes of what comes out in a folder."""
    command = [sys.executable, "-m", "tools.dist"]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    said = subprocess.run(command, cwd=folder, env=environment, umask=umask, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder / "dist", check=True)
    return hash_files(folder / "dist")


@pytest.mark.slow
def test_two_clones_and_the_sources_give_the_same_bytes(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("there is no git here to clone from")
    made = []
    for name, umask in (("one", 0o022), ("another/deeper", 0o077)):
        subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / name)], check=True)
        made.append(make_dist(tmp_path / name, umask))
    assert made[0] == made[1]
    (archive,) = (tmp_path / "one" / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert make_dist(unpacked, 0o022) == made[0]
    (listed,) = (unpacked / "dist").glob("*.cdx.json")
    digest = json.loads(listed.read_text())["metadata"]["component"]["properties"][0]["value"]
    assert digest == digest_files(tmp_path / "one" / "src" / "coterie")
