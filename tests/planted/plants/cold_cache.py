# SPDX-License-Identifier: BSD-2-Clause
"""Random reads of a file that is not in memory, against one that is."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("file", 64)], Speed(latency_us=2000)) as (_, target):
        if not is_planted:
            run(site.program("read", target / "file", 1, 0, 65536, "order", "cached"))
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 2500, 4096, "random", "cached"),
        }


PLANT = Plant(
    "cold_cache", "reads of a file not in memory", frozenset({"cold_reads"}), ("ext4", "xfs", "btrfs"), _run
)
