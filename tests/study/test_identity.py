"""Identities: a key that only its owner may read, and a file for the others that cannot be tampered with unnoticed."""

from __future__ import annotations

import ssl
import stat

import msgspec
import pytest
import tomli_w
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from coterie.errors import InputError, StudyError
from coterie.study.identity import (
    check_identity,
    create_identity,
    derived_key,
    load_identity,
    load_key,
    name_of,
    same_key,
    sign,
    signed_by,
    split_address,
)
from tests.study.walk import coterie

ADDRESS = "alice.example.org:7101"


@pytest.fixture
def alice(tmp_path):
    return create_identity("alice", ADDRESS, tmp_path)


def pem(key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def test_what_is_written_can_be_read(tmp_path, alice):
    assert load_identity(tmp_path / "alice.identity.toml") == alice
    assert (alice.name, alice.address, alice.host, alice.port) == ("alice", ADDRESS, "alice.example.org", 7101)
    assert same_key(load_key(tmp_path / "alice.key"), alice.certificate)


def test_only_the_owner_may_read_the_key(tmp_path, alice):
    assert stat.S_IMODE((tmp_path / "alice.key").stat().st_mode) == 0o600
    assert "PRIVATE" not in (tmp_path / "alice.identity.toml").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["alice.identity.toml", "alice.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o660, 0o777])
def test_a_key_that_others_may_touch_is_refused(tmp_path, alice, mode):
    (tmp_path / "alice.key").chmod(mode)
    with pytest.raises(StudyError, match=f"can be read by others \\(mode {mode:04o}\\); run: chmod 600 .*alice.key"):
        load_key(tmp_path / "alice.key")
    (tmp_path / "alice.key").chmod(0o600)
    assert load_key(tmp_path / "alice.key")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is not a private key"),
        (b"not a key\n", "is not a private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is not a private key"),
        (bytes(range(128, 256)), "is not a text file"),
        (pem(ed25519.Ed25519PrivateKey.generate()).encode(), "is not an ECDSA key"),
    ],
    ids=["empty", "text", "broken", "binary", "ed25519"],
)
def test_a_key_that_is_none(tmp_path, content, fault):
    path = tmp_path / "some.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StudyError, match=f"some.key {fault}") as caught:
        load_key(path)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # it may quote the file


def test_no_key_at_all(tmp_path):
    with pytest.raises(StudyError, match="cannot be read \\(No such file"):
        load_key(tmp_path / "nobody.key")


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":7101", "host:0", "host:65536", "host:-1", "host:http", "host: 71", "host:²", "host:7101x"],
)
def test_what_is_no_address(tmp_path, address):
    with pytest.raises(InputError, match="is no address; use HOST:PORT"):
        create_identity("alice", address, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "parts"),
    [("10.0.0.1:1", ("10.0.0.1", 1)), ("a.b:65535", ("a.b", 65535)), ("[::1]:7101", ("::1", 7101))],
)
def test_addresses(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize("name", ["", "a b", "../alice", "a/b", "-alice", ".alice", "älice", "a" * 41, "a\n"])
def test_what_is_no_name(tmp_path, name):
    with pytest.raises(InputError, match="cannot be a name"):
        create_identity(name, ADDRESS, tmp_path / "in")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["alice.key", "alice.identity.toml"])
