"""AES-CTR streams named by who holds them; one-time correlations; dealing."""

from coterie.randomness.dealing import Dealing, Dealt
from coterie.randomness.streams import Entropy, Stream, Streams, SystemEntropy, agree

__all__ = ["Dealing", "Dealt", "Entropy", "Stream", "Streams", "SystemEntropy", "agree"]
