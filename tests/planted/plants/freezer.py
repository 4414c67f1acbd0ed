# SPDX-License-Identifier: BSD-2-Clause
"""The workload is in a cgroup that is frozen for four seconds."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

FREEZE = (
    "until grep -q . {0}/cgroup.procs; do sleep 0.05; done; sleep 0.7;"
    " echo FROZEN > {0}/freezer.state; sleep 4; echo THAWED > {0}/freezer.state; sleep 60"
)


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with (
        site.filled([("file", 256)], Speed(latency_us=1000)) as (_, target),
        site.cgroup("freezer", {}) as enter,
    ):
        group = enter.split("> ")[1].removesuffix("/cgroup.procs")
        freeze = shlex.join(["bash", "-c", FREEZE.format(group)])
        with site.beside(freeze) if is_planted else nullcontext():
            read = site.program("read", target / "file", 1, 1500, 4096, "random", "direct")
            yield {"DIR": str(target), "CMD": f"{enter}; exec {read}"}


PLANT = Plant("freezer", "a frozen cgroup for 4 s", frozenset({"stopped"}), ("ext4", "xfs", "btrfs"), _run)
