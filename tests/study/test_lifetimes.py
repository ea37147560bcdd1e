"""Certificates that end: an error that says what to do, and a word of it before."""

from __future__ import annotations

import datetime
import shutil

import msgspec
import numpy as np
import pytest

from coterie.errors import InputError, StudyError
from coterie.relay.operate import load_relay
from coterie.study.identity import Via, create_identity, load_key
from coterie.study.lifetimes import check_lifetimes, find_endings
from coterie.study.prepare import prepare, recognise
from coterie.study.signatures import sign_study
from coterie.transport.certificates import create_credentials, lifetime
from tests.study.dated import give_dates
from tests.study.walk import SMALL, coterie


def test_two_years_unless_told(tmp_path):
    for name, years, options in (("alice", 2, {}), ("bob", 5, {"years": 5}), ("carol", 30, {"years": 30})):
        begins, ends = lifetime(create_identity(name, "a:1", tmp_path, **options).certificate)
        assert (ends - begins).days == 365 * years + 1  # it begins a day before it was made
        assert begins < datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=23)
    for years in (0, -1, 31):
        with pytest.raises(InputError, match=f"--years {years}: a certificate is valid for 1 to 30 years"):
            create_identity("dora", "a:1", tmp_path, years=years)
    assert not list(tmp_path.glob("dora*"))
    said = coterie("identity", "create", "erin", "--address", "a:1", "--folder", tmp_path, "--years", 3)
    shown = coterie("identity", "show", tmp_path / "erin.identity.toml")
    until = f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3 * 365):%Y-%m}"
    assert f"valid until {until}" in said.out
    assert f"valid until {until}" in shown.out


@pytest.mark.parametrize(
    ("days", "own", "other"),
    [
        (400.0, "", ""),
        (30.5, "", ""),
        (29.5, "soon", "soon"),
        (1.5, "soon", "soon"),
        (0.5, "ended", "soon"),  # a day's margin: nobody whose clock is ahead refuses it
        (-0.5, "ended", "ended"),
        (-400.0, "ended", "ended"),
    ],
)
def test_before_and_after_the_end(tmp_path, days, own, other):
    create_identity("alice", "a:1", tmp_path)
    alice = give_dates(tmp_path, "alice", days)
    for me, expected in (("alice", own), ("bob", other)):
        if expected == "ended":
            with pytest.raises(StudyError, match=r"the certificate of alice ended on \d{4}-\d\d-\d\d"):
                check_lifetimes([alice], me)
            continue
        check_lifetimes([alice], me)
        found = find_endings([alice], me)
        assert bool(found) == (expected == "soon")
        if found:
            assert f"in {int(days)} days" in found[0]


def test_a_certificate_that_has_not_begun(tmp_path):
    create_identity("alice", "a:1", tmp_path)
    alice = give_dates(tmp_path, "alice", 365 * 2 + 3)
    for me in ("alice", "bob"):
        with pytest.raises(StudyError, match=r"the certificate of alice is valid from .* set the clock"):
            check_lifetimes([alice], me)


def test_certificates_of_thirty_years_still_work(tmp_path):
    create_identity("alice", "a:1", tmp_path)
    alice = give_dates(tmp_path, "alice", 365 * 29, years=30)
    check_lifetimes([alice], "alice")
    assert not find_endings([alice], "alice")
    assert create_credentials("alice").certificate != alice.certificate


@pytest.fixture
def data():
    X = np.random.default_rng(0).uniform(-9, 9, (40, 2))
    return {"x": X[:, 0], "y": X[:, 1]}


def test_an_ended_certificate_stops_everybody_before_anything_is_connected(cast):
    """Also where everybody had signed before it ended."""
    give_dates(cast.at("bob"), "bob", -0.5)
    made = cast.create(*SMALL)
    assert made.code == 0, made.err
    for name in cast.names:
        shutil.copy(cast.folder / "study.toml", cast.study_file(name))
        sign_study(cast.study_file(name), load_key(cast.key(name)))
    cast.exchange_signatures()
    for name in cast.names:
        with pytest.raises(StudyError, match=r"the certificate of bob ended on"):
            recognise(cast.orders(name))


def test_a_certificate_that_ends_soon_is_pointed_out(cast, data):
    for name, days in (("alice", 90.0), ("bob", 10.0)):
        give_dates(cast.at(name), name, days)
    cast.agree(*SMALL)
    for name in cast.parties:
        cast.give(name, **data)
    ready = prepare(cast.orders("alice"))
    assert len(ready.endings) == 1
    assert "bob ends on" in ready.endings[0]
    said = coterie(*cast.arguments("alice", "preflight"))
    assert said.code == 0, said.err
    assert "note certificates: the certificate of bob ends on" in said.out
    said = coterie("study", "sign", cast.study_file("bob"), "--key", cast.key("bob"))
    assert "the certificate of bob ends on" in said.out


def test_an_ended_certificate_of_another_is_named(cast, data):
    give_dates(cast.at("bob"), "bob", 0.5)
    made = cast.create(*SMALL)
    assert made.code == 0, made.err
    said = coterie("study", "sign", cast.folder / "study.toml", "--key", cast.key("bob"))
    assert (said.code, "the certificate of bob ended on" in said.err) == (4, True)
    assert not list(cast.folder.glob("*.sig.toml"))
    said = coterie("study", "sign", cast.folder / "study.toml", "--key", cast.key("alice"))
    assert said.code == 0, said.err


@pytest.mark.parametrize(("days", "expected"), [(400.0, ""), (29.5, "soon"), (-0.5, "ended")])
def test_a_relay_s_certificate_ends_like_everybody_s(tmp_path, days, expected):
    """For those who are reached by way of it and for those who dial them; and at the relay itself."""
    create_identity("relay", "a:1", tmp_path)
    relay = give_dates(tmp_path, "relay", days)
    via = Via(relay.name, relay.fingerprint, relay.certificate)
    everybody = [create_identity(name, "a:1", tmp_path) for name in ("alice", "bob")]
    everybody = [msgspec.structs.replace(one, via=via) for one in everybody]
    said = []
    if expected == "ended":
        with pytest.raises(StudyError, match=r"the certificate of the relay relay ended on .*: the relay relay has to"):
            check_lifetimes(everybody, "alice")
        with pytest.raises(StudyError, match="the certificate of relay ended on"):
            load_relay(tmp_path / "relay.key", warn=said.append)
        return
    check_lifetimes(everybody, "alice")
    found = find_endings(everybody, "alice")
    load_relay(tmp_path / "relay.key", warn=said.append)
    assert (len(found), len(said)) == ((1, 1) if expected else (0, 0))  # once, however many it leads to
    assert not found or "the certificate of the relay relay ends on" in found[0]
