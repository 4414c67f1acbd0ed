# SPDX-License-Identifier: BSD-2-Clause
"""Mounted with data=journal: file data is written twice."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(mb_per_s=60), "data=journal" if is_planted else "") as (_, target):
        yield {"DIR": str(target), "CMD": site.program("append", target / "file", 12, 20 << 20, "fsync")}


PLANT = Plant("data_journal", "mount -o data=journal", frozenset({"data_journal"}), ("ext4",), _run)
