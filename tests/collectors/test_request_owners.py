# SPDX-License-Identifier: BSD-2-Clause
"""Whose requests are these: to the byte what each program says it moved, on a disk that several share.

A loop device with two partitions. The workload is on the first, below DIR; others are outside of DIR on the
same file system, on the second partition, and on a loop device whose file lies on the first. Requests are not
merged, as one with pages of two programs' files could only be the one's or the other's.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.block.request_owners import OWNERS
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.collectors.loop_disk import (
    MIB,
    SECTOR_BYTES,
    LoopDisk,
    add_partition,
    attached,
    delete_partition,
    loop_disk,
    mounted,
)
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import Job, wait_for
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

PART_BYTES = 192 * MIB


@dataclass(frozen=True)
class Shared:
    """The disk, and where its two file systems are mounted."""

    disk: LoopDisk
    first: Path
    second: Path

    @property
    def first_part(self) -> str:
        return f"{self.disk.name}p1"


@contextmanager
def partition(disk: LoopDisk, number: int, folder: Path) -> Iterator[Path]:
    """A partition with a mounted ext4 that has nothing left to initialise."""
    first = MIB // SECTOR_BYTES + (number - 1) * PART_BYTES // SECTOR_BYTES
    add_partition(str(disk.path), number, first, PART_BYTES // SECTOR_BYTES)
    device = Path(f"{disk.path}p{number}")
    try:
        wait_for(device.exists)
        options = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, device], check=True)
        with mounted(device, folder) as mount:
            yield mount
    finally:
        delete_partition(str(disk.path), number)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with ExitStack() as stack:
        disk = stack.enter_context(loop_disk(tmp_path / "image", 2 * PART_BYTES + 2 * MIB))
        merges = disk.sysfs / "queue/nomerges"  # the device keeps it when it is detached
        stack.callback(merges.write_text, merges.read_text())
        merges.write_text("2")
        first, second = (
            stack.enter_context(partition(disk, number, tmp_path / f"mnt{number}")) for number in (1, 2)
        )
        (first / "work").mkdir()
        (first / "elsewhere").mkdir()
        yield Shared(disk, first, second)


def fio(folder: Path, output: Path, name: str, *more: str) -> list[str]:
    """A job of fio's that says in JSON what it moved."""
    return [
        "fio", f"--directory={folder}", f"--output={output}", "--output-format=json", f"--name={name}",
        f"--filename={name}", "--ioengine=psync", "--bs=64k", *more,
    ]  # fmt: skip


def moved(*outputs: Path) -> dict[str, int]:
    """Bytes that fio says it read and wrote."""
    jobs = [job for output in outputs for job in json.loads(output.read_text())["jobs"]]
    return {op: sum(int(job[op]["io_bytes"]) for job in jobs) for op in ("read", "write")}


def data_by_owner(run: Path) -> dict[str, dict[str, int]]:
    """Bytes of file data that were read and written, by owner, as the analysis has them."""
    opened = open_run(run)
    tables = load_tables(opened)
    owners, block = measure(opened, tables).owners, tables.block
    assert owners is not None and owners.codes is not None and block is not None
    data = block.class_.is_("data")
    return {
        owner: {
            op: int(block.bytes[data & block.op.is_(op) & (owners.codes == code)].sum(dtype=np.int64))
            for op in ("read", "write")
        }
        for code, owner in enumerate(OWNERS)
    }


WRITES = ("--rw=write", "--fallocate=none")
READS = ("--rw=randread", "--direct=1", "--bs=4k")


