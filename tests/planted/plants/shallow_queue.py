# SPDX-License-Identifier: BSD-2-Clause
"""The fewest requests that the disk's queue can have (nr_requests), under sixteen readers."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Disk, Site, Speed

FEWEST = "2"  # the kernel makes it its minimum, 4 on most


@contextmanager
def _places(disk: Disk, number: str) -> Iterator[None]:
    """Give the queue so many places. A loop device keeps them after its detach, and may show others."""
    (disk.queue / "scheduler").write_text("none")
    path = disk.queue / "nr_requests"
    path.write_text(number)
    try:
        yield
    finally:
        for usual in ("64", "128"):  # twice: the kernel does nothing for a number that it shows already
            path.write_text(usual)


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 256)], Speed(latency_us=20000, request_us=10)) as (disk, target),
        _places(disk, FEWEST if is_planted else "64"),
    ):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 16, 60, 4096, "random", "direct"),
        }


PLANT = Plant(
    "shallow_queue",
    "the disk's queue takes the fewest requests it can",
    frozenset({"shallow_queue"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
