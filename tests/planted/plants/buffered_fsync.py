# SPDX-License-Identifier: BSD-2-Clause
"""Another program writes through the page cache, beside a workload that appends and fsyncs.

The kernel's threads write back what it made dirty; a journal may write it, too, before it commits.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, dirty_limit


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("written", 256)], Speed(mb_per_s=100)) as (_, target), dirty_limit(64 << 20):
        writer = site.program("write", target / "written", 1, 256, 1 << 20, "cached", "one", 0)
        with site.beside(writer, warm_s=1) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("append", target / "own", 10, 4096, "fsync"),
            }


PLANT = Plant(
    "buffered_fsync",
    "another program's buffered writer beside fsyncs",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
