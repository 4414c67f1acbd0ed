# SPDX-License-Identifier: BSD-2-Clause
"""A workload that sleeps for 10 ms before each write: the generator itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh() as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("append", target / "file", 500, 4096, "fsync", 10000 if is_planted else 0),
        }


PLANT = Plant(
    "think_time",
    "the workload sleeps 10 ms before each write",
    frozenset({"own_pause"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
