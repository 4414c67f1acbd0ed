# SPDX-License-Identifier: BSD-2-Clause
"""The end of a recording while another process has the recorder's links open, too, as `bpftool link` has.

A program is attached until its link is closed everywhere. What it would add after the end is in no table, and
in no count: else rows would be missing that nobody lost.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import needs_btf, recording
from tests.collectors.test_max import reader
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

PIDFD_GETFD = 438  # a system call, in Linux 5.6
TIMES = 4


@contextmanager
def links_of(pid: int) -> Iterator[int]:
    """Open the process's links, too; how many these are."""
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    count = 0
    with ExitStack() as stack:
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        for entry in list(Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(FileNotFoundError):  # closed meanwhile
                if not re.search("bpf.link", os.readlink(entry)):
                    continue
                link = system_call(PIDFD_GETFD, process, int(entry.name), 0)
                assert link >= 0, os.strerror(ctypes.get_errno())
                stack.callback(os.close, link)
                count += 1
        yield count


@pytest.mark.parametrize(
    ("collector", "under_way"),
    [
        ("block", ()),  # not counted before they end
        ("calls", ("open at the end", "aio: open at the end")),
        ("locks", ("open at the end",)),
        ("events", ()),
    ],
)
def test_nothing_is_counted_after_the_end(tmp_path: Path, collector: str, under_way: tuple[str, ...]) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, reader(disk.path, "--rate_iops=0", "--numjobs=2"):
        for number in range(TIMES):
            out = tmp_path / str(number)
            with recording(out, "--collect", collector, "--disk", disk.name) as run:
                with links_of(run.process.pid) as count:
                    assert count
                    time.sleep(0.3)
                    run.stop()
                state = run.source(collector)
            under_way_count = sum(state["notes"][name] for name in under_way)
            assert state["seen"] == state["recorded"] + sum(state["lost"].values()) + under_way_count, state
            if collector == "block":
                assert state["recorded"] == len(run.table("block")) > 100
