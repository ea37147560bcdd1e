"""Renewed keys: vouched for by older ones, accepted by studies that say so, and older ones no longer."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from coterie.errors import AuthenticationError, CoterieError, StudyError
from coterie.study.agreement import Study
from coterie.study.identity import change_passphrase, load_identity, load_key, renew_identity, same_key, split_keys
from coterie.study.links import MOST_LINKS, follow_links, links_in
from coterie.study.papers import card_with_papers
from coterie.study.preflight import preflight
from coterie.study.prepare import recognise
from coterie.study.renewals import keep_links, newest_identity, renewed_path
from coterie.study.signatures import sign_study, verify_signatures
from coterie.study.withdrawals import Withdrawn, check_withdrawal, withdraw_study
from coterie.transport.certificates import (
    certificate_name,
    create_credentials,
    create_link,
    fingerprint,
    is_issued_by,
)
from coterie.transport.channel import letter
from tests.study.dated import give_dates
from tests.study.pooled import RANDOM_ROWS, X, pooled
from tests.study.walk import SMALL, Cast, Stopping, coterie

# -- links ---------------------------------------------------------------------------------------------------


def renew(old, name="alice"):
    made = create_credentials(name)
    return made, create_link(old.key, made)


def test_links_lead_from_the_newest_key_to_any_older_certificate():
    keys = [create_credentials("alice")]
    links = []
    for _ in range(3):
        made, link = renew(keys[-1])
        keys.append(made)
        links.insert(0, link)
    for age, one in enumerate(keys):
        assert follow_links(one.certificate, links) == links[: 3 - age]
    assert follow_links(keys[0].certificate, [links[0], links[2]]) == []  # one is missing
    assert follow_links(keys[0].certificate, links[::-1]) == [links[2]]  # the oldest, by itself
    assert follow_links(create_credentials("alice").certificate, links) == []


def test_nobody_vouches_for_another_name_or_with_another_key():
    alice, bob = create_credentials("alice"), create_credentials("bob")
    made = create_credentials("bob")
    assert not is_issued_by(create_link(alice.key, made), alice.certificate)  # the names are not the same
    _, link = renew(bob, "alice")
    assert not is_issued_by(link, alice.certificate)
    assert not is_issued_by(link, bob.certificate)
    assert not is_issued_by("rubbish", alice.certificate)
    assert not is_issued_by(alice.certificate, "rubbish")


@pytest.mark.parametrize(("name", "fine"), [("alice", True), ("bob", False)])
def test_a_link_that_alice_signs_is_in_her_own_name(name, fine):
    alice = create_credentials("alice")
    found, key = (
        x509.load_pem_x509_certificate(alice.certificate.encode()),
        load_pem_private_key(alice.key.encode(), None),
    )
    builder = x509.CertificateBuilder().issuer_name(found.subject).subject_name(certificate_name(name))
    builder = builder.public_key(found.public_key()).serial_number(1)
    builder = builder.not_valid_before(found.not_valid_before_utc).not_valid_after(found.not_valid_after_utc)
    link = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    assert is_issued_by(link, alice.certificate) == fine


def test_there_are_not_any_number_of_links():
    first = create_credentials("alice")
    keys, links = [first], []
    for _ in range(MOST_LINKS + 1):
        made, link = renew(keys[-1])
        keys.append(made)
        links.insert(0, link)
    assert follow_links(first.certificate, links) == []
    assert len(follow_links(first.certificate, links[1:])) == MOST_LINKS


# -- key files -----------------------------------------------------------------------------------------------


@pytest.fixture
def cast(tmp_path):
    with Cast(tmp_path) as made:
        yield made


def test_a_renewed_key_stands_in_front_of_the_old_one(cast):
    old, key = load_identity(cast.identity("alice")), cast.key("alice")
    said = coterie("identity", "renew", key, "--years", 1)
    assert said.code == 0, said.err
    new = load_identity(cast.identity("alice"))
    assert new.fingerprint in said.out
    assert new.fingerprint != old.fingerprint
    assert (new.name, new.address) == (old.name, old.address)
    text = load_key(key)
    assert [same_key(one, card.certificate) for one, card in zip(split_keys(text), (new, old), strict=True)] == [
        True
    ] * 2
    assert same_key(text, new.certificate)  # the first one counts
    assert [is_issued_by(link, old.certificate) for link in links_in(text)] == [True]
    assert key.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in key.parent.iterdir()) == ["alice.identity.toml", "alice.key"]


def test_the_same_passphrase_protects_both(cast):
    key = cast.key("alice")
    change_passphrase(key, None, b"correct horse")
    with pytest.raises(StudyError, match="protected by a passphrase"):
        renew_identity(key)
    before = key.read_bytes()
    read, write = os.pipe()
    os.write(write, b"correct horse\n")
    os.close(write)
    said = coterie("identity", "renew", key, "--passphrase-fd", read)
    os.close(read)
    assert said.code == 0, said.err
    assert before != key.read_bytes()
    assert key.read_text().count("BEGIN ENCRYPTED PRIVATE KEY") == 2
    assert "BEGIN PRIVATE KEY" not in key.read_text()
    text = load_key(key, b"correct horse")
    change_passphrase(key, b"correct horse", b"battery")
    assert load_key(key, b"battery") == text  # with what vouches for it
    with pytest.raises(StudyError, match="does not open"):
        load_key(key, b"correct horse")


def test_what_cannot_be_renewed_stays_as_it_is(cast):
    key = cast.key("alice")
    before = key.read_bytes()
    shutil.copy(cast.identity("bob"), cast.identity("alice"))
    said = coterie("identity", "renew", key)
    assert said.code != 0
    assert "is not the identity of the key" in said.err
    cast.identity("alice").unlink()
    said = coterie("identity", "renew", key)
    assert "alice.identity.toml" in said.err
    said = coterie("identity", "renew", cast.identity("bob"))
    assert "is the public identity; give bob.key" in said.err
    assert "--years 99" in coterie("identity", "renew", cast.key("bob"), "--years", 99).err
    assert key.read_bytes() == before


# -- studies -------------------------------------------------------------------------------------------------


def give(cast):
    cast.give("alice", x=X[:100, 0], y=X[:100, 1])
    cast.give("bob", x=X[100:, 0], y=X[100:, 1])


def clear(cast):
    for name in cast.names:
        shutil.rmtree(cast.at(name, "results"))


def check_refused(cast, ended):
    """Alice's certificate is refused by whoever meets her first. The others may find either of the two gone, and name
    the one that they miss. Nobody has results."""
    assert all(isinstance(error, CoterieError) for error in ended.values()), ended
    refusals = {name: error for name, error in ended.items() if isinstance(error, AuthenticationError)}
    assert refusals, ended
    assert all("certificate" in str(error) for error in refusals.values()), ended
    assert all(error.peer == "alice" for name, error in refusals.items() if name != "alice"), ended
    assert all(ended[name].peer in cast.names for name in cast.names), ended
    assert not any(cast.at(name, "results").exists() for name in cast.names)


@pytest.fixture
def ready(cast):
    cast.agree(*SMALL, *RANDOM_ROWS, "--renewals")
    give(cast)
    return cast


def test_a_study_goes_on_with_renewed_keys_and_without_the_old_ones(ready):
    """Everything stays the same data, of the same participants, for ledgers and logs; who has seen the newer key does
    not let in the older one any more."""
    cast, fit = ready, pooled()
    cast.run()
    backup = cast.key("alice").read_bytes()
    for name in ("alice", "helper"):
        renew_identity(cast.key(name))
    renew_identity(cast.key("alice"))
    clear(cast)
    cast.run(restart=True)
    fit.check_centers(cast, "bob", {"x": 0, "y": 1})
    fit.check_labels(cast.labels("alice")["label"], range(100))
    for name in cast.names:
        assert "other data" not in cast.events(name)
        others = [other for other in cast.names if other != name and other != "bob"]
        assert all(renewed_path(cast.study_file(name), other).exists() for other in others)
        assert not renewed_path(cast.study_file(name), "bob").exists()
        assert coterie("audit", "verify", cast.at(name, "audit.jsonl")).code == 0
    head = cast.entry("bob", "ready")["heads"]["alice"]
    assert len(head["links"]) == 2
    assert fingerprint(head["links"][0]) == head["signer"]
    said = coterie("audit", "verify", cast.at("alice", "audit.jsonl"), "--against", cast.at("bob", "audit.jsonl"))
    assert said.code == 0, said.err
    cast.key("alice").write_bytes(backup)  # somebody has found it, and has no ledger
    cast.at("alice", "alice.budget.jsonl").unlink()
    clear(cast)
    ended = cast.take_part(wait=5.0, restart=True)
    check_refused(cast, ended)


def test_preflight_makes_a_renewed_key_known(ready):
    cast = ready
    renew_identity(cast.key("alice"))
    ended = cast.take_part(lambda orders, voice: preflight(orders, lambda finding: None), wait=30.0)
    assert all(finding.fine for found in ended.values() for finding in found), ended
    for name in ("bob", "helper"):
        assert renewed_path(cast.study_file(name), "alice").exists()


def test_who_resumes_may_have_renewed_its_key_meanwhile(ready):
    cast = ready
    stops = {name: Stopping(2) for name in cast.names}
    ended = cast.take_part(voices=stops)
    assert all(isinstance(error, BaseException) for error in ended.values())
    renew_identity(cast.key("bob"))
    cast.run()
    pooled().check_centers(cast, "alice", {"x": 0, "y": 1})
    assert cast.entry("alice", "agreed")["resumed_after"] is not None


def test_as_often_as_a_study_takes_and_no_more(tmp_path):
    """By somebody whose name is as long as it may be; letters with all that vouches for the key have room."""
    long = "a" * 40
    with Cast(tmp_path, (long, "bob")) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS, "--renewals")
        cast.give(long, x=X[:100, 0], y=X[:100, 1])
        cast.give("bob", x=X[100:, 0], y=X[100:, 1])
        for _ in range(MOST_LINKS):
            renew_identity(cast.key(long))
        sign_study(cast.study_file(long), load_key(cast.key(long)))
        for name in ("bob", "helper"):  # they fetch it
            cast.at(name, f"study.{long}.sig.toml").unlink()
        cast.run()
        assert len(verify_signatures(cast.study_file("bob"), cast.study)[long].links) == MOST_LINKS
        withdrawn = withdraw_study(cast.study_file(long), cast.study, load_key(cast.key(long)))
        assert len(withdrawn.links) == MOST_LINKS
        letter(card_with_papers(cast.study_file(long), cast.study, long))
        renew_identity(cast.key(long))
        with pytest.raises(StudyError, match="renewed more than 8 times"):
            recognise(cast.orders(long))


def test_a_study_that_does_not_accept_them_is_run_with_the_key_that_it_pins(cast):
    cast.agree(*SMALL, *RANDOM_ROWS)
    give(cast)
    renew_identity(cast.key("alice"))
    known = recognise(cast.orders("alice"))
    assert known.credentials.certificate == known.me.certificate
    assert not known.credentials.links
    cast.run()
    pooled().check_centers(cast, "bob", {"x": 0, "y": 1})
    alone = "".join([split_keys(load_key(cast.key("alice")))[0], *links_in(load_key(cast.key("alice")))])
    cast.key("alice").write_text(alone)
    with pytest.raises(StudyError, match="belongs to none"):
        recognise(cast.orders("alice"))


@pytest.fixture
def insisting(cast, monkeypatch):
    """A study that does not accept renewed keys, and Alice, who uses hers all the same."""
    cast.agree(*SMALL, *RANDOM_ROWS)
    give(cast)
    renew_identity(cast.key("alice"))
    enter = Study.enter_with

    def insist(study, key):
        rank, mine = enter(study, key)
        if study.at_rank(rank).name != "alice":
            return rank, mine
        led, one = links_in(key), study.at_rank(rank)
        return rank, type(mine)(led[0], split_keys(key)[0], tuple(led[1:]), one.fingerprint, mine.key, mine.keys)

    monkeypatch.setattr(Study, "enter_with", insist)
    return cast


def test_a_renewed_key_is_refused_by_a_study_that_does_not_accept_them(insisting):
    cast = insisting
    check_refused(cast, cast.take_part(wait=5.0))
    assert "agreed" not in cast.events("bob")  # at the door: nothing that it signs is looked at


def test_what_a_renewed_key_signs_is_refused_by_a_study_that_does_not_accept_them(insisting):
    cast = insisting
    path, key = cast.study_file("alice"), load_key(cast.key("alice"))
    sign_study(path, key)
    with pytest.raises(StudyError, match="not signed with the certificate of alice that the study pins"):
        verify_signatures(path, cast.study)
    made = withdraw_study(path, cast.study, key)
    assert len(made.links) == 1
    with pytest.raises(StudyError, match="no withdrawal"):
        check_withdrawal(cast.study, made, "it")


def test_signing_and_withdrawing_with_a_renewed_key(ready):
    cast = ready
    renew_identity(cast.key("alice"))
    path = cast.study_file("alice")
    sign_study(path, load_key(cast.key("alice")))
    assert len(verify_signatures(path, cast.study)["alice"].links) == 1
    made = withdraw_study(path, cast.study, load_key(cast.key("alice")))
    shutil.copy(cast.at("alice", "study.alice.withdrawn.toml"), cast.at("bob"))
    with pytest.raises(Withdrawn, match="alice withdrew"):
        verify_signatures(cast.study_file("bob"), cast.study)
    assert len(made.links) == 1
    for change in ({"links": ()}, {"links": (create_credentials("alice").certificate,)}):
        with pytest.raises(StudyError, match="no withdrawal"):
            check_withdrawal(cast.study, msgspec.structs.replace(made, **change), "it")


def test_bob_does_not_become_alice(ready):
    """Somebody who is a participant vouches for a key under another's name, or puts a stranger's links beside the
    study."""
    cast = ready
    bob = load_key(cast.key("bob"))
    made = create_credentials("alice")
    link = create_link(bob, made)
    cast.key("bob").write_text(made.key + bob + link)
    with pytest.raises(StudyError, match="certificate of bob in this study does not vouch"):
        cast.study.enter_with(load_key(cast.key("bob")))
    renewed_path(cast.study_file("alice"), "bob").write_text(f'name = "bob"\nlinks = ["""{link}"""]\n')
    with pytest.raises(StudyError, match="does not vouch"):
        recognise(cast.orders("alice"))


def test_of_two_keys_that_the_old_one_vouches_for_the_first_stays(ready):
    """One of them is a thief's."""
    path, study = ready.study_file("bob"), ready.study
    alice = load_identity(ready.identity("alice"))
    first = create_credentials("alice")
    second = create_link(first.key, create_credentials("alice"))
    old = load_key(ready.key("alice"))
    one, other = create_link(old, first), create_link(old, create_credentials("alice"))
    assert keep_links(path, study, alice, [one])
    assert not keep_links(path, study, alice, [other])
    assert newest_identity(path, study, alice).fingerprint == fingerprint(one)
    assert keep_links(path, study, alice, [one])
    assert keep_links(path, study, newest_identity(path, study, alice), [second])
    assert newest_identity(path, study, alice).fingerprint == fingerprint(second)
    assert keep_links(path, study, alice, [second, one])
    assert not keep_links(path, study, alice, [one])  # older than what was seen
    assert not keep_links(path, study, alice, [second])  # leads nowhere
    assert newest_identity(path, study, alice).fingerprint == fingerprint(second)


# -- lifetimes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_when_the_pinned_certificate_has_ended(tmp_path, known):
    """Who has kept what vouches for the newer key goes on with it; who has not, refuses: it might be anybody who has
    found the old one."""
    with Cast(tmp_path) as cast:
        give_dates(cast.at("alice"), "alice", ends_in=-3)
        made = cast.create(*SMALL, *RANDOM_ROWS, "--renewals")
        assert made.code == 0, made.err
        renew_identity(cast.key("alice"))
        give(cast)
        for name in cast.names:
            shutil.copy(cast.folder / "study.toml", cast.study_file(name))
            sign_study(cast.study_file(name), load_key(cast.key(name)))
        cast.exchange_signatures()
        if known:
            (link,) = links_in(load_key(cast.key("alice")))
            for name in ("bob", "helper"):
                text = f'name = "alice"\nlinks = ["""{link}"""]\n'
                renewed_path(cast.study_file(name), "alice").write_text(text)
            cast.run()
            pooled().check_centers(cast, "bob", {"x": 0, "y": 1})
            return
        ended = cast.take_part(names=["bob"])
        assert "the certificate of alice ended" in str(ended["bob"])
