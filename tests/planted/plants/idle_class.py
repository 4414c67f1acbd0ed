# SPDX-License-Identifier: BSD-2-Clause
"""The workload in the idle class of BFQ, beside another reader."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Disk, Site, Speed


@contextmanager
def _bfq(disk: Disk) -> Iterator[None]:
    (disk.queue / "scheduler").write_text("bfq")
    try:
        yield
    finally:
        disk.set_usual_queue()


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 256)], Speed(latency_us=1000)) as (disk, target),
        _bfq(disk),
        site.beside(site.program("read", target / "file", 4, 1000000, 4096, "random", "direct")),
    ):
        read = site.program("read", target / "file", 1, 100, 4096, "random", "direct")
        yield {"DIR": str(target), "CMD": f"ionice -c 3 {read}" if is_planted else read}


PLANT = Plant(
    "idle_class",
    "ionice -c 3 under BFQ, beside a reader",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
    True,
)
