# SPDX-License-Identifier: BSD-2-Clause
"""Another program's dirty pages use up the limit, so that the workload's writer is held back.

The workload's own pages stay far below the limit, which is the same in both runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, dirty_limit


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(mb_per_s=50)) as (_, target), dirty_limit(256 << 20):
        writer = site.program("write", target / "written", 2, 256, 1 << 20, "cached", "own", 0)
        with site.beside(writer, warm_s=2) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("write", target / "own", 1, 100, 65536, "cached", "one"),
            }


PLANT = Plant(
    "buffered_throttle",
    "another program's dirty pages hold a writer back",
    frozenset({"throttle"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
