# SPDX-License-Identifier: BSD-2-Clause
"""Another program makes directories elsewhere on the file system, and so fills the journal of 4 MB.

The workload does the same, so it waits for room in the journal without the other, too, but less.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.disk(Speed(mb_per_s=20, flush_us=5000)) as disk,
        site.mounted(disk, mkfs=["-J", "size=4"]) as target,
    ):
        for name in ("own", "other"):
            (target / name).mkdir()
        other = site.program("directories", target / "other", 1_000_000)
        with site.beside(other) if is_planted else nullcontext():
            yield {"DIR": str(target), "CMD": site.program("directories", target / "own", 4000)}


PLANT = Plant(
    "shared_journal",
    "another program's metadata fills the journal",
    frozenset({"log_space"}),
    ("ext4",),
    _run,
    is_graded=True,
)
