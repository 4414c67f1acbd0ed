# SPDX-License-Identifier: BSD-2-Clause
"""Mounted with dirsync, XFS with wsync: each file that is made waits for a commit."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

OPTIONS = {"ext4": "dirsync", "xfs": "wsync"}


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    mount = OPTIONS[site.filesystem] if is_planted else ""
    with site.fresh(Speed(flush_us=5000), mount) as (_, target):
        yield {"DIR": str(target), "CMD": site.program("create", target, 1, 500, "own", 0, "keep")}


PLANT = Plant(
    "sync_metadata", "mount -o dirsync or wsync", frozenset({"metadata_sync"}), ("ext4", "xfs"), _run
)
