"""Passphrases: a protected key is opened from a file descriptor or at a terminal, and nothing tells the passphrase."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import traceback

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError, StudyError
from coterie.study import protected
from coterie.study.identity import change_passphrase, create_identity, load_identity, load_key, same_key
from coterie.study.prepare import Orders
from coterie.study.protected import is_protected, protect
from coterie.transport.certificates import create_credentials
from tests.study.walk import coterie

SECRET = b"correct horse battery staple"


@pytest.fixture
def alice(tmp_path):
    return create_identity("alice", "alice:7101", tmp_path, passphrase=SECRET)


@contextlib.contextmanager
def descriptor(content: bytes):
    """The number of an open file with this content."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    try:
        yield read
    finally:
        os.close(read)


def at_terminal(*arguments, answers, tmp_path):
    """`coterie ARGUMENTS` in a process whose terminal answers each prompt: its exit code and all that it showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "coterie", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    waiting = list(answers)
    with contextlib.suppress(OSError):  # the terminal ends with the process
        while part := os.read(ours, 4096):
            shown += part
            if waiting and shown.endswith(b": "):
                os.write(ours, waiting.pop(0) + b"\n")
                shown += b"\n"
    os.close(ours)
    return process.wait(), shown.decode()


# -- the file ----------------------------------------------------------------------------------------------


def test_a_protected_key_needs_its_passphrase(tmp_path, alice):
    path = tmp_path / "alice.key"
    assert path.read_text().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert path.stat().st_mode & 0o777 == 0o600
    for passphrase in (SECRET, lambda key: SECRET if key == path else b""):
        assert same_key(load_key(path, passphrase), alice.certificate)
    with pytest.raises(StudyError, match=r"alice.key is protected by a passphrase, and there is no terminal"):
        load_key(path)
    for wrong in (b"", b"wrong", SECRET + b"\n", SECRET[:-1]):
        with pytest.raises(StudyError, match=r"the passphrase does not open the key .*alice.key") as caught:
            load_key(path, wrong)
        assert not isinstance(caught.value.__cause__, BaseException)


def test_a_key_without_a_passphrase_does_not_ask(tmp_path):
    create_identity("bob", "bob:1", tmp_path)

    def never(path):
        raise AssertionError("asked")

    assert load_key(tmp_path / "bob.key", never) == load_key(tmp_path / "bob.key")


@given(st.binary(min_size=1, max_size=80), st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_what_is_written_other_tools_read(passphrase, bits):
    """Keys of several lengths, so that lengths in the file take one, two and three bytes."""
    curve = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()][bits]
    key = ec.generate_private_key(curve)
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    before, protected.ROUNDS = protected.ROUNDS, 1 << 7 * bits  # the number of rounds, too, takes one byte or several
    try:
        made = protect(plain, passphrase)
    finally:
        protected.ROUNDS = before
    assert is_protected(made)
    assert load_pem_private_key(made.encode(), passphrase).private_numbers() == key.private_numbers()


def test_the_passphrase_is_stretched():
    """PBKDF2's rounds stand in the file: not the 2,048 of the library's own writer."""
    made = protect(create_credentials("alice").key, SECRET)
    der = b"".join(map(protected.base64.b64decode, made.splitlines()[1:-1]))
    assert b"\x02\x03" + (600_000).to_bytes(3, "big") in der


@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_protected_keys_of_other_tools_are_opened(tmp_path, form):
    kind = {
        "pkcs8": serialization.PrivateFormat.PKCS8,
        "traditional": serialization.PrivateFormat.TraditionalOpenSSL,
    }[form]
    key = load_pem_private_key(create_credentials("alice").key.encode(), None)
    path = tmp_path / "alice.key"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, serialization.BestAvailableEncryption(SECRET)))
    path.chmod(0o600)
    opened = load_pem_private_key(load_key(path, SECRET).encode(), None)
    assert opened.private_numbers() == key.private_numbers()
    with pytest.raises(StudyError, match="does not open"):
        load_key(path, b"wrong")


def test_a_passphrase_is_set_changed_and_removed(tmp_path):
    made = create_identity("alice", "alice:7101", tmp_path)
    path = tmp_path / "alice.key"
    for old, new in ((None, b"one"), (b"one", b"two"), (b"two", None)):
        change_passphrase(path, old, new)
        assert path.stat().st_mode & 0o777 == 0o600
        assert is_protected(path.read_text()) == (new is not None)
        assert same_key(load_key(path, new), made.certificate)
    change_passphrase(path, None, b"one")
    before = path.read_bytes()
    for old, new in ((b"wrong", b"two"), (b"one", b"")):
        with pytest.raises((StudyError, InputError)):
            change_passphrase(path, old, new)
        assert path.read_bytes() == before


# -- nothing tells it --------------------------------------------------------------------------------------


def test_no_message_and_no_repr_tells_the_passphrase(tmp_path, alice):
    orders = Orders(tmp_path / "study.toml", tmp_path / "alice.key", passphrase=SECRET)
    assert SECRET.decode() not in repr(orders)
    (tmp_path / "alice.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n")
    with pytest.raises(StudyError) as caught:
        load_key(tmp_path / "alice.key", SECRET)
    said = "".join(traceback.format_exception(caught.value))
    assert SECRET.decode() not in said


# -- the command line --------------------------------------------------------------------------------------


def sign(tmp_path, *options):
    return coterie("study", "sign", tmp_path / "study.toml", "--key", tmp_path / "alice.key", *options)


@pytest.fixture
def study(tmp_path, alice):
    for name, port in (("bob", 7102), ("helper", 7100)):
        create_identity(name, f"{name}:{port}", tmp_path)
    cards = [tmp_path / f"{name}.identity.toml" for name in ("alice", "bob", "helper")]
    made = coterie(
        "study", "create", tmp_path / "study.toml", "--party", cards[0], "--party", cards[1], "--helper", cards[2],
        "--clusters", 3, "--columns", "x", "--bounds", "x=0:9",
    )  # fmt: skip
    assert made.code == 0, made.err


@pytest.mark.usefixtures("study")
def test_from_a_file_descriptor(tmp_path):
    with descriptor(SECRET + b"\nsomething else\n") as number:
        said = sign(tmp_path, "--passphrase-fd", number)
        assert os.read(number, 100) == b"something else\n"  # no more than the first line was taken
    assert said.code == 0, said.err
    for content, fault in (
        (b"wrong\n", "the passphrase does not open the key"),
        (SECRET[:-1], "the passphrase does not open the key"),
        (b"", "has no passphrase in its first line"),
        (b"\n" + SECRET, "has no passphrase in its first line"),
        (b"x" * 5000, "too long for a passphrase"),
    ):
        with descriptor(content) as number:
            said = sign(tmp_path, "--passphrase-fd", number)
        assert said.code in (2, 4)
        assert fault in said.err
        assert SECRET.decode() not in said.err
    said = sign(tmp_path, "--passphrase-fd", 987)
    assert (said.code, "--passphrase-fd 987 cannot be read" in said.err) == (2, True)


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("verb", ["run", "preflight", "predict", "survey", "sign"])
def test_without_a_terminal_every_command_says_what_to_do(tmp_path, monkeypatch, verb):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    line = ["study", "sign"] if verb == "sign" else [verb]
    said = coterie(*line, tmp_path / "study.toml", "--key", tmp_path / "alice.key")
    assert said.code == 4
    assert "is protected by a passphrase" in said.err
    assert "--passphrase-fd" in said.err


@pytest.mark.slow
@pytest.mark.usefixtures("study")
def test_at_a_terminal(tmp_path):
    line = ("study", "sign", tmp_path / "study.toml", "--key", tmp_path / "alice.key")
    code, shown = at_terminal(*line, answers=[SECRET], tmp_path=tmp_path)
    assert (code, "signed:" in shown) == (0, True)  # a long path may stand in the next line
    assert SECRET.decode() not in shown  # it is not echoed
    code, shown = at_terminal(*line, answers=[b"wrong"], tmp_path=tmp_path)
    assert (code, "does not open the key" in shown) == (4, True)
    create = ("identity", "create", "carol", "--address", "c:1", "--passphrase")
    code, shown = at_terminal(*create, answers=[b"one", b"two"], tmp_path=tmp_path)
    assert (code, "are not the same" in shown) == (2, True)
    code, shown = at_terminal(*create, answers=[b""], tmp_path=tmp_path)
    assert (code, "protects nothing" in shown) == (2, True)
    assert not list(tmp_path.glob("carol.*"))
    code, shown = at_terminal(*create, answers=[b"one", b"one"], tmp_path=tmp_path)
    assert code == 0, shown
    assert same_key(
        load_key(tmp_path / "carol.key", b"one"), load_identity(tmp_path / "carol.identity.toml").certificate
    )
    change = ("identity", "passphrase", tmp_path / "carol.key")
    code, shown = at_terminal(*change, answers=[b"one", b"two", b"two"], tmp_path=tmp_path)
    assert code == 0, shown
    assert load_key(tmp_path / "carol.key", b"two")


def test_identities_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    said = coterie("identity", "create", "dora", "--address", "d:1", "--folder", tmp_path, "--passphrase")
    assert (said.code, "no terminal" in said.err, list(tmp_path.iterdir())) == (2, True, [])
    with descriptor(b"one\n") as number:
        said = coterie(
            "identity", "create", "dora", "--address", "d:1", "--folder", tmp_path, "--passphrase-fd", number
        )
    assert said.code == 0, said.err
    path = tmp_path / "dora.key"
    assert load_key(path, b"one")
    with descriptor(b"one\ntwo\n") as number:
        said = coterie("identity", "passphrase", path, "--passphrase-fd", number, "--new-passphrase-fd", number)
    assert said.code == 0, said.err
    assert load_key(path, b"two")
    with descriptor(b"two\n") as number:
        said = coterie("identity", "passphrase", path, "--passphrase-fd", number, "--remove")
    assert said.code == 0, said.err
    assert load_key(path)
