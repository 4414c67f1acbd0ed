# SPDX-License-Identifier: BSD-2-Clause
"""A quota of 10 % of one CPU for the workload's cgroup."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh() as (_, target):
        write = site.program("write", target / "file", 1, 32, 65536, "cached", "one", 200)
        with site.cgroup("cpu", {"cpu.cfs_quota_us": "10000"} if is_planted else {}) as enter:
            yield {"DIR": str(target), "CMD": f"{enter}; exec {write}"}


PLANT = Plant(
    "cpu_quota",
    "a quota of 10 % of a CPU",
    frozenset({"cpu_quota"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