def test_own_and_others_bytes_equal_each_programs_count(shared: Shared, tmp_path: Path) -> None:
    """Buffered writes that the kernel writes back, and direct reads, of four programs at the same time."""
    work, elsewhere = shared.first / "work", shared.first / "elsewhere"
    (elsewhere / "image").write_bytes(bytes(8 * MIB))
    subprocess.run(["sync", "-f", elsewhere], check=True)
    said = {name: tmp_path / f"{name}.json" for name in ("mine", "again", "outside", "second", "reads")}
    go, stop = tmp_path / "go", tmp_path / "stop"
    mine = fio(work, said["mine"], "mine", *WRITES, "--size=24M")
    again = fio(work, said["again"], "mine", *READS, "--size=24M", "--number_ios=500")
    command = f"touch {go}; {shlex.join(mine)} && {shlex.join(again)} || exit 1; "
    command += f"while [ ! -e {stop} ]; do sleep 0.1; done"
    with attached(elsewhere / "image", "--direct-io=on") as upper:
        job = Job("trace", tmp_path / "run", None, DIR=str(work), CMD=command, COLLECT="block calls")
        wait_for(go.exists)
        others = [
            fio(elsewhere, said["outside"], "outside", *WRITES, "--size=20M"),
            fio(shared.second, said["second"], "second", *WRITES, "--size=16M", "--end_fsync=1"),
            fio(shared.second, said["reads"], "second", *READS, "--size=16M", "--number_ios=700"),
            ["dd", "if=/dev/zero", f"of={upper}", "bs=64k", "count=32", "oflag=direct", "status=none"],
        ]
        for words in others:
            subprocess.run(words, check=True, capture_output=True)
        stop.touch()
        assert job.end() == 0, job.said
    found = data_by_owner(tmp_path / "run")
    assert found["workload"] == moved(said["mine"], said["again"])
    theirs = moved(said["outside"], said["second"], said["reads"])
    theirs["write"] += 32 * 64 * 1024  # through the loop device
    assert found["others"] == theirs
    assert found["recorder"] == {"read": 0, "write": 0}
    assert found["filesystem"] == {"read": 0, "write": 0}
    subprocess.run(["make", "report", f"RUN={tmp_path / 'run'}"], check=True, capture_output=True)
    report = (tmp_path / "run/detail.txt").read_text()
    assert "!! other programs use this disk: " in report
    assert "\nREQUESTS BY OWNER ---" in report
    # report.txt folds a long path in its column; report.html has it whole
    assert str(elsewhere / "outside") in (tmp_path / "run/report.html").read_text()


@pytest.mark.parametrize("mem", ["64M", None])
def test_pages_of_deleted_files_belong_by_memory_cgroup(
    shared: Shared, tmp_path: Path, mem: str | None
) -> None:
    """Without one nobody can tell them, and nobody is said to have written them."""
    work, elsewhere = shared.first / "work", shared.first / "elsewhere"
    write = "dd if=/dev/zero of={0} bs=64k count={1} status=none && sync -f {0} && rm {0}"
    go, stop = tmp_path / "go", tmp_path / "stop"
    command = f"{write.format('gone', 96)}; touch {go}; while [ ! -e {stop} ]; do sleep 0.1; done"
    words = {"DIR": str(work), "CMD": command, "COLLECT": "block"} | ({"MEM": mem} if mem else {})
    job = Job("trace", tmp_path / "run", None, **words)
    wait_for(go.exists)
    subprocess.run(["sh", "-c", write.format(elsewhere / "gone", 64)], check=True)
    stop.touch()
    assert job.end() == 0, job.said
    written = {owner: moved["write"] for owner, moved in data_by_owner(tmp_path / "run").items()}
    mine, theirs = 96 << 16, 64 << 16
    if mem:
        assert written == {"workload": mine, "filesystem": 0, "recorder": 0, "others": theirs}
    elif written["filesystem"]:
        assert written == {"workload": 0, "filesystem": mine + theirs, "recorder": 0, "others": 0}
    else:  # the host has the memory controller in cgroup2: everybody has a memory cgroup
        assert written == {"workload": mine, "filesystem": 0, "recorder": 0, "others": theirs}


def test_watched_partition_is_told_from_the_other(shared: Shared, tmp_path: Path) -> None:
    said = {name: tmp_path / f"{name}.json" for name in ("first", "second")}
    words = {"DEV": shared.first_part, "SECS": "600", "COLLECT": "block calls"}
    job = Job("watch", tmp_path / "run", None, **words)
    job.until("watch")
    for name, folder in (("first", shared.first), ("second", shared.second)):
        load = fio(folder, said[name], name, *WRITES, f"--size={10 + 5 * len(name)}M", "--end_fsync=1")
        subprocess.run(load, check=True, capture_output=True)
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 0, job.said
    found = data_by_owner(tmp_path / "run")
    assert found["workload"] == moved(said["first"])
    assert found["others"] == moved(said["second"])
    assert job.run.has_counted(job.run.called("write", "bytes"), moved(said["first"])["write"], most=64 << 10)


def test_recording_on_the_same_file_system_is_told_apart(shared: Shared, tmp_path: Path) -> None:
    """Its files are written back by the kernel while the workload runs; what is left of them comes later."""
    command = (
        "for i in 1 2 3 4; do dd if=/dev/zero of=$i bs=4k count=2000 oflag=direct status=none; sync; done"
    )
    job = Job("trace", shared.first / "run", None, DIR=str(shared.first / "work"), CMD=command)
    assert job.end() == 0, job.said
    found = data_by_owner(shared.first / "run")
    recorded = sum(file.stat().st_size for file in (shared.first / "run/raw").rglob("*") if file.is_file())
    assert found["workload"]["write"] == 4 * 2000 * 4096
    assert 0 < found["recorder"]["write"] < 4 * recorded  # a page may be written before it is full, and again
    assert found["others"]["write"] == 0
