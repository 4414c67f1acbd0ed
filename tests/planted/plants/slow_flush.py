# SPDX-License-Identifier: BSD-2-Clause
"""A disk that takes 15 ms for a flush, against 0.1 ms, under a workload that appends and syncs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=15000 if is_planted else 100)) as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("append", target / "file", 250, 4096, "fsync"),
        }


PLANT = Plant(
    "slow_flush",
    "the disk takes 15 ms for a flush",
    frozenset({"commit", "sync_write", "device_flush"}),
    ("ext4", "xfs", "btrfs"),
    _run,
    is_graded=True,
)
