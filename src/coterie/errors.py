"""Every exception that Coterie raises on purpose.

CoterieError
├── InputError (ValueError)       data or an argument is wrong; says which and what to do
│   └── DataError                 an organisation's data is wrong; names the source, row and column
├── StudyError                    a study file, signature, key or model does not hold up
├── PolicyError                   an organisation's policy forbids what the study asks for
├── Interrupted                   this party was told to stop; the run can be resumed
├── TransportError                something between the parties went wrong
│   ├── PeerUnreachable           a peer could not be reached in the first place
│   ├── PeerLost                  a peer was there and is gone, or has gone silent
│   ├── AuthenticationError       a peer is not who the agreement says
│   └── FrameError                a frame is not the one expected
│       ├── WrongSession          another run's frame, or not Coterie's at all
│       ├── WrongSequence         replayed, reordered or skipped
│       ├── WrongType             another kind of frame or another element type
│       └── WrongLength           longer or shorter than what was agreed
├── ProtocolError                 a rule of the protocols was broken; a bug or an attack
│   └── MaterialReused            one-time material was asked for twice
└── PartyFailed                   a party stopped with an exception that is not in this tree

No message holds a secret: errors name parties, columns, arguments and lengths, never values of data.
"""

from __future__ import annotations

__all__ = [
    "AuthenticationError",
    "CoterieError",
    "DataError",
    "FrameError",
    "InputError",
    "Interrupted",
    "MaterialReused",
    "PartyFailed",
    "PeerLost",
    "PeerUnreachable",
    "PolicyError",
    "ProtocolError",
    "StudyError",
    "TransportError",
    "WrongLength",
    "WrongSequence",
    "WrongSession",
    "WrongType",
]


class CoterieError(Exception):
    """Base of the tree. `party` is the party at which it was raised, once that is known. `exit_code` is what the
    command line ends with."""

    party: str | None = None
    exit_code: int = 70

    def __str__(self) -> str:
        text = super().__str__()
        return f"party {self.party}: {text}" if self.party else text


class InputError(CoterieError, ValueError):
    """Data or an argument is wrong."""

    exit_code = 2


class DataError(InputError):
    """An organisation's data is wrong: the source, row and column are named, never the value."""

    exit_code = 3


class StudyError(CoterieError):
    """A study file, a signature, a key or a model does not hold up."""

    exit_code = 4


class PolicyError(CoterieError):
    """An organisation's policy forbids what the study asks for. The rule is named."""

    exit_code = 5


class Interrupted(CoterieError):
    """This party was told to stop. Started again, with all the others, the run goes on."""

    exit_code = 10


class TransportError(CoterieError):
    """Something between the parties went wrong. `peer` is the party that is to blame."""

    def __init__(self, message: str, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer


class PeerUnreachable(TransportError):
    """A peer could not be reached."""

    exit_code = 6


class PeerLost(TransportError):
    """A peer was there and is gone, or has gone silent. `for_good`: it has said that it will not come back."""

    exit_code = 7
    for_good: bool = False

    @classmethod
    def stopped(cls, message: str, peer: str) -> PeerLost:
        """The error for a peer that will not come back."""
        error = cls(message, peer)
        error.for_good = True
        return error


class AuthenticationError(TransportError):
    """A peer is not who the agreement says."""

    exit_code = 8


class FrameError(TransportError):
    """A frame is not the one expected."""

    exit_code = 9


class WrongSession(FrameError):
    """A frame of another session, of another version, or not a frame at all."""


class WrongSequence(FrameError):
    """A frame was replayed, reordered or skipped."""


class WrongType(FrameError):
    """A frame of another kind or element type than expected."""


class WrongLength(FrameError):
    """A frame longer or shorter than expected."""


class ProtocolError(CoterieError):
    """A rule of the protocols was broken."""

    exit_code = 9


class MaterialReused(ProtocolError):
    """One-time material was asked for twice."""


class PartyFailed(CoterieError):
    """A party stopped with an exception from outside this tree, which is this one's cause."""
