# SPDX-License-Identifier: BSD-2-Clause
"""Appends with O_SYNC, against appends without."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=5000)) as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("append", target / "file", 400, 4096, "osync" if is_planted else "none"),
        }


PLANT = Plant("osync", "O_SYNC", frozenset({"sync_write", "commit"}), ("ext4", "xfs", "btrfs"), _run)
