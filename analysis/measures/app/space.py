# SPDX-License-Identifier: BSD-2-Clause
"""How much room has the file system, after mkfs and after the run? Bytes, from run.json; None: not known.

used: all blocks less the free ones, as the file system counts them (df). taken: the disks' size less the
free ones, so with what a file system takes beforehand and does not count, as ext its inode tables.
"""

from __future__ import annotations

from analysis.rundir.run import Run, as_int, dig

AFTER_MKFS, AFTER_RUN = "after_mkfs", "after_run"
WHEN = (AFTER_MKFS, AFTER_RUN)


def space(run: Run, when: str, what: str) -> int | None:
    """One of statvfs's figures, by its name in run.json."""
    number = as_int(dig(run.facts, "filesystem", "space", when, what))
    return number if number is not None and number >= 0 else None


def taken_bytes(run: Run, when: str) -> int | None:
    """What is not free of the disks; a journal's own disk is not among them."""
    total, used = space(run, when, "total_bytes"), space(run, when, "used_bytes")
    more = dig(run.facts, "more_devices")
    others = (
        [dig(one, "size_bytes") for one in more if isinstance(one, dict)] if isinstance(more, list) else []
    )
    sizes = [as_int(size) for size in (dig(run.facts, "device", "size_bytes"), *others)]
    if total is None or used is None or None in sizes:
        return None
    return sum(size for size in sizes if size is not None) - (total - used)
