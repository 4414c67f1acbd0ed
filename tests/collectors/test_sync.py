# SPDX-License-Identifier: BSD-2-Clause
"""A run writes back no file system of others: a fresh one is synced, DIR= only with SYNC=1."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk, mounted
from tests.collectors.sessions import Job, finished
from tests.marks import needs_root

pytestmark = [needs_root]


@contextmanager
def dirty_disk(place: Path) -> Iterator[tuple[LoopDisk, Path]]:
    """A file system of others with 2 MiB that nobody has written back; its journal waits five minutes."""
    place.mkdir()
    with loop_disk(place / "disk", 64 * MIB) as disk:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk.path], check=True)
        with mounted(disk.path, place / "mnt", "-o", "commit=300,noinit_itable") as folder:
            subprocess.run(["sync", "-f", folder], check=True)
            (folder / "file").write_bytes(b"x" * 2 * MIB)
            yield disk, folder


@pytest.fixture
def dirty(tmp_path: Path) -> Iterator[tuple[LoopDisk, Path]]:
    with dirty_disk(tmp_path / "dirty") as found:
        yield found


def written_bytes(disk: LoopDisk) -> int:
    return disk.stat()["write_sectors"] * 512


def test_fresh_file_system_leaves_others_dirty(dirty: tuple[LoopDisk, Path], tmp_path: Path) -> None:
    disk, _ = dirty
    calls = tmp_path / "calls"
    # Bytes alone would not say who wrote them back: another program's sync() may come meanwhile.
    strace = [
        "strace",
        "--follow-forks",
        "--decode-fds=path",
        "--seccomp-bpf",
        "--quiet=all",
        "--signal=none",
    ]
    strace += ["--trace=sync,syncfs", f"--output={calls}"]
    with dirty_disk(tmp_path / "beside") as (beside, _):
        before = [written_bytes(one) for one in (disk, beside)]
        job = finished(tmp_path / "run", strace, FS="ext4", DISK="ram", SIZE="64M", CMD=":", COLLECT="none")
        is_written, is_beside = (
            written_bytes(one) - begin >= MIB for one, begin in zip((disk, beside), before, strict=True)
        )
    synced = re.findall(r"(\w+)\(\d+<(.*)>", calls.read_text())
    assert " sync(" not in calls.read_text()
    assert synced
    assert [name for _, name in synced if Path(name).is_relative_to(tmp_path)] == []
    assert not is_written or is_beside
    assert job.run.facts["filesystem"]["synced_before"] is True
    assert job.run.facts["machine"]["dirty_bytes_at_start"] >= 2 * MIB


@pytest.mark.parametrize("asked", [False, True])
def test_directory_is_synced_only_if_asked(asked: bool, dirty: tuple[LoopDisk, Path], tmp_path: Path) -> None:
    disk, folder = dirty
    words = {"SYNC": "1"} if asked else {}
    with dirty_disk(tmp_path / "beside") as (beside, _):
        before = [written_bytes(one) for one in (disk, beside)]
        job = Job("trace", tmp_path / "run", None, DIR=str(folder), CMD="sleep 0.2", COLLECT="none", **words)
        job.until("workload")
        after = [written_bytes(one) for one in (disk, beside)]
        assert job.end() == 0, job.said
    is_written, is_beside = (end - begin >= 2 * MIB for begin, end in zip(before, after, strict=True))
    # Others may write back all disks meanwhile: by sync(), or by reclaim in a small cgroup.
    assert is_written is asked or (is_written and is_beside)
    assert job.run.facts["filesystem"]["synced_before"] is asked
    assert ("settle_s" in job.run.facts["timing"]) is asked
