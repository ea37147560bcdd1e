"""What is wrong with options and files is said in the words of whoever wrote them."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from coterie.errors import CoterieError, StudyError
from coterie.study.identity import load_identity, load_key
from coterie.study.policy import load_policy
from coterie.study.study_file import load_study
from tests.plain import FOREIGN
from tests.study.walk import SMALL, Cast


@pytest.fixture(scope="module")
def cast(tmp_path_factory):
    with Cast(tmp_path_factory.mktemp("wording")) as cast:
        cast.agree(*SMALL)
        yield cast


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--partition", "diagonal"),
        ("--counts", "told"),
        ("--labels", "x"),
        ("--centers", "x"),
        ("--scales", "x"),
        ("--measures", "x"),
        ("--sizes", "x"),
        ("--contribution", "x"),
        ("--quality", "x"),
        ("--protocol", "x"),
        ("--init", "x"),
        ("--scale", "x"),
        ("--choose", "x"),
        ("--matching", "x"),
        ("--incomplete", "x"),
        ("--id-rule", "case=x"),
        ("--id-rule", "x=y"),
        ("--kinds", "x=word"),
        ("--transform", "x=root"),
        ("--n-init", "0"),
        ("--max-iter", "0"),
        ("--tol", "-1"),
        ("--seed", "-1"),
        ("--most-rows", "0"),
        ("--least-cluster-size", "0"),
        ("--clusters", "0"),
        ("--clusters", "many"),
        ("--max-iter", "many"),
        ("--bounds", "x=1"),
        ("--resolution", "x=fine"),
        ("--missing", "x=often"),
    ],
)
def test_an_option_is_named(cast, option, value):
    made = cast.create(*SMALL, option, value)
    assert made.code == 2
    assert option in made.err
    assert not FOREIGN.search(made.err), made.err


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


def test_every_place_of_a_study_file(cast, tmp_path):
    """Whatever stands there instead, the error has the words of the file."""
    document = tomllib.loads(cast.study_file("alice").read_text())
    path, seen = tmp_path / "study.toml", 0
    for place in list(places(document))[1:]:
        for planted in (True, 1.5, "?", [], {"extra": 1}, None):
            changed = tomllib.loads(cast.study_file("alice").read_text())
            at = changed
            for step in place[:-1]:
                at = at[step]
            if planted is None:
                del at[place[-1]]
            else:
                at[place[-1]] = planted
            path.write_text(tomli_w.dumps(changed))
            try:
                load_study(path)
            except CoterieError as error:
                seen += 1
                assert str(path) in str(error)
                assert not FOREIGN.search(str(error)), error
    assert seen > 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('runs = "x"', "runs: expected a whole number, found text"),
        ("runs = [1]", "runs: expected a whole number, found a list"),
        ('counts = ["x"]', "counts, entry 1: 'x' is none of revealed, secret"),
        ("runs 3", "cannot be read as TOML, at line 1, column 6"),
    ],
)
def test_a_policy(tmp_path, text, said):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(CoterieError) as caught:
        load_policy(None, tmp_path / "alice.key")
    assert str(caught.value).endswith(said)
    assert not FOREIGN.search(str(caught.value))


def test_one_file_in_the_place_of_another(cast, tmp_path):
    key, identity = cast.key("alice"), cast.identity("alice")
    with pytest.raises(StudyError, match=r"is the public identity; give alice\.key, the private key"):
        load_key(identity)
    with pytest.raises(StudyError, match=r"is the private key, which stays with you; give alice\.identity\.toml"):
        load_identity(key)
    secret = key.read_text().splitlines()[1]
    for text, said in (
        (key.read_text(), "is a private key, not a study file"),
        (identity.read_text(), "is a public identity, not a study file"),
    ):
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(StudyError, match=said) as caught:
            load_study(tmp_path / "study.toml")
        assert secret not in str(caught.value)
    (tmp_path / "bob.toml").write_text(cast.study_file("alice").read_text())
    with pytest.raises(StudyError, match="is a study file, not an identity file"):
        load_identity(tmp_path / "bob.toml")
