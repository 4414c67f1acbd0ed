# SPDX-License-Identifier: BSD-2-Clause
"""An emulated disk in real time: measured times within 2 % of arithmetic with the drive's parameters.

Which sectors fio asked for, and when, the arithmetic gets from the recorded rows, with the angle of the
platter at the first of them. A busy machine adds up to a tick to a request before it reaches the disk and
after it has left it. So of requests that come one at a time the median of the disk's own time is compared,
which no other program delays, and the shortest of the measured ones, which is shorter by no more than the
ways to and from the server, as it takes them to be. Queued requests keep the drive busy throughout.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from analysis.tables.rec import open_recording
from tests.marks import needs_root, real_time
from tests.workloads.drive_arithmetic import Arithmetic
from tests.workloads.emulated import SATA_TOML
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk, Emulated, PlannedDisk, open_disk
from workloads.drives import model as models
from workloads.drives.model import DriveModel, load

pytestmark = [needs_root, real_time]
WITHIN = 0.02
READ, WRITE, FLUSH, DESTAGE = range(4)  # of "op"
_SECTOR = 512
_WAY_IN_NS, _WAKES = 5_000, 5  # of fuse.c: three wakes in, two out


@dataclass
class Open:
    """An emulated disk with the rows that its server has written so far."""

    disk: Disk
    arithmetic: Arithmetic
    _record: Path

    def rows(self) -> npt.NDArray[np.void]:
        """Return all rows so far."""
        assert self.disk.server is not None
        self.disk.server.stats()
        return np.concatenate([rows.copy() for rows in open_recording(self._record, "disk_service").chunks()])

    def ways_ns(self) -> float:
        """What the server takes off for a request's ways in and out: wakes of threads, its system call."""
        assert self.disk.server is not None
        stats = self.disk.server.stats()
        return float(_WAY_IN_NS + _WAKES * stats["wake_ns"] + stats["answer_ns"])

    def fio(self, *options: str) -> dict[str, Any]:
        """Run fio on the disk with direct I/O. Returns its first job."""
        command = ["fio", "--name=job", f"--filename={self.disk.path}", "--direct=1", "--output-format=json"]
        done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
        return dict(json.loads(done.stdout)["jobs"][0])

    def latencies_ns(self, log: Path, *options: str) -> list[tuple[int, int, int]]:
        """Run fio. Returns each request as it logs it: end in ms since its start, latency in ns, sector."""
        self.fio("--log_offset=1", f"--write_lat_log={log}", *options)
        lines = Path(f"{log}_lat.1.log").read_text().splitlines()
        fields = ([int(text, 0) for text in line.split(",")] for line in lines)
        return [(line[0], line[1], line[4] // _SECTOR) for line in fields]


@contextmanager
def opened(tmp_path: Path, drive: DriveModel, offset_bytes: int, size_bytes: int) -> Iterator[Open]:
    planned = PlannedDisk("disk0", "hdd", size_bytes, Emulated(drive, offset_bytes), used_bytes=1 << 20)
    path = tmp_path / "disk_service.rec"
    with (
        path.open("ab+") as record,
        Janitor(tmp_path / "state") as janitor,
        open_disk([planned], "none", (), janitor, record=record.fileno()) as disk,
    ):
        yield Open(disk, Arithmetic(SATA_TOML), path)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A disk as large as its drive, which is a file of the user's."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    toml = tmp_path / "drive.toml"
    toml.write_text(SATA_TOML)
    drive = load(str(toml))
    with opened(tmp_path, drive, 0, drive.capacity_bytes) as disk:
        yield disk


def served(rows: npt.NDArray[np.void], *ops: int) -> list[npt.NDArray[np.void]]:
    """Return the rows of these kinds that needed the platter."""
    return [row for row in rows if row["op"] in ops and row["how"] == 0 and row["sectors"]]


def predicted_ends_ns(
    arithmetic: Arithmetic, rows: list[Any], overhead_ns: float, writes: bool = False
) -> list[float]:
    """Return when each access ends, by its arrival and the end of the row before."""
    first = arithmetic.place(int(rows[0]["sector"]))
    begun_ns = float(
        rows[0]["end_ns"] - rows[0]["transfer_ns"]
    )  # the one angle that is taken from the record
    head, free_ns = first, float(rows[0]["end_ns"])
    ends = [free_ns]
    for row in rows[1:]:
        place = arithmetic.place(int(row["sector"]))
        # The electronics' overhead of a request that waits goes on beside the access before it.
        at_ns = max(float(row["start_ns"] if writes else row["arrival_ns"]) + overhead_ns, free_ns)
        at_ns += arithmetic.move_ns(head, place, writes)
        at_ns += arithmetic.turn_ns(at_ns, place, begun_ns, first)
        free_ns = at_ns + int(row["sectors"]) * place.share * arithmetic.revolution_ns
        head = place
        ends.append(free_ns)
    return ends


def assert_met(
    measured_ns: list[float], own_ns: list[float], expected_ns: list[float], ways_ns: float
) -> None:
    """Compare times in ns of the same requests: from outside, of the disk itself, and by arithmetic."""
    outside = [measured / expected for measured, expected in zip(measured_ns, expected_ns, strict=True)]
    inside = [own / expected for own, expected in zip(own_ns, expected_ns, strict=True)]
    with_ways = [
        (measured + ways_ns) / expected for measured, expected in zip(measured_ns, expected_ns, strict=True)
    ]
    assert min(outside) < 1 + WITHIN and min(with_ways) > 1 - WITHIN, (min(outside), ways_ns)
    assert median(inside) == pytest.approx(1, abs=WITHIN)


def test_random_reads_take_seek_turn_and_transfer(whole: Open, tmp_path: Path) -> None:
    log = whole.latencies_ns(tmp_path / "log", "--rw=randread", "--bs=4k", "--number_ios=60")
    reads = served(whole.rows(), READ)
    ends = predicted_ends_ns(whole.arithmetic, reads, whole.arithmetic.read_overhead_ns)
    assert [sector for _, _, sector in log] == [int(row["sector"]) for row in reads]
    assert_met(
        [float(latency_ns) for _, latency_ns, _ in log[1:]],
        [float(row["reply_ns"] - row["arrival_ns"]) for row in reads[1:]],
        [end_ns - float(row["arrival_ns"]) for row, end_ns in zip(reads[1:], ends[1:], strict=True)],
        whole.ways_ns(),
    )


def test_queued_reads_take_what_their_order_costs(whole: Open, tmp_path: Path) -> None:
    """32 requests wait, so the drive is busy from the first arrival to the last, however slow the host."""
    log = whole.latencies_ns(
        tmp_path / "log", "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=32", "--number_ios=150"
    )
    reads = served(whole.rows(), READ)
    assert sorted(sector for _, _, sector in log) == sorted(int(row["sector"]) for row in reads)
    assert median(int(row["queued"]) for row in reads) >= 30
    ends = predicted_ends_ns(whole.arithmetic, reads, whole.arithmetic.read_overhead_ns)
    took_ms = max(end_ms for end_ms, _, _ in log)
    assert took_ms == pytest.approx((ends[-1] - float(reads[0]["arrival_ns"])) / 1e6, rel=WITHIN)


@pytest.mark.parametrize("end", ["outer", "inner"])
def test_sequential_reads_meet_the_data_sheet(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default drive's rates at both ends of its platters. OFFSET puts the disk at the inner end."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    drive, size_bytes = load("sata2007"), 1 << 30
    offset_bytes = drive.capacity_bytes - size_bytes if end == "inner" else 0
    with opened(tmp_path, drive, offset_bytes, size_bytes) as disk:
        log = disk.latencies_ns(
            tmp_path / "log", "--rw=read", "--bs=1M", "--ioengine=libaio", "--iodepth=4", "--size=32M"
        )
    stated = tomllib.loads(Path(models.__file__).with_name("models").joinpath("sata2007.toml").read_text())
    rate = 31 * (1 << 20) / 1e6 / ((log[-1][0] - log[0][0]) / 1000)  # from the first end to the last
    assert len(log) == 32
    assert rate == pytest.approx(stated["zones"][f"{end}_mb_per_s"], rel=WITHIN)


def test_synchronous_writes_in_a_row_take_a_turn_each(whole: Open) -> None:
    """Each is on the platter before the next one comes, whose sectors have just gone by."""
    block = memoryview(bytearray(8192))[:4096]
    ends_ns = []
    file = os.open(whole.disk.path, os.O_RDWR | os.O_DSYNC)
    try:
        for number in range(40):
            os.pwrite(file, block, number * 4096)
            ends_ns.append(time.monotonic_ns())
    finally:
        os.close(file)
    expected_ns = whole.arithmetic.revolution_ns * (1 + 8 * whole.arithmetic.place(0).share)
    written_ns = [int(row["end_ns"]) for row in served(whole.rows(), DESTAGE)]
    assert len(written_ns) == len(ends_ns)
    # A write that came too late for the next turn takes another whole one.
    turns = sum(round((after - before) / expected_ns) for before, after in pairwise(written_ns))
    assert turns >= len(written_ns) - 1
    assert_met(
        [float(ends_ns[-1] - ends_ns[0])],
        [float(written_ns[-1] - written_ns[0])],
        [expected_ns * turns],
        whole.ways_ns(),
    )


def test_flush_of_a_random_write_takes_seek_and_settling(whole: Open) -> None:
    """The write itself is in the cache at once: fsync waits for the platter."""
    size_bytes = int(whole.disk.facts["size_bytes"])  # type: ignore[call-overload]
    random, took_ns = Random(1), []
    file = os.open(whole.disk.path, os.O_RDWR)
    try:
        for _ in range(40):
            os.pwrite(file, bytes(4096), random.randrange(size_bytes // 4096) * 4096)
            begun_ns = time.monotonic_ns()
            os.fsync(file)
            took_ns.append(time.monotonic_ns() - begun_ns)
    finally:
        os.close(file)
    rows = whole.rows()
    writes = served(rows, DESTAGE)
    flushes = [row for row in rows if row["op"] == FLUSH][-len(took_ns) :]
    ends_ns = predicted_ends_ns(whole.arithmetic, writes, 0, writes=True)
    assert len(writes) == len(took_ns)
    assert_met(
        [float(each_ns) for each_ns in took_ns[1:]],
        [float(row["reply_ns"] - row["arrival_ns"]) for row in flushes[1:]],
        [end_ns - float(row["arrival_ns"]) for row, end_ns in zip(flushes[1:], ends_ns[1:], strict=True)],
        whole.ways_ns(),
    )
