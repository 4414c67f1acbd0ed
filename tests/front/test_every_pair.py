# SPDX-License-Identifier: BSD-2-Clause
"""Every workload on every file system of this kernel, as `make trace` runs it at SCALE=quick.

All its phases ran, each default collector recorded all the time, and the block table's bytes are those of the
kernel's statistics of the disk (/sys/block/DISK/stat) between the counters source's first and last sample.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.collectors.recording import needs_btf, read_table
from tests.collectors.sessions import Run, finished, needs_root
from workloads import catalog, filesystems

pytestmark = [needs_root, needs_btf, pytest.mark.long]
# /sys/block/DISK/stat counts as a write what is no read and no discard (block/blk-mq.c, op_stat_group()).
OPS = {"read": ("read",), "write": ("write", "write_zeroes"), "discard": ("discard",)}


def by_the_kernel(run: Run) -> tuple[dict[str, int], int, int]:
    """Bytes by kind between the first sample and the last, and when these were."""
    header, table = read_table(run.path / "raw/recorder/counter.rec")
    numbers = {name: int(number) for number, name in header["enums"]["counter_name"].items()}
    found, first_ns, last_ns = {}, 0, 0
    for kind in OPS:
        rows = table[table["name"] == numbers[f"disk.{kind}_bytes"]]
        found[kind] = int(rows["value"][-1]) - int(rows["value"][0])
        first_ns, last_ns = int(rows["t_ns"][0]), int(rows["t_ns"][-1])
    busy = table[table["name"] == numbers["disk.in_flight"]]["value"]
    assert busy[0] == busy[-1] == 0, "the disk was busy at an end: nothing can be compared"
    return found, first_ns, last_ns


def by_requests(run: Run, first_ns: int, last_ns: int) -> dict[str, int]:
    """Bytes by kind of the block table's requests that were completed in between.

    Of some the recorder says that it did not see the end: the disk was idle at both, so they ended then.
    """
    header, table = read_table(run.path / "raw/recorder/block.rec")
    numbers = {name: int(number) for number, name in header["enums"]["block_op"].items()}
    end_ns = np.where(table["complete_ns"] > 0, table["complete_ns"], table["issue_ns"])
    inside = table[(end_ns > first_ns) & (end_ns <= last_ns)]
    return {
        kind: sum(int(inside["bytes"][inside["op"] == numbers[op]].sum()) for op in ops if op in numbers)
        for kind, ops in OPS.items()
    }


@pytest.mark.parametrize("workload", catalog.names())
@pytest.mark.parametrize("fs", [name for name in filesystems.names() if filesystems.kernel_has(name)])
def test_all_is_recorded(tmp_path: Path, fs: str, workload: str) -> None:
    run = finished(tmp_path / "run", FS=fs, WL=workload, SCALE="quick").run
    phases = {name for name in catalog.load(workload).phases if "N tasks" not in name}
    phases -= {"warm-up"} if workload == "pgmeter" else set()  # it has none at this scale
    assert phases <= {phase["name"] for phase in run.phases}
    assert run.losses["complete"]
    states = {name: source["state"] for name, source in run.losses["collectors"].items()}
    assert states.keys() >= {"block", "locks", "calls", "counters"}
    assert set(states.values()) == {"on"}
    kernels, first_ns, last_ns = by_the_kernel(run)
    assert sum(run.losses["collectors"]["block"]["lost"].values()) == 0
    assert by_requests(run, first_ns, last_ns) == kernels
    assert kernels["write"] > 0
    assert workload in run.report()
