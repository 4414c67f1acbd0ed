# SPDX-License-Identifier: BSD-2-Clause
"""A journal of 4 MB under a workload that makes many directories, against one of 512 MB."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    size = 4 if is_planted else 512
    with (
        site.disk(Speed(mb_per_s=20, flush_us=5000)) as disk,
        site.mounted(disk, mkfs=["-J", f"size={size}"]) as target,
    ):
        yield {
            "DIR": str(target),
            "CMD": site.program("directories", target, 10000),
        }


PLANT = Plant("tiny_journal", "a journal of 4 MB", frozenset({"log_space"}), ("ext4",), _run)
