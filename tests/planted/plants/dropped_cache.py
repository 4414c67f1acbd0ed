# SPDX-License-Identifier: BSD-2-Clause
"""Somebody who drops the page cache ten times a second, while the workload reads a file again and again."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

DROP = "sh -c 'while sleep 0.1; do echo 1 > /proc/sys/vm/drop_caches; done'"


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 64)], Speed(mb_per_s=200)) as (_, target),
        site.beside(DROP) if is_planted else nullcontext(),
    ):
        yield {
            "DIR": str(target),
            "CMD": site.program("read", target / "file", 1, 0, 65536, "order", "cached", 20),
        }


PLANT = Plant(
    "dropped_cache",
    "somebody drops the page cache",
    frozenset({"read_again"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
