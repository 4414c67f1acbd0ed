# SPDX-License-Identifier: BSD-2-Clause
"""zram devices: volumes without a disk below, faster than any loop device."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CONTROL = Path("/sys/class/zram-control")


@contextmanager
def zram_disk(size_bytes: int) -> Iterator[str]:
    """Make a zram device of this size; its name. Removed after the block."""
    subprocess.run(["modprobe", "-q", "zram"], check=False)
    if not _CONTROL.exists():
        pytest.skip("the kernel has no zram: use one with CONFIG_ZRAM")
    number = (_CONTROL / "hot_add").read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(size_bytes))
        yield f"zram{number}"
    finally:
        (_CONTROL / "hot_remove").write_text(number)
