# SPDX-License-Identifier: BSD-2-Clause
"""Files that the path waited for: which file each request that woke somebody belongs to, and time by file.

A request's file is the inode of its first page. Metadata and journals have none: their class stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.files import CLOCK_NS
from analysis.measures.critical_path.stretches import NONE
from analysis.rundir.device_number import device_text
from analysis.tables.path import Paths
from analysis.tables.store import I64, Categorical


@dataclass(frozen=True)
class Files:
    """The files of requests, one a row. path: empty if the file was gone, or paths were not resolved."""

    dev: I64  # the file system's
    ino: I64
    path: Sequence[str]


@dataclass(frozen=True)
class FileShare:
    """Time of the path with the requests of one file, or with those of one class that belong to no file."""

    request: str  # "read data"
    ino: int  # 0: no file
    path: str
    count: int
    queue_ns: int
    device_ns: int  # until somebody was woken
    max_ns: int

    @property
    def ns(self) -> int:
        """All of it."""
        return self.queue_ns + self.device_ns


def files_of(dev: I64, ino: I64, queue_ns: I64, paths: Paths | None) -> tuple[I64, Files]:
    """The row of each request's file (NONE: none), and the files.

    An inode number is given again: what was sent before the file's birth is of an earlier file.
    """
    known = paths or Paths({}, {})
    of_file = np.full(ino.size, NONE, dtype=np.int64)
    rows = np.flatnonzero(ino > 0)
    if not rows.size:
        return of_file, Files(ino[:0], ino[:0], [])
    pairs, of_row = np.unique(np.stack([dev[rows], ino[rows]]), axis=1, return_inverse=True)
    keys = [(device_text(int(a)), int(b)) for a, b in pairs.T.tolist()]
    born = np.array([known.born_ns.get(key, 0) for key in keys], dtype=np.int64)
    is_earlier = queue_ns[rows] < born[of_row] - CLOCK_NS
    of_file[rows] = np.where(is_earlier, of_row + len(keys), of_row)
    names = [known.names.get(key, "") for key in keys]
    return of_file, Files(np.tile(pairs[0], 2), np.tile(pairs[1], 2), [*names, *[""] * len(names)])


def file_shares(of_file: I64, files: Files, label: Categorical, ns: I64) -> list[FileShare]:
    """Longest first. ns: of each request on the device, queued, and completed before somebody was woken."""
    used = np.flatnonzero(ns.sum(axis=0))
    kinds = max(len(label.labels), 1)
    keys, of = np.unique((of_file[used] + 1) * kinds + label.codes[used], return_inverse=True)
    shape = (keys.size,)
    queue, device, longest = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    np.add.at(queue, of, ns[1, used])
    np.add.at(device, of, ns[0, used] + ns[2, used])
    np.maximum.at(longest, of, ns[:, used].sum(axis=0))
    count = np.bincount(of, minlength=keys.size)
    shares = []
    for i, key in enumerate(keys.tolist()):
        file, kind = key // kinds - 1, key % kinds
        shares.append(
            FileShare(
                request=label.labels[kind],
                ino=int(files.ino[file]) if file >= 0 else 0,
                path=files.path[file] if file >= 0 else "",
                count=int(count[i]),
                queue_ns=int(queue[i]),
                device_ns=int(device[i]),
                max_ns=int(longest[i]),
            )
        )
    return sorted(shares, key=lambda share: (-share.ns, share.path, share.ino, share.request))
