# SPDX-License-Identifier: BSD-2-Clause
"""Zone operations of a null_blk disk: their numbers differ between kernels, their names must not."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.recording import needs_btf, read_table, recording
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
CONFIGURED = Path("/sys/kernel/config/nullb")
NAME = "seekmeter-zones"
# Multi-queue, 64 zones of 4 MiB, all of them to be written in sequence.
SETTINGS = {"size": "256", "blocksize": "4096", "queue_mode": "2", "memory_backed": "1"} | {
    "zoned": "1", "zone_size": "4", "zone_nr_conv": "0",
}  # fmt: skip
# include/uapi/linux/blkzoned.h: _IOW(0x12, number, struct blk_zone_range)
BLKRESETZONE, BLKOPENZONE, BLKCLOSEZONE, BLKFINISHZONE = (
    1 << 30 | 16 << 16 | 0x12 << 8 | n for n in (131, 134, 135, 136)
)


@contextmanager
def zoned_disk() -> Iterator[str]:
    """A disk of zones; its name in /sys/block."""
    if subprocess.run(["modprobe", "null_blk", "nr_devices=0"], check=False).returncode:
        pytest.skip("the kernel has no module null_blk")
    subprocess.run(["mount", "-t", "configfs", "none", "/sys/kernel/config"], check=False)
    if not CONFIGURED.exists() or "zoned" not in (CONFIGURED / "features").read_text():
        pytest.skip("null_blk makes no zoned disks here")
    folder = CONFIGURED / NAME
    folder.mkdir()
    try:
        for setting, value in SETTINGS.items():
            (folder / setting).write_text(value)
        (folder / "power").write_text("1")
        names = (NAME, f"nullb{(folder / 'index').read_text().strip()}")
        yield next(name for name in names if (Path("/sys/block") / name).exists())
    finally:
        (folder / "power").write_text("0")
        folder.rmdir()


def test_zone_operations_are_named_zone(tmp_path: Path) -> None:
    """Open and close zone 0, write zone 3 and finish it, reset zone 3: each is one request."""
    with zoned_disk() as name:
        sysfs = Path("/sys/block") / name
        major, minor = map(int, (sysfs / "dev").read_text().split(":"))
        sectors = int((sysfs / "queue/chunk_sectors").read_text())
        disk = tmp_path / name
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(major, minor))  # a guest's /dev may have none
        with recording(tmp_path / "out", "--collect", "block", "--disk", name) as run:
            file = os.open(disk, os.O_RDWR | os.O_DIRECT | os.O_EXCL)
            try:
                fcntl.ioctl(file, BLKOPENZONE, struct.pack("QQ", 0, sectors))
                fcntl.ioctl(file, BLKCLOSEZONE, struct.pack("QQ", 0, sectors))
                os.pwrite(file, mmap.mmap(-1, 4096), 3 * sectors * 512)
                fcntl.ioctl(file, BLKFINISHZONE, struct.pack("QQ", 3 * sectors, sectors))
                fcntl.ioctl(file, BLKRESETZONE, struct.pack("QQ", 3 * sectors, sectors))
            finally:
                os.close(file)
    header, table = read_table(run.out / "block.rec")
    names = header["enums"]["block_op"]
    seen = [(names[str(row["op"])], int(row["sector"]) // sectors) for row in table]
    wanted = [("zone", 0), ("zone", 0), ("write", 3), ("zone", 3), ("zone", 3)]
    assert [(op, zone) for op, zone in seen if op not in ("read", "flush")] == wanted
