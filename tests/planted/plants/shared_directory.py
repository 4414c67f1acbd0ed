# SPDX-License-Identifier: BSD-2-Clause
"""Another program removes files of the workload's directory, against one that does so in another directory.

A removal looks the file up under the directory's lock. The inodes are not in memory, so the lock is held
while the disk reads, and costs the same on a busy machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run

THREADS, FILES = 3, 175  # of the other program; the workload has one thread
STEP = 64  # files between two that are removed: more than the inodes that one read brings


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.disk(Speed(latency_us=8000)) as disk:
        with site.mounted(disk, mkfs=()) as target:
            run(site.program("create", target, 2, (1 + THREADS) * FILES * STEP, "own", 0, "keep"))
        mount = "inode_readahead_blks=0" if site.filesystem == "ext4" else ""
        with site.mounted(disk, mount) as target:
            for number in range(2):
                os.listdir(target / str(number))  # the names are in memory, the inodes are not
            folder = 0 if is_planted else 1
            other = site.program("unlink", target, THREADS, FILES, STEP, "shared", folder, FILES)
            with site.beside(other, warm_s=0):
                yield {
                    "DIR": str(target),
                    "CMD": site.program("unlink", target, 1, FILES, STEP, "shared"),
                }


PLANT = Plant(
    "shared_directory",
    "another program removes files from the workload's directory",
    frozenset({"lock"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
