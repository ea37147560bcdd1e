"""AES-CTR streams named by who holds them; what a step needs, declared; dealing it."""

from coterie.randomness.dealing import Dealing, Dealt, Masked
from coterie.randomness.material import Material
from coterie.randomness.streams import Entropy, Stream, Streams, SystemEntropy, agree

__all__ = ["Dealing", "Dealt", "Entropy", "Masked", "Material", "Stream", "Streams", "SystemEntropy", "agree"]
