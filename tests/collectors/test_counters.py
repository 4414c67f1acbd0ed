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
import pytest

from tests.collectors.recording import Recording, needs_root, read_table, recording

pytestmark = needs_root

MOMENTARY = {"mem.dirty_bytes", "mem.writeback_bytes", "mem.cached_bytes", "mem.free_bytes", "disk.in_flight"}
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


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
def loop_disk(folder: Path) -> Iterator[str]:
    """A loop device on a file in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    device = ""
    try:
        image = folder / "image"
        with image.open("wb") as out:
            out.truncate(64 << 20)
        found = subprocess.run(
            ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
        )
        device = found.stdout.strip()
        yield device.removeprefix("/dev/")
    finally:
        if device:
            subprocess.run(["losetup", "--detach", device], check=True)
        subprocess.run(["umount", folder], check=True)


def test_every_sample_lies_between_readings_before_and_after(tmp_path: Path) -> None:
    readings: list[tuple[int, int, dict[str, int]]] = []
    with (
        loop_disk(tmp_path / "ram") as disk,
        recording(tmp_path / "out", "--collect", "counters", "--disk", disk) as run,
    ):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            before = time.monotonic_ns()
            values = read_counters(disk)
            readings.append((before, time.monotonic_ns(), values))
            time.sleep(0.01)
            subprocess.run(
                ["dd", "if=/dev/zero", f"of=/dev/{disk}", "bs=64k", "count=4", "oflag=direct", "status=none"],
                check=True,
            )
    mine = samples(run)
    assert set(mine) == set(readings[0][2]), "the names differ from what this kernel has"
    compared = 0
    for name, series in mine.items():
        for (t_ns, value), (read_ns, _) in pairwise(series):
            earlier = [reading for reading in readings if reading[1] < t_ns]
            # The sample's time is taken before its file is read, and the next one's after that.
            later = [reading for reading in readings if reading[0] > read_ns]
            if not earlier or not later:
                continue
            low, high = sorted((earlier[-1][2][name], later[0][2][name]))
            if name in MOMENTARY:  # a bound of what comes and goes between two readings
                slack = 4 if name == "disk.in_flight" else 32 << 20
            else:
                # The kernel's idle and iowait times step back now and then, by a tick a CPU.
                slack = TICK_NS * (os.cpu_count() or 1) if name in ("cpu.idle_ns", "cpu.iowait_ns") else 0
            assert low - slack <= value <= high + slack, (name, t_ns, low, value, high)
            compared += 1
    assert compared > 10 * len(mine)


def test_disk_counters_are_exact_over_the_recording(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "ram") as disk:
        before = read_counters(disk)
        with recording(tmp_path / "out", "--collect", "counters", "--disk", disk) as run:
            words = [
                "dd",
                "if=/dev/zero",
                f"of=/dev/{disk}",
                "bs=128k",
                "count=64",
                "oflag=direct",
                "status=none",
            ]
            subprocess.run(words, check=True)
        after = read_counters(disk)
    mine = samples(run)
    for name in before:
        if name.startswith("disk."):
            # The first sample is taken at the start, the last one at the end.
            assert mine[name][0][1] == before[name], name
            assert mine[name][-1][1] == after[name], name
    assert mine["disk.write_bytes"][-1][1] - mine["disk.write_bytes"][0][1] == 8 << 20
    # The recorded time, which the ready line begins, has the first sample in its first bin.
    assert 0 <= mine["cpu.user_ns"][0][0] - run.ready["monotonic_ns"] < 100_000_000
    assert mine["cpu.user_ns"][-1][0] >= run.stopped_ns


def cached_bytes() -> int:
    """What the machine's memory holds of files at this moment."""
    text = Path("/proc/meminfo").read_text()
    return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Cached:"))


def test_cached_memory_is_seen_to_grow(tmp_path: Path) -> None:
    grown = 64 << 20
    (tmp_path / "ram").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "ram"], check=True)
    try:
        with recording(tmp_path / "out", "--collect", "counters") as run:
            time.sleep(0.15)
            others = -cached_bytes()
            begin = time.monotonic_ns()
            (tmp_path / "ram" / "file").write_bytes(bytes(grown))
            mark = time.monotonic_ns()
            others += cached_bytes() - grown
            time.sleep(0.3)
    finally:
        subprocess.run(["umount", tmp_path / "ram"], check=True)
    cached = samples(run)["mem.cached_bytes"]
    before = [value for t_ns, value in cached if t_ns <= begin]
    after = [value for t_ns, value in cached if t_ns >= mark]
    # What others on this machine put into the cache or drop meanwhile is known, but for the part of a bin
    # between our readings and the samples beside them.
    assert after[0] - before[-1] == pytest.approx(grown + others, abs=grown / 2)
    assert not any(name.startswith("disk.") for name in samples(run))


def test_samples_come_every_bin_and_late_ones_are_counted(tmp_path: Path) -> None:
    with recording(tmp_path / "out", "--collect", "counters") as run:
        time.sleep(1.5)
    times = np.array([t_ns for t_ns, _ in samples(run)["cpu.user_ns"]])
    assert abs(float(np.median(np.diff(times))) - 100e6) < 25e6
    state = run.source("counters")
    assert state["seen"] == state["recorded"] == len(run.table("counter"))

    with recording(tmp_path / "late", "--collect", "counters") as run:
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(0.75)
        run.process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
    # As many as there are bins without a sample between those with one; but for one, as a bin may end between
    # the recorder's look at the clock and its sample.
    bin_ns = read_table(run.out / "counter.rec")[0]["bin_ns"]
    bins = np.array([t_ns for t_ns, _ in samples(run)["cpu.user_ns"]]) // bin_ns
    skipped = int((np.diff(bins) - 1).clip(0).sum())
    late = run.source("counters")["lost"]["sample late by more than a bin"]
    assert late >= 5
    assert abs(late - skipped) <= 1
