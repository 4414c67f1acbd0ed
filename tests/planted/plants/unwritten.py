# SPDX-License-Identifier: BSD-2-Clause
"""Synchronous writes into a file that was only allocated, against one that was written before."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(flush_us=5000)) as (_, target):
        file = target / "file"
        if is_planted:
            subprocess.run(["fallocate", "-l", str(16 << 20), str(file)], check=True)
        else:
            site.fill(file, 16)
        subprocess.run(["sync"], check=True)
        yield {"DIR": str(target), "CMD": site.program("overwrite", file, 400, 4096, "dsync")}


PLANT = Plant(
    "unwritten",
    "blocks that are allocated, not written",
    frozenset({"sync_write"}),
    ("ext4", "xfs"),
    _run,
    True,
)
