# SPDX-License-Identifier: BSD-2-Clause
"""Mounted with discard: each commit after a removal waits for the disk to discard."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run

REMOVE = "for i in $(seq 0 2 399); do rm 0/file-0-$i; sync -f .; done"


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.disk(Speed(flush_us=500, discard_us=25000)) as disk:
        with site.mounted(disk, mkfs=()) as target:
            run(site.program("create", target, 1, 400, "own", 65536, "keep"))
        with site.mounted(disk, "discard" if is_planted else "nodiscard") as target:
            yield {"DIR": str(target), "CMD": REMOVE}


PLANT = Plant("discards", "mount -o discard", frozenset({"background"}), ("ext4", "btrfs"), _run)
