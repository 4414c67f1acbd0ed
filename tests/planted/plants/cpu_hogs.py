# SPDX-License-Identifier: BSD-2-Clause
"""Four programs for each CPU that use all they get, beside a workload that needs a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh() as (_, target):
        rounds = 40 if site.filesystem == "btrfs" else 400  # about 3 s of a CPU
        hogs = [site.program("spin")] * (4 * (os.cpu_count() or 1))
        with site.beside(*hogs) if is_planted else nullcontext():
            yield {
                "DIR": str(target),
                "CMD": site.program("write", target / "file", 1, 32, 65536, "cached", "one", rounds),
            }


PLANT = Plant(
    "cpu_hogs",
    "four programs a CPU that use all they get",
    frozenset({"cpu_taken"}),
    ("ext4", "xfs", "btrfs"),
    _run,
    is_graded=True,  # no machine is without any other program
)
