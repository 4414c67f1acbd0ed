# SPDX-License-Identifier: BSD-2-Clause
"""The last lines of the workload's output, for reports, from an open file of any size."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

_TAIL_BYTES = 64 << 10
_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 200


def tail(file: BinaryIO) -> list[str]:
    """Return the non-empty lines at the end of a file. Each state of a line rewritten by \\r is a line."""
    try:
        size = file.seek(0, os.SEEK_END)
        at = file.seek(max(size - _TAIL_BYTES, 0))
        lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:  # a failing disk below the run directory ends no session
        return []
    if at > 0 and len(lines) > 1:
        del lines[0]  # cut in its middle
    return [line.rstrip() for line in lines if line.strip()]


def shown(file: BinaryIO) -> dict[str, Any]:
    """Return what run.json keeps of the output: its size, and its last lines, each cut to 200 characters."""
    lines = tail(file)
    return {
        "bytes": os.fstat(file.fileno()).st_size,
        "last_lines": [line[:_SHOWN_CHARACTERS] for line in lines[-_SHOWN_LINES:]],
    }
