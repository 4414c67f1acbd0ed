# SPDX-License-Identifier: BSD-2-Clause
"""createdelete under trace: threads in one directory wait for that directory's lock, by name and path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.recording import needs_btf, read_table
from tests.collectors.sessions import Run, finished, needs_root
from tests.collectors.test_lock_truth import FILESYSTEMS
from workloads import catalog, filesystems

pytestmark = [needs_root, needs_btf]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def most_waited_for(run: Run) -> tuple[dict[str, Any], float]:
    """The lock that the workload's tasks slept for longest, and its part of all their sleeping."""
    table = read_table(run.path / "raw/recorder/lock_wait.rec")[1]
    table = table[table["in_workload"] == 1]
    locks, at = np.unique(table["lock_id"], return_inverse=True)
    sleep_ns = np.bincount(at, weights=table["sleep_ns"].astype(float))
    top = int(locks[sleep_ns.argmax()])
    # A lock's last line is what is known of it in the end.
    (lock,) = [line for line in lines(run.path / "raw/recorder/lock.jsonl") if line["lock_id"] == top][-1:]
    return lock, float(sleep_ns.max() / sleep_ns.sum())


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_threads_in_one_directory_wait_for_it(tmp_path: Path, fs: str) -> None:
    if not filesystems.kernel_has(fs):
        pytest.skip(f"the kernel has no {fs}: use one that has")
    job = finished(
        tmp_path / "run", FS=fs, WL="createdelete:nosync", SCALE="quick", ARGS="-n 10000 -o 10000",
        THREADS="16", DISK="ram", SIZE="1G",
    )  # fmt: skip
    run = job.run
    assert [phase["name"] for phase in run.phases][:4] == list(catalog.load("createdelete").phases)
    assert "all as they were written" in run.output
    lock, part = most_waited_for(run)
    assert lock["name"] == "inode.i_rwsem"
    assert lock["kind"] == "rwsem"
    assert part > 0.5
    paths = {(line["dev"], line["ino"]): line["path"] for line in lines(run.path / "raw/paths.jsonl")}
    assert paths[lock["dev"], lock["ino"]] == "createdelete/shared"
    assert "inode.i_rwsem" in run.report()
