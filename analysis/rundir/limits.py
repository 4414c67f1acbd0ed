# SPDX-License-Identifier: BSD-2-Clause
"""How much is read of a run directory, which may be anybody's: a small file can stand for any number of rows.

The limits are far above what recordings have. What memory remains to be wanted, the kernel refuses.
"""

from __future__ import annotations

import os
import resource

LINES_MOST = 2_000_000  # of a .jsonl file: there is one of each inode, lock, call path or phase
LINE_BYTES_MOST = 1 << 20
# Requests are taken at their number in memory: as many as it holds. Rows of histograms are 2 KB each.
_ROWS_MOST = {"block": 1 << 30, "plug": 1 << 30, "cpu_sample": 1 << 27, "counter": 1 << 27, "call": 1 << 21}
_OF_LINES = ("phase", "lock", "stack", "path", "cpu_stack")
_FIGURES_MOST = 3_200_000  # tables/result.py: columns of rows
_OTHERS_MOST = 20_000_000
_MEMORY_SHARE = 3 / 4


def rows_most(table: str) -> int:
    """How many rows of a table are read."""
    if table in _OF_LINES:
        return LINES_MOST
    return _FIGURES_MOST if table == "figure" else _ROWS_MOST.get(table, _OTHERS_MOST)


def limit_memory() -> None:
    """Let this process take no more than a share of the machine's memory, if it may take more now."""
    most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def memory_most() -> int | None:
    """Bytes that this process may take; None: there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft
