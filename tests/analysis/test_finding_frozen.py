# SPDX-License-Identifier: BSD-2-Clause
"""A frozen file system: found by the call paths of Linux 6.18; other per-CPU semaphores are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.finding import Certainty
from analysis.findings.frozen import find
from analysis.findings.lock import find as find_lock
from tests.analysis.waiting_runs import BEGIN, MS, OTHER, SYSCALL, Sleep, case_of

# as recorded on 6.18: vfs_write() of ext4 and btrfs, open() of xfs
WRITE = ("__schedule+0x618", "schedule+0x23", "percpu_rwsem_wait+0x15f", "__percpu_down_read+0x88")
EXT4 = (*WRITE, "vfs_write+0x3f0", "ksys_write+0x66", *SYSCALL)
XFS = (*WRITE, "mnt_want_write+0x96", "path_openat+0x4cf", "do_filp_open+0xc3", "do_sys_openat2+0x6e")
XFS = (*XFS, "__x64_sys_openat+0x5d", *SYSCALL)  # type: ignore[assignment]
CGROUP = (*WRITE, "cgroup_css_set_fork+0x1", "copy_process+0x96", "__x64_sys_clone+0x1", *SYSCALL)


@pytest.mark.parametrize(("frames", "call"), [(EXT4, "write()"), (XFS, "open()")])
def test_freeze_is_found(tmp_path: Path, frames: tuple[str, ...], call: str) -> None:
    case = case_of(tmp_path / "run", [Sleep(200, 700, frames, waker=OTHER)])
    (finding,) = find(case)
    assert finding.what == "The file system was frozen once: 0.50 s of 1.00 s (50 %)."
    assert list(finding.because) == [
        f"1 sleep in {call} lasted until it was thawed, the longest 0.50 s.",
        "Thawed by storm, which ended 1 sleep.",
    ]
    assert (finding.certainty, finding.doubt) == (Certainty.SURE, "")
    assert (finding.where.start_ns - BEGIN) // MS == 200
    assert find_lock(case) == []  # the same sleep is no lock's


@pytest.mark.parametrize(
    "frames",
    [
        CGROUP,
        ("schedule+0x1", "rwsem_down_write_slowpath+0x1", "down_write+0x1", "vfs_write+0x1", *SYSCALL),
        ("schedule+0x1", "mnt_want_write+0x1", *SYSCALL),
    ],
)
def test_other_waits_are_no_freeze(tmp_path: Path, frames: tuple[str, ...]) -> None:
    assert find(case_of(tmp_path / "run", [Sleep(200, 700, frames)])) == []
