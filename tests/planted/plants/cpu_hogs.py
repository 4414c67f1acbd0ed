# SPDX-License-Identifier: BSD-2-Clause
"""Two programs for each CPU that use all they get, beside a workload that needs a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh() as (_, target):
        hogs = [site.program("spin")] * (2 * (os.cpu_count() or 1))
        with site.beside(*hogs) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("write", target / "file", 1, 32, 65536, "cached", "one", 400),
            }


PLANT = Plant(
    "cpu_hogs",
    "two programs a CPU that use all they get",
    frozenset({"cpu_taken"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
