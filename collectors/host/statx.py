# SPDX-License-Identifier: BSD-2-Clause
"""A file's birth time (btime), by statx(2): Python's os.stat does not have it."""

import ctypes
import os
import struct

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_OFFSET = 0x50  # of struct statx_timestamp in struct statx (linux/stat.h)

_statx = getattr(ctypes.CDLL(None), "statx", None)  # None in a C library older than 2018


def btime_ns(path: str | os.PathLike[str]) -> int | None:
    """Return a file's birth time, CLOCK_REALTIME in ns; None: its file system does not keep it."""
    if _statx is None:
        return None
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer) != 0:
        return None
    if not struct.unpack_from("=I", buffer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_OFFSET)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
