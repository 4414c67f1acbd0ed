# SPDX-License-Identifier: BSD-2-Clause
"""The workload is bound to a CPU that another program uses."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("file", 256)], Speed()) as (_, target):
        hogs = [f"taskset -c 1 {site.program('spin')}"] * 2
        with site.beside(*hogs) if is_planted else nullcontext():
            read = site.program("read", target / "file", 1, 0, 4096, "order", "cached", 30)
            yield {"DIR": str(target), "CMD": f"taskset -c 1 {read}"}


PLANT = Plant(
    "pinned_hog", "a hog on the workload's only CPU", frozenset({"cpu_taken"}), ("ext4", "xfs", "btrfs"), _run
)
