# SPDX-License-Identifier: BSD-2-Clause
"""Another program writes a file anew through the page cache, again and again, beside fsyncs.

Its blocks are new, so that a commit of ext4 (data=ordered) waits for its data, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, dirty_limit


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(mb_per_s=100)) as (_, target), dirty_limit(64 << 20):
        writer = site.program("write", target / "written", 1, 256, 1 << 20, "cached", "one", 0, "anew")
        with site.beside(writer, warm_s=1) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("append", target / "own", 10, 4096, "fsync"),
            }


PLANT = Plant(
    "buffered_ordered",
    "another program's new data beside fsyncs",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
