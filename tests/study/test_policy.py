"""An organisation's policy stands above every study: each rule, by name, before anything is sent."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import msgspec
import pytest
import tomli_w

from coterie.errors import PolicyError
from coterie.study import endings
from coterie.study.identity import create_identity
from coterie.study.policy import Policy, check_least, check_policy, check_rows, load_policy
from coterie.study.prepare import prepare
from coterie.study.run import run_study
from coterie.study.study_file import create_study
from tests.study.walk import SMALL, Cast, coterie


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    return [create_identity(name, f"{name}:1", folder) for name in ("helper", "alice", "bob")]


@pytest.fixture
def study(people):
    """A study with these options: by columns, and nothing revealed but the centres."""
    helper, *parties = people

    def make(**options):
        return create_study(
            "s", parties, helper, clusters=2, partition="vertical", columns=["x", "y"], id_column="id",
            bounds={"x": (0, 1), "y": (0, 1)}, holds={"x": "alice", "y": "bob"}, **options,
        )  # fmt: skip

    return make


def refused(policy, study, own="alice"):
    with pytest.raises(PolicyError) as caught:
        check_policy(policy, study, own, "policy.toml")
    assert caught.value.exit_code == 5
    return str(caught.value)


@pytest.mark.parametrize(
    ("policy", "options", "rule", "wanted"),
    [
        (Policy(1, counts=("secret",)), {"counts": "revealed"}, "counts", "revealed"),
        (Policy(1, labels=("private",)), {"labels": "revealed"}, "labels", "revealed"),
        (Policy(1, centers=("shared",)), {}, "centers", "revealed"),
        (Policy(1, centers=("revealed",)), {"centers": "shared"}, "centers", "shared"),
    ],
)
def test_each_rule_is_named(study, policy, options, rule, wanted):
    said = refused(policy, study(**options))
    assert said.startswith(f"policy.toml: the rule `{rule}` allows ")
    assert said.endswith(f"the study asks for {wanted!r}")


def test_a_protocol_family_must_be_named(study):
    said = refused(Policy(1, protocols=("onetime",)), study(protocol="securenn"))
    assert said == (
        "policy.toml: the rule `protocols` allows 'onetime'; the study asks for 'securenn'. If you accept it, write "
        'into the policy (policy.toml beside the key, or --policy FILE): protocols = ["onetime", "securenn"]'
    )
    assert "allows nothing; the study asks for 'onetime'" in refused(Policy(1, protocols=()), study())


@pytest.mark.parametrize("option", ["counts", "labels"])
def test_a_least_size_above_1_does_not_go_with_what_would_tell_sizes(study, option):
    for least in (2, 10, 1000):
        said = refused(Policy(least), study(**{option: "revealed"}))
        assert f"the rule `least_cluster_size` = {least} does not go with revealed {option}" in said
    assert "`least_cluster_size` = 10" in refused(Policy(), study(**{option: "revealed"}))
    check_policy(Policy(1), study(**{option: "revealed"}), "alice", "policy.toml")
    with pytest.raises(PolicyError, match="the strictest policy among the participants: the rule"):
        check_least(2, study(**{option: "revealed"}), "the strictest policy among the participants")


def test_who_may_take_part(study, people):
    prints = {one.name: one.fingerprint for one in people}
    check_policy(Policy(peers=list(prints.values())), study(), "alice", "policy.toml")
    check_policy(Policy(peers=[prints["helper"], prints["bob"]]), study(), "alice", "policy.toml")
    for absent in ("helper", "bob"):
        peers = [print_ for name, print_ in prints.items() if name != absent]
        said = refused(Policy(peers=peers), study())
        assert said == f"policy.toml: the rule `peers` does not list {absent} (fingerprint {prints[absent]})"
    assert "the rule `peers` does not list helper" in refused(Policy(peers=[]), study())


def test_what_is_not_said(tmp_path):
    policy, called = load_policy(None, tmp_path / "alice.key")
    assert policy == Policy()
    assert policy.least_cluster_size == 10
    assert called == "the default policy (there is no policy.toml beside the key)"
    (tmp_path / "policy.toml").write_text("")
    assert load_policy(None, tmp_path / "alice.key") == (Policy(), str(tmp_path / "policy.toml"))
    (tmp_path / "policy.toml").write_text('counts = ["secret"]\n')
    assert load_policy(None, tmp_path / "alice.key")[0] == Policy(counts=("secret",))
    (tmp_path / "other.toml").write_text("least_cluster_size = 1\n")
    assert load_policy(tmp_path / "other.toml", tmp_path / "alice.key")[0] == Policy(1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("least_cluster_size = 0", "least_cluster_size must be at least 1, which switches it off"),
        ("least_cluster_size = -3", "least_cluster_size must be at least 1"),
        ("least_cluster_size = 2.5", "least_cluster_size: expected a whole number, found a number that is not whole"),
        ("least_cluster_size = true", "least_cluster_size: expected a whole number, found true or false"),
        ('least_cluster_size = "10"', "least_cluster_size: expected a whole number, found text"),
        ("least_size = 5", "least_size is not known here"),
        ('counts = ["hidden"]', "counts, entry 1: 'hidden' is none of revealed, secret"),
        ('counts = "secret"', "counts: expected a list, found text"),
        ('labels = ["all"]', "labels, entry 1: 'all' is none of private, revealed"),
        ('peers = "bob"', "peers: expected a list, found text"),
        ("= =", "is not a policy"),
    ],
)
def test_a_policy_that_cannot_be_followed(tmp_path, text, fault):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(None, tmp_path / "alice.key")
    assert fault in str(caught.value)
    assert str(tmp_path / "policy.toml") in str(caught.value)


def test_a_policy_that_is_named_must_be_there(tmp_path):
    with pytest.raises(PolicyError, match=r"the policy .*none\.toml cannot be read"):
        load_policy(tmp_path / "none.toml", tmp_path / "alice.key")
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    with pytest.raises(PolicyError, match="is not a text file"):
        load_policy(tmp_path / "binary.toml", tmp_path / "alice.key")


# -- before connecting -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def revealing(tmp_path_factory):
    """A study that reveals counts, signed by everybody under policies that allow it."""
    with Cast(tmp_path_factory.mktemp("revealing")) as cast:
        cast.policies(least_cluster_size=1)
        cast.agree(*SMALL, "--counts", "revealed")
        for name in cast.parties:
            cast.give(name, x=[1.0, 2.0, 3.0], y=[1.0, 2.0, 3.0])
        yield cast


@pytest.fixture
def no_network(monkeypatch):
    """Opening a socket is an error, and is noted in case that is caught."""
    tried = []

    def refuse(*arguments, **more):
        tried.append(arguments)
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_server", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(endings, "decline", lambda *given: None)  # the others are told: a test of its own
    yield tried
    assert not tried


def test_the_fixture_would_notice(no_network, revealing):
    with pytest.raises(AssertionError, match="a socket was opened"):
        run_study(revealing.orders("alice"))
    assert no_network.pop()


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ({"least_cluster_size": 2}, "least_cluster_size"),
        ({}, "least_cluster_size"),
        ({"least_cluster_size": 1, "counts": ["secret"]}, "counts"),
        ({"least_cluster_size": 1, "centers": ["shared"]}, "centers"),
        ({"least_cluster_size": 1, "protocols": ["securenn"]}, "protocols"),
        ({"least_cluster_size": 1, "peers": []}, "peers"),
    ],
)
@pytest.mark.parametrize("name", ["alice", "helper"])
def test_a_policy_stops_a_study_before_connecting(revealing, no_network, tmp_path, name, rules, rule):
    """Whatever was signed earlier; and neither results nor an entry of a run that was begun are left."""
    key = shutil.copy(revealing.key(name), tmp_path)
    (tmp_path / "policy.toml").write_text(tomli_w.dumps(rules))
    line = revealing.arguments(name, "run", "--out", tmp_path / "results")
    line[line.index("--key") + 1] = str(key)
    for verb in ("run", "preflight"):
        shorter = line[: line.index("--out")] if verb == "preflight" else line
        said = coterie(verb, *shorter[1:])
        assert said.code == 5
        assert f"{tmp_path / 'policy.toml'}: the rule `{rule}`" in said.err
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([f"{name}.key", "policy.toml"])


def test_signing_asks_the_policy_too(revealing, tmp_path):
    shutil.copy(revealing.key("alice"), tmp_path)
    study = shutil.copy(revealing.study_file("alice"), tmp_path)
    said = coterie("study", "sign", study, "--key", tmp_path / "alice.key")
    assert said.code == 5
    assert "the default policy (there is no policy.toml beside the key): the rule `least_cluster_size` = 10" in said.err
    assert not list(tmp_path.glob("*.sig.toml"))


def test_the_policy_is_asked_before_the_data_is_read(revealing, tmp_path):
    """Nobody reads a database for a study that is not allowed."""
    (tmp_path / "policy.toml").write_text("least_cluster_size = 10\n")
    orders = revealing.orders("alice", policy=tmp_path / "policy.toml", data=str(tmp_path / "none.csv"))
    with pytest.raises(PolicyError):
        prepare(orders)
    assert msgspec.to_builtins(prepare(revealing.orders("alice")).policy)["least_cluster_size"] == 1


# -- budgets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("runs = -1", "runs must be at least 0"),
        ("predicted_rows = -1", "predicted_rows must be at least 0"),
        ("most_clusters = 0", "most_clusters must be at least 1"),
        ("most_rows = -5", "most_rows must be at least 1"),
        ("most_columns = 0", "most_columns must be at least 1"),
        ("most_restarts = 0", "most_restarts must be at least 1"),
        ("coalition = 0", "coalition must be at least 1"),
        ("coalition = 256", "coalition must be at least 1 and at most 255"),
        ("runs = 1.5", "runs: expected a whole number, found a number that is not whole"),
        ('other_data = "allow"', "other_data: 'allow' is none of log, refuse"),
        ('contribution = "most"', "contribution: 'most' is none of"),
        ("run = 3", "run is not known here"),
    ],
)
def test_budgets_that_cannot_be_followed(tmp_path, text, rule):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(None, tmp_path / "alice.key")
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "least", "what"),
    [
        ("most_clusters", 2, "2 clusters"),
        ("most_columns", 2, "2 columns"),
        ("most_restarts", 3, "3 restarts"),
        ("most_rows", 1_000_000, "1000000 rows of each party"),
    ],
)
def test_the_size_of_a_study(study, rule, least, what):
    asked = study(restarts=3)
    check_policy(Policy(**{rule: least}), asked, "alice", "policy.toml")
    said = refused(Policy(**{rule: least - 1}), asked)
    words = f"policy.toml: the rule `{rule}` = {least - 1} does not allow the {what} of the study"
    if rule == "most_rows":
        words += "; agree on one that is created with --most-rows 999999"
    assert said == words


def test_own_rows():
    check_rows(Policy(most_rows=3), 3, "policy.toml")
    check_rows(Policy(), 1 << 40, "policy.toml")
    with pytest.raises(PolicyError, match="the rule `most_rows` = 3 does not allow 4 rows"):
        check_rows(Policy(most_rows=3), 4, "policy.toml")


# -- a policy that somebody else could have written, or that is not found ------------------------------------


def written(path, text="least_cluster_size = 50\n"):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o620, 0o602])
def test_a_policy_that_others_can_write_is_refused(tmp_path, mode):
    path = written(tmp_path / "policy.toml")
    path.chmod(mode)
    for given in (None, path):
        with pytest.raises(PolicyError) as caught:
            load_policy(given, tmp_path / "alice.key")
        assert f"{path} can be written by others (mode {mode:04o})" in str(caught.value)
        assert str(caught.value).endswith(f"run: chmod go-w {path}")
    path.chmod(0o644)
    assert load_policy(None, tmp_path / "alice.key")[0].least_cluster_size == 50


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o703])
def test_a_folder_in_which_others_could_replace_it(tmp_path, mode):
    path = written(tmp_path / "keys" / "policy.toml")
    path.parent.chmod(mode)
    with pytest.raises(PolicyError, match=f"{path.parent} can be written by others .*; run: chmod go-w {path.parent}"):
        load_policy(None, path.with_name("alice.key"))
    path.parent.chmod(mode | 0o1000)  # the sticky bit: nobody replaces another's files
    assert load_policy(None, path.with_name("alice.key"))[0].least_cluster_size == 50


def test_a_policy_of_another_user_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "policy.toml")
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PolicyError, match="belongs to another user, who could change the policy; run: chown"):
        load_policy(None, tmp_path / "alice.key")


def linked(tmp_path):
    """alice.key is elsewhere, and what is used is a link to it."""
    for folder in ("real", "link"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real" / "alice.key").write_text("")
    (tmp_path / "link" / "my.key").symlink_to(tmp_path / "real" / "alice.key")
    return tmp_path / "link" / "my.key"


def test_a_key_reached_through_a_link_keeps_its_policy(tmp_path):
    key = linked(tmp_path)
    assert load_policy(None, key)[0] == Policy()
    path = written(tmp_path / "real" / "policy.toml")
    assert load_policy(None, key) == (Policy(50), str(path))
    path.rename(tmp_path / "link" / "policy.toml")
    assert load_policy(None, key) == (Policy(50), str(tmp_path / "link" / "policy.toml"))


def test_two_policies_are_one_too_many(tmp_path):
    key = linked(tmp_path)
    first, second = written(tmp_path / "link" / "policy.toml"), written(tmp_path / "real" / "policy.toml")
    with pytest.raises(PolicyError, match=f"there are two policies, {first} and {second}, .* say which with --policy"):
        load_policy(None, key)
    assert load_policy(second, key)[1] == str(second)
    first.unlink()
    first.symlink_to(second)
    assert load_policy(None, key)[0] == Policy(50), "two names of one file"


def test_a_policy_that_leads_nowhere_is_not_left_out(tmp_path):
    (tmp_path / "policy.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(PolicyError, match=r"the policy .*policy\.toml cannot be read"):
        load_policy(None, tmp_path / "alice.key")


def test_a_folder_that_cannot_be_searched(tmp_path, monkeypatch):
    def denied(path, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", denied)
    with pytest.raises(PolicyError, match=r"cannot be read \(Permission denied\)"):
        load_policy(None, tmp_path / "alice.key")


def test_every_verb_says_which_policy_applies(revealing, tmp_path):
    """And so does the audit log, which is found beside the key itself, whatever link leads there."""
    policy = revealing.at("alice", "policy.toml")
    link = tmp_path / "link.key"
    link.symlink_to(revealing.key("alice"))
    line = revealing.arguments("alice", "run", "--out", tmp_path / "results", "--wait", "0.2")
    line[line.index("--key") + 1] = str(link)
    said = coterie(*line)
    assert said.code == 6
    assert f"policy: {policy}" in said.out
    assert revealing.entry("alice", "started")["policy_from"] == str(policy)
    assert not (tmp_path / "audit.jsonl").exists()
    assert f"policy: {policy} allows it" in coterie(*revealing.arguments("alice", "preflight")).out
    signed = coterie("study", "sign", revealing.study_file("alice"), "--key", revealing.key("alice"))
    assert f"policy: {policy}" in signed.out
