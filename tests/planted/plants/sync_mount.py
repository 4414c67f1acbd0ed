# SPDX-License-Identifier: BSD-2-Clause
"""Mounted with sync: each write waits for the disk, though the program asks for nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=5000), "sync" if is_planted else "") as (_, target):
        yield {"DIR": str(target), "CMD": site.program("append", target / "file", 500, 4096, "none")}


PLANT = Plant("sync_mount", "mount -o sync", frozenset({"sync_write"}), ("ext4", "xfs", "btrfs"), _run)
