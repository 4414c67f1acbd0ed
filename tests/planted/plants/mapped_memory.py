# SPDX-License-Identifier: BSD-2-Clause
"""A cgroup's limit of 64 MB of memory, under a program that reads 200 MB of a map, five times."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

LIMIT = {"memory.limit_in_bytes": str(64 << 20)}


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 200)], Speed(mb_per_s=200)) as (_, target),
        site.cgroup("memory", LIMIT) if is_planted else nullcontext("true") as enter,
    ):
        touch = site.program("touch", target / "file", 0, "read", "order", 5)
        yield {"DIR": str(target), "CMD": f"{enter}; {touch}"}


PLANT = Plant(
    "mapped_memory",
    "64 MB of memory for a map of 200 MB",
    frozenset({"reclaim"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
