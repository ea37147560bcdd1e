"""Words of few bytes on the wire, by compiled loops.

On the wire a word of `size` bytes is split into planes of 4, 2 and 1 bytes (or one of 8), each contiguous: packing and
unpacking are then plain vector conversions.
"""

from __future__ import annotations

import numpy as np

from coterie.ring.compiling import njit, read_only, types

__all__ = ["add_packed", "pack", "pack_difference", "packed_bytes", "unpack", "wire_size"]

_w1, _b1 = read_only(types.uint64, 1), read_only(types.uint8, 1)
_W1, _B1 = types.uint64[::1], types.uint8[::1]
_u8, _i8 = types.uint64, types.int64


def wire_size(width: int) -> int:
    """Bytes of a w-bit word on the wire."""
    size = (width + 7) // 8
    return 4 if size == 3 else size


def packed_bytes(count: int, width: int) -> int:
    """Bytes of `count` w-bit words on the wire, a multiple of 8 so that what follows is aligned."""
    return -(-count * wire_size(width) // 8) * 8


@njit(types.void(_w1, _i8, _B1), cache=True, nogil=True)
def pack(words, size, out):
    """Words of `size` bytes into planes."""
    count = words.shape[0]
    if size == 8:
        plane = out[: 8 * count].view(np.uint64)
        for i in range(count):
            plane[i] = words[i]
        return
    at = 0
    shift = 0
    if size >= 4:
        plane4 = out[: 4 * count].view(np.uint32)
        for i in range(count):
            plane4[i] = np.uint32(words[i])
        at, shift = 4 * count, 32
    if size & 2:
        plane2 = out[at : at + 2 * count].view(np.uint16)
        for i in range(count):
            plane2[i] = np.uint16(words[i] >> np.uint64(shift))
        at, shift = at + 2 * count, shift + 16
    if size & 1:
        for i in range(count):
            out[at + i] = np.uint8(words[i] >> np.uint64(shift))


@njit(types.void(_W1, _b1, _i8, _u8), cache=True, nogil=True)
def add_packed(total, packed, size, mask):
    """total += the packed words, over Z_(mask + 1)."""
    count = total.shape[0]
    if size == 8:
        plane = packed[: 8 * count].view(np.uint64)
        for i in range(count):
            total[i] = (total[i] + plane[i]) & mask
        return
    if size == 5:
        low, high = packed[: 4 * count].view(np.uint32), packed[4 * count : 5 * count]
        for i in range(count):
            total[i] = (total[i] + (np.uint64(low[i]) | (np.uint64(high[i]) << np.uint64(32)))) & mask
        return
    if size == 6:
        low, next2 = packed[: 4 * count].view(np.uint32), packed[4 * count : 6 * count].view(np.uint16)
        for i in range(count):
            total[i] = (total[i] + (np.uint64(low[i]) | (np.uint64(next2[i]) << np.uint64(32)))) & mask
        return
    at = 0
    shift = 0
    if size >= 4:
        plane4 = packed[: 4 * count].view(np.uint32)
        for i in range(count):
            total[i] += np.uint64(plane4[i])
        at, shift = 4 * count, 32
    if size & 2:
        plane2 = packed[at : at + 2 * count].view(np.uint16)
        for i in range(count):
            total[i] += np.uint64(plane2[i]) << np.uint64(shift)
        at, shift = at + 2 * count, shift + 16
    if size & 1:
        for i in range(count):
            total[i] += np.uint64(packed[at + i]) << np.uint64(shift)
    for i in range(count):
        total[i] &= mask


@njit(types.void(_W1, _b1, _i8, _u8), cache=True, nogil=True)
def unpack(out, packed, size, mask):
    """out = the packed words, modulo mask + 1."""
    count = out.shape[0]
    if size == 8:
        plane = packed[: 8 * count].view(np.uint64)
        for i in range(count):
            out[i] = plane[i] & mask
        return
    if size == 4:
        low = packed[: 4 * count].view(np.uint32)
        for i in range(count):
            out[i] = np.uint64(low[i]) & mask
        return
    if size == 5:
        low, high = packed[: 4 * count].view(np.uint32), packed[4 * count : 5 * count]
        for i in range(count):
            out[i] = (np.uint64(low[i]) | (np.uint64(high[i]) << np.uint64(32))) & mask
        return
    if size == 6:
        low, next2 = packed[: 4 * count].view(np.uint32), packed[4 * count : 6 * count].view(np.uint16)
        for i in range(count):
            out[i] = (np.uint64(low[i]) | (np.uint64(next2[i]) << np.uint64(32))) & mask
        return
    for start in range(0, count, 1024):
        stop = min(start + 1024, count)
        part = out[start:stop]
        at, shift = 0, 0
        if size >= 4:
            plane4 = packed[4 * start : 4 * stop].view(np.uint32)
            for i in range(stop - start):
                part[i] = np.uint64(plane4[i])
            at, shift = 4 * count, 32
        else:
            for i in range(stop - start):
                part[i] = 0
        if size & 2:
            plane2 = packed[at + 2 * start : at + 2 * stop].view(np.uint16)
            for i in range(stop - start):
                part[i] |= np.uint64(plane2[i]) << np.uint64(shift)
            at, shift = at + 2 * count, shift + 16
        if size & 1:
            plane1 = packed[at + start : at + stop]
            for i in range(stop - start):
                part[i] |= np.uint64(plane1[i]) << np.uint64(shift)
        for i in range(stop - start):
            part[i] &= mask


@njit(types.void(_w1, _w1, _u8, _i8, _B1), cache=True, nogil=True)
def pack_difference(value, others, mask, size, out):
    """(value - others) modulo mask + 1, into planes of `size` bytes in all."""
    count = value.shape[0]
    if size == 8:
        plane = out[: 8 * count].view(np.uint64)
        for i in range(count):
            plane[i] = (value[i] - others[i]) & mask
        return
    rest = np.empty(1024, np.uint64)
    for start in range(0, count, 1024):
        stop = min(start + 1024, count)
        left, right = value[start:stop], others[start:stop]
        for i in range(stop - start):
            rest[i] = (left[i] - right[i]) & mask
        at, shift = 0, 0
        if size >= 4:
            plane4 = out[4 * start : 4 * stop].view(np.uint32)
            for i in range(stop - start):
                plane4[i] = np.uint32(rest[i])
            at, shift = 4 * count, 32
        if size & 2:
            plane2 = out[at + 2 * start : at + 2 * stop].view(np.uint16)
            for i in range(stop - start):
                plane2[i] = np.uint16(rest[i] >> np.uint64(shift))
            at, shift = at + 2 * count, shift + 16
        if size & 1:
            plane1 = out[at + start : at + stop]
            for i in range(stop - start):
                plane1[i] = np.uint8(rest[i] >> np.uint64(shift))
