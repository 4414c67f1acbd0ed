# SPDX-License-Identifier: BSD-2-Clause
"""ext4's lazy initialisation of inode tables, at full speed (init_itable=0), beside a reader."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

LAZY = ["-E", "lazy_itable_init=1,lazy_journal_init=0", "-i", "2048"]  # 512 MB of inode tables


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.disk(Speed(mb_per_s=40)) as disk:
        with site.mounted(disk, "noinit_itable", mkfs=LAZY) as target:
            site.fill(target / "file", 64)
        with site.mounted(disk, "init_itable=0" if is_planted else "noinit_itable") as target:
            if is_planted:
                disk.wait_for_writes()  # it begins up to 5 s after the mount
            yield {
                "DIR": str(target),
                "CMD": site.program("read", target / "file", 1, 300, 4096, "random", "direct"),
            }


PLANT = Plant(
    "lazy_init", "inode tables are initialised meanwhile", frozenset({"background"}), ("ext4",), _run
)
