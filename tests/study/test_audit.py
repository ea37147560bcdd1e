"""The audit log: whatever is changed, added, moved or removed in it breaks the chain or a signature."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import threading

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import InputError, StudyError
from coterie.study.audit import START, Audit, verify_audit
from coterie.study.identity import sign
from coterie.transport.certificates import create_credentials, fingerprint
from tests.study.walk import SMALL, Cast, coterie

EVENTS = ("started", "agreed", "results", "done")
ALICE, BOB = create_credentials("alice"), create_credentials("bob")


def entries_of(path):
    return verify_audit(path).entries


@pytest.fixture
def log(tmp_path):
    audit = Audit(tmp_path / "audit.jsonl", ALICE)
    for number, event in enumerate(EVENTS):
        audit.record(event, study="Studie für Ärzte", bytes_sent={"alice": 10 * number}, peer=None, ratio=0.1)
    return audit.path


def test_the_chain(log):
    entries = entries_of(log)
    assert [entry["event"] for entry in entries] == list(EVENTS)
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4]
    assert [entry["previous"] for entry in entries] == [START, *(entry["hash"] for entry in entries[:-1])]
    assert len({entry["hash"] for entry in entries}) == 4
    assert Audit(log, ALICE).record("more") == entries_of(log)[-1]["hash"]


def test_an_empty_log_holds(tmp_path):
    (tmp_path / "audit.jsonl").touch()
    assert entries_of(tmp_path / "audit.jsonl") == []


def noticed(log, edited):
    """An error; or, where nothing but the last line break is gone, a last line that counts for nothing."""
    log.write_bytes(edited)
    try:
        found = verify_audit(log)
    except StudyError:
        return True
    return found.torn and len(found.entries) == len(EVENTS) - 1


#: Every byte where there is time, otherwise every 17th.
EVERY = pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 17])


@EVERY
def test_any_byte_that_is_changed_is_noticed(log, every):
    content = log.read_bytes()
    for at in range(0, len(content), every):
        for byte in {content[at] ^ 1, ord(" ")} - {content[at]}:
            assert noticed(log, content[:at] + bytes([byte]) + content[at + 1 :])
    assert not noticed(log, content)


@EVERY
def test_any_byte_that_is_added_or_removed_is_noticed(log, every):
    content = log.read_bytes()
    for at in range(0, len(content), every):
        for edited in (content[:at] + content[at + 1 :], content[:at] + b" " + content[at:]):
            assert noticed(log, edited)


def test_a_field_that_is_said_twice_is_noticed(log):
    content = log.read_bytes()
    log.write_bytes(content.replace(b'"event":"agreed"', b'"event":"refused","event":"agreed"'))
    with pytest.raises(StudyError, match="line 2: the entry was changed"):
        verify_audit(log)


def test_lines(log):
    lines = log.read_bytes().splitlines(keepends=True)
    foreign = Audit(log.with_name("other.jsonl"), ALICE)
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
    ):
        log.write_bytes(b"".join(edited))
        with pytest.raises(StudyError, match=fault):
            verify_audit(log)


def test_an_entry_that_is_made_to_fit_breaks_the_next(log):
    """Somebody who changes a line and works out its hash again still needs all the lines behind it."""
    entries = entries_of(log)
    elsewhere = Audit(log.with_name("forged.jsonl"), ALICE)
    elsewhere.record("started", study="another")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(elsewhere.path.read_bytes() + b"".join(lines[1:]))
    with pytest.raises(StudyError, match="line 2: the chain is broken"):
        verify_audit(log)
    assert entries[0]["hash"] != entries_of(elsewhere.path)[0]["hash"]


def test_what_is_cut_off_at_the_end_is_known_from_elsewhere(log):
    """The log by itself cannot know; the hash of its last entry, kept in the manifest or by others, can."""
    last = entries_of(log)[-1]["hash"]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert last not in {entry["hash"] for entry in entries_of(log)}


# -- signatures --------------------------------------------------------------------------------------------


def test_each_entry_is_signed_and_the_log_says_by_whom(log):
    found = verify_audit(log)
    assert found.names == {fingerprint(ALICE.certificate): "alice"}
    assert "certificate" in found.entries[0]
    assert not any("certificate" in entry for entry in found.entries[1:])
    assert len({entry["signature"] for entry in found.entries}) == 4
    said = coterie("audit", "verify", log)
    assert f"signed by alice, fingerprint {fingerprint(ALICE.certificate)}" in said.out


def test_somebody_without_the_key_cannot_write_a_chain_that_holds(log, monkeypatch):
    """All hashes are right, and the certificate is alice's: what is missing is her key."""
    log.unlink()
    forged = Audit(log, ALICE)
    monkeypatch.setattr("coterie.study.audit.sign", lambda key, message: sign(BOB.key, message))
    forged.record("started")
    with pytest.raises(StudyError, match="line 1: the entry is not signed by alice"):
        verify_audit(log)


def test_a_certificate_that_is_not_the_signers(log):
    log.unlink()
    Audit(log, ALICE).record("started", certificate=BOB.certificate)
    assert list(verify_audit(log).names.values()) == ["alice"], "the own one is written, whatever is given"
    stranger = Audit(log, BOB)
    stranger._introduced = True
    stranger.record("started")
    with pytest.raises(StudyError, match="line 2: no entry so far holds the certificate"):
        verify_audit(log)


