"""The paper's family: SecureNN (Wagh, Gupta, Chandran, 2019) for p data parties and a helper."""

from coterie.protocols.securenn.family import SecureNN

__all__ = ["SecureNN"]
