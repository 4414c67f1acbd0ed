# SPDX-License-Identifier: BSD-2-Clause
"""Run programs/known_times.c, whose threads say what they did and when, on slowed disks and in cgroups."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
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
_OF_BLKIO = {"riops": "read_iops", "wbps": "write_bps"}
_BLKIO, _MEMORY = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup/memory")


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
    reclaim_ns: int
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


def run_known(
    program: Path, cgroup: Path, mode: str, amount: int, *file: Path, join: Sequence[Path] = ()
) -> Known:
    """Run the program in a cgroup2 directory. join: each another cgroup.procs that it enters first.

    With a file it is a real-time process: kernels from 6.12 on keep others in the queue for a while as they
    fall asleep, and count the begin of such a delay for whoever runs by then.
    """
    command: list[str | Path] = [program, mode, str(amount), *file]
    if file:
        command = ["chrt", "--fifo", "1", *command]
    for other in join:
        command = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', other, *command]
    child = run_inside(cgroup, command, stderr=subprocess.PIPE)
    output, errors = child.communicate(timeout=120)
    if child.returncode == 77:
        pytest.skip("the kernel has no taskstats: use one with CONFIG_TASKSTATS")
    assert child.returncode == 0, errors
    time.sleep(_ENDS_S)
    return parse(output)


def read_in_own_cgroups(
    program: Path, cgroup: Path, reads: int, file: Path, join: Sequence[Path], count: int
) -> list[tuple[Known, int]]:
    """Run the program's mode "read" so often at once, each on one CPU and in a cgroup of its own.

    With each: for how many ns some task of its cgroup waited for I/O, by pressure stall information. This
    weighs CPUs against each other, so it is the thread's own time only if all of it is on one CPU.
    """
    folders = [cgroup / f"reader{i}" for i in range(count)]
    children = []
    for folder in folders:
        folder.mkdir()
        command: list[str | Path] = [program, "read", str(reads), file]
        for procs in (folder / "cgroup.procs", *join):
            command = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', procs, *command]
        command = ["taskset", "-c", "0", *command]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    found = []
    for folder, child in zip(folders, children, strict=True):
        output, _ = child.communicate(timeout=120)
        time.sleep(_ENDS_S)
        some = (folder / "io.pressure").read_text().splitlines()[0]
        folder.rmdir()
        found.append((parse(output), int(some.rpartition("total=")[2]) * 1000))
    return found


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
def throttled(disk: LoopDisk, limit: str, group: Path) -> Iterator[list[Path] | None]:
    """Limit what processes of the cgroup, or one of version 1, do with the disk: io.max's words (riops=20).

    Yields which other cgroup.procs to join; None: the machine has no such limit.
    """
    number, (name, value) = (disk.sysfs / "dev").read_text().strip(), limit.split("=")
    if (_BLKIO / "cgroup.procs").exists():
        with _first_version(_BLKIO) as folder:
            (folder / f"blkio.throttle.{_OF_BLKIO[name]}_device").write_text(f"{number} {value}")
            yield [folder / "cgroup.procs"]
    elif "io" in (group.parent / "cgroup.controllers").read_text().split():
        with _controller(group, "io"):
            (group / "io.max").write_text(f"{number} {limit}")
            yield []
    else:
        yield None


@contextmanager
def small_memory(most_bytes: int) -> Iterator[list[Path] | None]:
    """Let processes have so many bytes, of a cgroup of version 1. Yields as throttled() does."""
    if (_MEMORY / "memory.limit_in_bytes").exists():
        with _first_version(_MEMORY) as folder:
            (folder / "memory.limit_in_bytes").write_text(str(most_bytes))
            yield [folder / "cgroup.procs"]
    else:
        yield None  # cgroups of version 2 throttle a writer before its memory is full


@contextmanager
def _controller(group: Path, name: str) -> Iterator[None]:
    """Let a cgroup of version 2, below the root, have limits of a kind."""
    switch = group.parent / "cgroup.subtree_control"
    if name in switch.read_text().split():
        yield
        return
    switch.write_text(f"+{name}")
    try:
        yield
    finally:
        switch.write_text(f"-{name}")


@contextmanager
def _first_version(root: Path) -> Iterator[Path]:
    """A new cgroup of version 1."""
    folder = root / f"seekmeter-test-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
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
