# SPDX-License-Identifier: BSD-2-Clause
"""Another program that has a file's lock for 20 ms at a time, which the workload takes for each write."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh() as (_, target):
        other = site.program("flock", target / "file", 0, 20000, 1500)
        with site.beside(other) if is_planted else nullcontext():
            yield {"DIR": str(target), "CMD": site.program("flock", target / "file", 250, 0, 2000)}


PLANT = Plant(
    "file_lock",
    "another program has the lock of the workload's file",
    frozenset({"file_lock"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
