# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the ring's table second as they come, for the line of a running watch.

Blocks of the file are zstd frames (docs/SCHEMA.md), which Python 3.11 cannot read: the system's libzstd does,
which dpkg and systemd need. Without it the line has no figures, and nothing else is missing.
"""

import ctypes
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_PREFIX_BYTES, _BLOCK_HEAD_BYTES = 16, 8
_BLOCK_MOST_BYTES = 8 << 20
_FIELDS = ("length_ns", "reads", "writes", "read_bytes", "write_bytes", "mean_q2c_ns", "max_q2c_ns")


@dataclass
class Figures:
    """The last second, and sums over all that have come."""

    last: dict[str, int]
    seconds: float = 0.0
    requests: int = 0
    max_q2c_ns: int = 0


class Seconds:
    """Reads second.rec as it grows."""

    def __init__(self, ring: Path) -> None:
        self._path = ring / "second.rec"
        self._at = 0
        self._offsets: dict[str, int] = {}
        self._record_bytes = 0
        self._zstd = _load()
        self.figures: Figures | None = None

    def read_new(self) -> None:
        """Read the blocks that have come. A file that is not there yet, or damaged, gives none."""
        if self._zstd is None:
            return
        try:
            with self._path.open("rb") as file:
                if not self._record_bytes:
                    self._read_header(file.read(1 << 16))
                data = os.pread(file.fileno(), 1 << 20, self._at)
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return
        at = 0
        while at + _BLOCK_HEAD_BYTES <= len(data):
            packed_bytes, raw_bytes = struct.unpack_from("<II", data, at)
            end = at + _BLOCK_HEAD_BYTES + packed_bytes
            if end > len(data) or raw_bytes > _BLOCK_MOST_BYTES:
                break
            self._add(self._unpack(data[at + _BLOCK_HEAD_BYTES : end], raw_bytes))
            at = end
        self._at += at

    def _read_header(self, start: bytes) -> None:
        if start[:8] != b"SKMREC02":
            raise ValueError("not packed")
        json_bytes = struct.unpack_from("<I", start, 8)[0]
        header = json.loads(start[_PREFIX_BYTES : _PREFIX_BYTES + json_bytes])
        self._offsets = {field["name"]: int(field["offset"]) for field in header["fields"]}
        if not set(_FIELDS) <= self._offsets.keys():
            raise ValueError("a field is missing")
        self._record_bytes = int(header["record_bytes"])
        self._at = (_PREFIX_BYTES + json_bytes + 7) // 8 * 8

    def _unpack(self, packed: bytes, raw_bytes: int) -> bytes:
        assert self._zstd is not None
        buffer = ctypes.create_string_buffer(raw_bytes)
        got = self._zstd.ZSTD_decompress(buffer, raw_bytes, packed, len(packed))
        return buffer.raw if got == raw_bytes else b""

    def _add(self, rows: bytes) -> None:
        for at in range(0, len(rows) - self._record_bytes + 1, self._record_bytes):
            row = {name: struct.unpack_from("<Q", rows, at + self._offsets[name])[0] for name in _FIELDS}
            if self.figures is None:
                self.figures = Figures(row)
            self.figures.last = row
            self.figures.seconds += row["length_ns"] / 1e9
            self.figures.requests += row["reads"] + row["writes"]
            self.figures.max_q2c_ns = max(self.figures.max_q2c_ns, row["max_q2c_ns"])


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    return library
