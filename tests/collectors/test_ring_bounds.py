# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder in trouble: more rows than room, a full file system."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import needs_btf, recording
from tests.collectors.rings import (
    SECOND_NS,
    allocated_bytes,
    closed,
    fire,
    flight,
    kept_rows,
    ring_recording,
    rows,
    segments,
    wait_for_line,
)
from tests.collectors.test_block_faults import FIO, load
from tests.collectors.zram_disk import zram_disk
from tests.marks import needs_root

pytestmark = needs_btf


@needs_root
def test_ring_stays_below_its_bound_and_loses_nothing_under_load(tmp_path: Path) -> None:
    most_bytes = 3 * MIB
    sizes: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            sizes.append(allocated_bytes(ring))

    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        thread = threading.Thread(target=look)
        with ring_recording(ring, disk, 60, most_bytes) as run:
            thread.start()
            try:
                load(
                    disk,
                    *["--rw=randread", "--bs=512", "--ioengine=libaio", "--iodepth=32", "--time_based"],
                    "--runtime=8",
                )
                fire(run)
                time.sleep(0.2)
            finally:
                over.set()
                thread.join()
        state = run.source("block")
        (kept,) = flight(ring, "kept")
        block = kept_rows(ring, kept, "block")
        first, last = (closed(ring / kept["segments"][at]) for at in (0, -1))
        counted = last["losses"]["block"]["recorded"] - first["losses_start"]["block"]["recorded"]
        shortened = flight(ring, "shortened_ns")
    assert max(sizes) <= most_bytes
    assert max(sizes) > most_bytes * 5 // 8  # most of what may be used is
    assert state["seen"] == state["recorded"] > 50_000
    assert sum(state["lost"].values()) == 0
    assert kept["why_short"] == "ram"
    assert shortened
    assert len(block) == counted > 5_000  # rows of a shorter window are all there


@needs_root
@pytest.mark.long
def test_bound_holds_at_the_rate_of_memory(tmp_path: Path) -> None:
    """Bios of a zram device as fast as two jobs send them, above 200,000 a second on an idle machine."""
    most_bytes, seconds = 32 * MIB, 60
    sizes: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            sizes.append(allocated_bytes(ring))

    with zram_disk(256 * MIB) as name, tmpfs(tmp_path / "ring", "64M") as ring:
        thread = threading.Thread(target=look)
        words = ["--ring", str(60 * SECOND_NS), "--ram-bytes", str(most_bytes), "--trigger", "signal"]
        words += ["--after-ns", str(SECOND_NS)]
        with recording(ring, "--collect", "block", "--volume", name, *words) as run:
            thread.start()
            try:
                before = stacks.stat(name)
                fio = [*FIO, f"--filename=/dev/{name}", "--rw=randread", "--bs=4k", "--ioengine=io_uring"]
                fio += [
                    "--iodepth=16",
                    "--numjobs=2",
                    "--norandommap",
                    "--time_based",
                    f"--runtime={seconds}",
                ]
                subprocess.run(fio, check=True, capture_output=True)
                after = stacks.stat(name)
                fire(run)
                (kept,) = wait_for_line(ring, "kept")
            finally:
                over.set()
                thread.join()
        state = run.source("block")
        volume = kept_rows(ring, kept, "volume")
        first, last = (closed(ring / kept["segments"][at]) for at in (0, -1))
        counted = last["losses"]["block"]["recorded"] - first["losses_start"]["block"]["recorded"]
        shortened = flight(ring, "shortened_ns")
    lost = sum(state["lost"].values())
    print(f"{state['seen'] / seconds:.0f} bios/s, {lost} lost, {max(sizes)} of {most_bytes} bytes")
    assert max(sizes) <= most_bytes
    # Each bio that the kernel has counted is in the table, or counted as lost.
    assert state["seen"] == state["recorded"] + lost == after[0] - before[0] > 1_000_000
    assert kept["why_short"] == "ram" and shortened
    assert len(volume) == counted > 100_000


@needs_root
def test_full_file_system_below_the_bound_drops_the_oldest(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "8M") as ring:
        with ring_recording(ring / "out", disk, 12, 256 * MIB) as run:
            (ring / "other").write_bytes(bytes(5 * MIB))
            words = ["--rw=randread", "--bs=512", "--ioengine=libaio", "--iodepth=32", "--time_based"]
            load(disk, *words, "--runtime=9")
            end_ns = time.monotonic_ns()
            time.sleep(1.2)
        state = run.source("block")
        folders = segments(run.out)
        block = rows(folders, "block")
        shortened = flight(run.out, "shortened_ns")
    assert folders[0].name != "segment-000000"
    assert shortened
    assert int(block["complete_ns"].max()) >= end_ns - SECOND_NS
    assert state["seen"] == state["recorded"] > 200_000
    assert sum(state["lost"].values()) == 0
