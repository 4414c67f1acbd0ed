# SPDX-License-Identifier: BSD-2-Clause
"""A limit of requests per second by the cgroup (io.max, or blkio.throttle of version 1)."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site

LIMIT = "blkio.throttle.read_iops_device"


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("file", 256)]) as (disk, target):
        read = site.program("read", target / "file", 1, 1000, 4096, "random", "direct")
        with site.cgroup("blkio", {LIMIT: f"{disk.number} 150"} if is_planted else {}) as enter:
            yield {"DIR": str(target), "CMD": f"{enter}; exec {read}"}


PLANT = Plant(
    "throttled_device",
    "at most 150 reads a second for the cgroup",
    frozenset({"held"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
