"""Papers of a study: signatures that are fetched, withdrawals that are learnt, and what is made of anything else."""

from __future__ import annotations

import base64
import itertools
import tomllib

import msgspec
import numpy as np
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import AuthenticationError, CoterieError, InputError, StudyError
from coterie.study.agreement import study_hash
from coterie.study.greetings import Card, Papers, card_of, read_letter
from coterie.study.identity import load_key, sign
from coterie.study.papers import card_with_papers, hear_withdrawal, pack_withdrawal, take_papers
from coterie.study.preflight import preflight
from coterie.study.run import run_study
from coterie.study.signatures import Signature, own_signature, signature_path, verify_signatures
from coterie.study.voice import Voice
from coterie.study.withdrawals import Withdrawal, Withdrawn, check_withdrawal, withdraw_study, withdrawal_path
from coterie.transport.certificates import create_credentials
from tests.study.walk import SMALL, coterie, wait_until


@pytest.fixture
def ready(cast):
    """Everybody has signed, and each has its own signature alone."""
    X = np.random.default_rng(1).normal(0, 3, (60, 2)).clip(-11, 11)
    cast.agree(*SMALL)
    for name, other in itertools.permutations(cast.names, 2):
        cast.at(name, f"study.{other}.sig.toml").unlink()
    for name, rows in (("alice", X[:30]), ("bob", X[30:])):
        cast.give(name, x=rows[:, 0], y=rows[:, 1])
    return cast


def files(cast, name):
    return sorted(path.name for path in cast.at(name).glob("study.*.toml"))


ALL = ["study.alice.sig.toml", "study.bob.sig.toml", "study.helper.sig.toml"]


def signature_of(cast, name) -> Signature:
    found = own_signature(cast.study_file(name), cast.study, name)
    assert found is not None
    return found


# -- signatures are fetched --------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pictures")
def test_a_run_fetches_all_signatures(ready):
    for name in ready.names:
        assert files(ready, name) == [f"study.{name}.sig.toml"]
    ready.run()
    for name in ready.names:
        assert files(ready, name) == ALL
        assert set(verify_signatures(ready.study_file(name), ready.study)) == set(ready.names)
        assert ready.at(name, "study.bob.sig.toml").stat().st_mode & 0o777 == 0o644


def check(cast, told=lambda _: None, **changes):
    return cast.take_part(lambda orders, _: preflight(orders, told), **{"wait": 30.0, **changes})


def test_preflight_fetches_them_as_well(ready):
    ended = check(ready)
    for name in ready.names:
        assert not isinstance(ended[name], BaseException), ended
        assert files(ready, name) == ALL
        assert sum("its signature was fetched" in one.text for one in ended[name]) == 2


def test_preflight_says_whose_are_still_missing(ready):
    said = coterie(*ready.arguments("alice", "preflight"))
    assert said.code == 0, said.err
    assert "those of helper, bob are fetched from them" in said.out
    assert "?    signatures: of helper, bob are not here yet" in said.out


def test_ones_own_signature_must_be_there(ready):
    ready.at("alice", "study.alice.sig.toml").unlink()
    for act in (run_study, lambda orders, _: preflight(orders, lambda _: None)):
        ended = ready.take_part(act, ["alice"])
        assert "is not signed by alice, whose key this is; sign it with `coterie study sign`" in str(ended["alice"])


def test_an_unreadable_folder_is_no_obstacle(ready, monkeypatch):
    """The signatures hold; where they cannot be kept, this is said."""
    heard = []

    class Heard(Voice):
        def note(self, text):
            heard.append(text)

    def refuse(path, signature):
        raise InputError(f"{path} cannot be written (Read-only file system)")

    monkeypatch.setattr("coterie.study.papers.keep_signature", refuse)
    monkeypatch.setattr("coterie.report.write.write_report", lambda path, *facts: path.write_text("a report"))
    ended = ready.take_part(voices={"alice": Heard()})
    assert not any(isinstance(one, BaseException) for one in ended.values()), ended
    assert any("Read-only" in text for text in heard)
    assert files(ready, "alice") == ["study.alice.sig.toml"]


