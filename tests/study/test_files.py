"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from coterie.errors import InputError
from coterie.study.files import write_file


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
