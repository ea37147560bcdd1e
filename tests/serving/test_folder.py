"""The folder of studies: signed, unsigned, broken, changed, removed, not allowed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coterie.serving.folder import StudyFolder
from coterie.study.identity import load_key
from coterie.study.withdrawals import withdraw_study
from tests.study.walk import SMALL, Cast


@pytest.fixture
def folder(cast, tmp_path):
    (tmp_path / "studies").mkdir()
    return look_at(cast, tmp_path, "helper")


def look_at(cast: Cast, tmp_path: Path, name: str) -> StudyFolder:
    key = cast.key(name)
    return StudyFolder(tmp_path / "studies", load_key(key), key, None, lambda hash_: tmp_path / hash_ / "study.toml")


def bring(cast: Cast, folder: StudyFolder, *names: str, under: str = "study") -> None:
    for name in names or ("", ".alice.sig", ".bob.sig", ".helper.sig"):
        shutil.copy(cast.at("helper", f"study{name}.toml"), folder.folder / f"{under}{name}.toml")


def standing(folder: StudyFolder) -> list[str]:
    folder.look()
    return [one.standing for one in folder.found]


def test_what_everybody_has_signed_is_served(cast, folder):
    assert standing(folder) == []
    bring(cast, folder)
    assert standing(folder) == ["served"]
    assert folder.found[0].known.me.name == "helper"


def test_nothing_is_read_again_before_it_changes(cast, folder, monkeypatch):
    bring(cast, folder)
    assert folder.look()
    monkeypatch.setattr("coterie.serving.folder.load_study", None)
    assert not folder.look()


def test_a_study_one_folder_below(cast, folder):
    (folder.folder / "one").mkdir()
    bring(cast, folder, under="one/study")
    assert standing(folder) == ["served"]


def test_without_the_operator_s_signature_it_is_never_served(cast, folder):
    bring(cast, folder, "", ".alice.sig", ".bob.sig")
    assert standing(folder) == ["not signed"]
    assert "coterie study sign" in folder.found[0].why
    bring(cast, folder, ".helper.sig")
    assert standing(folder) == ["served"]


def test_somebody_else_s_signature_is_waited_for_and_may_be_fetched(cast, folder):
    bring(cast, folder, "", ".alice.sig", ".helper.sig")
    assert standing(folder) == ["waiting"]
    assert "signatures of bob" in folder.found[0].why
    known = folder.found[0].known
    assert known.missing == ("bob",)
    assert not folder.look()
    fetched = folder.fetched(known.hash)
    fetched.parent.mkdir()
    shutil.copy(cast.at("helper", "study.bob.sig.toml"), fetched.parent)
    assert standing(folder) == ["served"]
    assert not folder.look()


def test_what_was_fetched_must_hold_and_the_operator_s_own_signature_is_never_fetched(cast, folder):
    bring(cast, folder, "", ".alice.sig", ".helper.sig")
    standing(folder)
    fetched = folder.fetched(folder.found[0].known.hash)
    fetched.parent.mkdir()
    shutil.copy(cast.at("helper", "study.alice.sig.toml"), fetched.with_name("study.bob.sig.toml"))
    assert standing(folder) == ["not signed"]
    assert "not signed with the certificate of bob" in folder.found[0].why
    shutil.copy(cast.at("helper", "study.bob.sig.toml"), fetched.parent)
    assert standing(folder) == ["served"]
    shutil.copy(cast.at("helper", "study.helper.sig.toml"), fetched.parent)
    (folder.folder / "study.helper.sig.toml").unlink()
    assert standing(folder) == ["not signed"]


def test_a_study_that_is_changed_after_signing_is_no_longer_served(cast, folder):
    bring(cast, folder)
    assert standing(folder) == ["served"]
    path = folder.folder / "study.toml"
    path.write_text(path.read_text().replace("clusters = 4", "clusters = 5"))
    assert standing(folder) == ["not signed"]
    assert "changed after" in folder.found[0].why


def test_a_withdrawal_ends_it(cast, folder):
    bring(cast, folder)
    assert standing(folder) == ["served"]
    withdraw_study(folder.folder / "study.toml", cast.study, load_key(cast.key("alice")))
    assert standing(folder) == ["withdrawn"]
    assert "alice withdrew" in folder.found[0].why


def test_a_withdrawal_that_was_fetched_ends_it_too(cast, folder):
    bring(cast, folder)
    standing(folder)
    fetched = folder.fetched(folder.found[0].known.hash)
    fetched.parent.mkdir()
    withdraw_study(fetched, cast.study, load_key(cast.key("alice")))
    assert standing(folder) == ["withdrawn"]
    assert folder.found[0].withdrawal.name == "alice"


def test_what_stands_beside_a_study_is_none(cast, folder):
    bring(cast, folder)
    for name in ("study.alice.renewed.toml", "alice.identity.toml", "policy.toml"):
        (folder.folder / name).write_text("rubbish = true")
    assert standing(folder) == ["served"]


def test_a_study_that_is_removed_or_withdrawn_is_gone(cast, folder):
    bring(cast, folder)
    assert standing(folder) == ["served"]
    (folder.folder / "study.helper.sig.toml").unlink()
    assert standing(folder) == ["not signed"]
    (folder.folder / "study.toml").unlink()
    assert standing(folder) == []


def test_what_is_no_study_is_said_to_be_broken_and_harms_nobody(cast, folder):
    bring(cast, folder)
    (folder.folder / "another.toml").write_text("what = [")
    (folder.folder / "notes.txt").write_text("nothing")
    assert standing(folder) == ["broken", "served"]


def test_a_study_of_another_helper(cast, folder, tmp_path):
    with Cast(tmp_path / "others") as others:
        others.agree(*SMALL)
        bring(others, folder)
    assert standing(folder) == ["not ours"]


def test_one_who_owns_data_does_not_serve(cast, tmp_path):
    (tmp_path / "studies").mkdir()
    folder = look_at(cast, tmp_path, "alice")
    bring(cast, folder)
    assert standing(folder) == ["not ours"]
    assert "coterie run" in folder.found[0].why


def test_a_study_that_is_there_twice_is_served_once(cast, folder):
    bring(cast, folder)
    (folder.folder / "study.toml").rename(folder.folder / "aaa.toml")
    bring(cast, folder)
    assert standing(folder) == ["a copy", "served"]


def test_the_operator_s_policy_is_above_it(cast, folder, tmp_path):
    folder.policy = tmp_path / "policy.toml"
    folder.policy.write_text("most_clusters = 4\n")
    bring(cast, folder)
    assert standing(folder) == ["served"]
    folder.policy.write_text("most_clusters = 2\n")
    assert standing(folder) == ["not allowed"]
    assert "most_clusters" in folder.found[0].why


def test_a_folder_that_is_gone_is_a_problem_and_what_was_there_stays(cast, folder):
    bring(cast, folder)
    folder.look()
    moved = folder.folder.rename(folder.folder.with_name("moved"))
    assert folder.look()
    assert "cannot be read" in folder.problem
    assert [one.standing for one in folder.found] == ["served"]
    moved.rename(folder.folder)
    folder.look()
    assert not folder.problem
