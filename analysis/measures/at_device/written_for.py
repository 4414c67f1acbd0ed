# SPDX-License-Identifier: BSD-2-Clause
"""Write-back of what others made dirty: the kernel's threads send it, and no request says for whom.

By file, and by exact accounting: the kernel counts what each thread made dirty (thread.write_bytes).
"""

from __future__ import annotations

import numpy as np

from analysis.causes.roles import OTHER, WORKLOAD
from analysis.measures.critical_path.stretches import Mask
from analysis.tables.block import Block
from analysis.tables.store import I64
from analysis.tables.thread import MISSING, Threads

OWN_MOST = (
    0.1  # of the bytes written back of files that nothing else tells of: more may be the workload's own
)
LEAST_TIMES = 2  # of a file: written back so many times as much as the workload made dirty in all


def own_dirtied(threads: Threads | None) -> int | None:
    """Bytes that the workload's threads made dirty, or wrote directly. None: not known."""
    if threads is None:
        return None
    mine = np.array([role == WORKLOAD for role in threads.role], dtype=np.bool_)
    written = threads.write_bytes[mine]
    return int(written.sum()) if written.size and not (written == MISSING).any() else None


def dirtied_by_others(threads: Threads | None) -> list[tuple[str, int]]:
    """Bytes that programs outside the workload made dirty, on any file system, by name, most first."""
    found: dict[str, int] = {}
    if threads is not None:
        rows = zip(threads.process, threads.role, threads.write_bytes.tolist(), strict=True)
        for name, role, written in rows:
            if role == OTHER and written > 0:
                found[name] = found.get(name, 0) + written
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def written_back_for_others(
    block: Block, by_thread: Mask, by_own: Mask, by_others: Mask, ino: I64, own_bytes: int | None
) -> Mask:
    """Which requests write data back for others.

    by_thread, by_own, by_others: who submitted. Of files into which only others sent writes themselves; and
    of those that nobody did: of each of which much more was written back than the workload made dirty beside
    what went to its own files, and of all the rest, if that is little of it.
    """
    is_write = np.asarray(block.op.is_("write") & block.class_.is_("data"))
    back = is_write & by_thread & (ino > 0)
    own, others = np.unique(ino[is_write & by_own]), np.unique(ino[is_write & by_others])
    is_own = np.isin(ino, own)
    found = back & np.isin(ino, others) & ~is_own
    rest = back & ~found & ~is_own
    if own_bytes is None:
        return np.asarray(found)
    # what went to its own files is not elsewhere, too
    left = max(own_bytes - int(block.bytes[is_write & is_own].sum(dtype=np.int64)), 0)
    files, of_row = np.unique(ino[rest], return_inverse=True)
    size = np.bincount(of_row, block.bytes[rest], files.size)
    large = rest & np.isin(ino, files[size > LEAST_TIMES * left])
    found, rest = found | large, rest & ~large
    if left < OWN_MOST * int(block.bytes[rest].sum(dtype=np.int64)):
        found |= rest
    return np.asarray(found)
