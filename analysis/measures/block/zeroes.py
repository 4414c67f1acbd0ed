# SPDX-License-Identifier: BSD-2-Clause
"""write_zeroes requests by the name of the submitting thread: count, bytes and purpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.block import Block

OP = "write_zeroes"
DEFINITION = (
    "write_zeroes: sets a range of the device to zero without sending data; bytes: length of the range"
)
TOP = 4
# kernel threads that zero for one known purpose
PURPOSES = {"ext4lazyinit": "ext4's lazy initialisation: inode tables that mkfs left unwritten"}


@dataclass(frozen=True)
class ZeroingThread:
    """write_zeroes requests of all threads of one name."""

    comm: str
    requests: int
    bytes: int

    @property
    def purpose(self) -> str:
        """The known purpose of a thread of this name; else an empty string."""
        return PURPOSES.get(self.comm, "")


def zeroing_threads(block: Block) -> list[ZeroingThread]:
    """One row per thread name, most bytes zeroed first."""
    rows = np.flatnonzero(block.op.is_(OP))
    name_count = len(block.comm.labels)
    requests = np.bincount(block.comm.codes[rows], minlength=name_count)
    size = np.zeros(name_count, dtype=np.int64)
    np.add.at(size, block.comm.codes[rows], block.bytes[rows])
    rows_out = [
        ZeroingThread(block.comm.labels[i], int(requests[i]), int(size[i])) for i in np.flatnonzero(requests)
    ]
    return sorted(rows_out, key=lambda row: (-row.bytes, row.comm))
