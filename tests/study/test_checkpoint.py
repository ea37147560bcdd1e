"""Checkpoints: what counts, what is kept, and which one all parties go on from."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from coterie.clustering import Point
from coterie.errors import StudyError
from coterie.study.checkpoint import Checkpoints, Mark, newest_common

PURPOSE = "study, party and data"
RUN, OTHER, SESSION = "ab" * 16, "cd" * 16, "ef" * 16


def point(iteration: int, start: int = 0, best: bool = False) -> Point:
    words = np.arange(8, dtype=np.uint64).reshape(4, 2) + np.uint64(iteration)
    return Point(start, iteration, 300, {"words": words}, {"words": words[::-1].copy()} if best else None)


@pytest.fixture
def kept(tmp_path):
    return Checkpoints(tmp_path / "state", PURPOSE)


def test_what_is_saved_comes_back(kept):
    for best in (False, True):
        kept.save(RUN, SESSION, 1, point(3, start=2, best=best), "the terms")
        found, terms = kept.load(Mark(RUN, SESSION, 1, 2, 3))
        assert (found.start, found.iteration, found.most) == (2, 3, 300)
        np.testing.assert_array_equal(found.centers["words"], point(3).centers["words"])
        assert found.centers["words"].dtype == np.uint64
        assert (found.best is None) == (not best)
        assert terms == "the terms"
    np.testing.assert_array_equal(found.best["words"], point(3, best=True).best["words"])


def test_the_helper_has_nothing_to_keep_but_where_it_was(kept):
    kept.save(RUN, SESSION, 1, Point(0, 4, 300, None, None))
    assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 4)]
    assert kept.load(Mark(RUN, SESSION, 1, 0, 4))[0].centers is None


def test_two_are_kept(kept):
    for iteration in range(1, 6):
        kept.save(RUN, SESSION, 1, point(iteration))
        assert kept.marks() == [Mark(RUN, SESSION, 1, 0, i) for i in range(max(1, iteration - 1), iteration + 1)]
    kept.save(RUN, SESSION, 2, point(4))  # a later epoch that began further back
    assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 5), Mark(RUN, SESSION, 2, 0, 4)]
    kept.save(RUN, SESSION, 2, point(1, start=1))
    assert kept.marks() == [Mark(RUN, SESSION, 2, 0, 4), Mark(RUN, SESSION, 2, 1, 1)]
    assert kept.newest_epoch() == 2
    assert len(list(kept.folder.iterdir())) == 2


def test_nobody_else_may_read_them(kept):
    kept.save(RUN, SESSION, 1, point(1))
    (file,) = kept.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_purpose_does_not_count(kept):
    """Other data, another study, another version: never gone on from; but its epoch is not used again."""
    kept.save(RUN, SESSION, 5, point(1))
    other = Checkpoints(kept.folder, "other data")
    assert other.marks() == []
    assert other.newest_epoch() == 5
    assert kept.marks() == [Mark(RUN, SESSION, 5, 0, 1)]


def test_a_damaged_file_does_not_count(kept):
    kept.save(RUN, SESSION, 1, point(1))
    kept.save(RUN, SESSION, 1, point(2))
    newest = kept.folder / f"checkpoint-{RUN}-{SESSION}-1-0-2"
    content = newest.read_bytes()
    for at in range(0, len(content), 7):
        newest.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 1)]
    for cut in (0, 1, 31, 32, 33, len(content) // 2, len(content) - 1):
        newest.write_bytes(content[:cut])
        assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 1)]
    newest.write_bytes(content + b"\0")
    assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 1)]
    newest.write_bytes(content)
    assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 1), Mark(RUN, SESSION, 1, 0, 2)]


def test_a_file_under_another_name_does_not_count(kept):
    kept.save(RUN, SESSION, 1, point(1))
    file = kept.folder / f"checkpoint-{RUN}-{SESSION}-1-0-1"
    content = file.read_bytes()
    for name in (
        f"checkpoint-{RUN}-{SESSION}-1-0-9",
        f"checkpoint-{OTHER}-{SESSION}-1-0-1",
        f"checkpoint-{RUN}-{OTHER}-1-0-1",
        f"checkpoint-{RUN}-1-0-1",
    ):
        file.unlink(missing_ok=True)
        (kept.folder / name).write_bytes(content)
        assert kept.marks() == []


def test_other_files_are_left_alone(kept):
    kept.save(RUN, SESSION, 1, point(1))
    (kept.folder / "notes.txt").write_text("mine")
    (kept.folder / "checkpoint-x").write_text("mine")
    (kept.folder / ".checkpoint-notes").write_text("mine")
    assert kept.marks() == [Mark(RUN, SESSION, 1, 0, 1)]
    kept.clear()
    assert sorted(file.name for file in kept.folder.iterdir()) == [".checkpoint-notes", "checkpoint-x", "notes.txt"]


def test_what_a_kill_has_left_is_removed(kept):
    mark = kept.save(RUN, SESSION, 1, point(1))
    (kept.folder / f".checkpoint-{RUN}-{SESSION}-1-0-2.abcdefgh").write_bytes(b"half")
    kept.keep(mark)
    assert [file.name for file in kept.folder.iterdir()] == [f"checkpoint-{RUN}-{SESSION}-1-0-1"]


def test_one_that_is_gone_is_an_error(kept):
    """Whatever becomes of the file between the greeting and the work."""
    mark = kept.save(RUN, SESSION, 1, point(1))
    kept.clear()
    with pytest.raises(StudyError, match="was damaged or removed since this run began"):
        kept.load(mark)


def test_nothing_is_left_behind(kept):
    kept.clear()
    kept.save(RUN, SESSION, 1, point(1))
    kept.save(RUN, SESSION, 1, point(2))
    kept.clear()
    assert not kept.folder.exists()
    assert (kept.marks(), kept.newest_epoch()) == ([], 0)


def test_the_newest_that_all_hold():
    a, b, c, d = (
        Mark(RUN, SESSION, 1, 0, 4),
        Mark(RUN, SESSION, 1, 0, 5),
        Mark(RUN, SESSION, 2, 0, 6),
        Mark(RUN, SESSION, 2, 1, 1),
    )
    for held, newest in (
        ([[a, b], [a, b]], b),
        ([[a, b], [b, c]], b),
        ([[b, c], [b, c], [a, b]], b),
        ([[c, d], [c, d], [c]], c),
        ([[c, d], [d, c]], d),
        ([[a, b], [c, d]], None),
        ([[a, b], []], None),
        ([[], []], None),
        ([[a]], a),
        ([], None),
    ):
        assert newest_common(held) == newest
    # the same iteration of two epochs: shares of one epoch fit together, and of the two the later one is taken
    assert newest_common([[Mark(RUN, SESSION, 1, 0, 5), Mark(RUN, SESSION, 2, 0, 5)]] * 2) == Mark(
        RUN, SESSION, 2, 0, 5
    )
    assert newest_common([[Mark(RUN, SESSION, 1, 0, 5)], [Mark(RUN, SESSION, 2, 0, 5)]]) is None
    # the same iteration of the same epoch of two runs
    assert newest_common([[Mark(RUN, SESSION, 1, 0, 5)], [Mark(OTHER, SESSION, 1, 0, 5)]]) is None
    # further along counts more than a later epoch
    assert newest_common([[Mark(RUN, SESSION, 1, 0, 9), Mark(RUN, SESSION, 2, 0, 3)]] * 2) == Mark(
        RUN, SESSION, 1, 0, 9
    )
