# SPDX-License-Identifier: BSD-2-Clause
"""A limit of 8 MB of dirty memory for the machine, under a workload that writes more than that."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, setting

VM = Path("/proc/sys/vm")
LIMITED = {VM / "dirty_bytes": str(8 << 20), VM / "dirty_background_bytes": str(4 << 20)}


@contextmanager
def _limited() -> Iterator[None]:
    # A byte limit and its ratio replace each other: writing the ratio back takes the limit away.
    ratios = {path: path.read_text() for path in (VM / "dirty_ratio", VM / "dirty_background_ratio")}
    if "0" in {text.strip() for text in ratios.values()}:
        with setting(LIMITED):
            yield
        return
    try:
        for path, value in LIMITED.items():
            path.write_text(value)
        yield
    finally:
        for path, value in ratios.items():
            path.write_text(value)


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.fresh(Speed(mb_per_s=60)) as (_, target), _limited() if is_planted else nullcontext():
        yield {
            "DIR": str(target),
            "CMD": site.program("write", target / "file", 1, 400, 65536, "cached", "one"),
        }


PLANT = Plant(
    "dirty_limit", "vm.dirty_bytes of 8 MB", frozenset({"throttle"}), ("ext4", "xfs", "btrfs"), _run
)
