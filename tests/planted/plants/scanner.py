# SPDX-License-Identifier: BSD-2-Clause
"""A scanner that looks at each file for 5 ms before it may be opened (fanotify)."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed()) as (_, target):
        run(site.program("create", target, 1, 1000, "own", 4096, "keep"))
        with site.beside(site.program("scanner", target, 5000)) if is_planted else nullcontext():
            yield {"DIR": str(target), "CMD": "cat 0/* > /dev/null"}


PLANT = Plant(
    "scanner",
    "a scanner looks at each file that is opened",
    frozenset({"permission"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
