# SPDX-License-Identifier: BSD-2-Clause
"""Every workload on every file system of this kernel, as `make trace` runs it at SCALE=quick.

All phases ran, and each default collector recorded throughout. The block table has as many bytes as the
kernel's statistics of the disk (/sys/block/DISK/stat), from the first sample of counters to the last.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.collectors.recording import needs_btf, read_table
from tests.collectors.sessions import Run, finished
from tests.marks import needs_root
from workloads import catalog, filesystems

pytestmark = [needs_root, needs_btf, pytest.mark.long]
# /sys/block/DISK/stat: neither read nor discard counts as a write (block/blk-mq.c, op_stat_group()).
OPS = {"read": ("read",), "write": ("write", "write_zeroes"), "discard": ("discard",)}


def kernel_bytes(run: Run) -> tuple[dict[str, int], int, int]:
    """Return the kernel's bytes by kind between first and last sample, and the two times in ns."""
    header, table = read_table(run.path / "raw/recorder/counter.rec")
    numbers = {name: int(number) for number, name in header["enums"]["counter_name"].items()}
    counted, first_ns, last_ns = {}, 0, 0
    for kind in OPS:
        rows = table[table["name"] == numbers[f"disk.{kind}_bytes"]]
        counted[kind] = int(rows["value"][-1]) - int(rows["value"][0])
        first_ns, last_ns = int(rows["t_ns"][0]), int(rows["t_ns"][-1])
    busy = table[table["name"] == numbers["disk.in_flight"]]["value"]
    assert busy[0] == busy[-1] == 0, "the disk was busy at the first or last sample: bytes cannot be compared"
    return counted, first_ns, last_ns


def table_bytes(run: Run, first_ns: int, last_ns: int) -> dict[str, int]:
    """Return bytes by kind of the requests in the block table that completed between two times in ns.

    A request without a recorded completion counts too: the disk was idle at both times.
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
def test_every_pair_records_the_bytes_the_kernel_counted(tmp_path: Path, fs: str, workload: str) -> None:
    run = finished(tmp_path / "run", FS=fs, WL=workload, SCALE="quick").run
    phases = {name for name in catalog.load(workload).phases if "N tasks" not in name}
    phases -= {"warm-up"} if workload == "pgmeter" else set()  # pgmeter has no warm-up at this scale
    assert phases <= {phase["name"] for phase in run.phases}
    assert run.losses["complete"]
    states = {name: source["state"] for name, source in run.losses["collectors"].items()}
    assert states.keys() >= {"block", "locks", "calls", "counters"}
    assert set(states.values()) == {"on"}
    expected, first_ns, last_ns = kernel_bytes(run)
    assert sum(run.losses["collectors"]["block"]["lost"].values()) == 0
    assert table_bytes(run, first_ns, last_ns) == expected
    assert expected["write"] > 0
    assert workload in run.report()
