# SPDX-License-Identifier: BSD-2-Clause
"""No readahead for a program that reads a file in order, 4 KB at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.planted.plant import Plant, Words
from tests.planted.site import Disk, Site, Speed, setting


def _readahead(site: Site, disk: Disk) -> Path:
    """The setting of the file system: btrfs has one of its own, not its disk's."""
    if site.filesystem != "btrfs":
        return disk.queue / "read_ahead_kb"
    name = Path(disk.path).name
    for folder in Path("/sys/fs/btrfs").iterdir():
        if (folder / "devices" / name).exists():
            return Path(os.path.realpath(folder / "bdi"), "read_ahead_kb")
    raise FileNotFoundError(f"no btrfs on {disk.path}")


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 8)], Speed(latency_us=2000)) as (disk, target),
        setting({_readahead(site, disk): "0" if is_planted else "128"}),
    ):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 0, 4096, "order", "cached"),
        }


PLANT = Plant(
    "readahead_off",
    "no readahead for a streaming reader",
    frozenset({"small_reads"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
