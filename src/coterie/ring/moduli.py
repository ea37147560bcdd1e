"""The rings that shares live in: Z_2^w, Z_(2^w - 1) and Z_q for a small prime q.

A ring says how its elements are stored and how to add, multiply and sample them; elements are plain
NumPy arrays, always reduced. The width is a parameter everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.ring import kernels, odd

__all__ = ["Array", "ByteSource", "OddWords", "Prime", "Ring", "Words"]

Array = NDArray[Any]
Shape = tuple[int, ...]


class ByteSource(Protocol):
    """Where uniform bytes come from: the next `count` of them, as an array that the caller owns."""

    def read(self, count: int) -> NDArray[np.uint8]: ...


class Ring(ABC):
    """Arithmetic modulo `modulus`, on arrays of `dtype` with entries in 0..modulus-1."""

    @property
    @abstractmethod
    def modulus(self) -> int: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @abstractmethod
    def add(self, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def sub(self, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def mul(self, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def sum(self, a: Array, axis: int) -> Array: ...

    @abstractmethod
    def sample(self, source: ByteSource, shape: Shape) -> Array:
        """Uniform elements."""

    def neg(self, a: Array) -> Array:
        return self.sub(self.zeros(a.shape), a)

    def zeros(self, shape: Shape) -> Array:
        return np.zeros(shape, self.dtype)

    def encode(self, values: Any) -> Array:
        """Whole numbers, negative ones included, as elements."""
        whole = np.asarray(values)
        if whole.dtype.kind not in "iub":  # NumPy makes floats of numbers beyond 64 bits
            whole = np.asarray(values, dtype=object)
        return np.asarray(np.mod(whole.astype(object), self.modulus)).astype(self.dtype)


@dataclass(frozen=True)
class Words(Ring):
    """Z_2^w, 1 <= w <= 64; w = 1 are bits, and their sum is XOR."""

    width: int = 64

    @property
    def modulus(self) -> int:
        return 1 << self.width

    @cached_property
    def mask(self) -> Any:
        return self.dtype.type(self.modulus - 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self.width == 1 else np.uint64)

    def reduce(self, a: Array) -> Array:
        """a mod 2^w, where a is the outcome of arithmetic modulo 2^64."""
        return a if self.width == 64 else a & self.mask

    def add(self, a: Array, b: Array) -> Array:
        return self.reduce(a + b)

    def sub(self, a: Array, b: Array) -> Array:
        return self.reduce(a - b)

    def mul(self, a: Array, b: Array) -> Array:
        return self.reduce(a * b)

    def sum(self, a: Array, axis: int) -> Array:
        return self.reduce(np.sum(a, axis=axis, dtype=self.dtype))

    def matmul(self, a: Array, b: Array) -> Array:
        out = np.empty((a.shape[0], b.shape[1]), np.uint64)
        kernels.matmul_words(np.ascontiguousarray(a), np.ascontiguousarray(b), np.uint64(self.mask), out)
        return out

    def sample(self, source: ByteSource, shape: Shape) -> Array:
        raw = source.read(math.prod(shape) * self.dtype.itemsize)
        return self.reduce(raw.view(self.dtype).reshape(shape))

    def encode(self, values: Any) -> Array:
        whole = np.asarray(values)
        if whole.dtype == self.dtype:
            return self.reduce(whole)
        if whole.dtype.kind in "iub":
            return self.reduce(whole.astype(np.int64).view(np.uint64)).astype(self.dtype)
        return super().encode(values)

    def signed(self, a: Array) -> NDArray[np.int64]:
        """Elements as whole numbers in -2^(w-1) .. 2^(w-1) - 1."""
        up = np.uint64(64 - self.width)
        return (a.astype(np.uint64) << up).view(np.int64) >> np.int64(64 - self.width)


@dataclass(frozen=True)
class OddWords(Ring):
    """Z_(2^w - 1): the odd modulus in which the top bit of a is the lowest bit of 2a."""

    width: int = 64

    @property
    def modulus(self) -> int:
        return (1 << self.width) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    @cached_property
    def _m(self) -> np.uint64:
        return np.uint64(self.modulus)

    def add(self, a: Array, b: Array) -> Array:
        return np.asarray(odd.odd_add(a, b, self._m))

    def sub(self, a: Array, b: Array) -> Array:
        return np.asarray(odd.odd_sub(a, b, self._m))

    def mul(self, a: Array, b: Array) -> Array:
        """Only for public factors 0 and 1; nothing here multiplies in this ring."""
        return np.where(b == 0, np.uint64(0), a)

    def sum(self, a: Array, axis: int) -> Array:
        total = self.zeros(tuple(np.delete(a.shape, axis)))
        for part in np.moveaxis(a, axis, 0):
            total = self.add(total, part)
        return total

    def sample(self, source: ByteSource, shape: Shape) -> Array:
        out = np.empty(math.prod(shape), np.uint64)
        at = 0
        while at < out.size:
            raw = source.read(8 * (out.size - at)).view(np.uint64) & self._m
            accepted = raw[raw != self._m]
            out[at : at + accepted.size] = accepted
            at += accepted.size
        return out.reshape(shape)


@dataclass(frozen=True)
class Prime(Ring):
    """Z_q for a prime q < 128. PrivateCompare uses 67, more than the bits of a word plus two."""

    q: int = 67

    @property
    def modulus(self) -> int:
        return self.q

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    def add(self, a: Array, b: Array) -> Array:
        total = np.asarray(np.add(a, b))
        less = np.asarray(np.subtract(total, np.uint8(self.q)))  # of the two, the one that is too large wraps around
        return np.minimum(total, less, out=less)

    def sub(self, a: Array, b: Array) -> Array:
        difference = np.asarray(np.subtract(a, b))
        more = np.asarray(np.add(difference, np.uint8(self.q)))
        return np.minimum(difference, more, out=more)

    def mul(self, a: Array, b: Array) -> Array:
        return ((a.astype(np.uint16) * b) % np.uint16(self.q)).astype(np.uint8)

    def sum(self, a: Array, axis: int) -> Array:
        if axis == 0:
            out = np.empty(a[0].size, np.uint8)
            kernels.sum_below(np.ascontiguousarray(a).reshape(len(a), -1), self.q, out)
            return out.reshape(a.shape[1:])
        return np.asarray(np.sum(a, axis=axis, dtype=np.uint64) % np.uint64(self.q)).astype(np.uint8)

    def sample(self, source: ByteSource, shape: Shape) -> Array:
        return self._below(source, shape, self.q, 0)

    def sample_nonzero(self, source: ByteSource, shape: Shape) -> Array:
        return self._below(source, shape, self.q - 1, 1)

    @staticmethod
    def _below(source: ByteSource, shape: Shape, count: int, offset: int) -> Array:
        """Four from each word of 32 bits, in its place; a few more words are read for those that are rejected."""
        size = math.prod(shape)
        words = -(-size // 4)
        raw = source.read(4 * (words + words // 256 + 16)).view(np.uint32)
        out, spare, done = raw[:words], raw[words:], 0
        while (done := kernels.sample_below(out, spare, done, count, offset)) < words:
            spare = source.read(4 * (words // 256 + 16)).view(np.uint32)
        return out.view(np.uint8)[:size].reshape(shape)


def sample_permutations(source: ByteSource, count: int, length: int) -> NDArray[np.uint8]:
    """`count` independent uniform permutations of 0..length-1, length <= 128, one a row."""
    out = np.empty((count, length), np.uint8)
    done = 0
    while done < count:
        numbers = (count - done) * length
        done = kernels.permutations(source.read(2 * (numbers + numbers // 256 + 16)).view(np.uint16), out, done)
    return out
