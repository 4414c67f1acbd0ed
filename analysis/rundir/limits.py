# SPDX-License-Identifier: BSD-2-Clause
"""Limits on what is read of a run directory: a small file from a stranger can claim any number of rows.

The limits are far above what recordings hold. Beyond them, RLIMIT_DATA bounds the memory.
"""

from __future__ import annotations

import os
import resource

LINES_MOST = 2_000_000  # of a .jsonl file: one line per inode, lock, call path or phase
LINE_BYTES_MOST = 1 << 20
ROWS_MOST = 20_000_000  # of a table whose TableSpec has no limit of its own
_MEMORY_SHARE = 3 / 4


def limit_memory() -> None:
    """Limit this process's data to _MEMORY_SHARE of the machine's memory; a lower limit stays."""
    most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def memory_most() -> int | None:
    """This process's limit on data in bytes, None without one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft
