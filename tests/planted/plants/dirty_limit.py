# SPDX-License-Identifier: BSD-2-Clause
"""A limit of 8 MB of dirty memory for the machine, under a workload that writes more than that."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, dirty_limit


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    limit = dirty_limit(8 << 20) if is_planted else nullcontext()
    with site.fresh(Speed(mb_per_s=60)) as (_, target), limit:
        yield {
            "DIR": str(target),
            "CMD": site.program("write", target / "file", 1, 400, 65536, "cached", "one"),
        }


PLANT = Plant(
    "dirty_limit", "vm.dirty_bytes of 8 MB", frozenset({"throttle"}), ("ext4", "xfs", "btrfs"), _run
)
