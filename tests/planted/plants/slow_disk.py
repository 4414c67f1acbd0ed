# SPDX-License-Identifier: BSD-2-Clause
"""A disk that takes 5 ms for a request, against 0.1 ms, under one reader at random places."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("file", 256)], Speed(latency_us=5000 if is_planted else 100)) as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 1000, 4096, "random", "direct"),
        }


PLANT = Plant(
    "slow_disk",
    "the disk takes 5 ms for a request",
    frozenset({"device_latency", "apparatus"}),  # the disk is emulated below the loop device
    ("ext4", "xfs", "btrfs"),
    _run,
    is_graded=True,
)
