"""Folders are shown whole or not at all, where they can be shown; and nothing is deleted that is not Coterie's."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coterie.errors import InputError
from coterie.study import drafts
from coterie.study.drafts import folder_for, remove_left_over, try_place
from coterie.study.results import check_out


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def fill(path: Path, content: str = "new", replace: bool = False) -> None:
    with folder_for(path, replace) as folder:
        (folder / "centers.csv").write_text(content)
        hashes = {"centers.csv": hashlib.sha256(content.encode()).hexdigest()}
        (folder / "manifest.json").write_bytes(msgspec.json.encode({"files": hashes}))


# -- where nothing was -------------------------------------------------------------------------------------


def test_a_folder_takes_its_place_when_it_is_whole(tmp_path):
    for content in ("first", "second"):
        with folder_for(tmp_path / "in" / "results") as folder:
            (folder / "file").write_text(content)
            assert not (tmp_path / "in" / "results" / "file").exists() or content == "second"
        assert (tmp_path / "in" / "results" / "file").read_text() == content
    assert everything(tmp_path) == ["in", "in/results", "in/results/file"]
    assert stat.S_IMODE((tmp_path / "in" / "results").stat().st_mode) == 0o700


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_folder_that_is_not_finished_is_gone_and_the_old_one_stays(tmp_path, before, error):
    if before:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "file").write_text("before")

    def fail():
        with folder_for(tmp_path / "results") as folder:
            (folder / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert everything(tmp_path) == (["results", "results/file"] if before else [])
    if before:
        assert (tmp_path / "results" / "file").read_text() == "before"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"), folder_for(tmp_path / "file" / "results"):
        pass
    with pytest.raises(InputError, match="nothing can be written in"):
        try_place(tmp_path / "file" / "results")


def test_what_has_come_to_be_there_stays(tmp_path):
    """Where nothing may be replaced, not even what was put there while the run was going on."""

    def race():
        with folder_for(tmp_path / "results", replace=False) as folder:
            (folder / "file").write_text("new")
            (tmp_path / "results").mkdir()
            (tmp_path / "results" / "notes.txt").write_text("mine")

    with pytest.raises(InputError, match="cannot be written"):
        race()
    assert everything(tmp_path) == ["results", "results/notes.txt"]


# -- where a folder was ------------------------------------------------------------------------------------


def test_a_folder_behind_a_link_is_filled_and_the_link_stays(tmp_path):
    (tmp_path / "volume").mkdir()
    inode = (tmp_path / "volume").stat().st_ino
    (tmp_path / "results").symlink_to("volume")
    check_out(tmp_path / "results", "hash", "fit")
    fill(tmp_path / "results")
    assert (tmp_path / "results").is_symlink()
    assert (tmp_path / "volume").stat().st_ino == inode
    assert everything(tmp_path / "volume") == ["centers.csv", "manifest.json"]
    assert everything(tmp_path) == ["results", "volume", "volume/centers.csv", "volume/manifest.json"]


def test_an_empty_folder_is_filled_and_files_are_for_their_owner(tmp_path):
    (tmp_path / "results").mkdir(mode=0o755)
    (tmp_path / "results" / "lost+found").mkdir()
    inode = (tmp_path / "results").stat().st_ino
    check_out(tmp_path / "results", "hash", "fit")
    fill(tmp_path / "results")
    assert (tmp_path / "results").stat().st_ino == inode
    assert everything(tmp_path / "results") == ["centers.csv", "lost+found", "manifest.json"]
    assert stat.S_IMODE((tmp_path / "results" / "centers.csv").stat().st_mode) == 0o600


def test_the_manifest_comes_last(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    moved, rename = [], os.rename

    def watch(old, new, **kwargs):
        moved.append(Path(new).name)
        rename(old, new, **kwargs)

    monkeypatch.setattr(os, "rename", watch)
    fill(tmp_path / "results")
    assert moved == ["centers.csv", "manifest.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_files_that_cannot_all_be_moved_are_not_shown(tmp_path, monkeypatch, error):
    (tmp_path / "results").mkdir()
    rename = os.rename

    def fail(old, new, **kwargs):
        if Path(new).name == "manifest.json":
            raise error
        rename(old, new, **kwargs)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises((InputError, KeyboardInterrupt)):
        fill(tmp_path / "results")
    assert everything(tmp_path) == ["results"]


def test_a_file_of_that_name_stays(tmp_path):
    (tmp_path / "results").mkdir()

    def race():
        with folder_for(tmp_path / "results", replace=False) as folder:
            (folder / "centers.csv").write_text("new")
            (tmp_path / "results" / "centers.csv").write_text("mine")

    with pytest.raises(InputError, match="has come to be there since this run began"):
        race()
    assert (tmp_path / "results" / "centers.csv").read_text() == "mine"


MOUNTED = """
import subprocess, sys
from pathlib import Path
from coterie.study.results import check_out
from coterie.study.drafts import folder_for
out = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", *sys.argv[2:], "tmpfs", str(out)], check=True)
try:
    check_out(out, "hash", "fit")
    with folder_for(out, replace=False) as folder:
        (folder / "centers.csv").write_text("new")
        (folder / "manifest.json").write_text("{}")
    print(sorted(path.name for path in out.rglob("*")), out.is_mount())
except Exception as error:
    print(type(error).__name__, error)
