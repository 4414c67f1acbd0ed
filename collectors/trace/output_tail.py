# SPDX-License-Identifier: BSD-2-Clause
"""The last lines of what a workload printed, for reports: of an open file, however long it is."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

_TAIL_BYTES = 64 << 10
_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 200


def tail(file: BinaryIO) -> list[str]:
    """The lines with text at its end. Of a line that is written anew (\\r) each state is a line."""
    try:
        size = file.seek(0, os.SEEK_END)
        at = file.seek(max(size - _TAIL_BYTES, 0))
        lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:  # a failing disk below the run directory ends no session
        return []
    if at > 0 and len(lines) > 1:
        del lines[0]  # the half of one
    return [line.rstrip() for line in lines if line.strip()]


def shown(file: BinaryIO) -> dict[str, Any]:
    """What run.json keeps of it: its size, and the last lines, cut to a bearable length."""
    lines = tail(file)
    return {
        "bytes": os.fstat(file.fileno()).st_size,
        "last_lines": [line[:_SHOWN_CHARACTERS] for line in lines[-_SHOWN_LINES:]],
    }
