# SPDX-License-Identifier: BSD-2-Clause
"""Columns of whole numbers, and texts, as bytes for a page; JSON that is safe within a script element.

A column is LEB128: 7 bits a number's byte, lowest first, the top bit set on all but its last byte.
scripts/decode.js reads it. JavaScript's numbers are exact up to 2^53: a greater value is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from analysis.tables.store import I64

EXACT = 1 << 53  # JavaScript holds whole numbers up to it
SIZE_LEVEL = 1  # of zlib, to learn sizes: some percent more than packed.py makes, in a third of the time

Coding = Literal["u", "s", "du", "ds"]


class TooLarge(Exception):
    """A value that JavaScript cannot hold exactly."""


@dataclass(frozen=True)
class Column:
    """Whole numbers, and how they are written.

    coding: u: as they are, none negative. s: zigzag (0, -1, 1, -2, ...): small negative ones stay short.
    du, ds: the differences to the value before (of the first to 0), coded so.
    """

    values: I64
    coding: Coding = "u"

    @classmethod
    def of(cls, values: I64) -> Column:
        """A column of these numbers, in the shorter coding that can hold them."""
        return cls(values, "s" if values.size and int(values.min()) < 0 else "u")

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.values.size)

    def encoded(self) -> bytes:
        """The bytes. Raises TooLarge; ValueError for a negative number where none may be."""
        values = np.asarray(self.values, dtype=np.int64)
        if values.size and (int(values.max()) > EXACT or int(values.min()) < -EXACT):
            raise TooLarge
        if self.coding.startswith("d"):
            values = np.diff(values, prepend=np.int64(0))
        if self.coding.endswith("s"):
            values = (values << 1) ^ (values >> 63)
        elif values.size and int(values.min()) < 0:
            raise ValueError(f"a column of coding {self.coding} holds a negative number")
        if values.size and int(values.max()) > EXACT:
            raise TooLarge
        return varints(values)


@dataclass(frozen=True)
class Texts:
    """Many clean() texts, which are too long to stand in the page's JSON: deflated lines."""

    values: Sequence[str]
    coding = "text"

    @property
    def count(self) -> int:
        """Number of texts."""
        return len(self.values)

    def encoded(self) -> bytes:
        """The texts, a line each; UTF-8."""
        return "".join(f"{value}\n" for value in self.values).encode("utf-8", "backslashreplace")


def deflated_bytes(columns: Iterable[Column | Texts]) -> int:
    """About the size of the columns in a page before base64, rather more."""
    return len(zlib.compress(b"".join(one.encoded() for one in columns), SIZE_LEVEL))


def varints(values: I64) -> bytes:
    """Values >= 0 as LEB128."""
    v = np.asarray(values, dtype=np.uint64)
    if v.size and int(v.max()) < 1 << 7:  # a byte each, as most keys and counts are
        return v.astype(np.uint8).tobytes()
    length = np.ones(v.size, dtype=np.int64)
    for k in range(1, 9):
        length += v >= np.uint64(1 << 7 * k)
    begin = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    for k in range(int(length.max()) if v.size else 0):
        some = length > k
        byte = (v[some] >> np.uint64(7 * k)) & np.uint64(127)
        out[begin[some] + k] = byte.astype(np.uint8) | np.where(length[some] > k + 1, 128, 0).astype(np.uint8)
    return out.tobytes()


def in_script(data: Any) -> str:
    """JSON that cannot end its script element, whatever text it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
