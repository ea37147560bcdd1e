"""Self-signed certificates, pinned by fingerprint: no authority to run, and years until they end.

A key is renewed by a *link*: a certificate for the new key that is signed with the old one, both under the same name.
Who pins the old certificate finds the new key vouched for by TLS itself.
"""

from __future__ import annotations

import datetime
import hashlib
import ssl
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = [
    "YEARS",
    "Credentials",
    "certificate_name",
    "create_credentials",
    "create_link",
    "fingerprint",
    "is_issued_by",
    "lifetime",
    "split_certificates",
]

#: How long a certificate is valid, unless told.
YEARS = 2


@dataclass(frozen=True)
class Credentials:
    """A party's certificate, which everybody may see, and its private key, which nobody may. If the key was renewed,
    the certificate is a link; `older`: those between it and the certificate that others pin, the newest first;
    `pinned`: the fingerprint of that one; `lasting`: its key, for what has to stay the same; `keys`: all that the party
    has."""

    certificate: str
    key: str = field(repr=False)
    older: tuple[str, ...] = ()
    pinned: str = ""
    lasting: str = field(default="", repr=False)
    keys: tuple[str, ...] = field(default=(), repr=False)

    @property
    def links(self) -> tuple[str, ...]:
        """What vouches for the key, the newest first; nothing, if it was not renewed."""
        return (self.certificate, *self.older) if self.pinned else ()

    @property
    def known_as(self) -> str:
        """The fingerprint under which others know this party."""
        return self.pinned or fingerprint(self.certificate)


def create_credentials(name: str, years: int = YEARS, begins: datetime.datetime | None = None) -> Credentials:
    """A fresh ECDSA P-256 key and a certificate for it. It begins now, or when told, less a day: clocks differ."""
    key = ec.generate_private_key(ec.SECP256R1())
    begins = begins or datetime.datetime.now(datetime.UTC)
    times = begins - datetime.timedelta(days=1), begins + datetime.timedelta(days=365 * years)
    return Credentials(
        _certify(certificate_name(name), key.public_key(), key, *times),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def create_link(old: str, new: Credentials) -> str:
    """A certificate for the new key, as long as its own, that the old key signs."""
    found = x509.load_pem_x509_certificate(new.certificate.encode())
    signer, key = serialization.load_pem_private_key(old.encode(), None), found.public_key()
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return _certify(found.subject, key, signer, found.not_valid_before_utc, found.not_valid_after_utc)


def _certify(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> str:
    """A certificate for a key, under the same name as its signer's. The identifiers of the two keys let OpenSSL tell a
    link from a certificate that is signed with its own key; links do not count for `path_length`."""
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def is_issued_by(link: str, issuer: str) -> bool:
    """Is the certificate signed with the key of the other one, under the name there?"""
    try:
        found, by = (x509.load_pem_x509_certificate(text.encode()) for text in (link, issuer))
        found.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature, x509.InvalidVersion, UnsupportedAlgorithm):
        return False
    return found.subject == by.subject


def split_certificates(text: str) -> list[str]:
    """The certificates in a PEM file, one by one, whatever else it holds."""
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except ValueError:  # there is none, or it cannot be read
        return []
    return [one.public_bytes(serialization.Encoding.PEM).decode() for one in found]


def certificate_name(name: str) -> x509.Name:
    """Whose certificate it is, as it stands there. OpenSSL finds those it trusts by this, so no two may be alike."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def lifetime(certificate: str) -> tuple[datetime.datetime, datetime.datetime]:
    """From when to when a certificate is valid."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    return found.not_valid_before_utc, found.not_valid_after_utc


def fingerprint(certificate: str | bytes) -> str:
    """SHA-256 of the certificate (PEM text or DER bytes), in hexadecimal."""
    der = ssl.PEM_cert_to_DER_cert(certificate) if isinstance(certificate, str) else certificate
    return hashlib.sha256(der).hexdigest()
