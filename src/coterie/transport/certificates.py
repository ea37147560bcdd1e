"""Self-signed certificates, pinned by fingerprint: no authority to run, nothing that expires soon."""

from __future__ import annotations

import datetime
import hashlib
import ssl
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Credentials", "certificate_name", "create_credentials", "fingerprint"]


@dataclass(frozen=True)
class Credentials:
    """A party's certificate, which everybody may see, and its private key, which nobody may."""

    certificate: str
    key: str = field(repr=False)


def create_credentials(name: str) -> Credentials:
    """A fresh ECDSA P-256 key and a certificate for it, valid for thirty years."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = certificate_name(name)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * 30))
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


def fingerprint(certificate: str | bytes) -> str:
    """SHA-256 of the certificate (PEM text or DER bytes), in hexadecimal."""
    der = ssl.PEM_cert_to_DER_cert(certificate) if isinstance(certificate, str) else certificate
    return hashlib.sha256(der).hexdigest()
