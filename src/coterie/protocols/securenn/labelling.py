"""The paper's distance matrix and labels, and ArgMin."""

from __future__ import annotations

import numpy as np

from coterie.protocols.securenn.products import elementwise_product, square
from coterie.protocols.securenn.sign import drelu
from coterie.sharing import Party, Shared, concatenate, stack
from coterie.transport import metered

__all__ = ["arg_min", "label_samples", "mat_dist"]


@metered("MatDist")
def mat_dist(me: Party, x: Shared, c: Shared) -> Shared:
    """[M], M[i][j] = |X[i] - C[j]|^2, for X (n, d) and C (k, d). Paper, Algorithm 3; two rounds, the first dealt.

    Deviates: line 4 multiplies D with itself; a dealt square does that with half the traffic.
    """
    difference = x[:, None, :] - c[None, :, :]
    return square(me, difference).sum(2)


@metered("LabelSamples")
def label_samples(me: Party, x: Shared, c: Shared) -> Shared:
    """[H], one-hot rows (n, k): H[i][j] = 1 for the centre closest to row i, the first of them if several are.

    Paper, Algorithm 4; 9 rounds with the dealt one, and ceil(log2(k - 1)).

    1. M = MatDist(X, C).
    2. For j < l: b_jl = DReLU(M_l - M_j), 1 if j is at least as close.
    3. H_j = the product of b_jl over l > j and of 1 - b_ij over i < j.

    Deviates: the paper compares all ordered pairs; b_lj = 1 - b_jl halves the work and makes exactly one
    H_j a 1, ties included. Step 3 is a tree of products, not a chain: ceil(log2(k - 1)) rounds for 2(k - 1).
    """
    n, k = x.shape[0], c.shape[0]
    if k == 1:
        return (x[:, :1] * 0) + 1
    m = mat_dist(me, x, c)
    pairs = [(j, l) for j in range(k) for l in range(j + 1, k)]
    first, second = (list(side) for side in zip(*pairs, strict=True))
    b = drelu(me, m[:, second] - m[:, first])
    closer = dict(zip(pairs, range(len(pairs)), strict=True))
    factors = stack(
        [stack([b[:, closer[j, l]] if j < l else 1 - b[:, closer[l, j]] for l in range(k) if l != j]) for j in range(k)]
    )  # (k, k - 1, n)
    while (count := factors.shape[1]) > 1:
        half = count // 2
        product = elementwise_product(me, factors[:, :half], factors[:, half : 2 * half])
        factors = concatenate([product, factors[:, 2 * half :]], axis=1)
    return factors.reshape(k, n).transpose()


@metered("ArgMin")
def arg_min(me: Party, values: Shared) -> Shared:
    """[E], E[i] = the index of the least entry of row i, the lowest if several are; 8 ceil(log2 k) rounds.

    SecureNN's MaxPool (Algorithm 9) turned around: b = DReLU(right - left), then the winner's value
    and index are right + b (left - right). Deviates: neighbours play a tournament instead of each
    entry playing the best so far, so that the rounds grow with log2 k instead of k - 1.
    """
    n, k = values.shape
    index = values * 0 + np.arange(k)
    while (count := values.shape[1]) > 1:
        half = count // 2
        both = stack([values, index])  # (2, n, count)
        left, right = both[:, :, 0 : 2 * half : 2], both[:, :, 1 : 2 * half : 2]
        b = drelu(me, right[0] - left[0])
        winners = right + elementwise_product(me, stack([b, b]), left - right)
        both = concatenate([winners, both[:, :, 2 * half :]], axis=2)
        values, index = both[0], both[1]
    return index.reshape(n)