def test_two_may_share_a_log(log):
    Audit(log, BOB).record("started")
    Audit(log, ALICE).record("done")
    assert sorted(verify_audit(log).names.values()) == ["alice", "bob"]


# -- crashes and full disks --------------------------------------------------------------------------------


def test_half_a_line_is_noted_and_healed(log):
    torn = log.read_bytes()[:-5]
    log.write_bytes(torn)
    found = verify_audit(log)
    assert (len(found.entries), found.torn) == (3, len(torn) - torn.rindex(b"\n") - 1)
    said = coterie("audit", "verify", log)
    assert said.code == 0
    assert f"{found.torn} bytes of half a line" in said.out
    Audit(log, ALICE).record("started")
    found = verify_audit(log)
    assert [entry["event"] for entry in found.entries] == ["started", "agreed", "results", "torn", "started"]
    assert found.torn == 0
    half = torn[torn.rindex(b"\n") + 1 :]
    assert found.entries[3]["bytes"] == len(half)
    assert found.entries[3]["sha256"] == hashlib.sha256(half).hexdigest()


def test_nothing_but_half_a_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"number":1,"ti')
    Audit(path, ALICE).record("started")
    assert [entry["event"] for entry in entries_of(path)] == ["torn", "started"]


def test_a_long_line_is_read_from_its_beginning(log):
    Audit(log, ALICE).record("long", text="x" * 200_000)
    Audit(log, ALICE).record("after")
    assert len(entries_of(log)) == 6


@pytest.mark.parametrize("step", ["pwrite", "fsync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_names_the_file_and_leaves_it_as_it_was(log, monkeypatch, step, number):
    before, genuine = log.read_bytes(), os.pwrite

    def half(handle, data, offset):
        genuine(handle, data[:20], offset)
        raise OSError(number, os.strerror(number))

    def fail(handle):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, {"pwrite": half, "fsync": fail}[step])
        with pytest.raises(InputError) as caught:
            Audit(log, ALICE).record("opening")
    assert f"the audit log {log} cannot be written ({os.strerror(number)})" in str(caught.value)
    assert log.read_bytes() == before
    Audit(log, ALICE).record("opening")
    assert len(entries_of(log)) == 5


def test_told_to_stop_in_the_middle_of_a_line(log, monkeypatch):
    before, genuine = log.read_bytes(), os.pwrite

    def interrupted(handle, data, offset):
        genuine(handle, data[:20], offset)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pwrite", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Audit(log, ALICE).record("opening")
    assert log.read_bytes() == before


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KiB."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.usefixtures("no_pictures")
def test_a_disk_that_is_really_full(cast: Cast, tiny_disk):
    """The run stops before it opens anything that is not logged: exit code 2, and the file is named."""
    path = tiny_disk / "audit.jsonl"
    Audit(path, ALICE).record("filler", text="x" * 56_000)
    with pytest.raises(InputError, match="cannot be written \\(No space left on device\\)"):
        Audit(path, ALICE).record("filler", text="x" * 16_000)
    assert len(entries_of(path)) == 1
    cast.agree(*SMALL, "--n-init", 8)
    for name in cast.parties:
        cast.give(name, x=[0.0, 1.0, 2.0, 3.0] * 5, y=[0.0, 1.0, 2.0, 3.0] * 5)
    ended = cast.take_part(each={"alice": {"audit": path}})
    assert isinstance(ended["alice"], InputError), ended
    assert ended["alice"].exit_code == 2
    assert str(path) in str(ended["alice"])
    assert entries_of(path)
    assert "labels" not in [entry.get("what") for entry in entries_of(path)]
    assert not cast.at("bob", "results").exists()


def test_many_at_once(tmp_path):
    """Runs of several studies may share a log, in one process or in many."""
    path, start = tmp_path / "audit.jsonl", threading.Barrier(8)

    def write(who):
        audit = Audit(path, ALICE)  # with a file handle, hence a lock, of its own for every entry
        start.wait()
        for count in range(10):
            audit.record("entry", who=who, count=count)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = entries_of(path)
    assert len(entries) == 80
    for who in range(8):
        assert [entry["count"] for entry in entries if entry["who"] == who] == list(range(10))


def test_where_it_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"the audit log .* cannot be written"):
        Audit(tmp_path / "file" / "audit.jsonl", ALICE).record("started")
    Audit(tmp_path / "new" / "folder" / "audit.jsonl", ALICE).record("started")
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
        Audit(path, ALICE).record("event", **fields)
    for entry, fields in zip(entries_of(path) if events else [], events, strict=True):
        assert {name: entry[name] for name in fields} == fields


def test_the_command(log):
    said = coterie("audit", "verify", log)
    assert said.code == 0
    assert "the chain and all signatures hold: 4 entries" in said.out
    assert entries_of(log)[-1]["hash"] in said.out
    listed = [msgspec.json.decode(line) for line in coterie("audit", "verify", log, "--json").out.splitlines()]
    assert [entry["event"] for entry in listed] == ["entry"] * 4 + ["signer", "verified"]
    log.write_bytes(log.read_bytes().replace(b"agreed", b"failed"))
    said = coterie("audit", "verify", log)
    assert said.code == 4
    assert "line 2: the entry was changed after it was written" in said.err
    assert coterie("audit", "verify", log.with_name("none.jsonl")).code == 4
