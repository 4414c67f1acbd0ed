# SPDX-License-Identifier: BSD-2-Clause
"""Four processes that append and fsync, beside a workload that does it once in a while."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=5000)) as (_, target):
        storm = [site.program("append", target / f"storm-{n}", 0, 4096, "fsync") for n in range(4)]
        with site.beside(*storm) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("append", target / "own", 250, 4096, "fsync"),
            }


PLANT = Plant(
    "fsync_storm",
    "four other processes append and fsync on the same file system",
    frozenset({"foreign_commit"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
