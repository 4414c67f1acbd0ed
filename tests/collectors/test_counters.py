# SPDX-License-Identifier: BSD-2-Clause
"""The counters source against the same kernel files read here, before and after each of its samples."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import TICK_NS, Recording, read_table, recording, stolen_ns, until_stopped
from tests.marks import needs_root

pytestmark = [needs_root]

MOMENTARY = {"mem.dirty_bytes", "mem.writeback_bytes", "mem.cached_bytes", "mem.free_bytes", "disk.in_flight"}
GROWN = 64 << 20
SAMPLES = 30
RECORD_BYTES = 24
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
BIN_NS = 100_000_000


def read_counters(disk: str | None) -> dict[str, int]:
    """All counters by their names, from the text of the kernel's files."""
    values: dict[str, int] = {}
    user, nice, system, idle, iowait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    for name, ticks in {
        "user": user + nice,
        "system": system,
        "idle": idle,
        "iowait": iowait,
        "irq": irq + softirq,
    }.items():
        values[f"cpu.{name}_ns"] = ticks * TICK_NS
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    for name, label in {
        "dirty": "Dirty",
        "writeback": "Writeback",
        "cached": "Cached",
        "free": "MemFree",
    }.items():
        values[f"mem.{name}_bytes"] = int(memory[label].split()[0]) * 1024
    vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    for name, label, unit in [
        ("cache_drops", "drop_pagecache", 1),
        ("refault_bytes", "workingset_refault_file", PAGE_BYTES),
        ("swap_in_bytes", "pswpin", PAGE_BYTES),
        ("swap_out_bytes", "pswpout", PAGE_BYTES),
    ]:
        if label in vmstat:
            values[f"vm.{name}"] = int(vmstat[label]) * unit
    for what in ("cpu", "io", "memory"):
        try:
            lines = Path(f"/proc/pressure/{what}").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            kind, *fields = line.split()
            if what != "cpu" or kind == "some":
                values[f"psi.{what}_{kind}_ns"] = int(fields[-1].removeprefix("total=")) * 1000
    if disk:
        fields_of_disk = list(map(int, Path(f"/sys/block/{disk}/stat").read_text().split()))
        for place, name, unit in [
            (0, "read_requests", 1),
            (2, "read_bytes", 512),
            (4, "write_requests", 1),
            (6, "write_bytes", 512),
            (8, "in_flight", 1),
            (9, "busy_ns", 1_000_000),
            (11, "discard_requests", 1),
            (13, "discard_bytes", 512),
            (15, "flush_requests", 1),
        ]:
            if place < len(fields_of_disk):
                values[f"disk.{name}"] = fields_of_disk[place] * unit
    return values


def samples(run: Recording) -> dict[str, list[tuple[int, int]]]:
    """Time and value of each sample by counter."""
    header, table = read_table(run.out / "counter.rec")
    names = header["enums"]["counter_name"]
    result: dict[str, list[tuple[int, int]]] = {}
    for row in table:
        result.setdefault(names[str(row["name"])], []).append((int(row["t_ns"]), int(row["value"])))
    return result


@contextmanager
def disk_in_memory(folder: Path) -> Iterator[str]:
    """A loop device on a file of a tmpfs, which the folder is."""
    with tmpfs(folder, "256M"), loop_disk(folder / "image", 64 * MIB) as disk:
        yield disk.name


def write(disk: str, blocks: int, size: str) -> None:
    """Past the page cache."""
    words = ["dd", "if=/dev/zero", f"of=/dev/{disk}", f"bs={size}", f"count={blocks}", "oflag=direct"]
    subprocess.run([*words, "status=none"], check=True)


