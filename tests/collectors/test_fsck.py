# SPDX-License-Identifier: BSD-2-Clause
"""mkfs and fsck recorded too, fsck's verdict and its end: against the kernel's counters, and real damage."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as parquet
import pytest

from analysis.compare import make_compare
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import Job, Run, make
from tests.marks import needs_root
from workloads import filesystems
from workloads.system import command

pytestmark = [needs_root]

SMALL = {"ext4": "64M", "xfs": "300M", "btrfs": "128M"}
# ext2 and ext3 have the driver, the mkfs and the fsck of ext4.
HERE = [n for n in filesystems.names() if filesystems.kernel_has(n) and n not in ("ext2", "ext3")]


def inside(rows: npt.NDArray[Any], phase: dict[str, Any]) -> npt.NDArray[Any]:
    """Requests issued in a phase; of some the end may be unseen."""
    within = (rows["issue_ns"] >= phase["start_ns"]) & (rows["issue_ns"] < phase["end_ns"])
    return np.asarray(rows[within])


def counted_by_the_kernel(run: Run, name: str, dev: int) -> int:
    """By how much one of a disk's own counters rose while recording. dev: the disk, major << 20 | minor."""
    path = run.path / "raw/recorder/counter.rec"
    rows = read_table(path)[1]
    values = rows["value"][(rows["name"] == enum_value(path, "counter_name", name)) & (rows["dev"] == dev)]
    return int(values[-1] - values[0])


def compared(one: Path, folder: Path) -> None:
    """Compare a run with itself: what is said of mkfs and fsck, and only that, is of what lies beside it."""
    shutil.copytree(one, folder / "other")
    make_compare([one, folder / "other"], folder / "compared")
    with (folder / "compared/compare.csv").open() as file:
        found = {row["measure"]: float(row["value"]) for row in csv.DictReader(file)}
    facts = Run(one).facts
    assert found["mkfs"] == facts["timing"]["mkfs_s"]
    assert found["fsck"] == facts["filesystem"]["fsck"]["seconds"]
    assert found["used after the run (df)"] == facts["filesystem"]["space"]["after_run"]["used_bytes"]


