# SPDX-License-Identifier: BSD-2-Clause
"""Four threads that write past the end of one file, past the page cache, against blocks that are there."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    mount = "nodatasum" if site.filesystem == "btrfs" else ""
    files = [] if is_planted else [("file", 16)]
    with site.filled(files, Speed(latency_us=4000), mount) as (_, target):
        yield {
            "DIR": str(target),
            "CMD": site.program("write", target / "file", 4, 2, 4096, "direct", "one"),
        }


PLANT = Plant(
    "growing_file",
    "four threads write past a file's end",
    frozenset({"lock"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
