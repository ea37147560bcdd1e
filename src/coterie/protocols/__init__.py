"""Protocol families, all with one interface; `plaintext` is the oracle for the others."""

from coterie.protocols.falcon import Falcon
from coterie.protocols.interface import Ints, Problem
from coterie.protocols.loading import load_family
from coterie.protocols.onetime import OneTime
from coterie.protocols.plaintext import Plaintext
from coterie.protocols.securenn import SecureNN
from coterie.protocols.steps import Family

__all__ = ["FAMILIES", "Falcon", "Family", "Ints", "OneTime", "Plaintext", "Problem", "SecureNN", "load_family"]

#: The families that a user can name.
FAMILIES: dict[str, type[Family]] = {OneTime.name: OneTime, SecureNN.name: SecureNN, Falcon.name: Falcon}
