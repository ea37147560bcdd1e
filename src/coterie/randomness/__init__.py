"""AES-CTR streams named by who holds them; what a step needs, declared; dealing it."""

from coterie.randomness.dealing import Dealing, Dealt, Masked
from coterie.randomness.material import Elements, Material, Piece, bits, bits_over, elements, raw_words, shorts, words
from coterie.randomness.streams import Entropy, Stream, Streams, SystemEntropy, agree

__all__ = [
    "Dealing",
    "Dealt",
    "Elements",
    "Entropy",
    "Masked",
    "Material",
    "Piece",
    "Stream",
    "Streams",
    "SystemEntropy",
    "agree",
    "bits",
    "bits_over",
    "elements",
    "raw_words",
    "shorts",
    "words",
]
