"""Mutation testing itself: what is mutated, drawn, detected and counted."""

from __future__ import annotations

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed: pip install '.[quality]'")

from tests.mutation.__main__ import remembered
from tests.mutation.mutants import Mutant, apply, change, find, sample
from tests.mutation.score import Tried, interval, table
from tests.mutation.targets import FOLDERS, ROOT, TESTS, files_for, modules

SMALL = """from __future__ import annotations

@njit(cache=True)
def double(x: int | None, more: int = 3) -> int | None:
    total: int | None = x + more
    return total

@property
def yes(self):
    return True
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "src" / "coterie" / "ring" / "small.py"
    path.parent.mkdir(parents=True)
    path.write_text(SMALL)
    return tmp_path, path


def test_changes_are_found_but_not_in_annotations_nor_in_how_code_is_compiled(small):
    root, path = small
    found = list(find(root, [path]))
    assert {mutant.line for mutant in found} == {4, 5, 8, 10}  # more = 3, x + more, @property, True
    assert {mutant.operator for mutant in found if mutant.line == 4} == {"core/NumberReplacer"}
    for mutant in found:
        assert change(SMALL, apply(SMALL, mutant))


def test_a_change_is_shown_as_the_lines_that_differ(small):
    root, path = small
    minus = next(one for one in find(root, [path]) if one.operator.endswith("Add_Sub"))
    assert change(SMALL, apply(SMALL, minus)) == [
        "-    total: int | None = x + more",
        "+    total: int | None = x - more",
    ]


def test_a_mutant_that_is_not_there_is_refused(small):
    with pytest.raises(LookupError):
        apply(SMALL, Mutant("small.py", 1, 0, "core/NumberReplacer", 99, ""))


def test_a_sample_is_repeatable_and_takes_a_place_once():
    mutants = [Mutant("a.py", line, 0, operator, 0, "") for line in range(50) for operator in "xyz"]
    drawn = sample(mutants, 20, seed=1)
    assert drawn == sample(reversed(mutants), 20, seed=1)
    assert drawn == sample(mutants, 30, seed=1)[:20]
    assert drawn != sample(mutants, 20, seed=2)
    assert len({mutant.line for mutant in drawn}) == 20
    assert len(sample(mutants, 99, seed=1)) == 50


def test_wilsons_interval_by_hand():
    """Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for hits, count, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)):
        assert interval(hits, count) == pytest.approx((low, high), abs=5e-5)
    assert interval(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)
    assert interval(0, 0) == (0, 1)


def test_the_table_lists_survivors():
    one = Mutant("src/coterie/ring/a.py", 7, 0, "core/AddNot", 0, "")
    two = Mutant("src/coterie/sharing/b.py", 9, 0, "core/NumberReplacer", 0, "")
    text = table([Tried(one, "killed", [], 1.0), Tried(two, "survived", ["-1", "+2"], 1.0)], 20, 10, 99)
    assert "2 of a sample of 20" in text
    assert "| **all** | 2 | 1 | 50.0% |" in text
    assert "`src/coterie/sharing/b.py:9` NumberReplacer" in text
    assert "ring/a.py" not in text


def test_what_was_tried_is_remembered_and_a_line_that_was_cut_off_is_not(tmp_path):
    import msgspec

    one = Tried(Mutant("a.py", 1, 0, "x", 0, "hash"), "killed", ["-1"], 2.0)
    line = msgspec.json.encode(one)
    path = tmp_path / "tried.jsonl"
    assert remembered(path) == {}
    path.write_bytes(line + b"\n" + line[:20])
    assert remembered(path) == {one.mutant: one}


def test_every_module_has_tests_that_exist():
    assert all((ROOT / test).exists() for tests in TESTS.values() for test in tests)
    for path in modules():
        assert files_for(str(path.relative_to(ROOT)))
    assert {path.relative_to(ROOT).parts[2] for path in modules()} == set(FOLDERS)
