# SPDX-License-Identifier: BSD-2-Clause
"""Device numbers: major << 20 | minor in tables (the kernel's dev_t), "7:9" in run.json."""

from __future__ import annotations

from analysis.rundir.run import Run, dig

MINOR_BITS = 20  # include/linux/kdev_t.h
MAJOR_BITS = 12
MINOR_MASK = (1 << MINOR_BITS) - 1


def device_number(text: object) -> int | None:
    """The number of "7:9", None for anything else."""
    major, colon, minor = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (colon and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    if int(major) >= 1 << MAJOR_BITS or int(minor) > MINOR_MASK:
        return None
    return int(major) << MINOR_BITS | int(minor)


def device_text(number: int) -> str:
    """The number as major:minor, as run.json and /proc/self/mountinfo write it."""
    return f"{number >> MINOR_BITS}:{number & MINOR_MASK}"


def journal_device(run: Run) -> int | None:
    """Number of the device that holds only the journal, None without one."""
    number = device_number(dig(run.facts, "filesystem", "geometry", "journal_dev"))
    return device_number(dig(run.facts, "journal_device", "dev")) if number is None else number
