# SPDX-License-Identifier: BSD-2-Clause
"""Zone operations of a null_blk disk: their numbers differ between kernels, their names must not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.recording import needs_btf, needs_root, read_table, recording

pytestmark = [needs_root, needs_btf]
CONFIGURED = Path("/sys/kernel/config/nullb")
NAME = "seekmeter-zones"
# Multi-queue, zones of 4 MiB, 64 of them; in memory, so that a write moves the write pointer and can be read.
SETTINGS = {
    "size": "256", "blocksize": "4096", "queue_mode": "2", "memory_backed": "1",
    "zoned": "1", "zone_size": "4", "zone_nr_conv": "0",
}  # fmt: skip


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
        yield f"nullb{(folder / 'index').read_text().strip()}"
    finally:
        (folder / "power").write_text("0")
        folder.rmdir()


@pytest.mark.skipif(not shutil.which("blkzone"), reason="blkzone (util-linux) is not installed")
def test_zone_operations_are_named_zone(tmp_path: Path) -> None:
    zones = {"open": 0, "close": 0, "finish": 1, "reset": 2}
    with zoned_disk() as name:
        disk = Path("/dev") / name
        if not disk.exists():
            pytest.skip(f"{disk} has no device file: nothing makes them here")
        sectors = int((Path("/sys/block") / name / "queue/chunk_sectors").read_text())
        with recording(tmp_path / "out", "--collect", "block", "--disk", name) as run:
            for operation, zone in zones.items():
                subprocess.run(["blkzone", operation, "-o", str(zone * sectors), "-c", "1", disk], check=True)
            subprocess.run(
                ["dd", "if=/dev/zero", f"of={disk}", "bs=4096", "count=1", f"seek={3 * sectors // 8}",
                 "oflag=direct", "status=none"], check=True,
            )  # fmt: skip
    header, table = read_table(run.out / "block.rec")
    names = header["enums"]["block_op"]
    seen = [(names[str(row["op"])], int(row["sector"]) // sectors) for row in table]
    assert [zone for op, zone in seen if op == "zone"] == list(zones.values()), seen
    assert [zone for op, zone in seen if op == "write"] == [3], seen
    assert not {op for op, _ in seen} - {"zone", "write", "read", "flush"}, seen
