# SPDX-License-Identifier: BSD-2-Clause
"""Cold caches: drop the page cache of a run's disks, so that the next reads come from the disk.

The kernel drops a block device's own page cache when its last user closes the device. Another program that
has it open (blktrace, a desktop that reads labels) keeps the cache, so BLKFLSBUF drops it.
"""

import fcntl
import os
import time

from workloads.disks import Disk

_BLKFLSBUF = 0x1261  # linux/fs.h: write back and drop the device's page cache


def drop_caches(disk: Disk, seconds: float) -> str | None:
    """Drop the page cache of a run's disks, each once no file system claims it, for so many seconds at most.

    Returns the path of a disk that is still claimed, else None.
    """
    deadline = time.monotonic() + seconds
    while (claimed := _claimed(disk)) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    return claimed


def _claimed(disk: Disk) -> str | None:
    """Drop the page cache of each disk. Returns the first disk that O_EXCL finds claimed."""
    for member in disk.all:
        try:
            file = os.open(member.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError:
            return member.path
        try:
            fcntl.ioctl(file, _BLKFLSBUF)
        finally:
            os.close(file)
    return None
