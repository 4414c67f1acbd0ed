# SPDX-License-Identifier: BSD-2-Clause
"""Parse and format sizes, durations and CPU lists. Sizes are in bytes; K, M, G, T are powers of 1024."""

import math
import re

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Return the bytes in a size such as 10G, 512M, 1.5T or 4096. ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    size = float(match[1]) * 1024 ** _POWERS[match[2].upper()]
    if math.isinf(size):
        raise ValueError(f"{text!r} is more than a disk or memory can have")
    return int(size)


def show_size(size_bytes: int) -> str:
    """Return a size as a user would write it: 10G, 1.5G, 300M, 512."""
    for suffix in "TGMK":
        unit = 1024 ** _POWERS[suffix]
        if size_bytes >= unit:
            number = f"{size_bytes / unit:.1f}".removesuffix(".0")
            return f"{number}{suffix}"
    return str(size_bytes)


def show_cpus(count: int) -> str:
    """Return a number of CPUs as text: 1 CPU, 2 CPUs."""
    return f"{count} CPU" if count == 1 else f"{count} CPUs"


def show_seconds(seconds: float) -> str:
    """Return a rounded duration: 8 s, 2 min, 1 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPU numbers in the kernel's list format, such as 0-2,5. ValueError for anything else."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a list of CPUs")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last > 65535:
            raise ValueError(f"{text!r} is not a list of CPUs")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))
