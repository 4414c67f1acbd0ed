# SPDX-License-Identifier: BSD-2-Clause
"""A directory tree of which nothing is in memory, against one that is."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run

LIST = "ls -lR"


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.disk(Speed(latency_us=5000)) as disk:
        with site.mounted(disk, mkfs=()) as target:
            run(site.program("create", target, 1, 20000, "own", 0, "keep"))
        with site.mounted(disk) as target:
            if not is_planted:
                subprocess.run(LIST.split(), cwd=target, check=True, stdout=subprocess.DEVNULL)
            yield {"DIR": str(target), "CMD": f"{LIST} > /dev/null"}


PLANT = Plant(
    "cold_metadata",
    "20,000 inodes that are not in memory",
    frozenset({"cold_metadata"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
