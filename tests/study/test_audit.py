"""The audit log: whatever is changed, added, moved or removed in it breaks the chain."""

from __future__ import annotations

import stat
import threading

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import InputError, StudyError
from coterie.study.audit import START, Audit, verify_audit
from tests.study.walk import coterie

EVENTS = ("started", "agreed", "results", "done")


@pytest.fixture
def log(tmp_path):
    audit = Audit(tmp_path / "audit.jsonl")
    for number, event in enumerate(EVENTS):
        audit.record(event, study="Studie für Ärzte", bytes_sent={"alice": 10 * number}, peer=None, ratio=0.1)
    return audit.path


def test_the_chain(log):
    entries = verify_audit(log)
    assert [entry["event"] for entry in entries] == list(EVENTS)
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4]
    assert [entry["previous"] for entry in entries] == [START, *(entry["hash"] for entry in entries[:-1])]
    assert len({entry["hash"] for entry in entries}) == 4
    assert Audit(log).record("more") == verify_audit(log)[-1]["hash"]


def test_an_empty_log_holds(tmp_path):
    (tmp_path / "audit.jsonl").touch()
    assert verify_audit(tmp_path / "audit.jsonl") == []


def test_any_byte_that_is_changed_is_noticed(log):
    content = log.read_bytes()
    for at in range(len(content)):
        for byte in {content[at] ^ 1, ord(" ")} - {content[at]}:
            log.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
            with pytest.raises(StudyError):
                verify_audit(log)
    log.write_bytes(content)
    assert verify_audit(log)


def test_any_byte_that_is_added_or_removed_is_noticed(log):
    content = log.read_bytes()
    for at in range(len(content)):
        for edited in (content[:at] + content[at + 1 :], content[:at] + b" " + content[at:]):
            log.write_bytes(edited)
            with pytest.raises(StudyError):
                verify_audit(log)


def test_a_field_that_is_said_twice_is_noticed(log):
    content = log.read_bytes()
    log.write_bytes(content.replace(b'"event":"agreed"', b'"event":"refused","event":"agreed"'))
    with pytest.raises(StudyError, match="line 2: the entry was changed"):
        verify_audit(log)


def test_lines(log):
    lines = log.read_bytes().splitlines(keepends=True)
    foreign = Audit(log.with_name("other.jsonl"))
    for event in EVENTS:
        foreign.record(event)
    others = foreign.path.read_bytes().splitlines(keepends=True)
    for edited, fault in (
        (lines[1:], "line 1: the chain is broken"),
        (lines[:1] + lines[2:], "line 2: the chain is broken"),
        ([lines[0], lines[2], lines[1], lines[3]], "line 2: the chain is broken"),
        ([*lines[:2], lines[1], *lines[2:]], "line 3: the chain is broken"),
        ([*lines, lines[-1]], "line 5: the chain is broken"),
        ([lines[0], others[1], *lines[2:]], "line 2: the chain is broken"),
        ([*lines[:2], b"\n", *lines[2:]], "line 3, is not an entry"),
        ([*lines[:2], b"[]\n", *lines[2:]], "line 3, is not an entry"),
        ([*lines[:2], b"{}\n", *lines[2:]], "line 3: the chain is broken"),
        ([*lines[:3], lines[3].rstrip(b"\n")], "ends in the middle of line 4"),
    ):
        log.write_bytes(b"".join(edited))
        with pytest.raises(StudyError, match=fault):
            verify_audit(log)


def test_an_entry_that_is_made_to_fit_breaks_the_next(log):
    """Somebody who changes a line and works out its hash again still needs all the lines behind it."""
    entries = verify_audit(log)
    elsewhere = Audit(log.with_name("forged.jsonl"))
    elsewhere.record("started", study="another")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(elsewhere.path.read_bytes() + b"".join(lines[1:]))
    with pytest.raises(StudyError, match="line 2: the chain is broken"):
        verify_audit(log)
    assert entries[0]["hash"] != verify_audit(elsewhere.path)[0]["hash"]


def test_what_is_cut_off_at_the_end_is_known_from_the_manifest_alone(log):
    """The log by itself cannot know; the hash of its last entry, kept elsewhere, can."""
    last = verify_audit(log)[-1]["hash"]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert last not in {entry["hash"] for entry in verify_audit(log)}


def test_half_a_line_is_not_written_on(log):
    log.write_bytes(log.read_bytes()[:-5])
    before = log.read_bytes()
    with pytest.raises(StudyError, match="ends in the middle of a line; keep it for inspection and begin a new one"):
        Audit(log).record("started")
    assert log.read_bytes() == before


def test_many_at_once(tmp_path):
    """Runs of several studies may share a log, in one process or in many."""
    path, start = tmp_path / "audit.jsonl", threading.Barrier(8)

    def write(who):
        audit = Audit(path)  # with a file handle, hence a lock, of its own for every entry
        start.wait()
        for count in range(10):
            audit.record("entry", who=who, count=count)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = verify_audit(path)
    assert len(entries) == 80
    for who in range(8):
        assert [entry["count"] for entry in entries if entry["who"] == who] == list(range(10))


def test_where_it_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"the audit log .* cannot be written"):
        Audit(tmp_path / "file" / "audit.jsonl").record("started")
    Audit(tmp_path / "new" / "folder" / "audit.jsonl").record("started")
    assert stat.S_IMODE((tmp_path / "new" / "folder" / "audit.jsonl").stat().st_mode) & 0o027 == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.dictionaries(st.text().map(lambda name: "f" + name), VALUES, max_size=3), max_size=3))
def test_whatever_is_recorded_verifies(tmp_path, events):
    path = tmp_path / "audit.jsonl"
    path.unlink(missing_ok=True)
    for fields in events:
        Audit(path).record("event", **fields)
    for entry, fields in zip(verify_audit(path) if events else [], events, strict=True):
        assert {name: entry[name] for name in fields} == fields


def test_the_command(log):
    said = coterie("audit", "verify", log)
    assert said.code == 0
    assert "the chain holds: 4 entries" in said.out
    assert verify_audit(log)[-1]["hash"] in said.out
    listed = [msgspec.json.decode(line) for line in coterie("audit", "verify", log, "--json").out.splitlines()]
    assert [entry["event"] for entry in listed] == ["entry"] * 4 + ["verified"]
    log.write_bytes(log.read_bytes().replace(b"agreed", b"failed"))
    said = coterie("audit", "verify", log)
    assert said.code == 4
    assert "line 2: the entry was changed after it was written" in said.err
    assert coterie("audit", "verify", log.with_name("none.jsonl")).code == 4
