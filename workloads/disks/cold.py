# SPDX-License-Identifier: BSD-2-Clause
"""Nothing of a disk is in memory: what is read from it next comes from the disk.

When the last user of a block device lets go of it, the kernel drops what it had cached of the device itself;
one that has it open besides (blktrace, a desktop that looks for labels) keeps that. So it is asked for.
"""

import fcntl
import os
import time

from workloads.disks import Disk

_BLKFLSBUF = 0x1261  # linux/fs.h: write back and drop what is cached of the device itself


def forget(disk: Disk, seconds: float) -> str | None:
    """Drop what is cached of a run's disks, as soon as the kernel has let go of each, in so many seconds.

    Returns a disk that is in use still.
    """
    deadline = time.monotonic() + seconds
    while (claimed := _claimed(disk)) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    return claimed


def _claimed(disk: Disk) -> str | None:
    """Return a disk that the kernel still uses; drop what is cached of each before that."""
    for one in disk.all:
        try:
            file = os.open(one.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError:
            return one.path
        try:
            fcntl.ioctl(file, _BLKFLSBUF)
        finally:
            os.close(file)
    return None
