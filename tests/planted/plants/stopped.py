# SPDX-License-Identifier: BSD-2-Clause
"""The workload is stopped by a signal for four seconds."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

STOP = (
    "until [ -s {0} ]; do sleep 0.05; done; sleep 0.5;"
    " kill -STOP $(cat {0}); sleep 4; kill -CONT $(cat {0}); sleep 60"
)


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    mark = site.folder / "number"
    with site.filled([("file", 256)], Speed(latency_us=1000)) as (_, target):
        stop = shlex.join(["bash", "-c", STOP.format(mark)])
        with site.beside(stop) if is_planted else nullcontext():
            read = site.program("read", target / "file", 1, 1500, 4096, "random", "direct")
            yield {"DIR": str(target), "CMD": f"echo $$ > {mark}; exec {read}"}


PLANT = Plant("stopped", "SIGSTOP for 4 s", frozenset({"stopped"}), ("ext4", "xfs", "btrfs"), _run)
