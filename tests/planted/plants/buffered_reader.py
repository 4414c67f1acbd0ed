# SPDX-License-Identifier: BSD-2-Clause
"""Another program writes through the page cache, on the disk that the workload reads cold data from.

The kernel's threads write back what it made dirty. Dirty bytes are limited in both runs, as on a small
machine: else write-back begins when the run is over.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, dirty_limit


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    files = [("read", 256), ("written", 256)]
    with site.filled(files, Speed(mb_per_s=100)) as (_, target), dirty_limit(64 << 20):
        writer = site.program("write", target / "written", 1, 256, 1 << 20, "cached", "one", 0)
        with site.beside(writer, warm_s=1) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("read", target / "read", 1, 400, 4096, "random", "cached"),
            }


PLANT = Plant(
    "buffered_reader",
    "another program's buffered writer beside cold reads",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