@needs_btf
@pytest.mark.parametrize(
    "fs", [fs if fs == "xfs" else pytest.param(fs, marks=pytest.mark.long) for fs in HERE]
)
def test_mkfs_and_fsck_are_phases(fs: str, tmp_path: Path) -> None:
    """A loop device is new: what the kernel counted of it is mkfs's and what came after."""
    if fs == "btrfs":
        more = {"DISK": "file file"}
    else:
        more = {"JOURNAL": "file"} if fs == "ext4" else {}
    given = {
        "FS": fs,
        "SIZE": SMALL.get(fs, "512M"),
        "WITH": "mkfs fsck",
        "COLLECT": "block calls counters",
        **more,
    }
    command = "CMD=dd if=/dev/urandom of=$SEEKMETER_DIR/f bs=64k count=16"
    done = make("trace", f"OUT={tmp_path}/run", command, *(f"{name}={text}" for name, text in given.items()))
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "run")
    assert [phase["name"] for phase in run.phases] == ["mkfs", "mount", "command", "sync", "unmount", "fsck"]
    phases = {phase["name"]: phase for phase in run.phases}
    times = [time for phase in run.phases for time in (phase["start_ns"], phase["end_ns"])]
    clock = run.facts["clock"]
    assert times == sorted(times)
    assert clock["record_start_ns"] < times[0] and times[-1] < clock["record_end_ns"]
    assert phases["mount"]["end_ns"] < clock["run_start_ns"] <= clock["workload_start_ns"]
    assert phases["sync"]["end_ns"] <= clock["run_end_ns"] < phases["unmount"]["start_ns"]

    path = run.path / "raw/recorder/block.rec"
    rows = read_table(path)[1]
    op = {name: enum_value(path, "block_op", name) for name in ("read", "write", "write_zeroes", "flush")}
    made, checked = inside(rows, phases["mkfs"]), inside(rows, phases["fsck"])
    assert made[made["op"] == op["write"]]["bytes"].sum() > 0
    mkfs = run.facts["filesystem"]["mkfs"].split()[0].encode()
    assert mkfs[:15] in set(made["comm"].tolist())
    # nothing is written by fsck, and what it reads is not in memory: superblock and all that it must look at
    program = run.facts["filesystem"]["fsck"]["command"].split()[0]
    own = checked[np.char.startswith(checked["comm"], program.encode()[:15])]
    assert own[own["op"] == op["read"]]["bytes"].sum() > 0
    assert set(checked["op"].tolist()) <= {op["read"], op["flush"]}
    assert not rows["in_workload"][rows["issue_ns"] < clock["run_start_ns"]].any()
    major, minor = map(int, run.facts["device"]["dev"].split(":"))
    disk = major << 20 | minor
    first = rows[rows["dev"] == disk]
    assert first[first["op"] == op["read"]]["bytes"].sum() == counted_by_the_kernel(
        run, "disk.read_bytes", disk
    )
    written = np.isin(first["op"], (op["write"], op["write_zeroes"]))
    assert first[written]["bytes"].sum() == counted_by_the_kernel(run, "disk.write_bytes", disk)
    calls = parquet.read_table(run.path / "tables/call.parquet").to_pylist()
    on_target = [row["bytes"] for row in calls if (row["call"], row["target"]) == ("write", "target")]
    # opened by its absolute path, in a mount that came after the recorder
    assert run.has_counted(sum(on_target), 16 << 16, most=1 << 16)
    opened = [row["count"] for row in calls if (row["call"], row["target"]) == ("open", "target")]
    assert sum(opened) >= 1

    block = parquet.read_table(run.path / "tables/block.parquet", columns=["class", "issue_ns"])
    issued = block["issue_ns"].to_numpy()
    classes = np.array(block["class"].to_pylist())
    unmounted = (issued < phases["mkfs"]["end_ns"]) | (issued > phases["fsck"]["start_ns"])
    assert unmounted.sum() >= made.size + checked.size
    assert "data" not in classes[unmounted]  # nor was there any file

    report = (run.path / "detail.txt").read_text()
    # the figures are of the run alone: those of the tables that completed in it
    # the end of some may be unseen
    ended = np.maximum(np.maximum(rows["complete_ns"], rows["end_by_ns"]), rows["issue_ns"])
    mine = rows[(ended >= clock["run_start_ns"]) & (ended < clock["run_end_ns"])]
    assert f"{rows.size - mine.size:,} requests of these steps" in report
    shown = re.findall(r"^  (read|write) +(?:data|metadata|journal|unknown) +([\d,]+) ", report, re.MULTILINE)
    for name in ("read", "write"):
        counts = [int(count.replace(",", "")) for of, count in shown if of == name]
        assert sum(counts) == np.count_nonzero(mine["op"] == op[name]), name
    for step in ("mkfs", "fsck"):
        begin, end = phases[step]["start_ns"], phases[step]["end_ns"]
        completed = np.count_nonzero((ended >= begin) & (ended < end))
        row = next(
            line.split() for line in report.splitlines() if re.match(rf"  {step} +[\d.]+ +[\d,]+ ", line)
        )
        assert int(row[2].replace(",", "")) == completed, row
        assert re.search(rf"^  {step} +{re.escape(row[1])} s", report, re.MULTILINE)  # one time in both lines
    assert report.count("as traced") == 2
    if fs == "xfs":
        compared(run.path, tmp_path)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory of programs that are found first."""
    place = tmp_path / "programs"
    place.mkdir()
    return place


def program(place: Path, name: str, script: str) -> None:
    """Make one."""
    (place / name).write_text(f"#!/bin/sh\n{script}\n")
    (place / name).chmod(stat.S_IRWXU)


def test_fsck_damage_fails_the_run_and_heads_the_report(tmp_path: Path, programs: Path) -> None:
    """A counter of the superblock and a file's inode are broken on the unmounted disk, then fsck looks."""
    real = command.find_program("fsck.ext3")
    broken = (
        'for disk; do :; done; debugfs -w -R "clri f" "$disk" 2>/dev/null; '
        'debugfs -w -R "ssv free_blocks_count 1" "$disk" 2>/dev/null'
    )
    program(programs, "fsck.ext3", f'{broken}\nexec {real} "$@"')
    job = Job("trace", tmp_path / "run", programs, FS="ext3", SIZE="64M", COLLECT="counters", CMD="echo x >f")
    assert job.end() == 1
    assert "the file system is damaged after the run (fsck.ext3 -f -n" in job.said
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"], facts["workload"]["exit_status"]) == ("complete", 1, 0)
    assert facts["filesystem"]["fsck"]["clean"] is False
    assert facts["filesystem"]["fsck"]["said"][-1] == "exit status 4"  # e2fsck(8): errors left uncorrected
    assert any("is damaged after the run" in warning for warning in facts["warnings"])
    output = (job.run.path / "raw/fsck.out").read_text()
    assert "WARNING: Filesystem still has errors" in output
    report = " ".join(job.run.report().split())
    assert "!! fsck reports that the file system is damaged after the run:" in report
    assert "DAMAGED" in report


