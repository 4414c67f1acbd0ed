# SPDX-License-Identifier: BSD-2-Clause
"""4 MiB of readahead for a program that touches single pages of a map, against none."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, setting


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 1024)], Speed(mb_per_s=100)) as (disk, target),
        setting({disk.queue / "read_ahead_kb": "4096" if is_planted else "0"}),
    ):
        yield {"DIR": str(target), "CMD": site.program("touch", target / "file", 150, "read", "apart")}


PLANT = Plant(
    "readahead_much",
    "4 MiB of readahead around single pages",
    frozenset({"cold_reads"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