def test_a_forged_signature_is_refused_by_name_and_never_written(ready):
    """Whatever bob shows in the place of his signature."""
    study, path = ready.study, ready.study_file("alice")
    genuine = signature_of(ready, "bob")
    alice = signature_of(ready, "alice")
    replace = msgspec.structs.replace
    other_key = sign(load_key(ready.key("alice")), genuine.message())
    for forged in (
        alice,
        replace(alice, name="bob"),
        replace(genuine, signature=base64.b64encode(other_key).decode()),
        replace(genuine, signature="?"),
        replace(genuine, signed="2020-01-01"),
        replace(genuine, name="../../bob"),
        replace(genuine, sections={}),
        replace(genuine, sections={**genuine.sections, "data": "0" * 64}),
    ):
        card = read_letter(card_of(study, Papers(forged)), Card, "bob", "card")
        with pytest.raises(
            AuthenticationError, match="bob sent a signature of this study that is not its own"
        ) as caught:
            take_papers(path, study, card, "bob")
        assert caught.value.peer == "bob"
        assert files(ready, "alice") == ["study.alice.sig.toml"]
    card = read_letter(card_of(study, Papers(genuine)), Card, "bob", "card")
    assert take_papers(path, study, card, "bob")
    assert not take_papers(path, study, card, "bob")


def test_a_valid_signature_is_never_replaced(ready):
    study, path = ready.study, ready.study_file("alice")
    card = read_letter(card_of(study, Papers(signature_of(ready, "bob"))), Card, "bob", "card")
    take_papers(path, study, card, "bob")
    before = signature_path(path, "bob").read_bytes()
    assert coterie("study", "sign", ready.study_file("bob"), "--key", ready.key("bob")).code == 0
    again = read_letter(card_of(study, Papers(signature_of(ready, "bob"))), Card, "bob", "card")
    assert not take_papers(path, study, again, "bob")
    assert signature_path(path, "bob").read_bytes() == before


@pytest.mark.parametrize("forged", ["none", "another's", "nonsense"])
def test_a_peer_with_a_bad_signature_stops_the_run_by_name(ready, monkeypatch, forged):
    study = ready.study
    genuine = signature_of(ready, "alice")
    shown = {
        "none": lambda: card_of(study),
        "another's": lambda: card_of(study, Papers(genuine)),
        "nonsense": lambda: msgspec.msgpack.encode({"version": "0.2.0", "sections": 7}),
    }[forged]
    right = card_with_papers

    def show(path, agreed, name):
        return shown() if name == "bob" else right(path, agreed, name)

    monkeypatch.setattr("coterie.study.papers.card_with_papers", show)
    ended = ready.take_part()
    assert all(isinstance(error, CoterieError) for error in ended.values()), ended
    for name in ("alice", "helper"):
        assert "bob" in str(ended[name])
        assert "study.bob.sig.toml" not in files(ready, name)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["name", "fingerprint", "signed", "sections", "signature", "withdrawn", "study"])


@given(st.binary(max_size=300) | ANY.map(msgspec.msgpack.encode), st.dictionaries(NAMES, ANY))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_at_all_is_refused_by_name(ready, raw, fields):
    study, path = ready.study, ready.study_file("alice")
    genuine = msgspec.to_builtins(signature_of(ready, "bob"))
    card = msgspec.to_builtins(Card("0.2.0", {}, 0.0))
    bent = {**card, "papers": {"signature": {**genuine, **fields} if fields else None, "withdrawals": [fields]}}
    for sent in (raw, msgspec.msgpack.encode(bent)):
        with pytest.raises(CoterieError, match="bob"):
            take_papers(path, study, read_letter(sent, Card, "bob", "card"), "bob")
        error = hear_withdrawal(path, study, sent, "bob")
        assert "bob" in str(error)
        assert not isinstance(error, Withdrawn)
    assert files(ready, "alice") == ["study.alice.sig.toml"]


# -- withdrawing -------------------------------------------------------------------------------------------


def withdraw(cast, name):
    return coterie("study", "withdraw", cast.study_file(name), "--key", cast.key(name))


def test_withdrawing_is_final_and_refused_at_home(ready):
    said = withdraw(ready, "bob")
    assert said.code == 0, said.err
    path = withdrawal_path(ready.study_file("bob"), "bob")
    before = path.read_bytes()
    assert withdraw(ready, "bob").code == 0  # once more: the same
    assert path.read_bytes() == before
    for line in (
        ready.arguments("bob"),
        ready.arguments("bob", "preflight"),
        ["study", "sign", ready.study_file("bob"), "--key", ready.key("bob")],
        ["study", "verify", ready.study_file("bob")],
    ):
        said = coterie(*line)
        assert said.code == 4
        assert "bob withdrew from" in said.err
        assert "make a new study" in said.err


@pytest.mark.parametrize("who", ["bob", "helper"])
def test_it_is_learnt_by_those_who_wait_in_a_run(ready, who):
    """Whoever knows of it and is told to run tells the others, who refuse the study from then on."""
    withdraw_study(ready.study_file(who), ready.study, load_key(ready.key(who)))
    others = [name for name in ready.names if name != who]
    ended = ready.take_part(lambda orders, voice: _late(ready, who, orders, voice))
    for name in others:
        assert isinstance(ended[name], Withdrawn), ended
        assert f"{who} withdrew from" in str(ended[name])
        assert withdrawal_path(ready.study_file(name), who).exists()
        entry = ready.entry(name, "withdrawn")
        assert (entry["party"], entry["peer"]) == (who, who)
        said = coterie(*ready.arguments(name))
        assert (said.code, f"{who} withdrew" in said.err) == (4, True)


