# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part hdd: how late an emulated disk (DISK=hdd) replies, and at what rate it falls behind.

Late: from the moment that the drive's model demands to the moment that the reply was given to the kernel, of
every request. The peer, ublk-disksim, needs ublk_drv, which this machine may lack: its published figures
stand beside ours.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.tables.rec import open_recording
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, Emulated, PlannedDisk, open_disk
from workloads.drives import model
from workloads.system.errors import RunError

ROUNDS = 3
SECONDS = 4.0
SPEEDS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # TIME= of the loads that look for the highest rate
LATE_MOST_NS = 1_000_000  # mean lateness at which the disk has fallen behind
SIZE_BYTES = 1 << 30
DESTAGE = 3
LOADS = {
    "4 KiB random reads, depth 1": ("--rw=randread", "--bs=4k", "--iodepth=1"),
    "4 KiB random reads, depth 32": ("--rw=randread", "--bs=4k", "--iodepth=32"),
    "1 MiB reads in order": ("--rw=read", "--bs=1m", "--iodepth=1"),
    "4 KiB random writes, fsync each 8": ("--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=8"),
}
PEER = "ublk-disksim, as published: late by 15 us (p50), 90 us (p99), 1,200 us (longest)"


@dataclass(frozen=True)
class Served:
    """What one load on one disk got."""

    late_ns: npt.NDArray[np.int64]  # of each reply; negative: early
    seconds: float
    cpu_s: float  # of the disk's server

    @property
    def per_s(self) -> float:
        """Replies a second."""
        return self.late_ns.size / self.seconds


@contextmanager
def _disks(count: int, speed: float) -> Iterator[tuple[Sequence[Disk], Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name,
        Janitor(Path(name) / "state") as janitor,
    ):
        emulated = Emulated(model.load(model.DEFAULT), time=speed)
        planned = [PlannedDisk(f"disk{number}", "hdd", SIZE_BYTES, emulated) for number in range(count)]
        path = Path(name) / "disk_service.rec"
        with (
            path.open("ab+") as record,
            open_disk(planned, "none", (), janitor, record=record.fileno()) as disk,
        ):
            yield disk.all, path


def _serve(options: Sequence[str], speed: float = 1.0, count: int = 1, seconds: float = SECONDS) -> Served:
    """Run fio on so many disks at once."""
    with _disks(count, speed) as (disks, path):
        begin_s, begin_cpu_s = time.monotonic(), _cpu_s(disks)
        loads = [
            subprocess.Popen(
                [
                    *("fio", "--name=load", f"--filename={disk.path}", "--direct=1", "--ioengine=libaio"),
                    *("--time_based", f"--runtime={seconds:g}", *options),
                ],
                stdout=subprocess.DEVNULL,
            )
            for disk in disks
        ]
        if any(load.wait() != 0 for load in loads):
            raise RunError("fio failed on an emulated disk")
        took_s, cpu_s = time.monotonic() - begin_s, _cpu_s(disks) - begin_cpu_s
        rows = np.concatenate([rows.copy() for rows in open_recording(path, "disk_service").chunks()])
    rows = rows[rows["op"] != DESTAGE]
    if rows.size == 0:
        raise RunError("an emulated disk recorded no request")
    return Served(rows["reply_ns"] - rows["end_ns"], took_s, cpu_s)


def _cpu_s(disks: Sequence[Disk]) -> float:
    """CPU seconds of the disks' servers; asked for, they have written all rows."""
    return sum(int(disk.server.stats()["cpu_ns"]) for disk in disks if disk.server is not None) / 1e9


def _row(name: str, rounds: Sequence[Served]) -> str:
    """One line: lateness over all rounds, and the range of the rounds' p99."""
    late_us = np.concatenate([one.late_ns for one in rounds]) / 1000
    p50, p99 = np.percentile(late_us, [50, 99])
    each = [float(np.percentile(one.late_ns, 99)) / 1000 for one in rounds]
    cpu = 100 * sum(one.cpu_s for one in rounds) / sum(one.seconds for one in rounds)
    rate = sum(one.per_s for one in rounds) / len(rounds)
    return (
        f"| {name} | {rate:,.0f} | {p50:,.0f} | {p99:,.0f} ({min(each):,.0f} to {max(each):,.0f})"
        f" | {late_us.max():,.0f} | {cpu:.1f} % |"
    )


def _highest(rounds: int) -> list[str]:
    """The loads with faster and faster time, and the highest rate that was served within the bound."""
    lines, best = [], 0.0
    for speed in SPEEDS:
        served = [_serve(LOADS["4 KiB random reads, depth 32"], speed, seconds=2.0) for _ in range(rounds)]
        mean_us = float(np.mean([one.late_ns.mean() for one in served])) / 1000
        rate = sum(one.per_s for one in served) / rounds
        lines.append(f"| {speed:g} | {rate:,.0f} | {mean_us:,.0f} |")
        if mean_us * 1000 <= LATE_MOST_NS:
            best = max(best, rate)
    lines.append(f"\nhighest rate with replies late by at most 1 ms on average: {best:,.0f} requests/s")
    return lines


def report(rounds: int) -> str:
    """Return the tables as text."""
    drive = model.load(model.DEFAULT).title
    lines = [
        f"emulated disks ({drive}), {SECONDS:g} s a load, {rounds} rounds; late by us",
        "| load | replies/s | p50 | p99 (of each round) | longest | CPU |",
        "|---|---|---|---|---|---|",
        *(_row(name, [_serve(options) for _ in range(rounds)]) for name, options in LOADS.items()),
        _row(
            "the second on 4 disks at once",
            [_serve(LOADS["4 KiB random reads, depth 32"], count=4) for _ in range(rounds)],
        ),
        PEER,
        "",
        "4 KiB random reads, depth 32, time faster than the clock.",
        "| TIME | replies/s | late by us (mean) |",
        "|---|---|---|",
        *_highest(rounds),
    ]
    return "\n".join(lines)