def test_every_sample_lies_between_readings_before_and_after(tmp_path: Path) -> None:
    readings: list[tuple[int, int, dict[str, int]]] = []
    with (
        disk_in_memory(tmp_path / "ram") as disk,
        recording(tmp_path / "out", "--collect", "counters", "--disk", disk, "--bin-ms", "50") as run,
    ):
        file, table = tmp_path / "ram/file", run.out / "counter.rec"
        wanted = SAMPLES * RECORD_BYTES * len(read_counters(disk))
        end = time.monotonic() + 60
        while table.stat().st_size < wanted:
            assert time.monotonic() < end, "no samples come"
            before = time.monotonic_ns()
            values = read_counters(disk)
            readings.append((before, time.monotonic_ns(), values))
            # The cache grows by it, and shrinks.
            if len(readings) % 10 == 0:
                file.write_bytes(bytes(GROWN))
            elif len(readings) % 10 == 5:
                file.unlink(missing_ok=True)
            write(disk, 4, "64k")
        before = time.monotonic_ns()
        readings.append((before, time.monotonic_ns(), read_counters(disk)))
    mine = samples(run)
    assert set(mine) == set(readings[0][2]), "the names differ from what this kernel has"
    for name, series in mine.items():
        compared, between = 0, 0
        for (t_ns, value), (read_ns, _) in pairwise(series):
            earlier = [reading for reading in readings if reading[1] < t_ns]
            # The sample's time is taken before its file is read, and the next one's after that.
            later = [reading for reading in readings if reading[0] > read_ns]
            if not earlier or not later:
                continue
            low, high = sorted((earlier[-1][2][name], later[0][2][name]))
            # The kernel's idle and iowait times step back now and then, by a tick a CPU.
            slack = TICK_NS * (os.cpu_count() or 1) if name in ("cpu.idle_ns", "cpu.iowait_ns") else 0
            if name in MOMENTARY:
                slack = 1 if name == "disk.in_flight" else 4 * MIB
            compared += 1
            between += low - slack <= value <= high + slack
        assert compared > SAMPLES / 2
        # What others take and give back between two readings is seldom more than the slack: on a very busy
        # machine at every eighth sample, so that it is at two of three less than once in a million times.
        wanted = compared // 3 if name in MOMENTARY else compared
        assert between >= wanted, (name, between, compared)
    cached = [value for _, value in mine["mem.cached_bytes"]]
    assert max(cached) - min(cached) > GROWN / 2


def test_disk_counters_are_exact_over_the_recording(tmp_path: Path) -> None:
    with disk_in_memory(tmp_path / "ram") as disk:
        readings = [read_counters(disk)]
        with recording(tmp_path / "out", "--collect", "counters", "--disk", disk) as run:
            ready_ns = time.monotonic_ns()
            readings.append(read_counters(disk))
            write(disk, 64, "128k")
            readings.append(read_counters(disk))
        readings.append(read_counters(disk))
    mine = samples(run)
    for name in readings[0]:
        if name.startswith("disk."):
            # The first sample is taken at the start, the last one at the end. The readings around each are
            # equal unless somebody else uses the disk: udev looks at what was written to.
            first, last = mine[name][0][1], mine[name][-1][1]
            assert readings[0][name] <= first <= readings[1][name], name
            assert readings[2][name] <= last <= readings[3][name], name
    assert mine["disk.write_bytes"][-1][1] - mine["disk.write_bytes"][0][1] == 8 << 20
    # The recorded time, which the ready line begins, has the first sample at its start.
    assert run.ready["monotonic_ns"] <= mine["cpu.user_ns"][0][0] <= ready_ns
    assert mine["cpu.user_ns"][-1][0] >= run.stopped_ns


def kept_waiting_ns(pid: int) -> int:
    """How long a process was ready and not run (Documentation/scheduler/sched-stats.rst), or CPUs stolen."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) + stolen_ns()


def bins_left_out(run: Recording) -> int:
    """Bins without a sample between those with one."""
    bin_ns = read_table(run.out / "counter.rec")[0]["bin_ns"]
    bins = np.array([t_ns for t_ns, _ in samples(run)["cpu.user_ns"]]) // bin_ns
    return int((np.diff(bins) - 1).clip(0).sum())


def test_samples_come_every_bin_and_late_ones_are_counted(tmp_path: Path) -> None:
    with recording(tmp_path / "out", "--collect", "counters") as run:
        waited_ns = -stolen_ns()
        time.sleep(0.7)
        waited_ns += kept_waiting_ns(run.process.pid) + TICK_NS * (os.cpu_count() or 1)
        run.stop()
    state = run.source("counters")
    assert state["seen"] == state["recorded"] == len(run.table("counter"))
    assert not any(name.startswith("disk.") for name in samples(run))
    # A bin may end between the recorder's look at the clock and its sample.
    late = state["lost"].get("sample late by more than a bin", 0)
    assert abs(late - bins_left_out(run)) <= 1
    assert late <= waited_ns // BIN_NS + 1

    with recording(tmp_path / "late", "--collect", "counters") as run:
        run.process.send_signal(signal.SIGSTOP)
        until_stopped(run.process.pid)
        stopped_ns = time.monotonic_ns()
        time.sleep(0.45)
        stopped_ns -= time.monotonic_ns()
        run.process.send_signal(signal.SIGCONT)
    late = run.source("counters")["lost"]["sample late by more than a bin"]
    assert abs(late - bins_left_out(run)) <= 1
    # All bins that began and ended meanwhile, but for the one that the next sample is in.
    assert late >= -stopped_ns // BIN_NS - 1 >= 3
