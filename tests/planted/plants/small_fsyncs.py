# SPDX-License-Identifier: BSD-2-Clause
"""An fsync for each 4 KiB, against one for each MiB."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=3000)) as (_, target):
        blocks, each = (512, 4096) if is_planted else (2, 1 << 20)
        yield {"DIR": str(target), "CMD": site.program("append", target / "file", blocks, each, "fsync")}


PLANT = Plant(
    "small_fsyncs", "an fsync for each 4 KiB", frozenset({"commit"}), ("ext4", "xfs", "btrfs"), _run, True
)
