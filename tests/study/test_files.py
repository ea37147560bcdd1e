"""Files and folders are written whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from coterie.errors import InputError
from coterie.study.files import folder_for, write_file


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_is_there_whole_with_its_mode(tmp_path):
    write_file(tmp_path / "new" / "file", b"content", mode=0o600)
    assert (tmp_path / "new" / "file").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new" / "file").stat().st_mode) == 0o600
    write_file(tmp_path / "new" / "file", b"other")
    assert (tmp_path / "new" / "file").read_bytes() == b"other"
    with pytest.raises(InputError, match="is there already"):
        write_file(tmp_path / "new" / "file", b"third", replace=False)
    assert (tmp_path / "new" / "file").read_bytes() == b"other"
    assert everything(tmp_path) == ["new", "new/file"]


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
def test_a_file_whose_writing_fails_leaves_nothing(tmp_path, monkeypatch, step):
    write_file(tmp_path / "old", b"before")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    for name in ("old", "new"):
        with pytest.raises(InputError, match="cannot be written \\(No space left on device\\)"):
            write_file(tmp_path / name, b"after")
    assert everything(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"before"


def test_a_folder_takes_its_place_when_it_is_whole(tmp_path):
    for content in ("first", "second"):
        with folder_for(tmp_path / "in" / "results") as folder:
            (folder / "file").write_text(content)
            assert not (tmp_path / "in" / "results" / "file").exists() or content == "second"
        assert (tmp_path / "in" / "results" / "file").read_text() == content
    assert everything(tmp_path) == ["in", "in/results", "in/results/file"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_folder_that_is_not_finished_is_gone_and_the_old_one_stays(tmp_path, before, error):
    if before:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "file").write_text("before")

    def fill():
        with folder_for(tmp_path / "results") as folder:
            (folder / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fill()
    assert everything(tmp_path) == (["results", "results/file"] if before else [])
    if before:
        assert (tmp_path / "results" / "file").read_text() == "before"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"), folder_for(tmp_path / "file" / "results"):
        pass
