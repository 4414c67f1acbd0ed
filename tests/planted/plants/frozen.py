# SPDX-License-Identifier: BSD-2-Clause
"""The file system is frozen for two seconds (fsfreeze) while the workload appends and syncs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

FROZEN_S = 2.0


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=4000)) as (_, target):
        append = site.program("append", target / "file", 150, 4096, "fsync")
        if not is_planted:
            yield {"DIR": str(target), "CMD": append}
            return
        with site.frozen(target, after_s=0.5, for_s=FROZEN_S) as begin:
            yield {"DIR": str(target), "CMD": f"{begin}; exec {append}"}


PLANT = Plant("frozen", "fsfreeze for two seconds", frozenset({"frozen"}), ("ext4", "xfs", "btrfs"), _run)