def _late(cast, who, orders, voice):
    """The one who has withdrawn starts when the others are there."""
    if orders.key == cast.key(who):
        others = [name for name in cast.names if name != who]
        wait_until(lambda: all(cast.at(name, "audit.jsonl").exists() for name in others))
        outcome = None
        for _ in range(200):  # until both listen
            try:
                outcome = run_study(orders, voice)
            except Withdrawn as error:
                outcome = error
            if all(withdrawal_path(cast.study_file(name), who).exists() for name in others):
                break
        raise outcome
    return run_study(orders, voice)


def test_whoever_has_learnt_it_tells_the_next_one(ready):
    """Bob answers who asks, and has learnt since that the helper has withdrawn."""
    study = ready.study
    made = withdraw_study(ready.study_file("helper"), study, load_key(ready.key("helper")))
    card = read_letter(card_of(study, Papers(signature_of(ready, "bob"), [made])), Card, "bob", "card")
    with pytest.raises(Withdrawn, match="helper withdrew from this study on"):
        take_papers(ready.study_file("alice"), study, card, "bob")
    assert withdrawal_path(ready.study_file("alice"), "helper").exists()
    shown = msgspec.msgpack.decode(card_with_papers(ready.study_file("alice"), study, "alice"))
    assert shown["papers"]["withdrawals"][0]["name"] == "helper"  # and alice tells the next one


@pytest.mark.slow
def test_it_is_learnt_in_preflight_over_the_network(ready, monkeypatch):
    withdraw_study(ready.study_file("helper"), ready.study, load_key(ready.key("helper")))
    right = card_with_papers

    def show(path, agreed, name):
        return right(ready.study_file("helper"), agreed, name) if name == "bob" else right(path, agreed, name)

    monkeypatch.setattr("coterie.study.session.card_with_papers", show)
    ended = check(ready, names=["alice", "bob"], wait=5.0)
    assert isinstance(ended["alice"], Withdrawn), ended
    assert withdrawal_path(ready.study_file("alice"), "helper").exists()


def test_a_forged_withdrawal_changes_nothing(ready, tmp_path):
    study, path = ready.study, ready.study_file("alice")
    key = load_key(ready.key("alice"))
    genuine = withdraw_study(ready.study_file("bob"), study, load_key(ready.key("bob")))
    replace = msgspec.structs.replace

    def signed(draft: Withdrawal) -> Withdrawal:
        return replace(draft, signature=base64.b64encode(sign(key, draft.message())).decode())

    for forged in (
        signed(genuine),  # alice signs in bob's name
        replace(genuine, name="helper"),
        replace(genuine, study="0" * 64),
        replace(genuine, withdrawn="2020-01-01T00:00:00+00:00"),
        replace(genuine, fingerprint="0" * 64),
        replace(genuine, signature=""),
        signed(replace(genuine, name="nobody")),
    ):
        error = hear_withdrawal(path, study, pack_withdrawal(forged), "bob")
        assert isinstance(error, AuthenticationError)
        assert "bob sent a withdrawal that does not hold" in str(error)
        assert not list(ready.at("alice").glob("*.withdrawn.toml"))
        withdrawal_path(path, "bob").write_text(tomli_w.dumps(msgspec.to_builtins(forged)))
        said = coterie(*ready.arguments("alice"))
        assert (said.code, "study.bob.withdrawn.toml is no withdrawal" in said.err) == (4, True)
        withdrawal_path(path, "bob").unlink()
    assert isinstance(hear_withdrawal(path, study, pack_withdrawal(genuine), "helper"), Withdrawn)
    assert tomllib.loads(withdrawal_path(path, "bob").read_text())["study"] == study_hash(study)


def test_a_withdrawal_is_from_one_study_alone(ready):
    """What Alice has signed about one study takes her signature back from no other one of the same participants."""
    study, key = ready.study, load_key(ready.key("alice"))
    made = withdraw_study(ready.study_file("alice"), study, key)
    other = msgspec.structs.replace(study, study=msgspec.structs.replace(study.study, name="another"))
    assert check_withdrawal(study, made, "it") == made
    with pytest.raises(StudyError, match="it is no withdrawal from this study"):
        check_withdrawal(other, made, "it")


def test_a_stranger_cannot_withdraw(ready):
    with pytest.raises(StudyError, match="the key belongs to none of the participants"):
        withdraw_study(ready.study_file("alice"), ready.study, _strange_key())


def _strange_key() -> str:
    return create_credentials("alice").key
