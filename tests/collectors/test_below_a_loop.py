# SPDX-License-Identifier: BSD-2-Clause
"""What the disk below a loop device had of each request, against the counters of that disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis.tables.rec import open_recording
from tests.collectors.known_run import unseen_so_far
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import needs_btf, recording
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

READS, SIZE = 512, 256 * 1024


def counters_of(dev: int) -> list[int]:
    """The counters of a disk, as the kernel's Documentation/block/stat.rst numbers them."""
    path = Path(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}")
    disk = path.resolve().parent if (path / "partition").exists() else path
    return [int(word) for word in (disk / "stat").read_text().split()]


def test_disk_below_has_its_time_within_the_requests(tmp_path: Path) -> None:
    """Reads with direct I/O of a file that is on a disk: its own time of reading holds all of ours."""
    dev = (tmp_path).stat().st_dev
    if not Path(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}").exists():
        pytest.skip("the folder of temporary files is on no disk: TMPDIR= names another")
    with loop_disk(tmp_path / "image", READS * SIZE + MIB, "--direct-io=on") as disk:
        if (disk.sysfs / "loop/dio").read_text().strip() != "1":
            pytest.skip("the file system of the temporary files has no direct I/O for loop devices")
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={disk.path}", f"bs={SIZE}", f"count={READS}", "oflag=direct"],
            check=True,
            capture_output=True,
        )
        before, process_1 = counters_of(dev), unseen_so_far()
        with recording(tmp_path, "--collect", "block", "--disk", disk.name) as run:
            subprocess.run(
                ["dd", f"if={disk.path}", "of=/dev/null", f"bs={SIZE}", f"count={READS}", "iflag=direct"],
                check=True,
                capture_output=True,
            )
            run.stop()
        after, hidden_ns = counters_of(dev), unseen_so_far().ran_ns - process_1.ran_ns
    recorded = open_recording(tmp_path / "block.rec", "block")
    rows = np.concatenate([chunk.copy() for chunk in recorded.chunks()])
    reads = rows[rows["op"] == next(code for code, op in recorded.enums["op"].items() if op == "read")]
    assert reads.size >= READS
    told = reads[reads["below_end_us"] > 0]
    length_ns = np.median((told["complete_ns"] - told["issue_ns"]).astype(np.int64))
    # A part of a merged request below leads to the first of them alone. Here no BPF program runs in an
    # interrupt over process 1: ends there are not seen.
    assert told.size >= 0.95 * reads.size - hidden_ns / length_ns
    begin, end = (told[name].astype(np.int64) for name in ("below_start_us", "below_end_us"))
    length_us = (told["complete_ns"] - told["issue_ns"]).astype(np.int64) // 1000
    assert (begin <= end).all() and (end <= length_us).all()
    assert begin.max() > 0  # a worker takes the request first
    # a request of several below overlaps with none of another: the reader waits for each
    below_ms = (end - begin).sum() / 1000
    read_ms = after[3] - before[3]
    assert below_ms <= read_ms + 1 + 0.001 * told.size
    others = (after[0] - before[0]) / told.size  # reads below; programs that read meanwhile
    if others < 1.1:
        assert below_ms >= 0.8 * read_ms - 1
