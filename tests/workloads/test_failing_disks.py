# SPDX-License-Identifier: BSD-2-Clause
"""Generators on a disk that fails while they run, and on a read-only one: a clear error, nothing left."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, tmpfs
from tests.collectors.sessions import TREE, Job
from tests.marks import needs_root
from tests.workloads.programs import run
from workloads import filesystems

ON_A_FAILING_DISK = [
    ("compilebench", "ext4", "-i 1 -r 3"),
    ("manyfiles", "xfs", "-n 20000 -b 8192"),
    ("webcache:tar", "btrfs", "-m 150 --stream"),
    ("createdelete", "ext3", "-n 20000 -o 20000 -f 5"),
    ("filemark", "xfs", "-n 30000 -o 30000 -p 1 -P 1"),
    ("aim7", "ext4", "-n 64 -N 512 -l 60"),
    ("pgmeter", "xfs", "-m 300"),
]


def shrink(job: Job, but_bytes: int) -> None:
    """Limit the growth of a RAM disk's tmpfs, which is in the session's mount namespace."""
    place = next(line.split()[4] for line in job.mountinfo().splitlines() if "/ram-disk0 " in line)
    room = os.statvfs(job.inside(place))
    size_bytes = (room.f_blocks - room.f_bfree) * room.f_frsize + but_bytes
    inside = ["nsenter", f"--target={job.process.pid}", "--mount"]
    subprocess.run([*inside, "mount", "-o", f"remount,size={size_bytes}", place], check=True)


@needs_root
@pytest.mark.parametrize(("workload", "fs", "args"), ON_A_FAILING_DISK)
def test_failing_disk_ends_the_run_cleanly(tmp_path: Path, workload: str, fs: str, args: str) -> None:
    """The memory of its file is limited: from then on writes to new offsets of the disk fail."""
    if not filesystems.kernel_has(fs):
        pytest.skip(f"the kernel has no {fs}: use one that has")
    job = Job(
        "trace", tmp_path / "run", FS=fs, WL=workload, SCALE="quick", ARGS=args, SIZE="500M", DISK="ram",
        COLLECT="block",
    )  # fmt: skip
    job.until("workload")
    shrink(job, 24 * MIB)
    assert job.end(300) == 1, job.said
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"], facts["workload"]["exit_status"]) == ("complete", 1, 1)
    last = job.run.output.splitlines()[-1]
    reasons = r"(?i)input/output error|read-only file system|no space left on device|is not what was"
    assert last.startswith("seekmeter: ") and re.search(f"{reasons}|failed with exit status", last), last
    assert last in job.said
    assert any("the workload failed" in warning for warning in facts["warnings"])


@needs_root
def test_workload_ends_before_the_host_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tmpfs(tmp_path / "small", "256M") as small:
        monkeypatch.setenv("SEEKMETER_SCRATCH", str(small))
        command = "sleep 1; while :; do head -c 1M /dev/urandom >>f; sync f; sleep 0.2; done"
        job = Job("trace", tmp_path / "run", FS="ext4", SIZE="250M", COLLECT="block", CMD=command)
        job.until("workload")
        (small / "filler").write_bytes(bytes(210 * MIB))
        assert job.end(60) == 1, job.said
        assert re.search(r"the file system of the disk's file has only [\d.]+M left", job.said), job.said
        assert sorted(path.name for path in small.iterdir()) == ["filler"]
    assert job.left_behind() == []
    assert job.run.facts["state"] == "interrupted"


@needs_root
@pytest.mark.parametrize(
    ("generator", "words"),
    [
        ("compilebench", ["-i", 1, "-r", 0]),
        ("manyfiles", ["-n", 10]),
        ("webcache", ["-m", 1, "--stream"]),
        ("webcache", ["-m", 0, "-f", 10]),
        ("createdelete", ["-n", 10]),
    ],
)
def test_read_only_file_system_is_reported(generator: str, words: list[str | int], ram: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", ram], check=True)
    result = run(TREE / "build/generators" / generator, "-D", ram, *words)
    assert result.returncode == 1
    *of_programs, last = result.stderr.splitlines()
    assert last.startswith("seekmeter: ")
    if "--stream" in words:  # it is tar that cannot make files, and says so for each
        assert any(line.endswith("Read-only file system") for line in of_programs)
        assert last == "seekmeter: tar: failed with exit status 2"
    else:
        assert of_programs == []
        assert last.endswith("read-only file system; look in dmesg for why the file system went read-only")
