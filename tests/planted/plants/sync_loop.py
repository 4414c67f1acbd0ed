# SPDX-License-Identifier: BSD-2-Clause
"""Another program calls syncfs() in a loop, beside a workload that appends and fsyncs."""

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
                "CMD": site.program("append", target / "own", 250, 4096, "fsync"),
            }


PLANT = Plant(
    "sync_loop",
    "another program calls syncfs() in a loop beside fsyncs",
    frozenset({"foreign_commit"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
