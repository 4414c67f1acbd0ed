# SPDX-License-Identifier: BSD-2-Clause
"""The fewest requests that the disk's queue can have (nr_requests), under sixteen readers."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Disk, Site, Speed

FEWEST = "2"  # the kernel makes it its minimum, 4 on most


@contextmanager
def _places(disk: Disk, number: str) -> Iterator[None]:
    """Give the queue so many places."""
    (disk.queue / "nr_requests").write_text(number)
    try:
        yield
    finally:
        disk.set_usual_queue()


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
