# SPDX-License-Identifier: BSD-2-Clause
"""Sixteen readers of another program at random places of a disk that serves one request at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.filled([("own", 128), ("other", 256)], Speed(request_us=400)) as (_, target):
        readers = site.program("read", target / "other", 16, 1 << 30, 4096, "random", "direct")
        with site.beside(readers) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("read", target / "own", 1, 700, 4096, "random", "direct"),
            }


PLANT = Plant(
    "background_readers",
    "another program's sixteen readers on the same disk",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
