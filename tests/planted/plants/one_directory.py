# SPDX-License-Identifier: BSD-2-Clause
"""Four threads that remove files from one directory, against a directory each.

A removal looks the file up under the directory's lock. The inodes are not in memory, so the lock is held
while the disk reads, and costs the same on a busy machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run

THREADS, FILES = 4, 175
STEP = 64  # files between two that are removed: more than the inodes that one read brings


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    made = (1, THREADS * FILES * STEP) if is_planted else (THREADS, FILES * STEP)
    with site.disk(Speed(latency_us=8000)) as disk:
        with site.mounted(disk, mkfs=()) as target:
            run(site.program("create", target, *made, "own", 0, "keep"))
        mount = "inode_readahead_blks=0" if site.filesystem == "ext4" else ""
        with site.mounted(disk, mount) as target:
            for number in range(made[0]):
                os.listdir(target / str(number))  # the names are in memory, the inodes are not
            which = "shared" if is_planted else "own"
            yield {"DIR": str(target), "CMD": site.program("unlink", target, THREADS, FILES, STEP, which)}


PLANT = Plant(
    "one_directory",
    "four threads remove files from one directory",
    frozenset({"lock"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
