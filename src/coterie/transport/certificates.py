"""Self-signed certificates, pinned by fingerprint: no authority to run, and years until they end."""

from __future__ import annotations

import datetime
import hashlib
import ssl
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["YEARS", "Credentials", "certificate_name", "create_credentials", "fingerprint", "lifetime"]

#: How long a certificate is valid, unless told.
YEARS = 2


@dataclass(frozen=True)
class Credentials:
    """A party's certificate, which everybody may see, and its private key, which nobody may."""

    certificate: str
    key: str = field(repr=False)


def create_credentials(name: str, years: int = YEARS, begins: datetime.datetime | None = None) -> Credentials:
    """A fresh ECDSA P-256 key and a certificate for it. It begins now, or when told, less a day: clocks differ."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = certificate_name(name)
    begins = begins or datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - datetime.timedelta(days=1))
        .not_valid_after(begins + datetime.timedelta(days=365 * years))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Credentials(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


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
