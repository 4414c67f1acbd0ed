# SPDX-License-Identifier: BSD-2-Clause
"""A memory limit smaller than the file that the workload reads again and again."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("file", 200)], Speed(mb_per_s=150)) as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 0, 65536, "order", "cached", 5),
            **({"MEM": "64M"} if is_planted else {}),
        }


PLANT = Plant("reclaim", "MEM=64M under 200 MB read", frozenset({"reclaim"}), ("ext4", "xfs", "btrfs"), _run)
