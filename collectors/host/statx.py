# SPDX-License-Identifier: BSD-2-Clause
"""When was a file made? statx(2) knows; Python's os.stat does not ask it."""

import ctypes
import os
import struct

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_OFFSET = 0x50  # of struct statx_timestamp in struct statx (linux/stat.h)

_statx = getattr(ctypes.CDLL(None), "statx", None)  # none in a C library from before 2018


def of(path: str | os.PathLike[str]) -> int | None:
    """Return when the file was made, CLOCK_REALTIME in ns, to a tick; None: its file system does not know."""
    if _statx is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, found) != 0:
        return None
    if not struct.unpack_from("=I", found)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_OFFSET)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
