"""Who a participant is: a private key that stays at home, and a certificate that everybody pins."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
import tomli_w
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

from coterie.errors import InputError, StudyError
from coterie.study.files import check_name, decode_toml, read_text, write_file
from coterie.study.protected import Passphrase, is_protected, protect
from coterie.study.wording import other_file
from coterie.transport.certificates import (
    YEARS,
    certificate_name,
    create_credentials,
    create_link,
    fingerprint,
    split_certificates,
)

__all__ = [
    "MOST_YEARS",
    "Identity",
    "Via",
    "change_passphrase",
    "create_identity",
    "derived_key",
    "load_identity",
    "load_key",
    "name_of",
    "needs_passphrase",
    "public_key",
    "renew_identity",
    "same_key",
    "sign",
    "signed_by",
    "split_keys",
]

#: The longest lifetime of a certificate.
MOST_YEARS = 30
#: A host name or an IPv4 address, or an IPv6 address in brackets: nothing that a terminal would not show.
ADDRESS = re.compile(r"(?:([A-Za-z0-9._-]{1,253})|\[([0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9._-]{1,40})?)\]):([0-9]{1,5})")


#: Private keys in a file, in any of the forms that OpenSSL writes.
KEYS = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----\n.*?\n-----END \1-----\n?", re.DOTALL)
#: How the file is called that is sent to others.
IDENTITY = ".identity.toml"


class Via(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A relay, by way of which a participant is reached: its name and the certificate that it must show."""

    name: str
    fingerprint: str
    certificate: str


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What others need to know: to be sent to them, and not secret. `via`: the relay at `address`, if one is dialled to
    reach this participant."""

    name: str
    address: str
    fingerprint: str
    certificate: str
    via: Via | None = None

    @property
    def host(self) -> str:
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        return split_address(self.address)[1]

    @property
    def way(self) -> str:
        """Where it is reached, in words."""
        return self.address if self.via is None else f"{self.address}, by way of the relay {self.via.name}"


def split_address(address: str, option: str = "") -> tuple[str, int]:
    """HOST:PORT; an IPv6 host stands in brackets. `option`: where it was given."""
    found = ADDRESS.fullmatch(address)
    if not found or not 0 < int(found[3]) < 65536:
        given = " ".join(filter(None, [option, f"{address!a}"]))
        raise InputError(f"{given} is no address; use HOST:PORT, such as alice.example.org:7101 or [2001:db8::1]:7101")
    return found[1] or found[2], int(found[3])


def create_identity(
    name: str,
    address: str,
    folder: Path,
    *,
    years: int = YEARS,
    passphrase: bytes | None = None,
    relay: Identity | None = None,
) -> Identity:
    """Write NAME.key, for this organisation alone, and NAME.identity.toml, for everybody. The certificate is valid for
    so many years; a passphrase protects the key. `relay`: the identity of the relay by way of which it is reached, in
    place of an address."""
    check_name(name)
    address = address if relay is None else relay.address
    split_address(address, "--address" if relay is None else "--via")
    if relay is not None and relay.via is not None:
        raise InputError(f"{relay.name} is no relay: it is itself reached by way of one, {relay.via.name}")
    check_years(years)
    made = create_credentials(name, years)
    key = made.key if passphrase is None else protect(made.key, passphrase)
    via = None if relay is None else Via(relay.name, relay.fingerprint, relay.certificate)
    identity = Identity(name, address, fingerprint(made.certificate), made.certificate, via)
    card = folder / f"{name}{IDENTITY}"
    if card.exists():
        raise InputError(f"{card} is there already; move it away or choose another name")
    write_file(folder / f"{name}.key", key.encode(), mode=0o600, replace=False)
    _write_card(card, identity)
    return identity


def check_years(years: int) -> None:
    if not 1 <= years <= MOST_YEARS:
        raise InputError(f"--years {years}: a certificate is valid for 1 to {MOST_YEARS} years")


def _write_card(path: Path, identity: Identity) -> None:
    name = identity.name
    head = f"# {name}: send this file to whoever writes the study. It holds no secret; {name}.key does.\n"
    write_file(path, (head + tomli_w.dumps(msgspec.to_builtins(identity), multiline_strings=True)).encode())


def load_identity(path: Path) -> Identity:
    if path.suffix == ".key":
        raise StudyError(f"{path} is the private key, which stays with you; give {path.stem}{IDENTITY}")
    identity = decode_toml(read_text(path, "the identity file"), Identity, path, "an identity file")
    check_identity(identity, str(path))
    return identity


def check_identity(identity: Identity, where: str) -> None:
    try:
        check_name(identity.name)
        split_address(identity.address)
    except InputError as error:
        raise StudyError(f"{where}: {error}") from None
    if identity.via is not None:
        relay = identity.via
        check_identity(Identity(relay.name, identity.address, relay.fingerprint, relay.certificate), where)
        if relay.fingerprint == identity.fingerprint:
            raise StudyError(f"{where}: {identity.name} cannot be reached by way of itself; a relay has its own key")
    try:
        found = fingerprint(identity.certificate)
        public_key(identity.certificate)
        certificate = x509.load_pem_x509_certificate(identity.certificate.encode())
    except ValueError:
        raise StudyError(f"{where}: the certificate of {identity.name} cannot be read") from None
    if found != identity.fingerprint or found != certificate.fingerprint(hashes.SHA256()).hex():
        raise StudyError(f"{where}: the certificate of {identity.name} does not have the fingerprint that stands there")
    if certificate.subject != certificate_name(identity.name) or certificate.issuer != certificate.subject:
        raise StudyError(f"{where}: the certificate is not one that {identity.name} has made for itself")


def load_key(path: Path, passphrase: Passphrase = None) -> str:
    """The text of the private key, opened by its passphrase if it has one; behind it, if it was renewed, the older keys
    and the links that vouch for it. Refused if others may read the file."""
    text = _read_key(path)
    given = None
    if is_protected(text):
        given = passphrase(path) if callable(passphrase) else passphrase
        if given is None:
            raise StudyError(
                f"the key {path} is protected by a passphrase, and there is no terminal to ask for it; hand it over "
                "with --passphrase-fd N, where N is the number of an open file whose first line is the passphrase"
            )
    opened = [_plain(_private_key(one, path, given)) for one in split_keys(text) or [text]]
    return "".join([*opened, *split_certificates(text)])


def _plain(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def split_keys(text: str) -> list[str]:
    """The private keys in a key file: the one that counts, then those that it was renewed from."""
    return [found[0] for found in KEYS.finditer(text)]


def _is_credential(path: Path, mode: int) -> bool:
    """Is it what systemd shows to one service alone? What stands for the group then is the list of who may read it."""
    shown = os.environ.get("CREDENTIALS_DIRECTORY")
    return shown is not None and path.absolute().parent == Path(shown) and not mode & 0o037


def needs_passphrase(path: Path) -> bool:
    return is_protected(_read_key(path))


def change_passphrase(path: Path, passphrase: Passphrase, new: bytes | None) -> None:
    """Protect the key by another passphrase, or by none. The file is replaced as a whole."""
    key = load_key(path, passphrase)
    write_file(path, _key_file(split_keys(key), split_certificates(key), new), mode=0o600)


def renew_identity(path: Path, *, years: int = YEARS, passphrase: bytes | None = None) -> Identity:
    """Put a new key in the place of an old one, which vouches for it, and a new identity file in the place of its own.
    The key file keeps the old key behind the new one, for studies that accept no renewed keys; the same passphrase
    protects both."""
    key = load_key(path, passphrase)
    card = path.with_name(f"{path.stem}{IDENTITY}")
    old = load_identity(card)
    if not any(same_key(one, old.certificate) for one in split_keys(key)):
        raise StudyError(f"{card} is not the identity of the key {path}; put the one there that was made with it")
    check_years(years)
    made = create_credentials(old.name, years)
    links = [create_link(key, made), *split_certificates(key)]
    new = msgspec.structs.replace(old, fingerprint=fingerprint(made.certificate), certificate=made.certificate)
    write_file(path, _key_file([made.key, *split_keys(key)], links, passphrase), mode=0o600)
    _write_card(card, new)
    return new


def _key_file(keys: Sequence[str], links: Sequence[str], passphrase: bytes | None) -> bytes:
    shown = keys if passphrase is None else [protect(key, passphrase) for key in keys]
    return "".join([*shown, *links]).encode()


def _read_key(path: Path) -> str:
    if path.name.endswith(IDENTITY):
        raise StudyError(f"{path} is the public identity; give {path.name.removesuffix(IDENTITY)}.key, the private key")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise StudyError(f"the key {path} cannot be read ({error.strerror})") from None
    if mode & 0o077 and not _is_credential(path, mode):
        other = other_file(read_text(path, "the key"))
        if other not in ("", "a private key"):
            raise StudyError(f"{path} is {other}, not a private key")
        raise StudyError(f"the key {path} can be read by others (mode {mode:04o}); run: chmod 600 {path}")
    return read_text(path, "the key")


def _private_key(text: str, path: Path | None = None, passphrase: bytes | None = None) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text.encode(), passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if passphrase is not None:
            raise StudyError(f"the passphrase does not open the key {path}; or the file is damaged") from None
        other = other_file(text)
        is_not = "is not a private key" if other in ("", "a private key") else f"is {other}, not a private key"
        raise StudyError(f"{path or 'the key'} {is_not}; `coterie identity create` makes one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StudyError(f"{path or 'the key'} is not an ECDSA key; `coterie identity create` makes one")
    return key


def public_key(certificate: str) -> ec.EllipticCurvePublicKey:
    try:
        key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except (x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise ValueError("not a certificate that can be used") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("not an ECDSA certificate")
    return key


def same_key(key: str, certificate: str) -> bool:
    """Does the certificate belong to the private key?"""
    return _private_key(key).public_key() == public_key(certificate)


def name_of(certificate: str) -> str:
    """The name that a certificate was made for."""
    (name,) = x509.load_pem_x509_certificate(certificate.encode()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def derived_key(key: str, purpose: str) -> bytes:
    """32 bytes that only the holder of the private key can derive; others for each purpose."""
    secret = _private_key(key).private_numbers().private_value.to_bytes(66, "big")
    return HKDF(hashes.SHA256(), 32, salt=None, info=purpose.encode()).derive(secret)


def sign(key: str, message: bytes) -> bytes:
    return _private_key(key).sign(message, ec.ECDSA(hashes.SHA256()))


def signed_by(certificate: str, signature: bytes, message: bytes) -> bool:
    try:
        public_key(certificate).verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
