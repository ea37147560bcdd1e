"""A private key protected by a passphrase: PKCS#8, PBES2 with PBKDF2-HMAC-SHA256 and AES-256-CBC (RFC 8018).

Every tool opens such files. They are written here because the library's own writer stretches a passphrase by 2,048
rounds only, at which whoever copies the file tries a million passphrases in a few minutes.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coterie.errors import InputError

__all__ = ["Passphrase", "is_protected", "protect"]

#: A passphrase, or what is called with the key's path where one is needed, or none.
Passphrase = bytes | Callable[[Path], bytes] | None
ROUNDS = 600_000
#: First lines of keys that are protected: PKCS#8, and the older form of OpenSSL, which says so in a header.
MARKS = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED")
PBES2, PBKDF2 = bytes.fromhex("2a864886f70d01050d"), bytes.fromhex("2a864886f70d01050c")
HMAC_SHA256, AES_256_CBC = bytes.fromhex("2a864886f70d0209"), bytes.fromhex("60864801650304012a")
SEQUENCE, INTEGER, OCTETS, NULL, OBJECT = 0x30, 0x02, 0x04, 0x05, 0x06


def is_protected(key: str) -> bool:
    """Does a passphrase protect the key?"""
    return any(mark in key for mark in MARKS)


def protect(key: str, passphrase: bytes) -> str:
    """The key as a file that only the passphrase opens."""
    if not passphrase:
        raise InputError("an empty passphrase protects nothing; give one, or leave the option out")
    plain = load_pem_private_key(key.encode(), None).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    salt, start = secrets.token_bytes(16), secrets.token_bytes(16)
    secret = PBKDF2HMAC(hashes.SHA256(), 32, salt, ROUNDS).derive(passphrase)
    padder = padding.PKCS7(128).padder()
    cipher = Cipher(algorithms.AES256(secret), modes.CBC(start)).encryptor()
    hidden = cipher.update(padder.update(plain) + padder.finalize()) + cipher.finalize()
    rounds = ROUNDS.to_bytes(ROUNDS.bit_length() // 8 + 1, "big")
    stretched = _der(
        SEQUENCE,
        _der(OCTETS, salt),
        _der(INTEGER, rounds),
        _der(SEQUENCE, _der(OBJECT, HMAC_SHA256), _der(NULL)),
    )
    how = _der(
        SEQUENCE,
        _der(SEQUENCE, _der(OBJECT, PBKDF2), stretched),
        _der(SEQUENCE, _der(OBJECT, AES_256_CBC), _der(OCTETS, start)),
    )
    whole = _der(SEQUENCE, _der(SEQUENCE, _der(OBJECT, PBES2), how), _der(OCTETS, hidden))
    text = base64.b64encode(whole).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([MARKS[0], *lines, "-----END ENCRYPTED PRIVATE KEY-----", ""])


def _der(tag: int, *parts: bytes) -> bytes:
    """A value in DER, of at most 65,535 bytes."""
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        length = bytes([size])
    elif size < 256:
        length = bytes([0x81, size])
    else:
        length = bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + body
