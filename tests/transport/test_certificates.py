"""Credentials: a pair of key and certificate of its own for everybody, pinned by fingerprint."""

import hashlib
import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID

from coterie.transport.certificates import create_credentials, fingerprint


def test_the_certificate_bears_the_name():
    certificate = x509.load_pem_x509_certificate(create_credentials("P1").certificate.encode())
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "P1"


def test_no_two_are_alike_even_of_one_name():
    one, two = create_credentials("P1"), create_credentials("P1")
    assert fingerprint(one.certificate) != fingerprint(two.certificate)
    assert one.key != two.key


def test_the_fingerprint_is_that_of_the_certificate_in_either_form():
    certificate = create_credentials("P1").certificate
    der = ssl.PEM_cert_to_DER_cert(certificate)
    assert fingerprint(certificate) == fingerprint(der) == hashlib.sha256(der).hexdigest()


def test_the_key_is_not_printed():
    own = create_credentials("P1")
    assert "PRIVATE" in own.key
    assert "PRIVATE" not in repr(own)
    assert own.key.splitlines()[1] not in repr(own)
