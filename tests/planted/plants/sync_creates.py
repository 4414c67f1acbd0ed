# SPDX-License-Identifier: BSD-2-Clause
"""Another program calls syncfs() in a loop, beside a workload that creates files and removes them again."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=5000)) as (_, target):
        syncs = site.program("syncs", target, "syncfs")
        with site.beside(syncs) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("create", target, 1, 5000, "own", 4096),
            }


PLANT = Plant(
    "sync_creates",
    "another program calls syncfs() in a loop beside creates and removals",
    frozenset({"foreign_commit"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
