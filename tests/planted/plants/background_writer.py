# SPDX-License-Identifier: BSD-2-Clause
"""A sequential writer of another program, on the disk that the workload reads from."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    # btrfs writes past the page cache only what has no checksums.
    mount = "nodatasum" if site.filesystem == "btrfs" else ""
    with site.filled([("read", 256), ("written", 256)], Speed(mb_per_s=100), mount) as (_, target):
        writer = site.program("write", target / "written", 1, 256, 1 << 19, "direct", "one", 0)
        with site.beside(writer) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("read", target / "read", 1, 1200, 4096, "random", "direct"),
            }


PLANT = Plant(
    "background_writer",
    "another program's sequential writer on the same disk",
    frozenset({"other_requests"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
