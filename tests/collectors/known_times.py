# SPDX-License-Identifier: BSD-2-Clause
"""Run programs/known_times.c, whose threads say what they did and when, on slowed disks and in cgroups."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import LoopDisk
from tests.collectors.recording import run_inside
from workloads.cleanup.janitor import Janitor

DELAYACCT = Path("/proc/sys/kernel/task_delayacct")
_ENDS_S = 0.05  # a thread runs on for a moment after its process is gone; longer where CPUs are few
_BLKIO = Path("/sys/fs/cgroup/blkio")


@dataclass(frozen=True)
class KnownThread:
    """A thread of the program: its first and last moment, and the kernel's counts at the last one."""

    name: str
    tid: int
    begin_ns: int
    end_ns: int
    run_ns: int
    run_delay_ns: int
    blkio_ns: int
    sleeps: int
    preemptions: int


@dataclass(frozen=True)
class Piece:
    """What a thread did, and when."""

    thread: str
    what: str
    begin_ns: int
    end_ns: int

    @property
    def ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Known:
    """One run of the program."""

    mode: str
    pid: int
    threads: dict[str, KnownThread]
    pieces: list[Piece]

    def pieces_of(self, thread: str, what: str) -> list[Piece]:
        return [piece for piece in self.pieces if (piece.thread, piece.what) == (thread, what)]


def run_known(program: Path, cgroup: Path, mode: str, amount: int, *file: Path, join: str = "") -> Known:
    """Run the program in a cgroup2 directory. join: the path of another cgroup.procs that it enters first.

    With a file it is a real-time process: kernels from 6.12 on keep others in the queue for a while as they
    fall asleep, and count the begin of such a delay for whoever runs by then.
    """
    enter = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', join] if join else []
    enter += ["chrt", "--fifo", "1"] if file else []
    child = run_inside(cgroup, [*enter, program, mode, str(amount), *file], stderr=subprocess.PIPE)
    output, errors = child.communicate(timeout=120)
    if child.returncode == 77:
        pytest.skip("the kernel has no taskstats: use one with CONFIG_TASKSTATS")
    assert child.returncode == 0, errors
    time.sleep(_ENDS_S)
    return parse(output)


def parse(line: str) -> Known:
    """Return what the program printed."""
    facts: dict[str, Any] = json.loads(line)
    threads = [KnownThread(**thread) for thread in facts["threads"]]
    pieces = [Piece(**piece) for piece in facts["pieces"]]
    return Known(facts["mode"], facts["pid"], {thread.name: thread for thread in threads}, pieces)


@contextmanager
def delays_counted() -> Iterator[None]:
    """The kernel counts delays of block I/O, of threads that begin in the block."""
    if not DELAYACCT.exists():
        yield  # older kernels always do
        return
    with Janitor() as janitor:
        janitor.set_shared(DELAYACCT, "1")
        yield


@contextmanager
def throttled_reads(disk: LoopDisk, per_second: int) -> Iterator[str]:
    """A cgroup in which so many reads a second of the disk are let through. Yields its cgroup.procs.

    Where no cgroup v1 does it, reads are as fast as the disk: "".
    """
    if not (_BLKIO / "cgroup.procs").exists():
        yield ""
        return
    folder = _BLKIO / f"seekmeter-test-{os.getpid()}"
    folder.mkdir()
    try:
        number = (disk.sysfs / "dev").read_text().strip()
        (folder / "blkio.throttle.read_iops_device").write_text(f"{number} {per_second}")
        yield str(folder / "cgroup.procs")
    finally:
        folder.rmdir()


@contextmanager
def few_dirty_bytes(disk: LoopDisk, most_bytes: int) -> Iterator[bool]:
    """Writers of the disk's file system are throttled from so many dirty bytes on; False: not before 6.2."""
    folder = Path("/sys/class/bdi", (disk.sysfs / "dev").read_text().strip())
    if not (folder / "strict_limit").exists():
        yield False
        return
    with ExitStack() as stack:
        for name in ("strict_limit", "max_ratio"):
            stack.callback((folder / name).write_text, (folder / name).read_text())
        (folder / "strict_limit").write_text("1")
        (folder / "max_bytes").write_text(str(most_bytes))  # sets max_ratio
        yield True
