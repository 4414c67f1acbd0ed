# SPDX-License-Identifier: BSD-2-Clause
"""Emulated disks for tests: a drive that answers fast, and the disks open on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, Emulated, PlannedDisk, open_disk


@dataclass(frozen=True)
class FastDrive:
    """A drive of 15,000 rpm with one zone and short seeks, in the text that its server reads."""

    name: str = "fast"
    title: str = "drive of a test"
    capacity_bytes: int = 20000 * 4 * 1000 * 512
    write_cache_bytes: int = 8 << 20

    def flat(self, size_bytes: int, offset_bytes: int) -> str:
        """Return the parameters; sizes in bytes."""
        return "\n".join(
            (
                f"sectors {size_bytes // 512}",
                f"first_sector {offset_bytes // 512}",
                "rpm 15000",
                "surfaces 4",
                "zone 19999 1000",
                "seek 1 300000",
                "seek 19999 3000000",
                "write_settle_ns 100000",
                "head_switch_ns 200000",
                "track_skew 0.1",
                "cylinder_skew 0.15",
                "read_overhead_ns 50000",
                "write_overhead_ns 50000",
                "bus_bytes_per_s 300000000",
                "queue_depth 32",
                "scheduling sptf",
                "most_age_ns 500000000",
                f"write_cache_bytes {self.write_cache_bytes}",
                "write_cache_extents 128",
                "destage_at 0.5",
                "destage_idle_ns 10000000",
                "read_segments 8",
                "segment_sectors 512",
                "",
            )
        )


# A drive of 7200 rpm with two zones, whose TOML file has all that there is to compute.
SATA_TOML = """\
title = "drive of a test"
rpm = 7200
surfaces = 4
zones.table = [[39999, 1000], [79999, 500]]
seek.table = [[1, 0.8], [26000, 8.5], [79999, 16.0]]
seek.write_settle_ms = 0.1
seek.head_switch_ms = 0.2
skew = { track = 0.1, cylinder = 0.15 }
electronics = { read_overhead_ms = 0.05, write_overhead_ms = 0.05, bus_mb_per_s = 300 }
queue = { depth = 32, rule = "sptf", most_age_ms = 500 }
write_cache = { bytes = 8388608, extents = 128, destage_at = 0.5, destage_idle_ms = 10 }
read_ahead = { segments = 8, segment_bytes = 262144 }
"""


@contextmanager
def fast_disk(
    janitor: Janitor, size_bytes: int = 256 << 20, time: float = 1.0, record: Path | None = None
) -> Iterator[Disk]:
    """Open one emulated disk on a FastDrive. record: the file for its rows."""
    planned = PlannedDisk("disk0", "hdd", size_bytes, Emulated(FastDrive(), time=time))
    if record is None:
        with open_disk([planned], None, (), janitor) as disk:
            yield disk
        return
    with record.open("ab+") as rows, open_disk([planned], None, (), janitor, record=rows.fileno()) as disk:
        yield disk


def load(path: str, *options: str) -> subprocess.Popen[bytes]:
    """Start random reads and writes on a device that last until they fail, or a minute."""
    command = ["fio", "--name=load", f"--filename={path}", "--rw=randrw", "--bs=4k", "--iodepth=16"]
    command += ["--ioengine=libaio", "--direct=1", "--time_based", "--runtime=60", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
