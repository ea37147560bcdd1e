"""The digest of the software: what it covers, that anybody can compute it, and that a run compares it."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import coterie
from coterie import software
from coterie.software import describe_software, digest_files, software_digest
from tests.study.walk import SMALL, Cast

PACKAGE = Path(coterie.__file__).parent


@pytest.fixture
def package(tmp_path):
    """A small one."""
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    for name, text in (("a.py", "1"), ("a-b.py", "2"), ("py.typed", ""), ("inner/page.html", "<p>")):
        (inner.parent / name).write_text(text)
    return inner.parent


def test_by_hand(package):
    assert digest_files(package) == "a14893ae1e0a021b5c24ce69e9625d6a78c65067ec43714cf50dfbe134222711"


def test_every_name_and_byte_counts(package):
    seen = {digest_files(package)}
    (package / "a.py").write_text("1\n")
    seen.add(digest_files(package))
    (package / "inner/page.html").rename(package / "inner/pages.html")
    seen.add(digest_files(package))
    (package / "inner/data.bin").write_bytes(b"")
    seen.add(digest_files(package))
    (package / "py.typed").unlink()
    seen.add(digest_files(package))
    assert len(seen) == 5


def test_what_python_makes_of_it_does_not_count(package):
    before = digest_files(package)
    assert compileall.compile_dir(package, quiet=1)
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    (package / "__pycache__" / "kernel.nbi").write_bytes(b"machine code")
    (package / "a.py").touch()
    (package / "a.py").chmod(0o700)
    assert digest_files(package) == before


def test_other_tools_come_to_the_same():
    """With the commands that the docstring and SECURITY.md give."""
    command = software.__doc__.partition("    ")[2].strip()
    found = subprocess.run(["bash", "-c", command], cwd=PACKAGE, capture_output=True, text=True, check=True).stdout
    assert found.split() == [software_digest(), "-"]
    assert command in Path(__file__).parents[1].joinpath("docs", "releasing.md").read_text()


def test_every_file_of_the_package_counts(monkeypatch):
    counted = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: counted.append(path) or read(path))
    digest_files(PACKAGE)
    kept = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc")}
    assert set(counted) == kept


def test_it_is_quick_and_computed_once():
    took = []
    for _ in range(5):
        began = time.process_time()
        digest_files(PACKAGE)
        took.append(time.process_time() - began)
    assert min(took) < 0.05
    assert software_digest() is software_digest()
    assert describe_software() == f"{coterie.__version__} ({software_digest()[:12]})"


def changed_copy(folder: Path) -> str:
    """For PYTHONPATH: the same software but for a comment, with compiled kernels."""
    half_written = shutil.ignore_patterns("*.tmp*", "*.pyc*")  # by tests at the same time
    shutil.copytree(PACKAGE, folder / "coterie", ignore=half_written)
    with (folder / "coterie" / "terms.py").open("a") as file:
        file.write("# changed\n")
    return str(folder)


@pytest.mark.parametrize("software", ["same", pytest.param("version", marks=pytest.mark.slow)])
def test_a_run_with_a_changed_copy(tmp_path, software):
    """With `same`, both are named by everybody before anything is agreed on, and nobody has results; with `version`,
    the run ends as any other."""
    other = changed_copy(tmp_path / "other")
    theirs = digest_files(Path(other) / "coterie")[:12]
    with Cast(tmp_path / "cast") as cast:
        cast.agree(*SMALL, "--software", software)
        for name in cast.parties:
            cast.give(name, x=[-4.0] * 10 + [4.0] * 10, y=[0.0, 1.0] * 10)
        for name in cast.names:
            cast.start(name, environment={"PYTHONPATH": other} if name == "bob" else None)
        codes = cast.finish_all()
        if software == "version":
            assert set(codes.values()) == {0}, cast.said()
            assert {cast.audit(name)[0]["digest"][:12] for name in cast.names} == {theirs, software_digest()[:12]}
            return
        assert set(codes.values()) <= {4, 7}, cast.said()
        assert codes["bob"] == 4
        assert f"digest {theirs} at bob, {software_digest()[:12]} at " in cast.err("alice") + cast.err("helper")
        assert f"{software_digest()[:12]} at " in cast.err("bob")
        for name in cast.names:
            assert [entry["event"] for entry in cast.audit(name)] == ["started", "stopped"]
            assert not cast.at(name, "results").exists()