def test_existing_files_are_not_overwritten(tmp_path, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(InputError, match=f"{there} is there already"):
        create_identity("alice", ADDRESS, tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {there: "precious"}


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        create_identity("alice", ADDRESS, tmp_path / "file" / "in")


def fields(identity, **changes) -> str:
    made = {name: getattr(identity, name) for name in identity.__struct_fields__} | changes
    return tomli_w.dumps({name: value for name, value in made.items() if value is not None})


def test_an_identity_file_that_does_not_hold_up(tmp_path, alice):
    other = create_identity("bob", "bob:1", tmp_path)
    path = tmp_path / "changed.identity.toml"
    for changes, fault in (
        ({"certificate": other.certificate}, "does not have the fingerprint"),
        ({"fingerprint": other.fingerprint}, "does not have the fingerprint"),
        ({"fingerprint": alice.fingerprint.upper()}, "does not have the fingerprint"),
        ({"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "cannot be read"),
        ({"certificate": "none"}, "cannot be read"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"address": "nowhere"}, "is no address"),
        ({"name": None}, "name is missing"),
        ({"name": 7}, "name: expected text, found a whole number"),
        ({"phone": "12"}, "phone is not known here"),
    ):
        path.write_text(fields(alice, **changes))
        with pytest.raises(StudyError, match=fault) as caught:
            load_identity(path)
        assert str(path) in str(caught.value)
    for text, fault in (("= =", "is not an identity file"), ("\xff", "is not a text file")):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(StudyError, match=fault):
            load_identity(path)


def test_signatures(tmp_path, alice):
    bob = create_identity("bob", "bob:1", tmp_path)
    key = load_key(tmp_path / "alice.key")
    signature = sign(key, b"message")
    assert signed_by(alice.certificate, signature, b"message")
    assert not signed_by(alice.certificate, signature, b"massage")
    assert not signed_by(bob.certificate, signature, b"message")
    assert not signed_by(alice.certificate, signature[:-1], b"message")
    assert not signed_by(alice.certificate, b"", b"message")
    assert not same_key(key, bob.certificate)


def test_what_the_command_says(tmp_path):
    made = coterie("identity", "create", "carol", "--address", "c:1", "--folder", tmp_path)
    shown = coterie("identity", "show", tmp_path / "carol.identity.toml")
    identity = load_identity(tmp_path / "carol.identity.toml")
    assert made.code == shown.code == 0
    for text in (made.out, shown.out):
        assert identity.fingerprint in text
        assert "PRIVATE" not in text


#: What a terminal does with these is not to show them: it moves the cursor, hides or reorders what stands around.
ESCAPES = ["\x1b[8m", "\x1b]0;title\x07", "\x9b2K", "\r", "\n", "\u202e", "\u200b", "\x7f", "\x08", "\u2028"]


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_address_cannot_hide_the_fingerprint(tmp_path, alice, escape):
    """The attack: an escape sequence in bob's address makes his real fingerprint invisible, and shows another."""
    address = f"bob{escape}.example.org:7101"
    with pytest.raises(InputError, match="is no address") as caught:
        create_identity("bob", address, tmp_path)
    assert str(caught.value).isprintable()
    path = tmp_path / "bob.identity.toml"
    path.write_text(fields(alice, address=address))
    said = coterie("identity", "show", path)
    assert (said.code, said.out) == (4, "")
    assert said.err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "address", ["höst:1", "a b:1", "a/b:1", "a,b:1", "::1:7101", "[::1:7101", "[]:1", "[g::1]:1", "a:٣"]
)
def test_addresses_are_held_to_host_characters(address):
    with pytest.raises(InputError, match="is no address"):
        split_address(address)


@pytest.mark.parametrize("host", ["a-b_c.example.org", "127.0.0.1", "[fe80::1%eth0]", "[::ffff:10.0.0.1]"])
def test_hosts(host):
    assert split_address(f"{host}:7101") == (host.strip("[]"), 7101)


def test_keys_are_derived_for_one_purpose_from_one_key(tmp_path, alice):
    create_identity("bob", "bob:1", tmp_path)
    keys = [load_key(tmp_path / f"{name}.key") for name in ("alice", "bob")]
    made = {derived_key(key, purpose) for key in keys for purpose in ("one", "another")}
    assert len(made) == 4
    assert {len(one) for one in made} == {32}
    assert derived_key(keys[0], "one") in made
    assert name_of(alice.certificate) == "alice"


def test_a_certificate_with_any_byte_changed_is_refused(tmp_path):
    """Also where that makes it one of another version, or with a key of a kind that nobody knows."""
    right = create_identity("alice", "127.0.0.1:7001", tmp_path)
    der = ssl.PEM_cert_to_DER_cert(right.certificate)
    for at in range(len(der)):
        changed = ssl.DER_cert_to_PEM_cert(der[:at] + bytes([der[at] ^ 1]) + der[at + 1 :])
        wrong = msgspec.structs.replace(right, certificate=changed)
        with pytest.raises(StudyError, match="certificate"):
            check_identity(wrong, "the study")
