"""An organisation's policy stands above every study: each rule, by name, before anything is sent."""

from __future__ import annotations

import shutil
import socket

import msgspec
import pytest
import tomli_w

from coterie.errors import PolicyError
from coterie.study.agreement import create_study
from coterie.study.identity import create_identity
from coterie.study.policy import Policy, check_least, check_policy, load_policy
from coterie.study.prepare import prepare
from coterie.study.run import run_study
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
        (Policy(1, protocols=("onetime",)), {"protocol": "securenn"}, "protocols", "securenn"),
        (Policy(1, protocols=()), {}, "protocols", "onetime"),
    ],
)
def test_each_rule_is_named(study, policy, options, rule, wanted):
    said = refused(policy, study(**options))
    assert said.startswith(f"policy.toml: the rule `{rule}` allows ")
    assert said.endswith(f"the study asks for {wanted!r}")


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
        ("least_cluster_size = 2.5", r"Expected `int`, got `float`"),
        ("least_cluster_size = true", "Expected `int`, got `bool`"),
        ('least_cluster_size = "10"', "Expected `int`, got `str`"),
        ("least_size = 5", "unknown field `least_size`"),
        ('counts = ["hidden"]', "Invalid enum value 'hidden'"),
        ('counts = "secret"', "Expected `array`"),
        ('labels = ["all"]', "Invalid enum value 'all'"),
        ('peers = "bob"', "Expected `array | null`, got `str`"),
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
