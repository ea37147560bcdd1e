"""Participants keep the heads of each other's audit logs: whoever rewrites and signs all of one is found out."""

from __future__ import annotations

import msgspec
import pytest

from coterie.errors import AuthenticationError, ProtocolError, StudyError
from coterie.study.audit import Audit, Head, check_against, check_head, verify_audit
from coterie.study.identity import Identity
from coterie.study.prepare import prepare
from coterie.transport.certificates import create_credentials, fingerprint
from tests.study.walk import SMALL, Cast, coterie

ALICE, BOB = create_credentials("alice"), create_credentials("bob")


def entries_of(path):
    return verify_audit(path).entries


@pytest.fixture
def log(tmp_path):
    audit = Audit(tmp_path / "audit.jsonl", ALICE)
    for event in ("started", "agreed", "results", "done"):
        audit.record(event)
    return audit.path


def identity(name, credentials):
    return Identity(name, f"{name}:1", fingerprint(credentials.certificate), credentials.certificate)


def test_heads_are_checked_against_the_pinned_certificate(log):
    audit = Audit(log, ALICE)
    with pytest.raises(ProtocolError, match="has no entry yet"):
        _ = audit.head
    audit.record("started")
    head = audit.head
    assert check_head(head, identity("alice", ALICE)) == head
    other = fingerprint(BOB.certificate)
    for bad, name, credentials in (
        (head, "bob", BOB),
        (None, "alice", ALICE),
        (msgspec.structs.replace(head, hash="0" * 64), "alice", ALICE),
        (msgspec.structs.replace(head, signature=head.signature[:-2]), "alice", ALICE),
        (msgspec.structs.replace(head, signature=""), "alice", ALICE),
        (msgspec.structs.replace(head, signer=other), "alice", ALICE),
        (msgspec.structs.replace(head, signer=other), "bob", BOB),
    ):
        with pytest.raises(AuthenticationError, match=f"not signed by {name}") as caught:
            check_head(bad, identity(name, credentials))
        assert caught.value.peer == name


def rewrite(path, credentials, leave_out):
    """The log once more, without some events: every hash and every signature is right."""
    entries = entries_of(path)
    path.unlink()
    audit = Audit(path, credentials)
    kept = ("number", "time", "event", "signer", "certificate", "previous", "hash", "signature")
    for entry in entries:
        if entry["event"] not in leave_out:
            audit.record(entry["event"], **{name: value for name, value in entry.items() if name not in kept})


def test_a_log_that_was_rewritten_and_signed_anew_shows_against_the_others(log, tmp_path):
    audit, theirs = Audit(log, ALICE), Audit(tmp_path / "bob.jsonl", BOB)
    for event in ("agreed", "ready"):
        audit.record("opening", what="centers")
        theirs.record(event, heads={"alice": audit.head})
    bobs = verify_audit(theirs.path)
    assert check_against(verify_audit(log), bobs) == 2
    said = coterie("audit", "verify", log, "--against", theirs.path)
    assert said.code == 0
    assert "bob.jsonl knows 2 heads of this log: all are in it" in said.out

    genuine = log.read_bytes()
    rewrite(log, ALICE, leave_out=("opening",))
    assert entries_of(log), "by itself it holds"
    said = coterie("audit", "verify", log, "--against", theirs.path)
    assert said.code == 4
    assert "is not the log that alice showed at" in said.err
    log.write_bytes(b"".join(genuine.splitlines(keepends=True)[:-1]))
    assert coterie("audit", "verify", log).code == 0
    assert "is not the log that alice showed at" in coterie("audit", "verify", log, "--against", theirs.path).err


def test_nobody_can_make_up_a_head_of_anothers_log(log, tmp_path):
    signer = fingerprint(ALICE.certificate)
    theirs = Audit(tmp_path / "bob.jsonl", BOB)
    theirs.record("agreed", heads={"alice": Head(signer, 9, "0" * 64, "00" * 70)})
    with pytest.raises(StudyError, match="line 1: alice never signed the head recorded there; that log is wrong, not"):
        check_against(verify_audit(log), verify_audit(theirs.path))
    theirs.path.unlink()
    Audit(theirs.path, BOB).record("agreed", heads=["alice"])
    with pytest.raises(StudyError, match="line 1: the heads that are recorded there make no sense"):
        check_against(verify_audit(log), verify_audit(theirs.path))
    strangers = Audit(tmp_path / "carol.jsonl", create_credentials("carol"))
    strangers.record("started")
    with pytest.raises(StudyError, match="has recorded nothing of whoever signed"):
        check_against(verify_audit(log), verify_audit(strangers.path))


@pytest.mark.usefixtures("no_pictures")
def test_everybody_keeps_the_heads_of_all(cast: Cast):
    cast.agree(*SMALL)
    for name in cast.parties:
        cast.give(name, x=[0.0, 1.0, 2.0, 3.0] * 5, y=[0.0, 1.0, 2.0, 3.0] * 5)
    cast.run()
    for name in cast.names:
        others = [
            word for other in cast.names if other != name for word in ("--against", cast.at(other, "audit.jsonl"))
        ]
        said = coterie("audit", "verify", cast.at(name, "audit.jsonl"), *others)
        assert said.code == 0, said.err
        assert said.out.count("knows 2 heads of this log") == 2
    rewrite(cast.at("bob", "audit.jsonl"), _credentials(cast, "bob"), leave_out=("opening",))
    assert coterie("audit", "verify", cast.at("bob", "audit.jsonl")).code == 0
    for other in ("alice", "helper"):
        against = ("--against", cast.at(other, "audit.jsonl"))
        assert coterie("audit", "verify", cast.at("bob", "audit.jsonl"), *against).code == 4


def _credentials(cast, name):
    return prepare(cast.orders(name)).credentials


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("moment", ["agreed", "ready"])
def test_one_that_shows_a_head_it_has_not_signed_is_named(cast: Cast, monkeypatch, moment):
    cast.agree(*SMALL)
    for name in cast.parties:
        cast.give(name, x=[0.0, 1.0, 2.0, 3.0] * 5, y=[0.0, 1.0, 2.0, 3.0] * 5)
    bob = fingerprint(_credentials(cast, "bob").certificate)
    genuine, event = Audit.record, {"agreed": "started", "ready": "results"}[moment]

    def forged(self, happened, **fields):
        last = genuine(self, happened, **fields)
        if happened == event and self._signer == bob:
            self._head = msgspec.structs.replace(self._head, hash="1" * 64)
        return last

    monkeypatch.setattr(Audit, "record", forged)
    ended = cast.take_part()
    errors = [ended[name] for name in ("alice", "helper")]
    assert {error.peer for error in errors} == {"bob"}
    assert any(isinstance(error, AuthenticationError) for error in errors), "the other may have heard of it first"
    assert 8 in [error.exit_code for error in errors]
