# SPDX-License-Identifier: BSD-2-Clause
"""The disk answers nothing for four seconds."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed

STOP = (
    "until [ -e {0} ]; do sleep 0.05; done; sleep 0.5; P=$(pgrep -o -f ^{1}/slow_disk);"
    " kill -STOP $P; sleep 4; kill -CONT $P; sleep 60"
)


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    mark = site.folder / "begun"
    with site.filled([("file", 256)], Speed(latency_us=1000)) as (_, target):
        stop = shlex.join(["bash", "-c", STOP.format(mark, site.folder)])
        with site.beside(stop) if is_planted else nullcontext():
            read = site.program("read", target / "file", 1, 1500, 4096, "random", "direct")
            yield {"DIR": str(target), "CMD": f"touch {mark}; exec {read}"}


PLANT = Plant(
    "standstill",
    "the disk stands still for 4 s",
    frozenset({"standstill"}),
    ("ext4", "xfs", "btrfs"),
    _run,
)
