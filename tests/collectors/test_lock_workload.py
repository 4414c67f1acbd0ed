# SPDX-License-Identifier: BSD-2-Clause
"""createdelete under trace: threads in one directory wait for that directory's lock, by name and path."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.collectors.lock_events import FLAGS, lock_events
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import Run, finished
from tests.collectors.test_lock_truth import FILESYSTEMS
from tests.marks import needs_root
from workloads import catalog, filesystems

OPERATIONS = 5000
ENOUGH = 20  # waits asleep for one lock, by the kernel's own tracer
# Its filter: begins of waits for a rwsem, to write.
WRITES_ASLEEP = f"flags & {FLAGS['WRITE']} && !(flags & {FLAGS['SPIN'] | FLAGS['PERCPU'] | FLAGS['RT']})"
TRIES = 5
FILE_BYTES_MOST = 8192
ARGS = f"-n {OPERATIONS} -o {OPERATIONS}"
pytestmark = [needs_root, needs_btf]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def most_waited_for(run: Run) -> tuple[int, dict[str, Any], float]:
    """The lock that the workload's tasks slept for longest: waits for it, itself, its part of all."""
    table = read_table(run.path / "raw/recorder/lock_wait.rec")[1]
    table = table[(table["in_workload"] == 1) & (table["sleep_ns"] > 0)]
    if not len(table):
        return 0, {}, 0.0
    locks, at = np.unique(table["lock_id"], return_inverse=True)
    sleep_ns = np.bincount(at, weights=table["sleep_ns"].astype(float))
    top = int(locks[sleep_ns.argmax()])
    # A lock's last line is what is known of it in the end.
    (lock,) = [line for line in lines(run.path / "raw/recorder/lock.jsonl") if line["lock_id"] == top][-1:]
    slept = int(table["count"][table["lock_id"] == top].sum())
    return slept, lock, float(sleep_ns.max() / sleep_ns.sum())


def lost_waits(run: Run) -> int:
    """Waits that the recorder says it lost, of whichever lock."""
    return int(sum(run.losses["collectors"]["locks"]["lost"].values()))


def is_counted(run: Run, call: str, column: str, true: int) -> bool:
    """Are they so many, or moved so many bytes, but for those that the recorder says it lost?"""
    most = FILE_BYTES_MOST if column == "bytes" else 1
    return run.has_counted(run.called(call, column), true, most)


def all_is_counted(run: Run) -> None:
    """What the kernel saw is what the workload says that it did."""
    phases = {phase["name"]: phase for phase in run.phases}
    did: dict[str, int] = {}
    for row in lines(run.path / "raw/figures.jsonl"):
        if row["table"] == "operations":
            did[row["operation"]] = did.get(row["operation"], 0) + row["count"]
    assert (phases["create"]["ops"], phases["mixed"]["ops"]) == (OPERATIONS, OPERATIONS)  # as it was told
    assert is_counted(run, "write", "bytes", phases["create"]["bytes"] + phases["mixed"]["bytes"])
    assert is_counted(run, "write", "count", did["create"])
    assert is_counted(run, "rename", "count", did["rename"])
    assert is_counted(run, "unlink", "count", did["delete"])
    assert is_counted(run, "fsync", "count", did.get("fsync", 0))
    assert is_counted(run, "read", "bytes", phases["verify"]["bytes"])
    left = did["create"] - did["delete"]
    assert phases["verify"]["ops"] == left
    # the directory given, its own, the shared one; these two again to list them
    assert is_counted(run, "open", "count", did["create"] + left + 3 + 2)
    assert is_counted(run, "open", "errors", 0)


@pytest.mark.parametrize(
    "fs", [fs if fs != "btrfs" else pytest.param(fs, marks=pytest.mark.long) for fs in FILESYSTEMS]
)
def test_threads_in_one_directory_wait_for_its_lock(tmp_path: Path, fs: str) -> None:
    if not filesystems.kernel_has(fs):
        pytest.skip(f"the kernel has no {fs}: use one that has")
    for attempt in range(TRIES):  # threads that a busy machine runs in turns may not meet
        with lock_events(tmp_path, f'comm == "createdelete" && {WRITES_ASLEEP}') as kernels:
            run = finished(
                tmp_path / f"run{attempt}", FS=fs, WL="createdelete:nosync", SCALE="quick", ARGS=ARGS,
                THREADS="16", DISK="ram", SIZE="1G", ADDRESSES="1",
            ).run  # fmt: skip
        met = Counter(event.lock for event in kernels.events)
        if max(met.values(), default=0) >= ENOUGH:
            break
    assert max(met.values(), default=0) >= ENOUGH, "hardly anybody waited: nothing was tested"
    slept, lock, part = most_waited_for(run)
    assert slept + lost_waits(run) >= met[int(lock["address"], 16)] >= ENOUGH
    assert [phase["name"] for phase in run.phases][:4] == list(catalog.load("createdelete").phases)
    assert "all as they were written" in run.output
    assert lock["name"] == "inode.i_rwsem"
    assert lock["kind"] == "rwsem"
    assert part > 0.5
    paths = {(line["dev"], line["ino"]): line["path"] for line in lines(run.path / "raw/paths.jsonl")}
    assert paths[lock["dev"], lock["ino"]] == "createdelete/shared"
    all_is_counted(run)
    if fs == FILESYSTEMS[0]:  # reported alike
        report = run.report()
        assert "inode.i_rwsem" in report
        assert "own user cpu pct" in report


def test_synced_files_are_counted_and_written(tmp_path: Path) -> None:
    job = finished(
        tmp_path / "run", FS="ext4", WL="createdelete", SCALE="quick", ARGS=f"{ARGS} -f 3",
        COLLECT="block,calls", THREADS="8", DISK="ram", SIZE="1G",
    )  # fmt: skip
    all_is_counted(job.run)
    synced = job.run.called("fsync", "count")
    # 3 % of the files, but for chance once in a million.
    files = job.run.called("write", "count")
    assert binom.ppf(5e-7, files, 0.03) <= synced <= binom.isf(5e-7, files, 0.03)
    path = job.run.path / "raw/recorder/block.rec"
    rows = read_table(path)[1]
    rows = rows[rows["op"] == enum_value(path, "block_op", "write")]
    data = int(rows[rows["class"] == enum_value(path, "block_class", "data")]["bytes"].sum())
    # the synced ones at least, and no file more than once: each has at most two blocks
    assert synced * 4096 <= data <= (files + job.run.calls_lost) * FILE_BYTES_MOST
