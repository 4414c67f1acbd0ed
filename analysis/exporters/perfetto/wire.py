# SPDX-License-Identifier: BSD-2-Clause
"""Protocol buffers from numpy columns: millions of messages of one shape at once.

All rows' messages have one length: a varint may have leading zeros, so each column gets the width of its
largest value. Lengths are then constants, and a lot of rows is one matrix of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes2D = npt.NDArray[np.uint8]
Part = bytes | Bytes2D  # the same bytes in every row, or a row of bytes for each
Values = npt.NDArray[np.integer[Any]]
VARINT, FIXED64, DELIMITED = 0, 1, 2
WIDEST = 10


def varint(value: int) -> bytes:
    """One number. Negative ones take ten bytes, as 64 bits of two's complement."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def tag(number: int, kind: int) -> bytes:
    """The key of a field."""
    return varint(number << 3 | kind)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return tag(number, DELIMITED) + varint(len(data)) + data


def _unsigned(values: Values) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(values).astype(np.int64, copy=False).view(np.uint64)


def _width(values: npt.NDArray[np.uint64]) -> int:
    largest = int(values.max()) if values.size else 0
    return max((largest.bit_length() + 6) // 7, 1)


def padded(values: Values) -> Bytes2D:
    """A varint for each value, all of the width of the largest."""
    unsigned = _unsigned(values)
    width = _width(unsigned)
    out = np.empty((unsigned.size, width), dtype=np.uint8)
    for at in range(width):
        out[:, at] = (unsigned >> np.uint64(7 * at)).astype(np.uint8) & 127
        if at < width - 1:
            out[:, at] |= 128
    return out


def packed(values: Values) -> bytes:
    """The values as a packed field's content, each varint as short as it can be."""
    unsigned = _unsigned(values)
    if not unsigned.size:
        return b""
    out = padded(values)
    width = out.shape[1]
    used = np.ones(out.shape, dtype=np.bool_)
    for at in range(1, width):
        used[:, at] = unsigned >> np.uint64(7 * at) > 0
        out[~used[:, at], at - 1] &= 127
    return out[used].tobytes()


def length(parts: Sequence[Part]) -> int:
    """Bytes of a row of these parts."""
    return sum(len(part) if isinstance(part, bytes) else part.shape[1] for part in parts)


def number(at: int, values: Values) -> list[Part]:
    """A field with a number for each row."""
    return [tag(at, VARINT), padded(values)]


def message(at: int, parts: Sequence[Part]) -> list[Part]:
    """A field with a message for each row."""
    return [tag(at, DELIMITED) + varint(length(parts)), *parts]


def join(rows: int, parts: Sequence[Part]) -> bytes:
    """The rows' bytes, one row behind the other."""
    out = np.empty((rows, length(parts)), dtype=np.uint8)
    at = 0
    for part in parts:
        width = len(part) if isinstance(part, bytes) else part.shape[1]
        out[:, at : at + width] = np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        at += width
    return out.tobytes()
