# SPDX-License-Identifier: BSD-2-Clause
"""Space of the file system after mkfs and after the run: bytes, from run.json; None: not known.

used: all blocks minus free blocks, as the file system counts them (df). taken: the disks' size minus free
blocks; it includes what mkfs took and df does not count, such as ext's inode tables.
"""

from __future__ import annotations

from analysis.rundir.run import Run, as_int, dig

AFTER_MKFS, AFTER_RUN = "after_mkfs", "after_run"
WHEN = (AFTER_MKFS, AFTER_RUN)


def space(run: Run, when: str, what: str) -> int | None:
    """One number of statvfs, by its name in run.json."""
    number = as_int(dig(run.facts, "filesystem", "space", when, what))
    return number if number is not None and number >= 0 else None


def taken_bytes(run: Run, when: str) -> int | None:
    """The disks' size minus free blocks; a separate journal device does not count."""
    total, used = space(run, when, "total_bytes"), space(run, when, "used_bytes")
    more = dig(run.facts, "more_devices")
    others = (
        [dig(disk, "size_bytes") for disk in more if isinstance(disk, dict)] if isinstance(more, list) else []
    )
    sizes = [as_int(size) for size in (dig(run.facts, "device", "size_bytes"), *others)]
    if total is None or used is None or None in sizes:
        return None
    return sum(size for size in sizes if size is not None) - (total - used)