def test_interrupt_ends_fsck_and_not_the_run(tmp_path: Path, programs: Path) -> None:
    program(programs, "fsck.ext3", "echo looking; sleep 77 & sleep 78")
    words = {"FS": "ext3", "SIZE": "64M", "COLLECT": "counters", "WITH": "fsck", "CMD": "echo x >f"}
    job = Job("trace", tmp_path / "run", programs, **words)
    job.until("fsck")
    os.kill(job.process.pid, signal.SIGINT)
    assert job.end() == 0  # before those would end by themselves
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"]) == ("complete", 0)
    assert facts["filesystem"]["fsck"]["clean"] is None
    assert facts["filesystem"]["fsck"]["why"] == "it was interrupted"
    assert [text for text in facts["warnings"] if "fsck: it was interrupted" in text]
    assert job.run.losses["complete"] is True


@pytest.mark.parametrize("too", ["fsck", ""])
def test_failed_workload_is_followed_by_fsck(tmp_path: Path, too: str) -> None:
    words = {"FS": "ext3", "SIZE": "64M", "COLLECT": "counters", "CMD": "echo x >f; exit 7"}
    job = Job("trace", tmp_path / "run", None, **words, **({"WITH": too} if too else {}))
    assert job.end() == 1
    assert "the workload failed (exit status 7" in job.said
    assert job.run.facts["filesystem"]["fsck"]["clean"] is True
    recorded = ["unmount", "fsck"] if too else []
    assert [phase["name"] for phase in job.run.phases] == ["command", "sync", *recorded]


def test_damage_is_reported_for_a_failed_workload_too(tmp_path: Path, programs: Path) -> None:
    real = command.find_program("fsck.ext3")
    broken = 'for disk; do :; done; debugfs -w -R "clri f" "$disk" 2>/dev/null'
    program(programs, "fsck.ext3", f'{broken}\nexec {real} "$@"')
    words = {"FS": "ext3", "SIZE": "64M", "COLLECT": "counters", "CMD": "echo x >f; exit 7"}
    job = Job("trace", tmp_path / "run", programs, **words)
    assert job.end() == 1
    assert "the workload failed (exit status 7" in job.said  # the first thing that went wrong
    assert any("is damaged after the run" in warning for warning in job.run.facts["warnings"])
    assert "!! fsck reports that the file system is damaged after the run" in job.run.report()


def test_interrupted_workload_is_not_followed_by_fsck(tmp_path: Path) -> None:
    """Who has just asked for the end does not wait for fsck."""
    words = {"FS": "ext3", "SIZE": "64M", "COLLECT": "counters", "WITH": "fsck", "CMD": "sleep 100"}
    job = Job("trace", tmp_path / "run", None, **words)
    job.until("workload")
    os.kill(job.process.pid, signal.SIGINT)
    assert job.end() == 1
    fsck = job.run.facts["filesystem"]["fsck"]
    assert (fsck["clean"], fsck["why"]) == (None, "the workload was interrupted")
