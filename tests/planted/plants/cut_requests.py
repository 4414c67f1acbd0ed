# SPDX-License-Identifier: BSD-2-Clause
"""A limit of 4 KiB for a request (max_sectors_kb), on a disk that takes 200 us for each."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, setting


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 96)], Speed(request_us=200)) as (disk, target),
        setting({disk.queue / "max_sectors_kb": "4" if is_planted else "1280"}),
    ):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 0, 1 << 20, "order", "direct"),
        }


PLANT = Plant(
    "cut_requests",
    "max_sectors_kb of 4",
    frozenset({"cut_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