"""


def on_a_mount(out: Path, *options: str) -> str:
    """What comes of results on a mounted volume, as containers have; in a mount namespace of its own."""
    allowed = shutil.which("unshare") and shutil.which("mount") and os.getuid() == 0
    if not allowed or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    out.mkdir()
    command = ["unshare", "-m", sys.executable, "-c", MOUNTED, str(out), *options]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount:" in said.stderr:
        pytest.skip("mounting is not permitted here")
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


def test_results_on_a_mounted_volume(tmp_path):
    assert on_a_mount(tmp_path / "results") == "['centers.csv', 'manifest.json'] True"
    assert everything(tmp_path) == ["results"], "nothing beside it"


def test_a_volume_that_cannot_be_written_is_found_at_once(tmp_path):
    said = on_a_mount(tmp_path / "results", "-o", "ro")
    assert said.startswith("InputError --out")
    assert "nothing can be written in" in said
    assert "Read-only file system" in said


# -- whether results can go there --------------------------------------------------------------------------


def test_trying_a_place_leaves_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "results", tmp_path / "not" / "yet" / "results", tmp_path / "empty"):
        check_out(out, "hash", "fit")
    assert everything(tmp_path) == ["empty"]


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "results").symlink_to("gone")
    with pytest.raises(InputError, match="is a link that leads nowhere"):
        check_out(tmp_path / "results", "hash", "fit")


def test_finished_results_are_refused_and_untouched(tmp_path):
    results = tmp_path / "results"
    fill(results)
    (results / "manifest.json").write_bytes(msgspec.json.encode({"study_hash": "hash", "purpose": "fit"}))
    (results / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in results.iterdir()}
    with pytest.raises(InputError) as caught:
        check_out(results, "hash", "fit")
    assert caught.value.exit_code == 2
    for words in ("holds results of this study already", "with another --out", "nothing more is disclosed or counted"):
        assert words in str(caught.value)
    for hash_, purpose in (("other", "fit"), ("hash", "predict")):
        with pytest.raises(InputError, match="holds something else"):
            check_out(results, hash_, purpose)
    assert {path: path.read_bytes() for path in results.iterdir()} == before


# -- what killed runs leave --------------------------------------------------------------------------------


def test_nothing_is_deleted_that_is_not_a_draft(tmp_path):
    """Names that look like a draft's are not enough."""
    for name in (".results.old.notes123", ".results.notes123", ".results.draft-notes123", ".results.draft-a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("mine")
    (tmp_path / ".results.draft-12345678").write_text("a file of mine")
    before = everything(tmp_path)
    for _ in range(2):
        fill(tmp_path / "results", replace=True)
    shutil.rmtree(tmp_path / "results")
    assert everything(tmp_path) == before


def killed(folder: Path, name: str = "results") -> Path:
    """What a run that was killed while it wrote has left there."""
    draft = drafts._begin(folder, name)
    for file in ("centers.csv", ".model.json.a1b2c3d4", "labels.parquet.part"):
        (draft / "shown" / file).write_text("half")
    return draft


@pytest.mark.parametrize("inside", [False, True])
def test_drafts_of_killed_runs_are_removed(tmp_path, inside):
    results = tmp_path / "results"
    if inside:
        results.mkdir()
    killed(results if inside else tmp_path)
    check_out(results, "hash", "fit")
    assert everything(tmp_path) == (["results"] if inside else [])


@pytest.mark.parametrize("where", [".", "shown"])
@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_draft_that_somebody_has_put_something_into_stays(tmp_path, where, what):
    draft = killed(tmp_path)
    mine = draft / where / "notes.txt"
    if what == "file":
        mine.write_text("mine")
    elif what == "folder":
        mine.mkdir()
    else:
        mine.symlink_to(tmp_path)
    before = everything(tmp_path)
    remove_left_over(tmp_path / "results")
    assert everything(tmp_path) == before


def test_other_drafts_stay(tmp_path):
    """Of other results; and a link to a draft is no draft."""
    other = killed(tmp_path, "others")
    (tmp_path / ".results.draft-12345678").symlink_to(other.name)
    before = everything(tmp_path)
    remove_left_over(tmp_path / "results")
    assert everything(tmp_path) == before


def test_killed_while_files_were_moved_in(tmp_path, monkeypatch):
    """What was moved is known by the manifest, which was not moved yet; a file of other content stays."""
    results = tmp_path / "results"
    results.mkdir()
    rename = os.rename

    class Killed(BaseException):
        pass

    def kill(old, new, **kwargs):
        if Path(new).name == "manifest.json":
            raise Killed
        rename(old, new, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", kill)
        patch.setattr(Path, "unlink", lambda *a, **k: None)  # dead processes clean nothing up
        patch.setattr(shutil, "rmtree", lambda *a, **k: None)
        with pytest.raises(Killed):
            fill(results)
    assert "centers.csv" in everything(results)
    kept = tmp_path / "copy"
    shutil.copytree(results, kept)
    check_out(results, "hash", "fit")
    assert everything(results) == []
    for draft in kept.glob(".results*"):
        draft.rename(draft.with_name(draft.name.replace(".results.", ".copy.")))
    (kept / "centers.csv").write_text("changed by somebody")
    with pytest.raises(InputError, match="holds something else"):
        check_out(kept, "hash", "fit")
    assert (kept / "centers.csv").read_text() == "changed by somebody"
