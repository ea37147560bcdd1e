"""What happened between two parties, in plain words: no names of exceptions, no numbers of errors, none of OpenSSL's
words. People read these sentences; logs for machines have the kind of an error besides."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

__all__ = ["Said", "broken", "say_kind", "say_why"]

#: What became of a connection, by the number that the operating system gave; "it" is the other side.
NUMBERS = {
    errno.ECONNREFUSED: "nothing listens there",
    errno.ECONNRESET: "it closed the connection",
    errno.ECONNABORTED: "it closed the connection",
    errno.EPIPE: "it closed the connection",
    errno.ENOTCONN: "it closed the connection",
    errno.ESHUTDOWN: "it closed the connection",
    errno.ETIMEDOUT: "no answer came in time",
    errno.EHOSTUNREACH: "no way leads to that host from here",
    errno.ENETUNREACH: "no way leads to that network from here",
    errno.EHOSTDOWN: "that host is down",
    errno.ENETDOWN: "the network here is down",
    errno.EACCES: "this machine does not allow it",
    errno.EPERM: "this machine does not allow it; is it a firewall's rule?",
    errno.EADDRINUSE: "the address is in use already",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EBADF: "it was closed here",
    errno.EMFILE: "this process has too many files open",
    errno.ENFILE: "this machine has too many files open",
}
#: What TLS says of a certificate or of another side that speaks something else, by OpenSSL's name for it.
TLS = {
    "CERTIFICATE_VERIFY_FAILED": "it shows another certificate",
    "WRONG_VERSION_NUMBER": "what answers there does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "what answers there does not speak TLS 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "what answers there does not speak TLS 1.3",
    "HTTP_REQUEST": "it speaks HTTP, not TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not know the certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not take the certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that the certificate has expired; are both clocks right?",
    "TLSV1_UNRECOGNIZED_NAME": "it does not know what is asked for",
}
#: OpenSSL's numbers for a certificate that is the right one at the wrong time.
DATES = {9: "its certificate is not valid yet; are both clocks right?", 10: "its certificate has expired"}
#: What an error of ours is, for those who only hear of it.
KINDS = {
    "PeerLost": "a lost connection",
    "PeerUnreachable": "a participant that cannot be reached",
    "AuthenticationError": "a certificate that is not the agreed one",
    "FrameError": "a message that makes no sense",
    "WrongSession": "a message of another run",
    "WrongSequence": "a message out of order",
    "WrongType": "a message of another kind than was due",
    "WrongLength": "a message of another length than was due",
    "ProtocolError": "a broken rule of the protocol",
    "MaterialReused": "a broken rule of the protocol",
    "TransportError": "trouble with a connection",
    "DataError": "a problem with its data",
    "InputError": "a problem with its data or options",
    "StudyError": "a problem with its study, signatures or model",
    "PolicyError": "its policy",
    "Interrupted": "it was interrupted",
    "KeyboardInterrupt": "it was interrupted",
    "MemoryError": "a lack of memory",
}
#: How any other exception of Python is called.
CLASS = re.compile(r"_*[A-Z]\w*(Error|Exception|Failed|Exit|Interrupt|Warning)|[A-Z][a-z]+([A-Z][a-z]+)+")


class Said(OSError):
    """An error of a connection whose text is for people already."""


def say_why(error: BaseException) -> str:
    """Why a connection failed or ended; "it" is the other side."""
    if isinstance(error, Said):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return DATES.get(error.verify_code, TLS["CERTIFICATE_VERIFY_FAILED"])
    if isinstance(error, EOFError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return NUMBERS[errno.EPIPE]
    if isinstance(error, ssl.SSLError):
        return TLS.get(getattr(error, "reason", None) or "", "TLS failed")
    if isinstance(error, socket.gaierror):
        again = error.errno == socket.EAI_AGAIN
        return "the name of its host cannot be looked up now" if again else "no host is known by that name"
    if isinstance(error, UnicodeError):
        return "that cannot be the name of a host"
    if isinstance(error, OSError):
        return _say_system(error)
    return NUMBERS[errno.EBADF] if isinstance(error, ValueError) else "something went wrong here"


def broken(peer: str, error: BaseException) -> str:
    """A connection from a peer that ended in the middle."""
    why = say_why(error)
    gone = NUMBERS[errno.EPIPE]
    return f"{peer} closed the connection" if why == gone else f"the connection from {peer} broke: {why}"


def say_kind(kind: str) -> str:
    """The kind of an error, as others call it that stop because of one; what is no kind of error stays."""
    return KINDS.get(kind) or ("an internal error" if CLASS.fullmatch(kind) else kind)


def _say_system(error: OSError) -> str:
    if error.errno in NUMBERS:
        return NUMBERS[error.errno]
    if isinstance(error, TimeoutError):
        return NUMBERS[errno.ETIMEDOUT]
    if isinstance(error, ConnectionError):
        return NUMBERS[errno.EPIPE]
    return "something went wrong here" if error.errno is None else os.strerror(error.errno).lower()
